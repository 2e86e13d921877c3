"""Options that are read from the source of classes, and the help that is made of them."""

import dataclasses
import re
import subprocess
import sys

import pytest

import spdelaw as sl
from spdelaw.cli import commands
from spdelaw.cli.options import FieldsOf, option_names_in_errors, read_class
from spdelaw.cli.shell import MOST_IN_ONE_LIST, load_command
from spdelaw.errors import InputError

CLASSES = [
    (sl.Model, "infer/model.py"),
    (sl.Preparation, "data/prepare.py"),
    (sl.Exact, "infer/engines/exact.py"),
    (sl.Chaos, "infer/engines/chaos.py"),
]
NO_OPTIONS = {"priors", "variable", "rename"}


@pytest.mark.parametrize(("kind", "path"), CLASSES)
def test_source_of_a_class_says_what_the_class_is(kind, path):
    fields = read_class(path, kind.__name__)
    real = {field.name: field for field in dataclasses.fields(kind)}
    assert set(fields) == set(real)
    for name, field in fields.items():
        assert field.annotation == real[name].type
        assert field.default in (None, real[name].default)


def test_every_field_is_an_option_of_fit():
    params = {p.name for p in load_command("fit").params}
    for kind, _ in CLASSES:
        assert {field.name for field in dataclasses.fields(kind)} - NO_OPTIONS - params == set()
    assert {"variable", "preset", "epochs", "checkpoint", "terms"} <= params


@pytest.mark.parametrize("name", commands.RECORDS)
def test_help_of_a_long_command(run, name):
    first, *groups = re.split(r"╭─ (?!Arguments)", run(name, "--help").stdout)[1:]
    assert first.startswith("Options")
    assert len(re.findall(r"^│ --", first, re.MULTILINE)) <= MOST_IN_ONE_LIST
    titles = " ".join(group.split("─")[0] for group in groups)
    assert all(word in titles for word in ("Domain", "Preparation", "Output"))
    assert "Options" not in titles
    for parameter in load_command(name).params:
        if parameter.param_type_name != "option":
            continue
        text = parameter.help
        assert text.endswith("."), parameter.name
        assert text[0].isupper(), parameter.name
        assert len(text.split()) >= 4, parameter.name
        assert not re.search(r"[`{]|\bsl\.|spdelaw\.", text), parameter.name


@pytest.mark.parametrize("name", ["fit", *(pytest.param(n, marks=pytest.mark.slow)
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
    assert "--anomalies" in run.stdout or name == "discover"


def test_values_that_are_given_are_parsed_and_the_others_left_to_the_library():
    group = FieldsOf(commands.PREPARATION_CLASS, panel="x", leave_out=commands.NOT_PREPARED)
    values = {parameter.name: parameter.default for parameter in group.parameters()}
    assert group.parse(values) == {}
    values |= {"select": ["lat=-2:2", "depth=10", "time=1990:"], "coarsen": ["x=2"],
               "missing": [-9.0], "detrend": True}  # fmt: skip
    assert group.parse(values) == {
        "select": {"lat": (-2.0, 2.0), "depth": (10.0, 10.0), "time": ("1990", "")},
        "coarsen": {"x": 2},
        "missing": (-9.0,),
        "detrend": True,
    }


def test_errors_of_the_library_name_the_option():
    with pytest.raises(InputError, match=r"^--noise-rank: .* pass --noise-rank 1$"), \
            option_names_in_errors(["noise_rank"]):  # fmt: skip
        sl.Model(noise_rank=0)
    with pytest.raises(InputError, match=r"^noise_rank: "), option_names_in_errors(["noise"]):
        sl.Model(noise_rank=0)
