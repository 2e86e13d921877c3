"""The cited systems: sizes, formulas, what each can learn on tiny data, files, draws, gaps."""

import numpy as np
import pytest
import torch
import xarray as xr
from tests.paper.cases import CITED, heat_data, small, tiny_run

import spdelaw as sl
from paper.baselines import FSPDENO, LEC, SDENO, Grid, LatentODE, NeuralCDE, SPDEPrior, load
from paper.baselines.fourier import count_parameters
from paper.baselines.inputs import Cases, labelled
from paper.baselines.spde_prior import _roll
from paper.baselines.spdeno import energy_score, haar, time_floor, wick_features
from paper.reproduction.gaps import completion_scores, make_gaps
from paper.reproduction.run import execute
from paper.reproduction.tables import tables
from spdelaw.errors import InputError
from spdelaw.evaluation.tasks import mean_predictor
from spdelaw.law.derived import relative_l2

torch.set_num_threads(1)
by_cited = pytest.mark.parametrize("cls", CITED, ids=lambda cls: cls.name)
HEAT = sl.catalogue.heat(n_modes=6)


@pytest.fixture(scope="module")
def data():
    return heat_data(60)


def error_of(system, paths):
    return relative_l2(system.predict(paths).values[:, 1:], paths["field"].values[:, 1:])


# ------------------------------------------------------------------ sizes


def test_published_sizes():
    heat = sl.catalogue.heat(8)
    grid = Grid(heat.times, heat.default_grid(), heat.domain)
    f_spdeno = FSPDENO(heat.domain).network(grid)
    assert (count_parameters(f_spdeno), count_parameters(f_spdeno, complex_as=2)) == (
        449_552,
        842_768,
    )
    # One SDE: 2,313,920; here the trunk ends in 96 numbers for each of 8 modes.
    assert count_parameters(SDENO(heat.domain).network(grid)) == 2_313_920 + 7 * 96 * 513
    latent = LatentODE(heat.domain).network(grid)
    assert count_parameters(latent.encoder) + count_parameters(latent.head) == 100_512
    assert count_parameters(SPDEPrior(heat.domain, n_pieces=3).network(grid)) == 15
    width = 128 * 32 * 102 + 32 * 102
    expected = (101 * 32 + 32) + (32 * 101 + 101) + (32 * 128 + 128) + width
    assert count_parameters(NeuralCDE(heat.domain).network(grid)) == expected
    layers = 2 * 12 * (32 * 32 + 32)
    assert count_parameters(LEC(heat.domain).network(grid)) == (2 * 32 + 32) + layers + 33


# ------------------------------------------------------------------ the interface


@by_cited
def test_fit_predict_save_load(cls, data, tmp_path):
    system = small(cls).fit(data, noise="hidden", epochs=2)
    predicted = system.predict(data)
    assert predicted.shape == data["field"].shape
    assert np.isfinite(predicted.values).all()
    system.save(tmp_path / "system")
    again = load(tmp_path / "system")
    xr.testing.assert_identical(again.predict(data), predicted)
    if "hidden" in cls.sampled:
        sample = system.sample(5, seed=1)
        xr.testing.assert_identical(again.sample(5, seed=1), sample)
        assert sample.values[:, 5].std(0).max() > 0
    with pytest.raises(InputError, match="one of"):
        system.fit(data, noise="seen")


@by_cited
def test_an_interrupted_training_resumes_in_the_same_bits(cls, data, tmp_path):
    def stop(state):
        raise KeyboardInterrupt

    whole = small(cls).fit(data, epochs=2, seed=3)
    with pytest.raises(KeyboardInterrupt):
        small(cls).fit(data, epochs=2, seed=3, checkpoint=tmp_path, progress=stop)
    resumed = small(cls).fit(data, epochs=2, seed=3, checkpoint=tmp_path)
    assert resumed.info["curve"] == whole.info["curve"]


@pytest.mark.parametrize(("cls", "epochs"), [(NeuralCDE, 30), (FSPDENO, 25), (SDENO, 40)])
def test_observed_noise_beats_the_mean(cls, epochs):
    train, test = heat_data(200), heat_data(60, seed=1)
    system = small(cls).fit(train, noise="observed", epochs=epochs, rate=5e-3, batch_size=20)
    assert error_of(system, test) < 0.8 * mean_predictor(test["field"], HEAT).relative_l2


@pytest.mark.slow
def test_latent_ode_reconstructs_better_than_the_mean():
    train, test = heat_data(200), heat_data(60, seed=1)
    system = small(LatentODE).fit(train, epochs=25, batch_size=20)
    assert error_of(system, test) < 0.9 * mean_predictor(test["field"], HEAT).relative_l2


# ------------------------------------------------------------------ formulas


def test_neural_cde_is_its_euler_scheme():
    data, system = heat_data(3), small(NeuralCDE)
    grid = Grid(data.time.values, data.x.values, system.domain)
    net = system._new_network(grid, 0).double()
    rng = np.random.default_rng(0)
    u0, dw = rng.standard_normal((2, 17)), rng.standard_normal((2, 21, 17))
    out = net(torch.from_numpy(u0), torch.from_numpy(dw)).detach().numpy()

    def dense(layer, v):
        return v @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()

    z = dense(net.lift, u0)
    for i in range(1, 21):
        field = np.tanh(dense(net.outer, np.maximum(dense(net.inner, z), 0)))
        control = np.concatenate([np.full((2, 1), 0.05), dw[:, i]], 1)
        z = z + (field.reshape(2, -1, 18) * control[:, None]).sum(-1)
        np.testing.assert_allclose(out[:, i - 1], dense(net.readout, z), rtol=1e-6, atol=1e-7)


def test_wick_features_are_orthonormal_and_haar_is_a_projection():
    xi = torch.randn(200_000, 3, generator=torch.Generator().manual_seed(0)).double()
    features = wick_features(xi)
    gram = features.t() @ features / len(xi)
    # Entries have standard errors of at most sqrt(14 / 200,000) = 0.0084.
    assert (gram - torch.eye(10)).abs().max() < 5 * 0.0084
    grid = Grid(np.linspace(0, 1, 21), np.zeros(3), HEAT.domain)
    fields = np.random.default_rng(0).standard_normal((4, 21, 3))
    once = time_floor(fields, grid, 8)
    np.testing.assert_allclose(time_floor(once, grid, 8), once, atol=1e-12)
    np.testing.assert_allclose(haar(grid, 8).T @ (fields - once)[0], 0, atol=1e-12)


def test_energy_score_is_least_for_the_true_law():
    generator = torch.Generator().manual_seed(0)
    y, x = torch.randn(2, 400, 5, generator=generator)
    score = energy_score(x, y)
    assert all(energy_score(other, y) > score + 0.01 for other in (0.5 * x, 2 * x, x + 1))


def test_spde_prior_finds_the_parameters_of_its_own_paths():
    grid = Grid(np.linspace(0, 1, 41), HEAT.domain.grid(33), HEAT.domain)
    truth = np.array([0.2, -0.4, -1.0, -1.5, 0.8])  # log kappa, gamma, tau, length; m
    system = small(SPDEPrior)
    network = system.network(grid)
    with torch.no_grad():
        network.theta.copy_(torch.from_numpy(truth)[:, None])
        noise = torch.from_numpy(system.sample_drive(100, grid, 0))
        start = torch.sin(torch.tensor(grid.points)).expand(100, -1)
        paths = torch.cat([start[:, None], network.generate(start, noise)], 1).numpy()
    system.fit(labelled(paths, grid), epochs=80, batch_size=20)
    fitted = system._fitted.network
    kappa, *others = fitted.theta.detach().numpy()[:, 0]
    # 85 x 40 transitions of 31 points: rough standard errors 0.02, 0.003, 0.003, 0.1; kappa 0.15.
    np.testing.assert_allclose(others, truth[1:], atol=0.25)
    assert abs(np.exp(2 * kappa) - np.exp(0.4)) < 1.5
    B, W = fitted.prior()
    x = paths[:2, :, 1:-1]
    residual = (x[:, 1:] @ B.T - x[:, :-1]) @ W.T
    log_p = np.linalg.slogdet(B)[1] + np.linalg.slogdet(W)[1]
    expected = (0.5 * (residual**2).sum(-1) - log_p).mean() / len(W)
    cases = system._cases(labelled(paths[:2], grid), "hidden", grid, 0)
    assert fitted.loss(cases, "own").item() == pytest.approx(expected, rel=1e-4)


def test_spde_prior_conditions_as_the_dense_gaussian():
    data = heat_data(30, n_times=6, n_points=9)["field"]
    system = small(SPDEPrior).fit(data, epochs=20)
    hidden = np.random.default_rng(0).random((1, 6, 9)) < 0.5
    hidden[:, 0] = False
    gappy = data[:1].where(~xr.DataArray(hidden, dims=data.dims, coords=data[:1].coords))
    result = system.reconstruct(gappy, observation_std=0.1, n_draws=2000)
    prior, y = system._fitted.network.prior(), data.values[0, :, 1:-1]
    zero = _roll(prior, y[0], np.zeros((5, 7))).ravel()
    unit = np.eye(35).reshape(35, 5, 7)
    J = np.stack([_roll(prior, y[0], z).ravel() - zero for z in unit], 1)
    C, seen = J @ J.T, ~hidden[0, 1:, 1:-1].ravel()
    gain = C[:, seen] @ np.linalg.inv(C[np.ix_(seen, seen)] + 0.01 * np.eye(seen.sum()))
    mean = zero + gain @ (y[1:].ravel() - zero)[seen]
    std = np.sqrt(np.diag(C - gain @ C[seen]))
    np.testing.assert_allclose(result["mean"].values[0, 1:, 1:-1].ravel(), mean, atol=1e-8)
    # Standard error of a deviation over 2000 draws: 1.6 %; 35 of them, false alarms below 1e-4.
    np.testing.assert_allclose(result["std"].values[0, 1:, 1:-1].ravel(), std, rtol=0.08)


def test_lec_has_the_residual_of_the_equation():
    """For a network that is the solution ``e^(-t) sin x`` every part of the loss vanishes."""
    system = small(LEC)
    grid = Grid(np.linspace(0, 1, 21), HEAT.domain.grid(17), HEAT.domain)
    net = system._new_network(grid, 0)
    net.field = lambda at: torch.exp(-at[:, 0]) * torch.sin(at[:, 1])
    cases = system._cases(sl.simulate(HEAT, 2, grid.times, grid.points, seed=0), "hidden", grid, 0)
    exact = torch.sin(torch.tensor(grid.points, dtype=torch.float32))[None]
    torch.manual_seed(0)
    loss = net.loss(Cases(exact, cases.drive, cases.target), "own").item()
    assert abs(loss) < 1e-5


# ------------------------------------------------------------------ the comparison


@pytest.mark.parametrize(
    "key", ["latent-ode-hidden", "f-spdeno-hidden", "neural-cde-observed", "spde-prior-hidden"]
)
def test_a_run_scores_the_law_of_its_samples(key, small_data, tmp_path):
    limits, record = (execute(tiny_run(k), tmp_path) for k in ("limits", key))
    rows = tables([limits, record])["b"]
    tasks = ("predict", "observed")
    (row,) = (r for r in rows if r["entry"] == record["entry"] and r["task"] in tasks)
    assert row["task"] == ("observed" if "observed" in key else "predict")
    assert min(row["energy_score"][0], row["variance_ratio"][0]) > 0
    assert row["energy_factor"][0] >= 1
    (truth,) = (r for r in rows if r["system"] == "limit: exact mean of the true law")
    assert (truth["variance_ratio"], truth["energy_factor"]) == ([1.0], [1.0])
    assert len(row["time_floor"]) == ("spdeno" in key)
    assert key.startswith("spde-prior") == any(r["task"] == "gaps" for r in rows)
    seen = [r["task"] for r in rows if r["entry"] == record["entry"]]
    assert ("reconstruct" in seen) == ("latent" in key)


def test_completion_is_scored_where_values_are_hidden():
    fields = heat_data(3, n_times=21)["field"]
    gappy = make_gaps(fields, 0)
    later = gappy.fields.isel(time=slice(9, 12)).values  # 0.45 to 0.55
    assert np.isfinite(gappy.fields.values[:, 0]).all()
    assert np.isnan(later).all()
    np.testing.assert_array_equal(np.isnan(gappy.fields.values[..., 1:-1]), gappy.hidden[..., 1:-1])
    assert not gappy.hidden[..., [0, -1]].any()  # zero by the boundary condition

    def truth(given, off=0.1):
        filled = given.copy(data=fields.values + off)
        return xr.Dataset({"mean": filled, "std": xr.full_like(filled, 0.1)})

    scores = completion_scores(truth, fields, 0)
    assert scores["rmse"] == pytest.approx(0.1)
    assert scores["coverage"] == 1.0
