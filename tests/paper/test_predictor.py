"""The interface of the baselines: tiers, learning, resuming, files, bad input."""

import os

import numpy as np
import pytest
import torch
import xarray as xr
from tests.paper.cases import SMALL, SYSTEMS, by_system, heat_data, small
from tests.parameters import cross

import spdelaw as sl
from paper.baselines import FNO, NSPDE, SVNN, DeepONet, DLRNet, Protocol, load
from paper.baselines.inputs import grid_of
from paper.baselines.protocol import is_over, rate_factor
from paper.baselines.sv_nn import graded_pairs
from spdelaw.amortized.training import TrainingInterrupted
from spdelaw.chaos.propagators import CosineBasis, chaos_coordinates
from spdelaw.errors import DataError, DomainError, FileError, InputError
from spdelaw.evaluation.tasks import mean_predictor
from spdelaw.law.derived import relative_l2

torch.set_num_threads(1)

INTERVAL = sl.Interval(0, np.pi)
#: Training long enough for the small systems on small data: noise hidden, noise observed.
ENOUGH = {
    DeepONet: ({"epochs": 5}, {"epochs": 30}),
    FNO: ({"epochs": 40}, {"epochs": 40}),
    NSPDE: ({"epochs": 40}, {"epochs": 40}),
    DLRNet: ({"epochs": 60, "rate": 5e-3}, {"epochs": 20, "rate": 5e-3}),
    SVNN: tuple({"epochs": n, "rate": 1e-2, "stop_after": n} for n in (3000, 1000)),
}


@pytest.fixture(scope="module")
def data():
    return heat_data(120)


@pytest.fixture(scope="module")
def test_data():
    """Test paths, and the error of the exact mean on them."""
    paths = heat_data(60, seed=1)
    return paths, mean_predictor(paths["field"], sl.catalogue.heat(n_modes=6)).relative_l2


def error_of(system, paths):
    return relative_l2(system.predict(paths).values[:, 1:], paths["field"].values[:, 1:])


def slow_but(*fast):
    """Every system; those that are not named are slow."""
    marks = {cls: () if cls in fast else pytest.mark.slow for cls in SMALL}
    return [pytest.param(cls, marks=mark, id=cls.name) for cls, mark in marks.items()]


# ------------------------------------------------------------------ learning


@pytest.mark.parametrize("cls", slow_but(DeepONet, FNO, NSPDE))
def test_hidden_noise_leaves_the_mean_to_learn(cls, data, test_data):
    system = small(cls).fit(data, noise="hidden", **ENOUGH[cls][0])
    assert abs(error_of(system, test_data[0]) - test_data[1]) < 0.02


@pytest.mark.parametrize("cls", slow_but(DeepONet))
def test_observed_noise_beats_the_mean_clearly(cls, test_data):
    system = small(cls).fit(heat_data(300), noise="observed", **ENOUGH[cls][1])
    assert error_of(system, test_data[0]) < 0.7 * test_data[1]


@pytest.mark.slow
def test_independent_noise_carries_no_information(data, test_data):
    system = small(SVNN).fit(data, noise="independent", **ENOUGH[SVNN][0])
    assert test_data[1] - 0.02 < error_of(system, test_data[0]) < 1.3 * test_data[1]


EQUATIONS = ["ornstein_uhlenbeck", "neumann_heat", "periodic_heat"]


@cross(cls=SYSTEMS, name=EQUATIONS, noise=["observed", "independent"])
def test_every_system_runs_on_every_domain(cls, name, noise):
    equation = getattr(sl.catalogue, name)(4)
    data = heat_data(20, equation=equation)
    settings = {"n_indices": 4} if cls is SVNN else {}
    system = small(cls, domain=equation.domain, **settings)
    predicted = system.fit(data, noise=noise, epochs=2).predict(data)
    assert predicted.dims == ("path", "time", "x")
    assert np.isfinite(predicted.values).all()
    np.testing.assert_array_equal(predicted.values[:, 0], data["field"].values[:, 0])


def test_paths_with_different_initial_states_have_different_predictions():
    equation = sl.SpectralSPDE(INTERVAL, 4, noise=sl.PowerLaw(2.0), initial=sl.Gaussian(0.0, 1.0))
    data = heat_data(40, equation=equation)
    system = small(DLRNet).fit(data, noise="hidden", epochs=2)
    assert not np.allclose(*system.predict(data).values[:2, 1:])


# ------------------------------------------------------------------ protocol


@by_system
def test_a_short_last_batch_counts_every_path_once(cls, data):
    train, validation = data["field"][:12], data["field"][12:17]
    # Where nothing is learned, the mean loss does not depend on the batches.
    losses = [
        small(cls).fit(train, validation=validation, epochs=1, batch_size=n, rate=1e-12)
        .info["curve"]["loss"] for n in (5, 12)
    ]  # fmt: skip
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_plateau_is_that_of_torch():
    rng = np.random.default_rng(0)
    losses = list(np.maximum.accumulate(rng.uniform(0.5, 1.0, 400))[::-1] + 0.01 * rng.random(400))
    plateau = {"patience": 7, "factor": 0.3, "threshold": 1e-2}
    rules = Protocol(**plateau, least_rate=1e-5)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rules.rate)
    rule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, **plateau, min_lr=1e-5, eps=0.0)
    for n, loss in enumerate(losses):
        rate = rate_factor(losses[:n], rules) * rules.rate
        assert rate == pytest.approx(optimiser.param_groups[0]["lr"])
        rule.step(loss)


def test_training_ends_early_and_keeps_the_best_weights(data):
    info = small(DeepONet).fit(data["field"], epochs=200, stop_after=3, delta=1.0).info
    curve = info["curve"]["validation_loss"]
    # The first epoch is an improvement from infinity; three more are not.
    assert (info["epochs"], info["stopped_early"]) == (4, True)
    assert (info["best_loss"], info["best_epoch"]) == (min(curve), int(np.argmin(curve)) + 1)
    assert [is_over([1.0, 0.5][:n], Protocol(epochs=2)) for n in (1, 2)] == [False, True]


@pytest.mark.parametrize("cls", [NSPDE, pytest.param(DLRNet, marks=pytest.mark.slow)])
def test_an_interrupted_run_resumes_in_the_same_bits(cls, tmp_path):
    data, words = heat_data(60), {"noise": "observed", "epochs": 3, "seed": 3}
    state = torch.random.get_rng_state()
    whole = small(cls).fit(data, **words)
    assert torch.equal(state, torch.random.get_rng_state())

    def stop(state):
        if state.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted, match="stopped after epoch 2 of 3"):
        small(cls).fit(data, **words, checkpoint=tmp_path, progress=stop)
    with pytest.raises(InputError, match="another seed"):
        small(cls).fit(data, **{**words, "seed": 1}, checkpoint=tmp_path)
    resumed = small(cls).fit(data, **words, checkpoint=tmp_path)
    assert resumed.info["curve"] == whole.info["curve"]
    xr.testing.assert_identical(resumed.predict(data), whole.predict(data))


# ------------------------------------------------------------------ using


@by_system
def test_save_and_load_is_the_identity(cls, data, tmp_path):
    system = small(cls).fit(data, noise="independent", epochs=1)
    system.save(tmp_path / "system")
    system.save(tmp_path / "system")  # replaces
    again = load(tmp_path / "system")
    predicted = system.predict(data, seed=5)
    xr.testing.assert_identical(again.predict(data, seed=5), predicted)
    names = ("n_parameters", "n_real_parameters", "info", *SMALL[cls])
    assert all(getattr(again, name) == getattr(system, name) for name in names)
    if not cls.uses_every_point:  # a Dirichlet end is predicted by its value
        assert [predicted.values[:, 1:, end].any() for end in (0, -1)] == [True, False]


def test_only_independent_noise_has_a_distribution_to_sample(data):
    system = small(SVNN).fit(data["field"], noise="independent", epochs=5)
    sample = system.sample(7, seed=1)
    assert sample.shape == (7, 21, 17)
    xr.testing.assert_identical(sample, system.sample(7, seed=1))
    assert sample.values[:, 5].std(0).max() > 0
    with pytest.raises(InputError, match="noise='independent'"):
        small(SVNN).fit(data, noise="observed", epochs=1).sample(3)


def test_sv_nn_moves_to_another_grid(data):
    system = small(SVNN).fit(data["field"], epochs=50, rate=1e-2)
    fine = heat_data(3, n_times=41, n_points=33)["field"]
    moved = system.predict(fine).isel(time=slice(None, None, 2), x=slice(None, None, 2))
    coarse = system.predict(data["field"][:3])
    np.testing.assert_allclose(moved.values[:, 1:], coarse.values[:, 1:], atol=1e-5)


def test_observed_coordinates_are_those_of_the_chaos_expansion():
    equation, data = sl.catalogue.heat(n_modes=6), heat_data(5, n_times=201)
    drive = SVNN(INTERVAL).observed_drive(data, grid_of(data["field"], INTERVAL))
    xi = chaos_coordinates(data, equation, CosineBasis(), 5) * np.sqrt(equation.noise_variance)
    expected = [xi.sel(k=k, l=l).values for k, l in graded_pairs(10)]
    np.testing.assert_allclose(drive[:, 1:].T, expected, atol=1e-12)
    assert (drive[:, 0] == 1).all()


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: FNO("interval"), DomainError, "expected a domain"),
        (lambda f: FNO(INTERVAL, width=0), InputError, "width"),
        (lambda f: DLRNet(INTERVAL, boundary="robin"), InputError, "boundary"),
        (lambda f: small(FNO).fit(f, noise="seen"), InputError, "one of"),
        (lambda f: small(FNO).fit(f, epoch=3), InputError, "a rule of training"),
        (lambda f: small(FNO).fit(f, schedule="linear"), InputError, "schedule"),
        (lambda f: small(FNO).fit(f, noise="observed"), DataError, "return_noise=True"),
        (lambda f: small(FNO).fit(f.where(f.path > 0)), DataError, "missing values"),
        (lambda f: small(FNO).fit(f.isel(time=[0, 1, 3, 7])), DataError, "equidistant"),
        (lambda f: FNO(INTERVAL, modes_t=8).fit(f), DataError, "modes_x=8"),
        (lambda f: SVNN(INTERVAL).fit(heat_data(8, equation=sl.catalogue.heat(2)),
                                      noise="observed"), DataError, "at least 4 modes"),
        (lambda f: small(FNO).predict(f), InputError, "call fit"),
        (lambda f: small(FNO).fit(f, epochs=1).predict(f[:, :11]), DataError,
         "the 21 times and 17 points"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(data, call, error, message):
    with pytest.raises(error, match=message):
        call(data["field"])


def test_something_else_on_disk_is_refused(data, tmp_path):
    system = small(SVNN).fit(data["field"], epochs=1)
    with pytest.raises(FileError, match="a free name"):
        system.save(tmp_path)
    system.save(tmp_path / "damaged")
    os.truncate(tmp_path / "damaged" / "weights.safetensors", 100)
    for name in ("nothing", "damaged"):
        with pytest.raises(FileError, match=r"Predictor\.save"):
            load(tmp_path / name)
