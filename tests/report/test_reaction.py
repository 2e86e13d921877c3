"""The reaction section of a report: the curve and its band by their formulas."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.report.html._reaction import reaction_curve


@pytest.fixture(scope="module")
def found():
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 6.0) ** 2)
    e = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(31), initial=start)
    data = sl.simulate(e, 6, seed=0)
    return sl.discover(data, e.domain, 5, library=("u", "u^3"), bootstrap=5), data


def test_curve_and_band(found):
    """``a u + b u^3`` with the variance of that sum."""
    law = found[0].law
    u = np.linspace(-1.2, 1.2, 7)
    f, std = reaction_curve(law, law.dynamics, u)
    a, b = law.parameters.coefficient.sel(statistic="estimate").values
    np.testing.assert_allclose(f, a * u + b * u**3, rtol=1e-12)
    (va, c), (_, vb) = law.info["term_covariance"]
    np.testing.assert_allclose(std**2, va * u**2 + 2 * c * u**4 + vb * u**6, rtol=1e-10)
    errors = law.parameters.coefficient.sel(statistic="stderr").values
    np.testing.assert_allclose(np.sqrt([va, vb]), errors, rtol=1e-10)


def test_section(found, tmp_path):
    pytest.importorskip("plotly")
    law, data = found[0].law, found[1]
    page = sl.report.write_report(tmp_path / "a.html", law, data).read_text()
    assert 'id="reaction"' in page
    assert 'id="plot-reaction"' in page
    assert "units of BIC behind" in page
    linear = sl.fit(sl.simulate(sl.catalogue.heat(2), 20, seed=0), sl.Interval(0, np.pi), 2)
    data = sl.simulate(sl.catalogue.heat(2), 4, seed=1)
    other = sl.report.write_report(tmp_path / "b.html", linear, data).read_text()
    assert 'id="reaction"' not in other
