"""Domains and engines of other packages, found by entry points."""

import contextlib
import dataclasses
import io
import re
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

import spdelaw as sl
from spdelaw.cli.shell import app
from spdelaw.domains import registry as registry_module
from spdelaw.domains.interval import Interval
from spdelaw.domains.registry import from_dict
from spdelaw.errors import DomainError, InputError
from spdelaw.infer.engines import registry as engines
from spdelaw.infer.engines.registry import engine_names


@dataclasses.dataclass(frozen=True)
class Rod(Interval):
    """An interval under another name, as a package would define its own domain."""

    name: ClassVar[str] = "rod"


def half_speed(observed, domain, n_modes, model, *, level, seed, executor, progress, factor=0.5):
    """An engine that fits exactly and then changes the answer."""
    law = sl.fit(observed.fields, domain, n_modes, model, level=level)
    return law.with_info(engine="half", factor=factor)


def of_version_0_1(observed, domain, n_modes, settings, *, factor=0.5):
    """An engine as version 0.1 called it."""


def registered(monkeypatch, module, name, value):
    entry = EntryPoint(name, f"{__name__}:{value}", module.ENTRY_POINT_GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.value.split(":")[1]])
    monkeypatch.setattr(module, "entry_points", lambda group: [entry])


def test_domain_of_another_package(monkeypatch, tmp_path):
    registered(monkeypatch, registry_module, "rod", "Rod")
    rod = {"name": "rod", "a": 0.0, "b": 2.0, "boundary": "neumann"}
    assert from_dict(rod) == Rod(0, 2, "neumann")
    equation = sl.catalogue.heat(n_modes=2)
    law = sl.fit(sl.simulate(equation, 6, seed=0), Rod(0, np.pi), 2)
    law.save(tmp_path / "a.law")
    assert sl.load(tmp_path / "a.law").domain == Rod(0, np.pi)
    with pytest.raises(DomainError, match="install the package"):
        from_dict({"name": "ring"})
    registered(monkeypatch, registry_module, "rod", "half_speed")
    with pytest.raises(DomainError, match="subclass of AbstractDomain"):
        from_dict({"name": "rod"})


def test_engine_of_another_package(monkeypatch, tmp_path):
    registered(monkeypatch, engines, "half", "half_speed")
    assert engine_names()[-1] == "half"
    equation = sl.catalogue.heat(n_modes=2)
    data = sl.simulate(equation, 6, seed=0)
    law = sl.fit(data, equation.domain, 2, engine="half", factor=0.25, level=0.5)
    assert law.info["factor"] == 0.25
    assert law.parameters.attrs["interval_level"] == 0.5
    with pytest.raises(InputError, match="half"):
        sl.fit(data, equation.domain, 2, engine="third")
    with pytest.raises(InputError, match=r"engine='half' \(factor\)"):
        sl.fit(data, equation.domain, 2, engine="half", factr=0.25)
    out = tmp_path / "a.law"
    sl.write(data, tmp_path / "a.nc")
    words = ["--modes", "2", "--engine", "half", "--engine-option", "factor=0.75"]
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "a.nc"), *words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert sl.load(out).info["factor"] == 0.75
    registered(monkeypatch, engines, "half", "of_version_0_1")
    with pytest.raises(InputError, match="add the arguments after the star"):
        sl.fit(None, sl.Interval(0, np.pi), 2, engine="half")


CONTRACTS = {"A domain": "TestHalfPinned", "An engine": "TestLagRegression"}


@pytest.mark.parametrize(
    ("heading", "contract"), [*CONTRACTS.items(), ("Dynamics", "TestSaturating")]
)
def test_the_skeleton_in_the_guide_keeps_the_contract(heading, contract, tmp_path, monkeypatch):
    guide = Path(__file__).parents[1] / "docs" / "extending.md"
    section = guide.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    code = "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))
    names = {"__name__": "guide"}
    sys.modules["guide"] = types.ModuleType("guide")  # dataclasses look their module up
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, str(guide), "exec"), names)
    if contract == "TestHalfPinned":
        registered(monkeypatch, registry_module, "half_pinned", "Rod")
        monkeypatch.setattr(EntryPoint, "load", lambda self: names["HalfPinned"])
    kept = names[contract]()
    tests = [name for name in dir(kept) if name.startswith("test_")]
    assert len(tests) >= 6
    for name in tests:
        getattr(kept, name)()


def test_torch_fields_give_the_same_law():
    torch = pytest.importorskip("torch")
    equation = sl.catalogue.heat(n_modes=2)
    data = sl.simulate(equation, 6, times=np.linspace(0, 1, 11), seed=0)
    expected = sl.fit(data, equation.domain, 2)
    tensor, words = torch.from_numpy(data.values), {"times": data.time.values}
    other = sl.fit(tensor, equation.domain, 2, points=data.x.values, **words)
    np.testing.assert_allclose(other.parameters.eigenvalue, expected.parameters.eigenvalue)
