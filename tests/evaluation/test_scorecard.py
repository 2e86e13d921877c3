"""The scorecard: tiers see what they may, limits hold, numbers survive JSON."""

import json

import numpy as np
import pytest

import spdelaw as sl
import spdelaw.law.law as law_module
from spdelaw.errors import SpdeLawError
from spdelaw.evaluation.tasks import TIERS, parameter_errors, projection_floor, tier_task
from spdelaw.law import observations

GRID = np.linspace(0, np.pi, 21)
TIMES = np.linspace(0, 1, 41)


@pytest.fixture(scope="module")
def equation():
    return sl.catalogue.heat(6)


@pytest.fixture(scope="module")
def data(equation):
    return sl.simulate(equation, 260, TIMES, GRID, seed=0, observation_std=0.05)


@pytest.fixture(scope="module")
def law(data):
    return sl.fit(data[:200], sl.Interval(0, np.pi), 6, mean="zero")


@pytest.fixture(scope="module")
def card(law, data, equation):
    return sl.evaluate(law, data[200:], truth=equation)


def test_tiers_do_not_see_what_they_score():
    values = np.random.default_rng(0).normal(size=(3, 8, 5))
    values[0, 2, 1] = np.nan
    for tier in TIERS:
        seen, scored = tier_task(values, tier, seed=0)
        if tier != "reconstruct":
            assert not (seen & scored).any()
        assert scored.any()
        assert not (seen | scored)[np.isnan(values)].any()
        assert not scored[:, 0].any()


def test_scores_of_the_right_law(card):
    """Values within a path are dependent: bands of coverage are 4 standard deviations of paths."""
    error = {tier: card.tiers[tier].rmse for tier in TIERS}
    assert error["reconstruct"] < error["gaps"] < min(error["forecast"], error["predict"])
    assert 0.05 < error["gaps"] < 0.06  # noise is the floor
    for tier in ("predict", "forecast", "gaps"):
        assert abs(card.tiers[tier].coverage - 0.95) < 0.03
    assert card.tiers["predict"].relative_l2 < 1.02 * card.limits["predict"].relative_l2
    assert card.distance["largest_z"] < 4
    assert 0 < card.distance["kl_per_path"] < 4 * card.distance["kl_limit"]
    assert card.distance["variance_error"] < 0.1


def test_projection_floor_is_least_squares_row_by_row(law):
    gappy = sl.mask(sl.simulate(sl.catalogue.heat(9), 3, TIMES, GRID, seed=2), "random", seed=1)
    floor = projection_floor(law.observe(gappy), law)
    basis = law.domain.eigenfunctions(GRID, 6)
    square, count = 0.0, 0
    for row in gappy.values[:, 1:].reshape(-1, len(GRID)):
        at = ~np.isnan(row)
        error = row[at] - basis[at] @ np.linalg.lstsq(basis[at], row[at], rcond=None)[0]
        square, count = square + error @ error, count + at.sum()
    assert floor.rmse == pytest.approx(np.sqrt(square / count), rel=1e-9)


def test_card_survives_json_and_print(card):
    back = json.loads(json.dumps(card.to_dict()))
    assert set(back["tiers"]) == set(TIERS)
    assert back["verdict"] == card.verdict
    text = repr(card)
    assert all(tier in text for tier in TIERS)
    assert "KL per path" in text
    assert dict(card.to_dataset().sizes) == {"tier": 4}
    page = card._repr_html_()
    assert page.count("<tr>") == 1 + len(card.tiers)
    assert f"{card.tiers['gaps'].rmse:.4f}" in page
    assert card.verdict in page


def test_parameter_errors_are_in_standard_errors(law, equation):
    table = parameter_errors(law, equation)
    estimate = law.parameters.eigenvalue.sel(statistic="estimate").values
    stderr = law.parameters.eigenvalue.sel(statistic="stderr").values
    np.testing.assert_allclose(table.eigenvalue_z, (estimate - equation.eigenvalues) / stderr)


def test_works_through_gaps_and_on_one_path(law, data):
    gappy = sl.mask(data[200:204], "rows", fraction=0.3, seed=0)
    assert np.isfinite(sl.evaluate(law, gappy).tiers["gaps"].rmse)
    assert sl.evaluate(law, data[200]).n_paths == 1


@pytest.mark.parametrize(
    "arguments", [{"tiers": ("guess",)}, {"truth": "heat"}, {"data": np.zeros((2, 2))}], ids=str
)
def test_bad_arguments(law, data, arguments):
    settings = {"law": law, "data": data[200:203], **arguments}
    with pytest.raises(SpdeLawError, match=r"expected .* got .* Fix:"):
        sl.evaluate(**settings)


def test_data_are_prepared_once(law, monkeypatch):
    """Tasks, limits and the model check share what was prepared and centred first."""
    calls, prepare = [], observations.prepare_for_law

    def counted(*arguments):
        calls.append(arguments)
        return prepare(*arguments)

    for module in (observations, law_module):
        monkeypatch.setattr(module, "prepare_for_law", counted)
    noisy = sl.simulate(sl.catalogue.heat(6), 5, TIMES, GRID, seed=2, observation_std=0.1)
    sl.evaluate(law, sl.mask(noisy, "random", seed=1))
    assert len(calls) == 1
