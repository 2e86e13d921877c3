"""The reaction section of a report: the curve and its band by their formulas."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.processes.terms import term_values
from spdelaw.report.data import gather
from spdelaw.report.figures.laws import reaction_curve


@pytest.fixture(scope="module")
def discovered():
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 6.0) ** 2)
    e = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(31), initial=start)
    data = sl.simulate(e, 6, seed=0)
    return sl.discover(data, e.domain, 5, library=("u", "u^3"), bootstrap=2), data


def test_curve_and_band(discovered):
    """``a u + b u^3`` with the variance of that sum."""
    law = discovered[0].law
    u = np.linspace(-1.2, 1.2, 7)
    f, std = reaction_curve(law, term_values(law.dynamics.terms, {"u": u}), u)
    a, b = law.parameters.coefficient.sel(statistic="estimate").values
    np.testing.assert_allclose(f, a * u + b * u**3, rtol=1e-12)
    (va, c), (_, vb) = law.info["term_covariance"]
    np.testing.assert_allclose(std**2, va * u**2 + 2 * c * u**4 + vb * u**6, rtol=1e-10)
    errors = law.parameters.coefficient.sel(statistic="stderr").values
    np.testing.assert_allclose(np.sqrt([va, vb]), errors, rtol=1e-10)


def test_section(discovered, tmp_path):
    pytest.importorskip("plotly")
    law, data = discovered[0].law, discovered[1]
    page = sl.report.write_report(tmp_path / "a.html", law, data).read_text()
    assert 'id="reaction"' in page
    assert 'id="plot-reaction"' in page
    assert "units of BIC behind" in page


def test_terms_at_values():
    """``u u_x`` has no value without slopes; terms of another equation are not in this one."""
    u, v = np.array([0.5, 2.0]), np.array([3.0, -1.0])
    one = term_values(("1", "u", "u - u^3", "u u_x", "|grad u|^2"), {"u": u})
    np.testing.assert_allclose(one, [u**0, u, u - u**3, 0 * u, 0 * u])
    two = term_values(("u: u v^2", "v: u", "u: 2 v"), {"u": u, "v": v}, "u")
    np.testing.assert_allclose(two, [u * v**2, 0 * u, 2 * v])


def test_report_of_two_fields(tmp_path):
    """A curve, maps, samples, forecast and moments of each field, and the plane of both."""
    pytest.importorskip("plotly")
    e = sl.catalogue.fitzhugh_nagumo(3, times=0.1 * np.arange(21))
    data = sl.mask(sl.simulate(e, 3, seed=5), fraction=0.05, seed=1)
    terms = {"u": ("u", "u^3", "v"), "v": ("1", "u", "v")}
    law = sl.fit(data, e.domain.domain, 3, terms=terms, fixed={"nu v": 0.0})
    page = sl.report.write_report(tmp_path / "two.html", law, data).read_text()
    for name in ("reaction", "fields", "samples", "forecast", "moments"):
        for field in "uv":
            assert f'id="plot-{name}-{field}"' in page
    assert 'id="plot-plane"' in page
    assert "The drift of v is " in page
    assert ">u 3<" in page  # the modes of both fields by name
    material = gather(law, data, None, None, 3, 0)
    mean, _ = material.reconstructed([0, 1])
    for one in material.each:
        np.testing.assert_array_equal(one.reconstructed([0, 1])[0], mean[..., one.indices])
        values = data.sel(variable=one.label).values[:2]
        np.testing.assert_array_equal(one.fields.values[:2], values)
        there = np.isfinite(values)  # without noise the law goes through what was seen
        np.testing.assert_allclose(mean[..., one.indices][there], values[there], atol=1e-3)
