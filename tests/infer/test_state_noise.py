"""Fits of noise that depends on the state."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import SpdeLawError

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


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ({"state_noise": "geometric"}, "proportional"),
        ({"state_noise": "proportional", "engine": "chaos"}, "compare the kinds of noise"),
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
