"""Options that are read from the source of functions and classes, and the help made of them."""

import dataclasses
import importlib
import inspect
import re
import subprocess
import sys

import pytest

import spdelaw as sl
from spdelaw.cli.options import (
    GROUPS,
    MISSING,
    PACKAGE,
    REQUIRED,
    Field,
    Part,
    collect,
    expand,
    read_signature,
)
from spdelaw.cli.shell import (
    COMMANDS,
    FOLDER,
    MODULES,
    MOST_IN_ONE_LIST,
    load_command,
    signature_of,
)
from spdelaw.datasets import NAMES
from spdelaw.processes.catalogue import EQUATIONS, SEMILINEAR

CLASSES = [
    (sl.Model, "infer/model.py"),
    (sl.Preparation, "data/prepare.py"),
    (sl.Exact, "infer/engines/exact.py"),
    (sl.Chaos, "infer/engines/chaos.py"),
]
NO_OPTIONS = {"priors", "variable", "rename"}
LONG = [name for name in COMMANDS if len(load_command(name).params) > MOST_IN_ONE_LIST + 1]


@pytest.mark.parametrize(("kind", "path"), CLASSES)
def test_source_of_a_class_says_what_the_class_is(kind, path):
    fields = read_signature(PACKAGE / path, kind.__name__).fields
    real = {field.name: field for field in dataclasses.fields(kind)}
    assert set(fields) == set(real)
    for name, field in fields.items():
        assert field.annotation == real[name].type
        assert field.default in (None, real[name].default)


@pytest.mark.parametrize("name", COMMANDS)
def test_source_of_a_command_says_what_its_function_is(name):
    function = getattr(importlib.import_module(f"{FOLDER}.{MODULES[name]}"), f"{name}_command")
    real = inspect.signature(function).parameters
    fields = signature_of(name, f"{FOLDER}.{MODULES[name]}").fields
    assert list(fields) == list(real)
    for key, field in fields.items():
        assert field.annotation == real[key].annotation
        assert field.default == real[key].default


def test_settings_of_fill_and_skill_are_arguments_of_the_library():
    for group, function in (("FillSettings", sl.fill), ("SkillSettings", sl.skill)):
        real = inspect.signature(function).parameters
        assert all(f.default == real[n].default for n, f in GROUPS[group].fields().items())


def test_every_field_is_an_option_of_fit():
    params = {p.name for p in load_command("fit").params}
    for kind, _ in CLASSES:
        assert {field.name for field in dataclasses.fields(kind)} - NO_OPTIONS - params == set()
    assert {"variable", "preset", "epochs", "checkpoint", "terms"} <= params


def test_help_lists_every_equation_and_data_set():
    text = load_command("simulate").params[0].help
    assert text == f"One of {', '.join([*EQUATIONS, *SEMILINEAR])}."
    assert load_command("dataset").params[0].help == f"One of {', '.join(NAMES)}."


@pytest.mark.parametrize("name", LONG)
def test_help_of_a_long_command(run, name):
    first, *groups = re.split(r"╭─ (?!Arguments)", run(name, "--help").stdout)[1:]
    assert first.startswith("Options")
    assert len(re.findall(r"^│ --", first, re.MULTILINE)) <= MOST_IN_ONE_LIST
    titles = " ".join(group.split("─")[0] for group in groups)
    assert all(word in titles for word in ("Domain", "Preparation", "Output"))
    assert "Options" not in titles


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_an_option_is_a_full_phrase(name):
    for parameter in load_command(name).params:
        if parameter.name == "help":
            continue
        text = re.sub(r" \[default: .*\]$", "", parameter.help)
        assert text.endswith("."), parameter.name
        assert text[0].isupper(), parameter.name
        assert len(text.split()) >= 3, parameter.name
        assert not re.search(r"[`{]|\bsl\.|spdelaw\.", text), parameter.name


@pytest.mark.parametrize("name", ["fit", "report", *(pytest.param(n, marks=pytest.mark.slow)
                                           for n in ("discover", "fill", "skill"))])  # fmt: skip
def test_help_loads_no_numbers(name):
    code = (
        "import atexit, sys; from spdelaw.cli import main;"
        "heavy = {'numpy', 'xarray', 'scipy', 'pandas'};"
        "atexit.register(lambda: print(*sorted(heavy & set(sys.modules)), file=sys.stderr));"
        f"sys.argv[1:] = [{name!r}, '--help']; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stderr == "\n"
    assert "--out" in run.stdout


def test_values_that_are_given_are_parsed_and_the_others_left_to_the_library():
    argument = Field("preparation", "PreparationOptions", REQUIRED, "")
    parts = expand({"preparation": argument}, {}, GROUPS["PreparationOptions"])
    (part,) = parts.values()
    values = {parameter.name: parameter.default for parameter in part.parameters}
    assert collect(parts, values) == {"preparation": {}}
    values |= {"select": ["lat=-2:2", "depth=10", "time=1990:"], "coarsen": ["x=2"],
               "missing": [-9.0], "detrend": True}  # fmt: skip
    assert part.make(values) == {
        "select": {"lat": (-2.0, 2.0), "depth": (10.0, 10.0), "time": ("1990", "")},
        "coarsen": {"x": 2},
        "missing": (-9.0,),
        "detrend": True,
    }
    assert collect({"x": Part([], lambda _: MISSING)}, {}) == {}
