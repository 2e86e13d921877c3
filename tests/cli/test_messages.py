"""Errors of the library in the language of the shell."""

import pytest

import spdelaw as sl
from spdelaw.cli.output import in_options, shell_language
from spdelaw.errors import FileError, InputError, MissingExtraError


def in_shell(names, call, lines=None):
    options = {name: "--" + name.replace("_", "-") for name in names}
    with pytest.raises((InputError, FileError, MissingExtraError)) as caught, \
            shell_language(options, lambda: lines or {}):  # fmt: skip
        call()
    return str(caught.value)


def test_errors_of_the_library_name_the_option():
    text = in_shell(["noise_rank"], lambda: sl.Model(noise_rank=0))
    assert text.startswith("--noise-rank: ")
    assert text.endswith("pass --noise-rank 1")
    assert in_shell(["noise"], lambda: sl.Model(noise_rank=0)).startswith("noise_rank: ")
    lines = {"--drift": "fit.yaml, line 3"}
    text = in_shell(["drift"], lambda: sl.Model(drift="lots"), lines)
    assert text.startswith("fit.yaml, line 3, drift: expected one of diagonal, parametric,")
    assert text.endswith("Fix: pass --drift diagonal")


def test_near_misses_are_suggested():
    text = in_shell(["anomalies"], lambda: sl.Preparation(anomalies="monthly"))
    assert text.endswith("got 'monthly'. Fix: did you mean month?")
    text = in_shell(["initial"], lambda: sl.Model(initial="stationarity"))
    assert text.endswith("Fix: did you mean stationary?")


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("pass initial='auto'", "pass --initial auto"),
        ("pass prepare=sl.Preparation(anomalies='month')", "pass --anomalies month"),
        ("pass season=sl.Season(365.25, 4)", "pass --season 365.25 4"),
        ("pass domain=sl.Interval(a, b)", "pass --domain interval"),
        ("pass n_modes=8, or detrend=True", "pass --modes 8, or --detrend"),
        ('pass drift="dense"', "pass --drift dense"),
        ("pass profile=False", "pass --no-profile"),
        (
            "with --anomalies mean, in Python prepare=sl.Preparation(anomalies='mean'), or so",
            "with --anomalies mean, or so",
        ),
        (
            "--terms 1,u, in Python state_noise='affine', terms=('1', 'u') gains 3 nats",
            "--terms 1,u gains 3 nats",
        ),
        ("cut: --select lat=-2:2", "cut: --select lat=-2:2"),
        ("x=2 is no option", "x=2 is no option"),
    ],
)
def test_words_of_python_become_options(python, shell):
    assert in_options(python) == shell


def test_errors_of_any_kind_keep_their_kind():
    def missing():
        raise MissingExtraError("drift", "torch")

    def unreadable():
        raise FileError("a.nc", expected="a file", got="none", fix="pass level=0.9")

    assert in_shell(["drift"], missing).startswith("--drift: expected the optional extra 'torch'")
    assert in_shell(["level"], unreadable).endswith("Fix: pass --level 0.9")
