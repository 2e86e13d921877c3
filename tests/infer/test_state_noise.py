"""Fits of noise that depends on the state."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import SpdeLawError
from spdelaw.processes.closure import advance

TIMES = 0.1 * np.arange(31)


def fields_of(kind, n_modes=4, n_paths=12, times=TIMES, **options):
    if kind == "square_root":
        e = sl.catalogue.square_root_heat(n_modes, times=times)
    else:
        e = sl.catalogue.geometric_heat(n_modes, noise_offset=0.5 * (kind == "affine"), times=times)
    return e, sl.simulate(e, n_paths, seed=3, **options)


def fit(kind, fields, e, n_modes=4, **words):
    if kind == "square_root":
        words = {"terms": ("1", "u"), **words}
    return sl.fit(fields, e.domain, n_modes, state_noise=kind, **words)


def z_scores(law, truth):
    """Distance of estimates from the truth, in standard errors."""
    x, s = (law.info[key] for key in ("estimates", "standard_errors"))
    return {name: (x[name] - value) / s[name] for name, value in truth.items()}


@pytest.fixture(scope="module")
def laws():
    """A law of complete fields for each kind, with its equation and fields."""
    out = {}
    for kind in ("proportional", "affine", "square_root"):
        e, fields = fields_of(kind)
        out[kind] = fit(kind, fields, e, observation_noise="none"), e, fields
    return out


@pytest.mark.parametrize("kind", ["proportional", "affine", "square_root"])
def test_estimates_are_near_the_truth(laws, kind):
    law, e, _ = laws[kind]
    q = e.linear.noise_variance
    truth = {f"q_{n + 1}": q[n] for n in range(4)} if kind != "square_root" else {"scale": q[0]}
    if kind == "affine":
        truth["noise_offset"] = 0.5
    truth |= dict(e.terms)
    assert max(map(abs, z_scores(law, truth).values())) < 4.0
    assert law.dynamics.state_noise == kind
    if kind == "affine":
        lower, upper = law.parameters.noise_offset.values[2:]
        assert lower < law.parameters.noise_offset.values[0] < upper


@pytest.mark.parametrize("kind", ["affine", "square_root"])
def test_errors_follow_the_unit(laws, kind):
    law, e, fields = laws[kind]
    other = fit(kind, 1e12 * fields, e, observation_noise="none")
    for name, error in law.info["standard_errors"].items():
        unit = {"noise_offset": 1e12, "1": 1e12, "scale": 1e12}.get(name, 1.0)
        np.testing.assert_allclose(other.info["standard_errors"][name], unit * error, rtol=1e-6)


def test_scores_are_gradients_of_the_quasi_likelihood(laws):
    from spdelaw.infer.semilinear.fits import TransitionLikelihood
    from spdelaw.infer.semilinear.layout import layout
    from spdelaw.statespace.transitions import transitions

    _, e, fields = laws["affine"]
    form = layout(
        e.domain, 4, ("u^2",), drift="parametric", noise="parametric", state_noise="affine"
    )
    truth = {"nu": 0.2, "kappa": 0.1, "u^2": -0.1, "scale": 0.4, "exponent": 1.0}
    full = form.vector(truth | {"noise_offset": 0.6})
    c = fields.values @ np.linalg.pinv(e.domain.eigenfunctions(fields.x.values, 4)).T
    evaluate = TransitionLikelihood(transitions(c, TIMES).take(np.arange(40)))
    scores = form.scores(full, evaluate(form.state_space(full)).by).sum(0)
    for k in range(len(full)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = full.copy()
            moved[k] += step
            ends.append(evaluate(form.state_space(moved)).log_likelihood.sum())
        np.testing.assert_allclose(scores[k], (ends[0] - ends[1]) / 2e-5, rtol=2e-4, atol=1e-4)


def test_information_is_that_of_simulated_scores(laws):
    """Of states drawn with the moments of the law, which is all that the information needs."""
    from spdelaw.infer.semilinear.layout import layout
    from spdelaw.statespace.transitions import Transitions, linear_scores

    _, e, _ = laws["affine"]
    form = layout(e.domain, 4, (), state_noise="affine")
    numbers = {"nu": 0.2, "kappa": 0.1, "scale": 0.4, "exponent": 1.0, "noise_offset": 0.6}
    full = form.vector(numbers)
    closure, n, rng = form.closure(full), 20_000, np.random.default_rng(0)
    before = np.tile([2.0, 0.3, -0.2, 0.1], (n, 1))
    ahead, _ = advance(closure, before[:1], None, 0.1)
    root = np.linalg.cholesky(ahead.covariance[0])
    after = ahead.mean + rng.standard_normal((n, 4)) @ root.T
    data = Transitions(before, after, np.full(n, 0.1), np.arange(n), np.ones(n, int))
    _, scores, information = linear_scores(closure, data, form.directions(full))
    scale = np.sqrt(np.outer(*[np.diag(information)] * 2))
    np.testing.assert_allclose(scores.T @ scores / scale, information / scale, atol=0.06)
    assert np.abs(scores.sum(0) / np.sqrt(np.diag(information))).max() < 4.5


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ({"state_noise": "geometric"}, "proportional"),
        ({"state_noise": "proportional", "engine": sl.Exact()}, "leave state_noise out"),
        ({"state_noise": "proportional", "drift": "dense"}, "leave drift out"),
        ({"state_noise": "square_root", "noise": "parametric"}, "spectra"),
        ({"state_noise": "square_root"}, "affine"),
        ({"state_noise": "affine", "terms": ("u",), "scheme": "semi_implicit"}, "scheme"),
        ({"model": sl.Model(state_noise="affine"), "drift": "diagonal"}, "Model"),
    ],
)
def test_refusals(words, word):
    e = sl.catalogue.heat(3)
    fields = sl.simulate(e, 4, seed=0) - 1.0
    with pytest.raises(SpdeLawError, match=word):
        sl.fit(fields, e.domain, 3, **words)


def test_one_noise_for_all_modes_is_reported():
    ring, rng = sl.Interval(0, 2 * np.pi, "periodic"), np.random.default_rng(0)
    rates, dt = np.array([0.1, 0.5, 0.5, 1.7]), TIMES[1]
    common = 0.4 * np.cumsum(rng.standard_normal((6, 30, 1)) * np.sqrt(dt), axis=1)
    logs = -(rates + 0.08) * TIMES[1:, None] + common
    start = np.array([2.0, 0.5, -0.4, 0.2])
    c = start * np.concatenate([np.ones((6, 1, 4)), np.exp(logs)], axis=1)
    points = ring.grid(9)
    fields = c @ ring.eigenfunctions(points, 4).T
    with pytest.raises(SpdeLawError, match=r"exactly -?0, 0\.4, 0\.4, 1\.6;"):
        sl.fit(fields, ring, 4, times=TIMES, points=points, state_noise="proportional")


def test_bands_follow_the_field(laws):
    law, _, fields = laws["proportional"]
    forecast = law.forecast(fields[:, :21], steps=3)
    level = np.abs(fields[:, 20]).mean("x").values
    deviation = forecast["std"].isel(time=-1).mean("x").values
    assert np.corrcoef(level, deviation)[0, 1] > 0.9


def test_draws_have_the_moments_of_forecasts(laws):
    law, _, fields = laws["affine"]
    forecast = law.forecast(fields[:1, :21], steps=2, n_samples=2000, seed=1)
    drawn = forecast["sample"].isel(path=0, time=-1)
    std = forecast["std_field"].isel(path=0, time=-1)
    error = drawn.mean("draw") - forecast["mean"].isel(path=0, time=-1)
    assert float(np.abs(error / std).max()) < 5.0 / np.sqrt(2000)
    np.testing.assert_allclose(drawn.std("draw"), std, rtol=0.12)


@pytest.mark.parametrize("kind", ["proportional", "affine", "square_root"])
def test_a_saved_law_is_the_same(laws, kind, tmp_path):
    law, _, fields = laws[kind]
    law.save(tmp_path / "a.law")
    again = sl.load(tmp_path / "a.law")
    assert again.info["assumed"] == law.info["assumed"]
    np.testing.assert_array_equal(again.log_likelihood(fields), law.log_likelihood(fields))
    np.testing.assert_array_equal(again.sample(2, seed=3), law.sample(2, seed=3))


def test_gaps_and_noise_are_filtered():
    e, fields = fields_of("proportional", 3, observation_std=0.02)
    hidden = np.random.default_rng(0).random(fields.shape) < 0.3
    law = fit("proportional", fields.where(~hidden), e, 3, drift="parametric", noise="parametric")
    truth = {"nu": 0.2, "kappa": 0.0, "scale": 0.5, "exponent": 1.5}
    assert max(map(abs, z_scores(law, truth).values())) < 4.0
    assert 0.015 < float(law.parameters.observation_std.sel(statistic="estimate")) < 0.025
    completed = law.reconstruct(fields.where(~hidden))
    inside = np.abs(completed["mean"] - fields) < 1.96 * completed["std"]
    assert 0.9 < float(inside.where(hidden).mean()) < 0.99


def test_discovery_chooses_the_noise(laws):
    for kind in ("proportional", "square_root"):
        _, e, fields = laws[kind]
        choice = sl.discover(fields, e.domain, 4, library=("1", "u"), bootstrap=0)
        assert choice.state_noise == kind
        assert choice.to_dict()["noise_bic"][kind] == 0.0
    additive = sl.simulate(sl.Semilinear(laws["proportional"][1].linear), 12, seed=0)
    choice = sl.discover(additive, e.domain, 4, library=("u",), bootstrap=0)
    assert choice.state_noise == "none"


def test_evaluate_names_the_noise(laws):
    _, e, fields = laws["proportional"]
    advice = sl.evaluate(sl.fit(fields, e.domain, 4), fields).advice
    assert "state_noise='proportional'" in advice[0]
