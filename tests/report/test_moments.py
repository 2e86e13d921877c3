"""compare_moments: z-scores are standard normal under the law and far off elsewhere."""

import numpy as np
import pytest
from scipy import stats

import spdelaw as sl
from spdelaw.errors import AliasingWarning, DataError
from spdelaw.report.figures.moments import compare_moments, verdict

ALPHA = 1e-4
TIMES = (0.2, 1.0)


@pytest.mark.parametrize("make", [sl.catalogue.heat, sl.catalogue.ornstein_uhlenbeck])
def test_right_law_agrees(make):
    e = make(n_modes=8)
    table = compare_moments(sl.simulate(e, 500, times=TIMES, seed=0), e, TIMES)
    answer = verdict(table)
    assert answer.agrees
    assert answer.n_comparisons == 2 * 2 * 8
    assert answer.largest == pytest.approx(
        max(abs(table[k]).max().item() for k in ("mean_z", "variance_z"))
    )


def test_scores_are_standard_normal_even_with_few_paths():
    """Kolmogorov-Smirnov over 200 ensembles of 5 paths and 4 independent modes."""
    e = sl.catalogue.heat(n_modes=4)
    fields = sl.simulate(e, 200 * 5, times=[1.0], seed=3)
    tables = [compare_moments(fields[5 * i : 5 * i + 5], e, [1.0]) for i in range(200)]
    for name in ("mean_z", "variance_z"):
        z = np.ravel([table[name] for table in tables])
        assert stats.kstest(z, "norm").pvalue > ALPHA / 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise": sl.PowerLaw(2.01, scale=1.5)},
        {"nu": 1.3},
        {"initial": lambda x: 1.3 * sl.catalogue.heat_bump(x)},
    ],
)
def test_wrong_law_is_seen(wrong):
    fields = sl.simulate(sl.catalogue.heat(n_modes=6), 1000, times=TIMES, seed=0)
    assert not verdict(compare_moments(fields, sl.catalogue.heat(n_modes=6, **wrong), TIMES)).agrees


def test_the_paper_scheme_is_seen_to_be_biased():
    """lambda dt = 2 in mode 20: half of the variance is lost."""
    e = sl.catalogue.heat(n_modes=20)
    fields = sl.simulate(e, 200, seed=0, scheme="semi_implicit")
    assert not verdict(compare_moments(fields, e, [1.0])).agrees


def test_scores_far_out_stay_finite_and_signed():
    e = sl.catalogue.heat(n_modes=2)
    table = compare_moments(sl.simulate(e, 100, times=[1.0], seed=0), e, [1.0])
    far = sl.catalogue.heat(n_modes=2, noise=sl.PowerLaw(2.01, scale=5.0))
    low = compare_moments(sl.simulate(e, 100, times=[1.0], seed=0), far, [1.0])
    assert np.isfinite(low.variance_z).all()
    assert (low.variance_z < -5).all()
    assert (abs(table.variance_z) < 5).all()


def test_bad_input():
    e = sl.catalogue.heat(n_modes=3)
    fields = sl.simulate(e, 10, times=[0.0, 1.0], seed=0)
    with pytest.raises(DataError, match="initial time"):
        compare_moments(fields, e, [0.0])
    with (
        pytest.warns(AliasingWarning, match="too few points"),
        pytest.raises(DataError, match="missing coefficients"),
    ):
        compare_moments(fields.where(fields.path > 0), e, [1.0])
