"""Advice names the cause, where and when, and one line that can be typed."""

import dataclasses
import inspect
import re
import shlex
import zlib

import numpy as np
import pytest
from benchmarks._calibration_kinds import POINTS, coupled, heat, uneven
from benchmarks.calibration_advice import allen_cahn
from typer.testing import CliRunner

import spdelaw as sl
from spdelaw.cli.output import in_options
from spdelaw.cli.shell import app
from spdelaw.evaluation.checks import departures, verdict
from spdelaw.evaluation.checks.suite import suite_of
from spdelaw.evaluation.checks.verdict import CAUSES, _cause_line, _domain_text

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
INTERVAL, TIMES, STEP = sl.Interval(0, np.pi), np.linspace(0, 3, 61), 0.05
RING = np.linspace(0, 2 * np.pi, 32, endpoint=False)


def simulated(seed, n_paths=20, noise=0.0, n_modes=3):
    fields = sl.simulate(heat(n_modes), n_paths, TIMES, POINTS, seed=seed, observation_std=noise)
    return fields.copy(data=fields.values.copy())


def neumann(seed, noise=0.0):
    domain = sl.Interval(0, np.pi, "neumann")
    rates, q = np.array([0.5, 1.0, 4.0, 9.0]), np.array([1.0, 1.0, 0.5, 0.3])
    equation = sl.SpectralSPDE(domain, 4, rates, noise=q, initial="stationary")
    return sl.simulate(equation, 20, TIMES, POINTS, seed=seed, observation_std=noise)


def halves(seed, noise=1.0, drift=1.0):
    """Ten paths whose noise or drift is another from time 3 on."""
    rng, modes, n_times = np.random.default_rng(seed), np.arange(1, 4.0), 121
    c, rows = rng.standard_normal((10, 3)) / np.sqrt(2 * modes**3), []
    for t in range(n_times):
        rows.append(c)
        later = t >= n_times // 2
        rate, q = modes**2 * (drift if later else 1.0), (noise if later else 1.0) / modes
        a = np.exp(-rate * STEP)
        c = a * c + np.sqrt(q * (1 - a**2) / (2 * rate)) * rng.standard_normal(c.shape)
    values = INTERVAL.synthesise(np.stack(rows, 1), POINTS)
    return sl.as_fields(values, times=STEP * np.arange(n_times), points=POINTS)


def season(seed, mean=0.0, noise=0.0, period=4.0):
    times = 0.1 * np.arange(400)
    wave = np.cos(2 * np.pi * times / period)[:, None]
    fields = sl.simulate(heat(2, speed=0.5 if mean else 2.0), 1, times, POINTS, seed=seed)
    return fields * (1 + noise * wave) + mean * wave * np.sin(POINTS)


def with_outliers(seed, noise):
    fields, rng = simulated(seed, noise=noise), np.random.default_rng(seed)
    fields.values[rng.integers(0, 20, 4), rng.integers(0, 61, 4), rng.integers(2, 15, 4)] += 5.0
    fields.values[2, 20, 8] += 8.0
    return fields


def with_frame(seed, noise):
    fields = simulated(seed, noise=noise)
    fields.values[3, 30] += 3.0 if noise else 3.0 * np.sin(POINTS)
    return fields


def front(seed, offset=0.0):
    fields = sl.simulate(sl.catalogue.allen_cahn(8), 1, STEP * np.arange(400), RING, seed=seed)
    fields = fields.copy(data=fields.values.copy())
    fields.values[0, 200] += offset
    return fields


def sensor(kind):
    """Noisy fields with one sensor that repeats a value, reads nothing or is off."""

    def make(seed):
        fields = simulated(seed, noise=0.1)
        if kind == "stuck":
            fields.values[:, 20:, 6] = fields.values[:, 20, None, 6]
        elif kind == "dead":
            fields.values[..., 6] = 0.0
        else:
            fields.values[..., 6] += 0.5
        return fields

    return make


def growing(seed):
    """Mode 1 grows at the rate 0.8."""
    rng, fields = np.random.default_rng(seed), simulated(seed)
    c, rows = rng.standard_normal(20), []
    for _ in range(fields.sizes["time"]):
        rows.append(c)
        c = np.exp(0.8 * STEP) * c + np.sqrt(STEP) * rng.standard_normal(20)
    return fields + np.stack(rows, 1)[..., None] * np.sin(POINTS)


def advice(fields, n_modes=3, domain=INTERVAL, **words):
    return sl.evaluate(sl.fit(fields, domain, n_modes, **words), fields, tiers=()).advice


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("make", "n_modes", "cause", "line"),
    [
        (
            neumann,
            4,
            "another domain or boundary",
            "domain=sl.Interval(0.0, 3.141592653589793, 'neumann')",
        ),
        (
            lambda s: neumann(s, 0.1),
            4,
            "another domain",
            "sl.Interval(0.0, 3.141592653589793, 'neumann')",
        ),
        (lambda s: halves(s, noise=4.0), 3, "the noise changes at time 3", "[3, 6]"),
        (lambda s: halves(s, drift=4.0), 3, "the drift changes at time 3", "[3, 6]"),
        (
            lambda s: with_outliers(s, 0.0),
            3,
            "outlier at path 3, time 1, x 1.571",
            "data[2] = data[2].where(",
        ),
        (
            lambda s: with_outliers(s, 0.1),
            3,
            "outlier at path 3, time 1, x 1.571",
            "data[2] = data[2].where(",
        ),
        (
            lambda s: with_frame(s, 0.0),
            3,
            "outlier at path 4, time 1.5:",
            "data[3] = data[3].where(",
        ),
        (
            lambda s: with_frame(s, 0.1),
            3,
            "outlier at path 4, time 1.5:",
            "data[3] = data[3].where(",
        ),
        (
            lambda s: season(s, mean=1.5),
            2,
            "a season of length 4 in the mean",
            "data = data.groupby(",
        ),
        (lambda s: season(s, noise=0.8), 2, "noise with a season of length 4", "Season(4, 4)"),
        (lambda s: uneven(20, 61, s), 3, "noise grows or shrinks with the field", "np.arcsinh("),
    ],
)
def test_the_cause_comes_first(make, n_modes, cause, line, seed):
    first = advice(make(seed), n_modes)[0]
    assert cause in first
    assert line in first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "line"),
    [
        (
            sl.Interval(0, np.pi, "neumann"),
            "domain=sl.Interval(0.0, 3.141592653589793, 'dirichlet')",
        ),
        (sl.Interval(-1, 4.5), "domain=sl.Interval(0.0, 3.141592653589793, 'dirichlet')"),
    ],
)
def test_a_domain_with_modes_that_the_fields_do_not_have(domain, line):
    assert line in advice(simulated(0, n_modes=4), 4, domain)[0]


def test_a_domain_that_is_less_likely_is_not_named(monkeypatch):
    """Of stations a ring may leave less outside its modes and cost thousands of nats inside."""
    ring = sl.Interval(0.0, np.pi, "periodic"), 1e6, False
    monkeypatch.setattr(verdict, "better_domain", lambda law, observed: ring)
    fields = sl.simulate(coupled(True, False), 20, TIMES, POINTS, seed=0, observation_std=0.1)
    lines = advice(fields)
    assert "noise='" in lines[0] or "--noise" in lines[0]
    assert not any("another domain" in line for line in lines)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_trend_in_time(seed):
    """Few paths do not tell a trend from a slower decay; 40 do."""
    in_time = simulated(seed, 40) + (4.0 * TIMES)[:, None] * np.sin(POINTS)
    assert "prepare=sl.Preparation(detrend=True)" in advice(in_time)[0]


@pytest.mark.parametrize("initial", ["stationary", [1.0, 1.0, 0.5]])
@pytest.mark.parametrize("seed", [0, 1, 3, 4])  # 2 is the one false alarm of 60
def test_a_mode_without_noise_does_not_reject_the_law(seed, initial):
    q = np.array([1.0, 0.0, 0.3])
    equation = sl.SpectralSPDE(INTERVAL, 3, np.array([1, 4, 9.0]), noise=q, initial=initial)
    fields = sl.simulate(equation, 20, TIMES, POINTS, seed=seed)
    assert advice(fields) == []


def test_a_mode_that_has_energy_against_the_law_is_noticed():
    q = np.array([1.0, 0.0, 0.3])
    equation = sl.SpectralSPDE(INTERVAL, 3, np.array([1, 4, 9.0]), noise=q, initial="stationary")
    law = sl.fit(sl.simulate(equation, 20, TIMES, POINTS, seed=0), INTERVAL, 3)
    check = sl.evaluate(law, simulated(1), tiers=()).check
    assert "mode 2 variance" in check.rejected


@pytest.mark.parametrize("seed", [0, 1])
def test_a_semilinear_law_is_tested_for_a_missing_term(seed):
    domain, fields = sl.catalogue.allen_cahn(8).domain, front(seed)
    lacking = advice(fields, 8, domain, terms=("u",))
    assert "it lacks a term u^3" in lacking[0]
    assert "--terms u,u^3, in Python terms=('u', 'u^3')" in lacking[0]
    assert advice(fields, 8, domain, terms=("u", "u^3")) == []


@pytest.mark.parametrize("seed", [0, 1])
def test_a_missing_square_beside_the_cube(seed):
    fields = allen_cahn(10, 100, quadratic=2.0)(np.random.default_rng(seed))
    lines = advice(fields, 8, sl.catalogue.allen_cahn(8).domain, terms=("u", "u^3"))
    assert "it lacks a term u^2" in lines[0]


@pytest.mark.parametrize("seed", [25, 54, 86])
def test_slow_fronts_have_no_trend(seed):
    """As free regressors the states of all modes, which move slowly, made one in these records."""
    rng = np.random.default_rng([zlib.crc32(b"Allen-Cahn, terms u, u^3"), seed])
    law = sl.fit(allen_cahn()(rng), sl.catalogue.allen_cahn(8).domain, 8, terms=("u", "u^3"))
    assert sl.evaluate(law, allen_cahn()(rng), tiers=()).check.fits


REFUSED = ("noise='", "drift='", "nuisance", "per_point", "season=", "mean=")


@pytest.mark.parametrize("offset", [2.0, 0.5])
def test_a_law_with_terms_is_told_only_what_it_accepts(offset):
    lines = advice(front(0, offset), 8, sl.catalogue.allen_cahn(8).domain, terms=("u", "u^3"))
    assert "an outlier at path 1, time 10" in lines[0]
    text = " ".join(lines).replace("observation_noise='estimate'", "")
    assert not any(word in text for word in REFUSED)


@pytest.mark.parametrize(
    ("make", "cause", "words"),
    [
        (sensor("stuck"), "the sensor at x 1.1781 errs by", {}),
        (sensor("dead"), "the sensor at x 1.1781 always reads 0", {}),
        (sensor("biased"), "the sensor at x 1.1781 is off by", {}),
        (lambda s: (2 * simulated(s)).round() / 2, "rounded to 0.5", {"observation_noise": "none"}),
        (lambda s: growing(s), "growth instead of decay in mode 1", {}),
    ],
)
def test_sensors_rounding_and_growth(make, cause, words):
    assert cause in advice(make(0), **words)[0]


def test_errors_of_sensors_with_memory_are_no_uneven_noise():
    """Once "some points are noisier"; the law itself says that they last."""
    fields, rng = simulated(0), np.random.default_rng(1)
    e = rng.standard_normal(fields.shape)
    for t in range(1, fields.sizes["time"]):
        e[:, t] = 0.9 * e[:, t - 1] + np.sqrt(1 - 0.81) * e[:, t]
    law = sl.fit(fields + 0.1 * e, INTERVAL, 3)
    assert sl.evaluate(law, fields + 0.1 * e, tiers=()).check.fits
    assert "errors of single sensors are correlated" in str(law)


def test_a_law_of_one_path_with_terms_is_judged_on_another():
    """The first state of its own path is no outlier of another one."""
    fields, other = (allen_cahn()(np.random.default_rng(seed)) for seed in (1, 2))
    law = sl.fit(fields, sl.catalogue.allen_cahn(8).domain, 8, terms=("u", "u^3"))
    assert "outliers" not in sl.evaluate(law, other, tiers=()).check.rejected


@pytest.mark.parametrize("seed", [0, 1])
def test_terms_of_fields_far_from_zero(seed):
    fields = allen_cahn()(np.random.default_rng(seed)) + 300.0
    lines = advice(fields, 8, sl.catalogue.allen_cahn(8).domain, terms=("u", "u^3"))
    assert "the terms act on values around" in lines[0]
    assert "prepare=sl.Preparation(anomalies='mean')" in lines[0]


def remedy(line):
    """The line of a sentence that can be typed: the option, and the Python."""
    text = line.removesuffix(", try it").rpartition(" gains about ")[0]
    text = re.search(r": ((?:--|data|[a-z_]+=).*)", text)[1]
    return in_options(text), text.rpartition(", in Python ")[2]


FIT_WORDS = {field.name for field in dataclasses.fields(sl.Model)} | {"terms"}
PLACES = {
    "outliers": "path 1, time 1.5, x 0.59: data[0] = data[0].where(~((abs(data.x - 0.59) < 1e-6)))",
    "sensors": "x 0.59 errs by 3 where others err by 1: data = data.where(data.x != 0.59)",
    "domain": _domain_text(sl.Interval(0.0, 4.0, "neumann")),
    "bend": "u^2",
    "point noise": "x 0.59",
    "rounding": "0.5",
    "growing mode": "mode 1",
}


@pytest.fixture(scope="module")
def suite():
    fields = simulated(0, 5)
    law = sl.fit(fields, INTERVAL, 3, mean="zero").without_preparation_and_mean
    return suite_of(law, law.observe(fields), law, True), fields


CAUSES_WITH_LINE = [
    *(name for name in CAUSES if name != "offset"),
    *("domain", "rounding", "growing mode", "season of the year", "noise season of the year"),
]


@pytest.mark.parametrize("detail", [2.0, -2.0])
@pytest.mark.parametrize("test", [*CAUSES_WITH_LINE, "offset"])
def test_every_line_can_be_typed(suite, test, detail):
    """In Python it runs; in the shell it is an option that the command reads."""
    suite, fields = suite
    suite = dataclasses.replace(suite, clock={"units": "days since 2001-01-01"})
    result = departures.TestResult(
        test, np.zeros(3), 0.0, 5.0, abs(detail), place=PLACES.get(test, "")
    )
    result = dataclasses.replace(result, detail=detail if test == "observation noise" else 2.0)
    option, python = remedy(_cause_line(suite, result, []).text)
    if python.startswith("data = ") or python.startswith("data["):
        scope = {"sl": sl, "np": np, "data": fields.copy(deep=True)}
        exec(python, scope)
        assert scope["data"].dims == fields.dims
        return
    words = eval(f"dict({python})", {"sl": sl, "np": np})
    assert words.keys() <= {*inspect.signature(sl.fit).parameters, *FIT_WORDS}
    assert option.startswith("--")
    told = CliRunner().invoke(app, ["fit", "no.nc", "--out", "a.law", *shlex.split(option)])
    assert told.stderr.startswith("error: no.nc"), told.stderr  # all options were read


def keyword(line):
    """The Python line of a sentence."""
    return line.partition(", in Python ")[2].partition(" gains about")[0]


def test_lines_can_be_typed():
    """In Python they run and help; for the shell each is an option."""
    np_sl = {"sl": sl, "np": np}
    wrong = advice(neumann(0), 4)[0]
    words = eval(f"dict({keyword(wrong)})", np_sl)
    assert advice(neumann(0), 4, **words) == []
    assert "--bounds 0.0 3.141592653589793 --boundary neumann gains" in in_options(wrong)

    changed = advice(halves(0, noise=4.0))[0]
    words = eval(f"dict({keyword(changed)})", np_sl)
    assert sl.fit(halves(0, noise=4.0), INTERVAL, 3, **words).info["n_times"] == 61
    assert "--select time=3:6 gains" in in_options(changed)

    data = with_frame(0, 0.1)
    line = advice(data)[0].partition("time 1.5: ")[2].partition(" gains")[0]
    exec(line, np_sl | {"data": data})
    assert np.isnan(data.values[3, 30]).all()
    assert advice(data) == []

    data = season(0, mean=1.5)
    line = advice(data, 2)[0].partition("together: data = ")[2].partition(" gains about")[0]
    less = eval(line, np_sl | {"data": data})
    assert less.dims == data.dims
    assert not any("season" in text for text in advice(less, 2))
