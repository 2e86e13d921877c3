"""Every encoder by its name: what gaps hide, where modes and grids work, runs that resume."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import spdelaw as sl
from spdelaw.amortized import amortized_posterior, amortized_reconstruct
from spdelaw.amortized.encoder import GridEncoder
from spdelaw.amortized.neural import new_model
from spdelaw.amortized.structured import make_config
from spdelaw.amortized.training import TrainingInterrupted, read_checkpoint
from spdelaw.amortized.vae import as_paths, elbo
from spdelaw.data.io.records import sealed
from spdelaw.data.observed import observe
from spdelaw.errors import DataError, InputError

from .amortized_cases import DOMAIN, EQUATION, GRID, SMALL, TIMES, fields, own_times, with_gaps

ENCODERS = ("mtan", "modes", "grid", "ode_rnn")
SQUARE = sl.catalogue.square_heat(n_modes=3)
#: Learns something from 200 paths in a second or two.
QUICK = SMALL | {
    "epochs": 60, "n_hidden": 32, "n_reference": 16, "encoder_rate": 5e-3, "variance_rate": 2e-2,
    "seed": 1,
}  # fmt: skip


def square(n_paths=60, sides=(6, 5), seed=0):
    x, y = (np.linspace(0.0, np.pi, n + 2)[1:-1] for n in sides)
    return sl.simulate(SQUARE, n_paths, TIMES, {"x": x, "y": y}, seed=seed)


def model_and_paths(data, domain, encoder, **settings):
    observed = observe(data, domain)
    basis = observed.basis(3)
    model = new_model(basis, make_config(**(SMALL | settings), encoder=encoder), 0, observed.points)
    return model, as_paths(observed, 0.0, 1.0, basis if model.encoder.reads_modes else None)


def fit(data, encoder, domain=DOMAIN, **words):
    return sl.fit(data, domain, 3, engine="amortized", **(QUICK | {"encoder": encoder} | words))


# -- one interface ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_masked_values_cannot_matter(encoder, dims):
    data, domain = (with_gaps(n_paths=8), DOMAIN) if dims == 1 else (square(8), SQUARE.domain)
    data = data.where(np.random.default_rng(2).random(data.shape) > 0.3)
    model, paths = model_and_paths(data, domain, encoder)
    other = torch.where(paths.observed > 0, paths.values, 1e3 * torch.randn(paths.values.shape))
    changed = paths.take(slice(None))
    object.__setattr__(changed, "values", other)
    for a, b in zip(model.encode(paths), model.encode(changed), strict=True):
        assert torch.equal(a, b)
    with torch.no_grad():
        assert torch.equal(elbo(model, paths).log_likelihood, elbo(model, changed).log_likelihood)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_path_does_not_see_another_and_a_time_without_values_may_be_left_out(encoder):
    data = with_gaps(n_paths=6)
    data[:, 4] = np.nan
    model, paths = model_and_paths(data, DOMAIN, encoder)
    together = model.encode(paths)
    shorter = model_and_paths(data.isel(time=np.arange(21) != 4), DOMAIN, encoder)[1]
    for given in (paths.take(slice(2, 3)), shorter.take(slice(2, 3))):
        for a, b in zip(model.encode(given), together, strict=True):
            torch.testing.assert_close(a, b[2:3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("data", "domain", "encoder"),
    [
        (with_gaps(), DOMAIN, "modes"),
        (own_times(20), DOMAIN, "modes"),
        (own_times(20), DOMAIN, "grid"),
        (with_gaps(), DOMAIN, "grid"),
        (square(), SQUARE.domain, "modes"),
        (square(), SQUARE.domain, "grid"),
    ],
    ids=["modes gaps", "modes own times", "grid own times", "grid gaps", "modes 2-D", "grid 2-D"],
)
def test_gaps_own_times_and_two_dims(data, domain, encoder, tmp_path):
    law = fit(data, encoder, domain, epochs=2, checkpoint=tmp_path / "run")
    assert law.info["amortization_gap"] > 0
    assert law.info["config"]["encoder"] == encoder
    result = amortized_reconstruct(law, data)
    assert result["mean"].shape == data.shape
    assert np.isfinite(result["mean"]).all()
    assert (result["std"] > result["std_field"]).all()


# -- modes -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_modes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "checkpoint"
    return fit(fields(200), "modes", checkpoint=folder)


def test_modes_reach_the_decoder_floor_nearly(of_modes):
    new = fields(50, seed=9)
    floor = sl.evaluation.decoder_floor(new, DOMAIN, 3, 4, EQUATION.eigenvalues)
    assert amortized_reconstruct(of_modes, new).attrs["rmse"] < 1.25 * floor.rmse


def test_modes_need_neither_the_grid_nor_the_dimension_they_learned_from(of_modes):
    finer = np.linspace(0.0, np.pi, 41)
    paths = sl.simulate(EQUATION, 50, TIMES, np.union1d(finer, GRID), seed=9)
    coarse, fine = paths.sel(x=GRID), paths.sel(x=finer)
    one, other = (amortized_posterior(of_modes, data) for data in (coarse, fine))
    for name in ("z0_mean", "xi_mean", "xi_std"):
        np.testing.assert_allclose(one[name], other[name], atol=2e-3)
    a, b = (amortized_reconstruct(of_modes, data) for data in (coarse, fine))
    assert b["mean"].shape == fine.shape
    assert b.attrs["relative_l2"] == pytest.approx(a.attrs["relative_l2"], rel=0.15)
    weights = read_checkpoint(sl.amortized.engine._checkpoint_folder(of_modes))[0].part("best")
    model, square_paths = model_and_paths(
        square(5), SQUARE.domain, "modes", n_hidden=32, n_reference=16
    )
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in weights.items()})
    assert torch.isfinite(elbo(model, square_paths).bound()).all()


def test_the_weight_of_a_mode_tells_how_far_the_points_determine_it():
    data = fields(4).copy()
    data[0, 3] = np.nan  # nothing
    data[1, 3, 3:] = np.nan  # three of ten points: less than the modes
    estimates, weights = model_and_paths(data, DOMAIN, "modes")[1].modes
    assert (weights[0, 3] == 0).all()
    assert (estimates[0, 3] == 0).all()
    assert ((weights[1, 3] > 0) & (weights[1, 3] < 1)).all()
    torch.testing.assert_close(weights[2], torch.ones(21, 3))
    basis = DOMAIN.eigenfunctions(GRID, 3)
    exact = data.values[2] @ np.linalg.pinv(basis).T
    np.testing.assert_allclose(estimates[2] * 1.01, exact, rtol=0.01, atol=1e-3)


# -- grid ------------------------------------------------------------------------------------------


def test_grid_puts_points_on_their_cells():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 3.0], [0.0, 3.0]])
    encoder = GridEncoder(points, 2, 3, n_hidden=4, n_embedding=4, n_reference=3)
    assert encoder.shape == (2, 3)
    assert encoder.cells.tolist() == [0, 3, 1, 5, 2]


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda: fit(square().stack(at=("x", "y"))[..., [0, 7, 14, 21, 28]]
                     .reset_index("at").rename(at="point"), "grid", SQUARE.domain),
         InputError, "encoder='modes'"),
        (lambda: fit(fields(), "transformer"), InputError, "'mtan', 'modes', 'grid' or 'ode_rnn'"),
        (lambda: sl.Amortized(preset="structured", encoder="modes"), InputError, "encoder"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(call, error, word):
    with pytest.raises(error, match=word):
        call()


def test_grid_is_tied_to_its_points(tmp_path):
    law = fit(fields(), "grid", epochs=1, checkpoint=tmp_path / "run")
    with pytest.raises(DataError, match="encoder='modes'"):
        amortized_reconstruct(law, fields(5)[..., :6])


# -- training and files ----------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["modes", "grid"])
def test_rescaled_ends_with_unit_coordinates_and_the_same_field(encoder):
    model, paths = model_and_paths(fields(20), DOMAIN, encoder)
    posterior = model.encode(paths)
    field = model.coefficients(
        model.curves(paths), paths, posterior.initial_mean, posterior.chaos_mean
    )
    moment = (posterior.chaos_mean**2 + posterior.chaos_log_variance.exp()).mean((0, 1)).double()
    model.rescale(moment.detach())
    after = model.encode(paths)
    square = (after.chaos_mean**2 + after.chaos_log_variance.exp()).mean((0, 1))
    torch.testing.assert_close(square, torch.ones(3), rtol=1e-4, atol=1e-4)
    again = model.coefficients(model.curves(paths), paths, after.initial_mean, after.chaos_mean)
    torch.testing.assert_close(again, field, rtol=1e-4, atol=1e-5)
    words = {"preset": "rescaled", "epochs": 2, "schedule": ()}
    assert np.isfinite(fit(fields(), encoder, **words).info["elbo"])


@pytest.mark.parametrize("encoder", ["modes", "grid"])
def test_runs_resume_bit_by_bit_and_laws_are_saved(encoder, tmp_path):
    def stop(state):
        if state.epoch == 2:
            raise KeyboardInterrupt

    words = {"epochs": 4, "checkpoint": tmp_path / "run", "checkpoint_every": 1}
    whole = fit(with_gaps(), encoder, **(words | {"checkpoint": tmp_path / "whole"}))
    with pytest.raises(TrainingInterrupted):
        fit(with_gaps(), encoder, progress=stop, **words)
    law = fit(with_gaps(), encoder, **words)
    assert law.parameters.equals(whole.parameters)
    law.save(tmp_path / "one.law")
    again = sl.load(tmp_path / "one.law")
    new = fields(5, seed=9)
    assert amortized_reconstruct(again, new).identical(amortized_reconstruct(law, new))


def test_a_checkpoint_without_newer_settings_is_resumed_as_their_defaults(tmp_path):
    law = fit(fields(), "mtan", epochs=2, checkpoint=tmp_path / "run")
    file, arrays = (tmp_path / "run" / name for name in ("run.json", "state.safetensors"))
    document = json.loads(file.read_text())
    del document["identity"]["config"]["encoder"]
    file.write_bytes(sealed(document, arrays.read_bytes()))
    again = fit(fields(), "mtan", epochs=2, checkpoint=tmp_path / "run")
    assert again.parameters.equals(law.parameters)
    with pytest.raises(InputError, match="another encoder"):
        fit(fields(), "modes", epochs=2, checkpoint=tmp_path / "run")


def test_the_shell_has_the_engine_before_anything_else_loads_it(tmp_path):
    file = tmp_path / "heat.nc"
    fields(4).to_dataset(name="u").to_netcdf(file)
    words = ["--modes", "3", "--engine", "amortized", "--encoder", "modes", "--dry-run"]
    command = [sys.executable, "-m", "spdelaw", "fit", str(file), *words]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
