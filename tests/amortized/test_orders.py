"""Laws whose noise depends on the state, learned by decoders of order two and above."""

import numpy as np
import pytest
import torch

import spdelaw as sl
from spdelaw.amortized import amortized_posterior, amortized_reconstruct, sample_decoder
from spdelaw.amortized.neural import new_model, state_noise
from spdelaw.amortized.structured import make_config, truncated_log_likelihood
from spdelaw.amortized.training import TrainingInterrupted
from spdelaw.amortized.vae import as_paths, elbo, laplace_log_likelihood
from spdelaw.data.observed import observe
from spdelaw.errors import InputError
from spdelaw.statespace.chain import linear_state_space

from .amortized_cases import DOMAIN, EQUATION, GRID, SMALL, fields, own_times

GEOMETRIC = sl.catalogue.geometric_heat(n_modes=3, domain=DOMAIN, initial=lambda x: np.sin(x))
TIMES = np.linspace(0.0, 1.0, 9)
ORDER = SMALL | {"n_time": 2, "n_noise": 2, "order": 2, "encoder": "modes", "epochs": 4}


def geometric(n_paths=40, seed=0):
    return sl.simulate(GEOMETRIC, n_paths, TIMES, GRID, seed=seed)


def fit(data, kind="proportional", **words):
    words = ORDER | {"seed": 1} | words
    return sl.fit(data, DOMAIN, 3, engine=sl.Amortized(**_engine(words)), state_noise=kind, **words)


def _engine(words):
    return {name: words.pop(name) for name in list(words) if name not in ("seed", "progress")}


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "checkpoint"
    return fit(geometric(), epochs=30, encoder_rate=1e-2, variance_rate=2e-2, checkpoint=folder)


def test_a_law_of_order_two(learned, tmp_path):
    info, new = learned.info, geometric(20, seed=9)
    assert (info["order"], info["state_noise"]) == (2, "proportional")
    assert info["training"]["curve"]["loss"][-1] < info["training"]["curve"]["loss"][0] - 50.0
    assert info["amortization_gap"] > 0
    assert info["truncation_loss"] > 0
    assert any("Laplace" in note for note in info["warnings"])
    assert (learned.parameters.noise_variance.sel(statistic="estimate") > 0).all()
    assert learned.dynamics.state_noise == "proportional"
    result = amortized_reconstruct(learned, new)
    mean = np.broadcast_to(geometric().mean("path").values, new.shape)
    assert result.attrs["rmse"] < 0.8 * np.sqrt(((mean - new.values)[:, 1:] ** 2).mean())
    assert dict(amortized_posterior(learned, new)["xi_mean"].sizes) == {
        "path": 20,
        "k": 2,
        "noise": 2,
    }
    learned.save(tmp_path / "one.law")
    again = sl.load(tmp_path / "one.law")
    assert amortized_reconstruct(again, new).identical(result)
    assert again.sample(3, seed=0).shape == (3, 9, 10)
    assert np.isfinite(again.log_likelihood(new)).all()
    assert np.isfinite(again.forecast(new, [1.1])["mean"]).all()


def test_samples_of_the_decoder_have_the_mean_of_the_equation(learned):
    """Null: the mean is that of order 0, ``e^(-lambda t) z0``; |z| < 5.5 for 90 numbers."""
    draws = sample_decoder(learned, 4000, seed=2, observation_noise=False).values
    decay = np.exp(-np.outer(TIMES, learned.dynamics.rates))
    mean = (decay * learned.initial.mean) @ DOMAIN.eigenfunctions(GRID, 3).T
    assert (np.abs(draws.mean(0) - mean) < 5.5 * draws.std(0) / np.sqrt(4000) + 1e-9).all()


def test_affine_noise_resumes_bit_by_bit(tmp_path):
    def stop(state):
        if state.epoch == 2:
            raise KeyboardInterrupt

    words = {"kind": "affine", "checkpoint_every": 1}
    whole = fit(geometric(), **words)
    with pytest.raises(TrainingInterrupted):
        fit(geometric(), progress=stop, checkpoint=tmp_path / "run", **words)
    law = fit(geometric(), checkpoint=tmp_path / "run", **words)
    assert law.parameters.equals(whole.parameters)
    offset = float(law.parameters.noise_offset.sel(statistic="estimate"))
    assert offset == law.dynamics.noise_offset != 0.0
    with pytest.raises(InputError, match="another state_noise"):
        fit(geometric(), checkpoint=tmp_path / "run")


def test_additive_noise_has_no_higher_order():
    words = SMALL | {"epochs": 2}
    one, two = (
        sl.fit(fields(), DOMAIN, 3, engine=sl.Amortized(order=order, **words)) for order in (1, 2)
    )
    assert two.parameters.equals(one.parameters)
    assert any("order=2 has no effect" in note for note in two.info["warnings"])
    assert not any("no effect" in note for note in one.info["warnings"])


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ({"kind": "square_root"}, "state_noise='affine'"),
        ({"preset": "rescaled"}, "preset='paper'"),
        ({"propagators": "rk4"}, "closed_form"),
        ({"order": 0}, "order"),
    ],
)
def test_what_an_order_cannot_have_is_refused(words, word):
    with pytest.raises(InputError, match=word):
        fit(geometric(), **words)


# -- evidence by Laplace ---------------------------------------------------------------------------


def model_and_paths(data, n_modes, kind, **settings):
    observed = observe(data, DOMAIN)
    config = make_config(**(SMALL | {"encoder": "modes"} | settings))
    basis = observed.basis(n_modes)
    model = new_model(basis, config, 0, None, state_noise(kind, DOMAIN, n_modes))
    return model, as_paths(observed, 0.0, 1.0, basis), observed


@pytest.mark.parametrize("data", [fields(6), own_times(6)], ids=["one clock", "own clocks"])
def test_laplace_is_exact_where_the_decoder_is_linear(data):
    model, paths, observed = model_and_paths(data, 3, "affine", order=2, n_time=4)
    lam, q, r = EQUATION.eigenvalues, np.array([1.0, 0.5, 0.2]), 0.04
    with torch.no_grad():
        model.dynamics.operators.zero_()
        model.dynamics.offset.fill_(1.0)
        model.dynamics.log_eigenvalues.copy_(torch.tensor(np.log(lam)))
        model.dynamics.log_factor.diagonal().copy_(torch.tensor(0.5 * np.log(q)))
        model.log_variance.fill_(np.log(r))
    space = linear_state_space(lam, q, np.zeros(3), np.zeros(3), np.full(len(GRID), r))
    exact = truncated_log_likelihood(observed, observed.basis(3), space, 4, 1.0)
    laplace = laplace_log_likelihood(model, paths)
    np.testing.assert_allclose(laplace.numpy(), exact, rtol=1e-4, atol=1e-2)
    with torch.no_grad():
        assert (elbo(model, paths).bound() < laplace).all()


def test_laplace_of_a_bilinear_path_against_quadrature():
    """One mode and one noise: an integral over ``z0`` and ``xi``."""
    model, paths, _ = model_and_paths(geometric(3), 1, "proportional", order=3, n_time=1)
    with torch.no_grad():
        model.log_variance.fill_(0.0)
        nodes = torch.linspace(-6.0, 6.0, 241).double()
        z0, xi = (x.reshape(-1) for x in torch.meshgrid(nodes, nodes, indexing="ij"))
        curves = model.curves(paths).double()
        c = model.dynamics.coefficients(curves, z0[:, None], xi[:, None, None])
        field = c @ model.basis.double().t()
        prior = -0.5 * (z0**2 + xi**2) - np.log(2 * np.pi)
        exact = []
        for path in paths.values.double():
            density = -0.5 * ((path - field) ** 2 + np.log(2 * np.pi)).sum((1, 2)) + prior
            exact.append(float(torch.logsumexp(density, 0) + 2 * np.log(12.0 / 240)))
    np.testing.assert_allclose(laplace_log_likelihood(model, paths), exact, atol=0.1)
