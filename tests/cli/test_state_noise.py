"""Every verb takes laws with noise that depends on the state, from Python and from the shell."""

import warnings

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.report import plot_law_energy

TIMES = 0.1 * np.arange(26)
FEW = {"drift": "parametric", "noise": "parametric"}
SQUARE_ROOT = {"terms": ("1", "u")}


def equation_of(kind):
    if kind == "square_root":
        return sl.catalogue.square_root_heat(3, times=TIMES)
    return sl.catalogue.geometric_heat(3, noise_offset=0.5 * (kind == "affine"), times=TIMES)


def fields_of(e, case):
    if case == "gaps":
        fields = sl.simulate(e, 5, seed=3, observation_std=0.02)
        return fields.where(np.random.default_rng(0).random(fields.shape) > 0.3)
    return sl.simulate(e, 1 if case == "one path" else 5, seed=3)


FAST = [("proportional", "complete"), ("square_root", "one path")]
SLOW = [("proportional", "gaps"), ("proportional", "one path"), ("affine", "complete"),
        ("affine", "gaps"), ("affine", "one path"), ("square_root", "complete"),
        ("square_root", "gaps")]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "case"), [*FAST, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)]
)
def test_every_verb(kind, case, tmp_path):
    pytest.importorskip("plotly")
    e, words = equation_of(kind), SQUARE_ROOT if kind == "square_root" else FEW
    data = fields_of(e, case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)  # little data
        law = sl.fit(data, e.domain, 3, state_noise=kind, **words)
        additive = sl.fit(data, e.domain, 3, **words)
    assert law.dynamics.state_noise == kind
    assert sl.evaluate(law, data).verdict
    page = sl.report.write_report(tmp_path / "a.html", law, data).read_text()
    assert f"it is {kind.replace('_', ' ')}, in the sense of Ito" in page
    assert ('id="reaction"' in page) == bool(law.dynamics.terms)
    assert "law" in str(sl.compare(law, additive, data=data, names=("law", "additive")))
    assert str(sl.skill(data, e.domain, 3, state_noise=kind, refits=1, leads=(1, 3), **words))
    for axes in (law.plot.spectrum(), law.plot.field(data), law.plot.innovations(data)):
        assert len(axes) >= 2
    law.plot.forecast(data, steps=3)
    assert np.isfinite(law.sample(2, seed=0)).all()
    std = law.reconstruct(data)["std"]
    law.save(tmp_path / "a.law")
    np.testing.assert_array_equal(sl.load(tmp_path / "a.law").reconstruct(data)["std"], std)
    assert (law.forecast(data, TIMES[-1] + TIMES[1:4])["std"] > 0).all()
    found = sl.discover(data, e.domain, 3, library=("1", "u"), bootstrap=0)
    assert found.state_noise in found.noise_bic


def test_energy_of_a_law_is_that_of_its_draws():
    e = equation_of("proportional")
    law = sl.fit(fields_of(e, "complete"), e.domain, 3, state_noise="proportional")
    (line,) = plot_law_energy(law, 1.0).axes[0].lines
    fields = law.sample(4000, seed=0, times=TIMES[:11]).isel(time=-1)
    c = fields.values @ np.linalg.pinv(e.domain.eigenfunctions(fields.x.values, 3)).T
    error = (c**2).std(0) / np.sqrt(len(c))
    assert np.abs((line.get_ydata() - (c**2).mean(0)) / error).max() < 4.5


def test_every_command(run, run_json, folder):
    pytest.importorskip("plotly")
    run("simulate geometric-heat --paths 5 --modes 3 --final-time 3 --steps 30 --out x.nc")
    run("fit x.nc --modes 3 --out additive.law")
    shown = run("fit x.nc --modes 3 --state-noise proportional --out p.law").stdout
    assert "Terms of the drift" not in shown
    assert "noise proportional" in run("show p.law").stdout
    assert run_json("show p.law")
    assert "Scorecard" in run("evaluate p.law x.nc").stdout
    run("forecast p.law x.nc --steps 3 --out f.nc")
    run("reconstruct p.law x.nc --out r.nc")
    run("sample p.law --paths 2 --out s.nc")
    run("compare p.law additive.law --data x.nc")
    run("report p.law x.nc --out report.html")
    run("discover x.nc --library 1,u --modes 3 --bootstrap 0 --out d.law")
