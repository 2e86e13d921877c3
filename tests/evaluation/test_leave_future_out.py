"""Forecasts of the future: rivals by hand, no look ahead, and skill where there is some."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import InputError

CALM = sl.catalogue.heat(n_modes=2, initial="stationary")
GRID = np.linspace(0, np.pi, 9)


def one_path(n=121, step=0.2, seed=0):
    return sl.simulate(CALM, 1, step * np.arange(n), GRID, seed=seed)


def test_rivals_by_hand():
    fields = one_path()
    with pytest.warns(DeprecationWarning, match="skill"):
        scores = sl.leave_future_out(
            fields, CALM.domain, 2, first=100, leads=3, refit=50, mean="zero"
        )
    x = fields.values[0]
    for lead in (1, 2, 3):
        pairs = [(x[k - 1], x[k + lead - 1]) for k in range(100, 122 - lead)]
        still = np.sqrt(np.mean([(a - b) ** 2 for a, b in pairs]))
        zero = np.sqrt(np.mean([b**2 for _, b in pairs]))
        at = scores.rmse.sel(lead=lead)
        assert float(at.sel(predictor="persistence")) == pytest.approx(still)
        assert float(at.sel(predictor="climatology")) == pytest.approx(zero)
    assert scores.n_origins.values.tolist() == [21, 20, 19]
    np.testing.assert_allclose(scores.mean_time_ahead, [0.2, 0.4, 0.6])


@pytest.mark.parametrize(
    "settings", [{"first": 2}, {"first": 1.5}, {"leads": 0}, {"refit": True}, {"first": True}]
)
@pytest.mark.filterwarnings("ignore:.*skill:DeprecationWarning")
def test_refusals(settings):
    with pytest.raises(InputError, match="expected"):
        sl.leave_future_out(one_path(20), CALM.domain, 2, **settings)
