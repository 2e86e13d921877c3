"""Sensors that are stuck, dead or biased, errors that last, and noise without points to spare."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.data.observed import observe
from spdelaw.data.quality import bad_sensors
from spdelaw.infer.engines.candidates import choose_modes, needed_nuisance

DOMAIN = sl.Interval(0, np.pi)
POINTS = np.linspace(0.0, np.pi, 19)[1:-1]
RATES, STEP, STD, BAD = np.array([1.0, 4.0]), 0.05, 0.1, 5
pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")


def states(rng, n_paths, n_times, rates=RATES, start=None):
    """Ornstein-Uhlenbeck modes, (P, T, N), from the stationary law or from one state."""
    spread, kept = np.sqrt(0.5 / rates), np.exp(-STEP * rates)
    c = np.empty((n_paths, n_times, len(rates)))
    c[:, 0] = spread * rng.standard_normal(c[:, 0].shape) if start is None else start
    for t in range(1, n_times):
        shock = spread * np.sqrt(1.0 - kept**2) * rng.standard_normal(c[:, 0].shape)
        c[:, t] = kept * c[:, t - 1] + shock
    return c


def fields_of(rng, n_paths=20, n_times=41, points=POINTS, std=STD, **how):
    """Fields with white noise, and that noise."""
    c = states(rng, n_paths, n_times, **how)
    clean = c @ DOMAIN.eigenfunctions(points, c.shape[-1]).T
    noise = std * rng.standard_normal(clean.shape)
    return clean + noise, noise


def fit(values, points=POINTS, n_modes=2, **words):
    times = STEP * np.arange(values.shape[1])
    return sl.fit(values, DOMAIN, n_modes, times=times, points=points, level=0.9999, **words)


def assert_holds(law, std=STD):
    """Null: intervals of 99.99 % hold rates and noise."""
    _, _, lower, upper = law.parameters["eigenvalue"].values.T
    assert ((lower < RATES) & (upper > RATES)).all()
    _, _, lower, upper = law.parameters["observation_std"].values
    assert lower < std < upper
    assert upper < 1.2 * std


def broken(values, fault):
    """The fields with one bad sensor."""
    values = values.copy()
    if fault == "biased":
        values[..., BAD] += 5.0 * STD
    else:
        values[..., BAD] = {"stuck": 0.7, "dead": 0.0}[fault]
    return values


@pytest.mark.parametrize("fault", ["stuck", "dead", "biased"])
@pytest.mark.parametrize(("size", "missing"), [((20, 41), 0.0), ((20, 41), 0.3), ((1, 400), 0.3)])
def test_a_bad_sensor_is_named_and_left_out(fault, size, missing):
    """Observation noise was once 0 [0, 0] for 0.1, or there were 13 nuisance modes."""
    rng = np.random.default_rng(0)
    values = broken(fields_of(rng, *size)[0], fault)
    values[rng.random(values.shape) < missing] = np.nan
    law = fit(values)
    assert_holds(law)
    (note,) = (text for text in law.info["warnings"] if "sensor" in text)
    assert f"x {POINTS[BAD]:.6g}" in note
    assert "--observation-noise per_point" in note
    assert "data.where" in note
    assert len(law.points) == len(POINTS)


def test_a_bad_sensor_of_clean_fields():
    """One stuck sensor once hid that the others have no noise."""
    values = broken(fields_of(np.random.default_rng(0), std=0.0)[0], "stuck")
    law = fit(values)
    assert law.parameters["observation_std"].values[0] == 0.0
    _, _, lower, upper = law.parameters["eigenvalue"].values.T
    assert ((lower < RATES) & (upper > RATES)).all()


@pytest.mark.parametrize("n_modes", [1, 2, 8, 13])
def test_sound_sensors_are_not_bad(n_modes):
    """Noise alone, and modes beyond those of the fit, are no reason."""
    basis = DOMAIN.eigenfunctions(POINTS, n_modes)
    for seed in range(50):
        values, _ = fields_of(np.random.default_rng(seed), 3, 10)
        assert bad_sensors(values, basis) == {}


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_two_bad_sensors(missing):
    rng = np.random.default_rng(0)
    values = broken(fields_of(rng)[0], "biased")
    values[..., 11] -= 0.6
    values[rng.random(values.shape) < missing] = np.nan
    assert set(bad_sensors(values, DOMAIN.eigenfunctions(POINTS, 4))) == {BAD, 11}


def test_sensors_with_few_rows_are_no_measure():
    """Their mean squares once counted as zero, beside which any other is large."""
    rng = np.random.default_rng(0)
    values, _ = fields_of(rng, 3, 9)
    values[..., 2:] = np.where(rng.random((3, 9, 15)) < 0.4, np.nan, values[..., 2:])
    assert bad_sensors(values, DOMAIN.eigenfunctions(POINTS, 2)) == {}


def test_an_end_where_all_modes_vanish_is_no_stuck_sensor():
    values, _ = fields_of(np.random.default_rng(0))
    values = np.concatenate([np.zeros((20, 41, 1)), values], axis=-1)
    assert bad_sensors(values, DOMAIN.eigenfunctions(np.r_[0.0, POINTS], 2)) == {}


@pytest.mark.parametrize(("size", "missing"), [((20, 41), 0.0), ((20, 41), 0.3), ((1, 400), 0.0)])
def test_errors_of_sensors_that_last(size, missing):
    """AR(1) errors: noise was once 0 [0, 0] for 0.1, or 13 nuisance modes took them."""
    rng = np.random.default_rng(1)
    values, noise = fields_of(rng, *size)
    lasting = noise.copy()
    for t in range(1, size[1]):
        lasting[:, t] = 0.7 * lasting[:, t - 1] + np.sqrt(0.51) * noise[:, t]
    values += lasting - noise
    values[rng.random(values.shape) < missing] = np.nan
    law = fit(values)
    assert law.info["n_nuisance"] == 0
    assert_holds(law)
    assert any("are correlated in time" in text for text in law.info["warnings"])


def test_unresolved_modes_are_no_errors_of_sensors():
    """Finer modes are correlated in time too, but smooth in space: they become nuisance modes."""
    rng = np.random.default_rng(0)
    values, _ = fields_of(rng, 10, 60, std=0.02, rates=np.arange(1.0, 6.0) ** 2)
    values[rng.random(values.shape) < 0.2] = np.nan
    data = observe(sl.as_fields(values, times=STEP * np.arange(60), points=POINTS), DOMAIN)
    assert needed_nuisance(data, 2).answer > 0


@pytest.mark.parametrize("size", [(20, 41), (1, 400)])
def test_as_many_points_as_modes(size):
    """Whether there is noise cannot be decided: it is estimated, and a warning says so."""
    points = np.array([0.9, 2.0])
    law = fit(fields_of(np.random.default_rng(0), *size, points)[0], points)
    _, _, lower, upper = law.parameters["observation_std"].values
    assert lower < STD < upper
    assert any("as many modes as points" in text for text in law.info["warnings"])


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_clean_fields_with_noise_to_estimate(missing):
    """With a common start their rates were once 260 and 182,227 for 4 and 9."""
    rng = np.random.default_rng(0)
    values, _ = fields_of(rng, std=0.0, start=np.ones(2))
    values[rng.random(values.shape) < missing] = np.nan
    law, same = (fit(values, observation_noise=word) for word in ("estimate", "auto"))
    np.testing.assert_allclose(
        law.parameters["eigenvalue"].values, same.parameters["eigenvalue"].values, rtol=1e-4
    )


def test_points_that_are_never_observed():
    """Nine of 17 points on land."""
    rng = np.random.default_rng(0)
    values, _ = fields_of(rng)
    values[..., rng.permutation(17)[:9]] = np.nan
    assert_holds(fit(values))


def test_the_number_of_modes_looks_at_all_paths():
    """Of 40 zero paths before 20 others "1 mode" was once said to hold the fields to rounding."""
    values, _ = fields_of(np.random.default_rng(0), 60, std=0.0, rates=np.array([1.0, 4.0, 9.0]))
    values[:40] = 0.0
    data = observe(sl.as_fields(values, times=STEP * np.arange(41), points=POINTS), DOMAIN)
    assert choose_modes(data)[0] == 3


def test_the_number_of_modes_looks_at_all_times():
    """One sensor in the first half holds one mode to rounding, and says nothing."""
    values, _ = fields_of(np.random.default_rng(0), 1, 900, std=0.05)
    values[:, :450, 1:] = np.nan
    data = observe(sl.as_fields(values, times=STEP * np.arange(900), points=POINTS), DOMAIN)
    assert choose_modes(data)[0] == 2


@pytest.mark.parametrize("seed", [13, 27])
def test_numbers_of_two_short_paths_are_finite(seed):
    """An eigenvalue was once 1.5e25, and a standard error of the noise 56 beside 0.097."""
    rng = np.random.default_rng(seed)
    c = rng.standard_normal((2, 12, 3))  # white in time: any large rate is as likely
    values = c @ DOMAIN.eigenfunctions(POINTS, 3).T + STD * rng.standard_normal((2, 12, 17))
    law = fit(values, n_modes=3)
    value, _, lower, upper = law.parameters["eigenvalue"].values.T
    assert (value * STEP <= 40.0 * (1.0 + 1e-9)).all()
    assert ((lower <= value) & (value <= upper)).all()
    value, error, _, _ = law.parameters["observation_std"].values
    assert error < value


def test_a_mode_that_grows_is_reported():
    """Its decay is at the bound of zero."""
    rng, rates = np.random.default_rng(0), np.array([-0.4, 4.0])
    kept = np.exp(-STEP * rates)
    c = rng.standard_normal((20, 41, 2))
    for t in range(1, 41):
        c[:, t] = kept * c[:, t - 1] + np.sqrt((1.0 - kept**2) / (2.0 * rates)) * c[:, t]
    values = c @ DOMAIN.eigenfunctions(POINTS, 2).T + STD * rng.standard_normal((20, 41, 17))
    assert any("mode 1 is at its bound of zero" in text for text in fit(values).info["warnings"])
