"""The interface: tiers, learning, resume, files, refusals."""

import numpy as np
import pytest
import torch
import xarray as xr
from tests.paper.baseline_cases import ALL, SMALL, heat_data, small

import spdelaw as sl
from spdelaw.chaos import CosineBasis, chaos_coordinates
from spdelaw.errors import DataError, DomainError, FileError, InputError
from spdelaw.evaluation import mean_predictor, relative_l2
from spdelaw.infer.amortized import TrainingInterrupted
from spdelaw.paper.baselines import FNO, NSPDE, SVNN, DeepONet, DLRNet, Protocol, load
from spdelaw.paper.baselines._protocol import is_over, rate_factor
from spdelaw.paper.baselines.sv_nn import graded_pairs

torch.set_num_threads(1)


def name_of(cls):
    return cls.name


def slow(cls):
    return pytest.param(cls, marks=pytest.mark.slow)


by_name = pytest.mark.parametrize("cls", ALL, ids=name_of)
#: Training long enough for the small systems on small data.
ENOUGH = {
    DeepONet: {"epochs": 5},
    FNO: {"epochs": 40},
    NSPDE: {"epochs": 40},
    DLRNet: {"epochs": 60, "rate": 5e-3},
    SVNN: {"epochs": 3000, "rate": 1e-2, "stop_after": 3000},
}
#: The same where the noise is an input.
ENOUGH_OBSERVED = {
    DeepONet: {"epochs": 30},
    FNO: {"epochs": 40},
    NSPDE: {"epochs": 40},
    DLRNet: {"epochs": 20, "rate": 5e-3},
    SVNN: {"epochs": 1000, "rate": 1e-2, "stop_after": 1000},
}


@pytest.fixture(scope="module")
def data():
    return heat_data(120)


@pytest.fixture(scope="module")
def test_data():
    return heat_data(60, seed=1)


def score(system, data):
    predicted = system.predict(data).values
    return relative_l2(predicted[:, 1:], data["field"].values[:, 1:])


# ------------------------------------------------------------------ learning


@pytest.mark.parametrize("cls", [DeepONet, FNO, NSPDE, DLRNet, slow(SVNN)], ids=name_of)
def test_hidden_noise_leaves_the_mean_to_learn(cls, data, test_data):
    system = small(cls).fit(data, noise="hidden", **ENOUGH[cls])
    exact = mean_predictor(test_data["field"], sl.catalogue.heat(n_modes=6)).relative_l2
    assert abs(score(system, test_data) - exact) < 0.02


@pytest.mark.parametrize("cls", [DeepONet, *map(slow, (FNO, NSPDE, DLRNet, SVNN))], ids=name_of)
def test_observed_noise_beats_the_mean_clearly(cls, test_data):
    system = small(cls).fit(heat_data(300), noise="observed", **ENOUGH_OBSERVED[cls])
    exact = mean_predictor(test_data["field"], sl.catalogue.heat(n_modes=6)).relative_l2
    assert score(system, test_data) < 0.7 * exact


@pytest.mark.slow
def test_independent_noise_tells_nothing(data, test_data):
    system = small(SVNN).fit(data, noise="independent", **ENOUGH[SVNN])
    exact = mean_predictor(test_data["field"], sl.catalogue.heat(n_modes=6)).relative_l2
    assert exact - 0.02 < score(system, test_data) < 1.3 * exact


@pytest.mark.parametrize(
    "equation",
    [
        sl.catalogue.ornstein_uhlenbeck(4), sl.catalogue.neumann_heat(4),
        sl.catalogue.periodic_heat(4),
    ],
    ids=["line", "neumann", "periodic"],
)  # fmt: skip
@by_name
def test_every_system_runs_on_every_domain(cls, equation):
    data = heat_data(20, equation=equation)
    settings = {**SMALL[cls], **({"n_indices": 4} if cls is SVNN else {})}
    system = cls(equation.domain, **settings).fit(data, noise="observed", epochs=2)
    predicted = system.predict(data)
    assert predicted.dims == ("path", "time", "x")
    assert np.isfinite(predicted.values).all()
    np.testing.assert_array_equal(predicted.values[:, 0], data["field"].values[:, 0])


def test_paths_with_initial_states_of_their_own_are_told_apart(test_data):
    equation = sl.SpectralSPDE(
        sl.Interval(0, np.pi), 4, noise=sl.PowerLaw(2.0), initial=sl.Gaussian(0.0, 1.0)
    )
    data = heat_data(40, equation=equation)
    system = small(DLRNet).fit(data, noise="hidden", epochs=2)
    assert not np.allclose(*system.predict(data).values[:2, 1:])


# ------------------------------------------------------------------ protocol


@by_name
def test_a_short_last_batch_is_made_of_whole_paths(cls, data):
    fields = data["field"][:17]
    train, validation = fields[:12], fields[12:]
    # Where nothing is learned the mean loss does not depend on the batches, if each path counts
    # once.
    one = small(cls).fit(train, validation=validation, epochs=1, batch_size=5, rate=1e-12)
    all_ = small(cls).fit(train, validation=validation, epochs=1, batch_size=12, rate=1e-12)
    assert one.info["curve"]["loss"] == pytest.approx(all_.info["curve"]["loss"], rel=1e-4)


def test_plateau_is_that_of_torch():
    rng = np.random.default_rng(0)
    losses = list(np.maximum.accumulate(rng.uniform(0.5, 1.0, 400))[::-1] + 0.01 * rng.random(400))
    rules = Protocol(patience=7, factor=0.3, threshold=1e-2, least_rate=1e-5)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rules.rate)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, patience=7, factor=0.3, threshold=1e-2, min_lr=1e-5, eps=0.0
    )
    for n, loss in enumerate(losses):
        assert rate_factor(losses[:n], rules) * rules.rate == pytest.approx(
            optimiser.param_groups[0]["lr"]
        )
        scheduler.step(loss)


def test_training_ends_early_and_keeps_the_best_weights(data):
    system = small(DeepONet).fit(data["field"], epochs=200, stop_after=3, delta=1.0)
    curve = system.info["curve"]["validation_loss"]
    # The first epoch is an improvement from infinity; three more are not.
    assert system.info["epochs"] == 4
    assert system.info["stopped_early"]
    assert system.info["best_loss"] == min(curve)
    assert system.info["best_epoch"] == int(np.argmin(curve)) + 1


def test_training_has_no_more_epochs_than_asked_for():
    assert is_over([1.0, 0.5], Protocol(epochs=2))
    assert not is_over([1.0], Protocol(epochs=2))


@pytest.mark.parametrize("cls", [NSPDE, DLRNet], ids=lambda cls: cls.name)
def test_an_interrupted_run_goes_on_in_the_same_bits(cls, data, tmp_path):
    whole = small(cls).fit(data, noise="observed", epochs=4, seed=3)

    def stop(state):
        if state.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted, match="stopped after epoch 2 of 4"):
        small(cls).fit(
            data, noise="observed", epochs=4, seed=3, checkpoint=tmp_path / "run", progress=stop
        )
    resumed = small(cls).fit(data, noise="observed", epochs=4, seed=3, checkpoint=tmp_path / "run")
    assert resumed.info["curve"] == whole.info["curve"]
    xr.testing.assert_identical(resumed.predict(data), whole.predict(data))


def test_a_checkpoint_of_another_run_is_refused(data, tmp_path):
    small(SVNN).fit(data["field"], epochs=1, checkpoint=tmp_path / "run")
    with pytest.raises(InputError, match="another seed"):
        small(SVNN).fit(data["field"], epochs=1, seed=1, checkpoint=tmp_path / "run")


def test_the_seed_repeats_a_run_and_leaves_torch_alone(data):
    before = torch.random.get_rng_state()
    runs = [small(FNO).fit(data["field"], epochs=2, seed=s) for s in (0, 0, 1)]
    assert torch.equal(before, torch.random.get_rng_state())
    curves = [run.info["curve"]["loss"] for run in runs]
    assert curves[0] == curves[1] != curves[2]


# ------------------------------------------------------------------ using


@by_name
def test_save_and_load_is_the_identity(cls, data, tmp_path):
    system = small(cls).fit(data, noise="independent", epochs=1)
    system.save(tmp_path / "system")
    system.save(tmp_path / "system")  # replaces
    again = load(tmp_path / "system")
    xr.testing.assert_identical(again.predict(data, seed=5), system.predict(data, seed=5))
    assert (again.n_parameters, again.n_real_parameters) == (
        system.n_parameters, system.n_real_parameters,
    )  # fmt: skip
    assert again.info == system.info
    assert again.settings() == system.settings()


def test_samples_are_a_distribution_only_where_the_noise_has_one(data):
    system = small(SVNN).fit(data["field"], noise="independent", epochs=5)
    sample = system.sample(7, seed=1)
    assert sample.shape == (7, 21, 17)
    np.testing.assert_array_equal(sample.values, system.sample(7, seed=1).values)
    assert sample.values[:, 5].std(0).max() > 0
    for noise in ("hidden", "observed"):
        with pytest.raises(InputError, match="noise='independent'"):
            small(SVNN).fit(data, noise=noise, epochs=1).sample(3)


def test_sv_nn_moves_to_another_grid(data):
    system = small(SVNN).fit(data["field"], epochs=50, rate=1e-2)
    fine = heat_data(3, n_times=41, n_points=33)["field"]
    moved = system.predict(fine).isel(time=slice(None, None, 2), x=slice(None, None, 2))
    coarse = system.predict(data["field"][:3])
    np.testing.assert_allclose(moved.values[:, 1:], coarse.values[:, 1:], atol=1e-5)


def test_the_dirichlet_end_is_predicted_by_its_value(data):
    predicted = small(FNO).fit(data["field"], epochs=1).predict(data["field"])
    assert not predicted.values[:, 1:, -1].any()
    assert predicted.values[:, 1:, 0].any()


def test_observed_coordinates_are_those_of_the_chaos_expansion():
    equation = sl.catalogue.heat(n_modes=6)
    data = heat_data(5, n_times=201)
    system = SVNN(equation.domain)
    from spdelaw.paper.baselines._fields import grid_of

    drive = system.observed_drive(data, grid_of(data["field"], equation.domain))
    xi = chaos_coordinates(data, equation, CosineBasis(), 5) * np.sqrt(equation.noise_variance)
    expected = [xi.sel(k=k, l=l).values for k, l in graded_pairs(10)]
    np.testing.assert_allclose(drive[:, 1:].T, expected, atol=1e-12)
    assert (drive[:, 0] == 1).all()


# ------------------------------------------------------------------ refusals


def test_bad_input_is_refused_before_any_work(data):
    fields = data["field"]
    with pytest.raises(DomainError, match="expected a domain"):
        FNO("interval")
    with pytest.raises(InputError, match="width"):
        FNO(sl.Interval(0, np.pi), width=0)
    with pytest.raises(InputError, match="boundary"):
        DLRNet(sl.Interval(0, np.pi), boundary="robin")
    with pytest.raises(InputError, match="one of"):
        small(FNO).fit(fields, noise="seen")
    with pytest.raises(InputError, match="a rule of training"):
        small(FNO).fit(fields, epoch=3)
    with pytest.raises(InputError, match="epochs"):
        small(FNO).fit(fields, epochs=0)
    with pytest.raises(InputError, match="schedule"):
        small(FNO).fit(fields, schedule="linear")
    with pytest.raises(DataError, match="return_noise=True"):
        small(FNO).fit(fields, noise="observed")
    with pytest.raises(DataError, match="missing values"):
        small(FNO).fit(fields.where(fields.path > 0))
    with pytest.raises(DataError, match="equidistant"):
        small(FNO).fit(fields.isel(time=[0, 1, 3, 7]))
    with pytest.raises(DataError, match="modes_x=8"):
        FNO(sl.Interval(0, np.pi), modes_t=8).fit(fields)
    with pytest.raises(DataError, match="at least 4 modes"):
        SVNN(sl.Interval(0, np.pi)).fit(
            heat_data(8, equation=sl.catalogue.heat(2)), noise="observed"
        )
    with pytest.raises(InputError, match="call fit"):
        small(FNO).predict(fields)
    with pytest.raises(DataError, match="validation"):
        small(FNO).fit(fields, validation=fields[:, :11])


def test_another_grid_is_refused(data):
    system = small(FNO).fit(data["field"], epochs=1)
    with pytest.raises(DataError, match="the 21 times and 17 points"):
        system.predict(data["field"].isel(time=slice(0, 11)))


def test_something_else_on_disk_is_refused(data, tmp_path):
    with pytest.raises(FileError, match=r"Predictor\.save"):
        load(tmp_path / "nothing")
    (tmp_path / "other").mkdir()
    system = small(SVNN).fit(data["field"], epochs=1)
    with pytest.raises(FileError, match="a free name"):
        system.save(tmp_path / "other")
    system.save(tmp_path / "good")
    weights = tmp_path / "good" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(FileError, match=r"Predictor\.save"):
        load(tmp_path / "good")
