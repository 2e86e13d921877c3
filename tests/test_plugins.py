"""Domains and engines of other packages, found by entry points."""

import dataclasses
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.domain import Interval, _plugins, from_dict
from spdelaw.errors import DomainError, InputError
from spdelaw.infer import _fit
from spdelaw.infer import _plugins as engines


@dataclasses.dataclass(frozen=True)
class Rod(Interval):
    """An interval under another name, as a package would define its own domain."""

    name: ClassVar[str] = "rod"


def half_speed(observed, domain, n_modes, settings, *, factor=0.5):
    """An engine that fits exactly and then changes the answer."""
    law = sl.fit(observed.fields, domain, n_modes)
    info = law.info | {"engine": "half", "factor": factor}
    return dataclasses.replace(law, info=info)


def registered(monkeypatch, module, name, value):
    entry = EntryPoint(name, f"{__name__}:{value}", module.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.value.split(":")[1]])
    monkeypatch.setattr(module, "entry_points", lambda group: [entry])


def test_domain_of_another_package(monkeypatch, tmp_path):
    registered(monkeypatch, _plugins, "rod", "Rod")
    assert from_dict({"name": "rod", "a": 0.0, "b": 2.0, "boundary": "neumann"}) == Rod(
        0, 2, "neumann"
    )
    equation = sl.catalogue.heat(n_modes=2)
    law = sl.fit(sl.simulate(equation, 6, seed=0), Rod(0, np.pi), 2)
    law.save(tmp_path / "a.law")
    assert sl.load(tmp_path / "a.law").domain == Rod(0, np.pi)
    with pytest.raises(DomainError, match="install the package"):
        from_dict({"name": "ring"})


def test_entry_that_is_no_domain(monkeypatch):
    registered(monkeypatch, _plugins, "rod", "half_speed")
    with pytest.raises(DomainError, match="subclass of AbstractDomain"):
        from_dict({"name": "rod"})


def test_engine_of_another_package(monkeypatch):
    registered(monkeypatch, engines, "half", "half_speed")
    monkeypatch.setattr(_fit, "engine_names", engines.engine_names)
    equation = sl.catalogue.heat(n_modes=2)
    data = sl.simulate(equation, 6, seed=0)
    law = sl.fit(data, equation.domain, 2, engine="half", factor=0.25)
    assert law.info["factor"] == 0.25
    with pytest.raises(InputError, match="half"):
        sl.fit(data, equation.domain, 2, engine="third")


def test_lazy_and_torch_fields_give_the_same_law():
    equation = sl.catalogue.heat(n_modes=2)
    data = sl.simulate(equation, 6, times=np.linspace(0, 1, 11), seed=0)
    expected = sl.fit(data, equation.domain, 2)
    pytest.importorskip("dask")
    lazy = sl.fit(data.chunk({"path": 2}), equation.domain, 2)
    np.testing.assert_allclose(lazy.parameters.eigenvalue, expected.parameters.eigenvalue)
    recovered = expected.reconstruct(data.chunk({"path": 2}))["mean"]
    np.testing.assert_allclose(recovered, expected.reconstruct(data)["mean"])
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(data.values)
    other = sl.fit(tensor, equation.domain, 2, times=data.time.values, points=data.x.values)
    np.testing.assert_allclose(other.parameters.eigenvalue, expected.parameters.eigenvalue)
