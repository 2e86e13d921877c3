"""Import paths of earlier versions: the same module, a warning, and errors as usual."""

import importlib
import importlib.util
import subprocess
import sys

import pytest
from tests.fitted import fitted

import spdelaw as sl
from spdelaw import _moved


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package ``fresh`` on disk, to which ``spdelaw.stale`` moved."""
    for name, text in {"__init__": "", "first": "value = 1", "renamed": "value = 2"}.items():
        (tmp_path / "fresh").mkdir(exist_ok=True)
        (tmp_path / "fresh" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    table = {"spdelaw.stale": "fresh", "spdelaw.stale.second": "fresh.renamed"}
    monkeypatch.setattr(_moved, "MOVED", table)
    yield
    for name in [name for name in sys.modules if name.startswith(("fresh", "spdelaw.stale"))]:
        del sys.modules[name]


def test_an_old_path_gives_the_same_module_and_warns_at_the_import(package):
    with pytest.warns(DeprecationWarning, match=r"'spdelaw\.stale' .* import 'fresh'") as caught:
        from spdelaw.stale.first import value
    assert (value, len(caught), caught[0].filename) == (1, 1, __file__)
    fresh, first = importlib.import_module("fresh"), importlib.import_module("fresh.first")
    assert importlib.import_module("spdelaw.stale") is fresh
    assert importlib.import_module("spdelaw.stale.first") is first
    assert first.__spec__.name == first.__name__ == "fresh.first"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_longest_old_path_decides_and_an_unknown_one_is_missing(package):
    assert importlib.import_module("spdelaw.stale.second").value == 2
    for name in ("spdelaw.stale.nonsense", "spdelaw.nonsense", "spdelaw.stale2"):
        with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
            importlib.import_module(name)
    _moved.MOVED["spdelaw.gone"] = "not_installed.thing"
    assert importlib.util.find_spec("spdelaw.gone") is None


def test_the_baselines_are_importable_by_their_documented_old_path(checkout):
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from spdelaw.paper.baselines import FNO, load\n"
        "from spdelaw.paper.baselines.fno import FNO as again\n"
        "import paper.baselines as new\n"
        "print(FNO is new.FNO is again is new.SYSTEMS['fno'], load is new.load)"
    )
    path = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(checkout)!r})\n{code}"]
    run = subprocess.run(path, capture_output=True, text=True, check=True)
    assert run.stdout == "True True\n"


def test_renamed_attributes_warn_and_work():
    law = fitted("complete").law
    with pytest.warns(DeprecationWarning, match="without_preparation_and_mean"):
        old = law.bare
    assert repr(old) == repr(law.without_preparation_and_mean)
    with pytest.warns(DeprecationWarning, match="supports"):

        class Stale(sl.Engine):
            honours = frozenset({"drift"})

            def learn(self, observed, domain, n_modes, model, **run):
                return None

    assert Stale.supports == {"drift"}
