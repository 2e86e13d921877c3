"""What versions 0.1 and 0.2 learn and say, kept, and whether the present code still does.

``python -m benchmarks.regression`` compares with both nets and ends with 1 where something
differs; ``--net 0.1`` or ``--net 0.2`` takes one, ``--only NAME`` some cases.

The first net, ``results/regression_0_1.json`` with the laws in
``results/regression_0_1_laws.zip``, was made by ``--write --net 0.1``: run that on version 0.1
alone. It has three groups of numbers, each with its tolerance:

* At fixed parameters: each law that 0.1 saved is loaded and asked about new data for its
  log-likelihood, reconstruction, forecast, samples and innovations; cases ``score_*`` are the
  likelihoods inside with their exact scores. They agree to 1e-10 of the largest number of a kind.
* Fits: the same data are fitted again. Estimates, standard errors and intervals agree to 1e-8, or,
  where a search took another way, to 0.02 standard errors with no lower likelihood.
* Trainings: parameters and curves agree bit for bit or to 1e-6; the table says which.

The second net, ``results/regression_0_2.json``, is made by ``--write --net 0.2``. Its cases
(`benchmarks._regression_today`) use public names alone. Texts are equal, and fits agree by the
rule of fits. All other numbers follow a fit and agree to 1e-4 of the largest of their kind.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import platform
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._regression_cases import CASES, SCORES, Case, ScoreCase
from benchmarks._regression_compare import HEAD, Array, Record, Row, failed, judge, judge_flat
from benchmarks._regression_records import digest
from benchmarks._regression_today import TODAY
from benchmarks._timing import RESULTS, versions

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip

COMMAND = "python -m benchmarks.regression --write --net"
NETS = ("0.1", "0.2")
REFERENCE = RESULTS / "regression_0_1.json"
REFERENCE_TODAY = RESULTS / "regression_0_2.json"
LAWS = RESULTS / "regression_0_1_laws.zip"

#: Cases in which the log-likelihood of a fit became that of other numbers on purpose, with the
#: reason: it is not compared. That the new one is right is shown against the joint Gaussian in
#: ``tests/law/test_likelihood.py``.
_ALL = "density of all values, those outside the modes included"
_COEFFICIENTS = "density of coefficients: values without noise have none"
_ZEROS = "the bound leaves out points where every mode is zero"
NAMED_CHANGES: dict[str, str] = {
    **dict.fromkeys(("complete_further_modes", "noisy_further_modes", "empirical"), _ALL),
    **dict.fromkeys(("nuisance_none", "prepare"), _ALL),
    **dict.fromkeys(("gaps_noise_free", "noise_none", "season"), _COEFFICIENTS),
    **dict.fromkeys(("amortized_paper", "amortized_paper_exact_rk4"), _ZEROS),
}
#: Fits that are better than those of 0.1, with the reason; they are not compared.
_SUMS = "no noise inside the modes: fitted by sums, the start known and no number to estimate"
IMPROVED = {
    **dict.fromkeys(("complete_further_modes", "nuisance_none"), _SUMS),
    "complete_scattered": "errors by differences over standard errors: that of nuisance_kappa is "
    "0.282, as with steps of a tenth; 0.1 differenced over many of them and had 0.272",
    "drift_parametric": "a standard error wider than its likelihood interval is half its width",
    "prepare": "a point that never changes is scaled by 1, not by its rounding",
    **dict.fromkeys(
        ("amortized_structured", "amortized_structured_gaps"),
        "standard errors by the curvature at the maximum, not where the training ended",
    ),
    "one_path_noisy_gaps": "no nuisance modes, as the data were made; 0.1 took 13 for 4 nats",
}
#: Reason for fits with numbers whose interval is that of the profile of the likelihood, new in
#: 0.2 where a logarithm has a standard error above 0.1: their ends are not compared. That they are
#: right is shown by ``benchmarks/calibration_intervals.py``.
PROFILED = "ends of {} intervals are those of profiles"
#: Version 0.1 knew no mean, and selected other initial states: its cases state both.
STATED_SINCE = {"mean": "zero"}
#: As `NAMED_CHANGES`, for ``law.log_likelihood`` of laws that 0.1 saved without any noise: it took
#: a floor of 1e-10 of the variance for the noise.
NAMED_ON_FILE = dict.fromkeys(
    (
        "complete", "complete_uneven_times", "complete_scattered", "one_path",
        "modes_auto_noise_free", "nuisance_number_noise_free", "initial_gaussian",
        "initial_stationary", "priors", "bootstrap", "update", "update_dense", "drift_parametric",
        "drift_parametric_many_paths", "drift_normal", "drift_dense", "noise_low_rank",
        "noise_dense", "forcing", "interval_neumann", "interval_periodic", "box",
    ),
    _COEFFICIENTS,
)  # fmt: skip

#: Deliberate changes since the second net was recorded, with the reason, by case or by case and
#: beginning of a name, ``"case/name"``: what they name is not compared.
_INTERVALS = "initial variances have intervals of standard errors"
_SELECTED = "mean, initial state and noise are selected by fits around a mean"
_TWO_PARTS = "the verdict tests what lies outside the modes, and says whether a departure matters"
_CAUSES = "normality keeps its level; changes, outliers and missing terms are tested, bands are not"
_AT_BOUND = "a decay at its bound of zero is tested on training data as well"
#: Beginnings of the results of these tests.
_OF_CAUSES = (
    *(f"model_check.overall.{name}" for name in ("drift change", "noise change", "trend over")),
    *(f"model_check.overall.{name}" for name in ("season", "noise season", "outliers")),
    *(f"model_check.overall.{level} % bands" for level in (50, 80, 95)),  # see `checks.impact`
    *(f"model_check.p_values.{name}" for name in ("normality", "trend over")),
    *(f"model_check.{name}" for name in ("advice", "rejected", "verdict")),
    *("advice", "verdict"),
)
SCORED = ("check_fits", "check_training_data", "check_truth", "check_mean", "check_cubic",
          "fields_semilinear_evaluate")  # fmt: skip
_PLAIN = "the same text in plain English"
_BANDS = "std is of a value and std_field of the field, which observation_std told apart before"
#: Cases whose results had the attribute ``observation_std``, and the beginnings of their names.
_PREDICTED = (
    *("noise_per_value", "noise_coordinate", "noise_per_point_gaps", "law_parameter_draws"),
    *("law_parameter_draws_dense", "semilinear_complete", "semilinear_gaps", "semilinear_nagumo"),
    *("semilinear_fisher_kpp", "semilinear_burgers", "semilinear_kpz", "semilinear_allen_cahn_2d"),
    *("fields_semilinear", "fields_semilinear_gaps", "fields_linear", "lazy_predictions"),
    *("lazy_times", "prepared_mean", "prepared_trend", "prepared_waves", "prepared_leads"),
    *("real_map", "sphere_turning", "ring_turning_mean", "patterns_dense", "shell_linear"),
)
_RESULTS = ("law forecast", "law reconstruct", "search:law forecast", "forecast", "reconstruct")
_NEARER = "a semilinear search ends nearer to its maximum, within 0.001 standard errors of before"
_ASSUMED = "a law says in one line what it assumes, and looks for memory in its residual"
_ENTRIES = "semilinear laws have the entries of every fit, such as mean and convergence"
_RESIDUAL = "messages call the residual of the modes by its name"
_MEAN = "bands of forecasts include the error of the mean, which drawn laws no longer shift"
CHANGED_TODAY: dict[str, str] = {
    **{
        f"{case}/law decided": _RESIDUAL
        for case in (
            *("mean_constant_dense", "mean_constant_one_path", "fields_linear", "lazy_fit_times"),
            *("learner", "prepared_trend", "prepared_waves", "prepared_leads"),
            *("sphere_turning", "ring_turning_mean"),
        )
    },
    **{f"fits_of_members/{law} decided": _RESIDUAL for law in ("first", "second")},
    "patterns_dense/law warnings": _RESIDUAL,
    **{
        f"law_parameter_draws{kind}/{part}": _MEAN
        for kind in ("", "_dense")
        for part in ("forecast", "reconstruct")
    },
    **{f"ring_turning_mean/law forecast {part}": _MEAN for part in ("std", "sample")},
    **{
        f"{case}/{result} attrs.observation_std": _BANDS
        for case in _PREDICTED
        for result in (*_RESULTS, "dates", "ahead")
    },
    "shell_linear/forecast.variables": _BANDS,
    "fill_dates/search:filled std": _BANDS,
    **dict.fromkeys(
        ("shell_linear/evaluate.scorecard", "shell_linear/search:evaluate.scorecard"), _TWO_PARTS
    ),
    "fields_gray_scott/law decided": _ENTRIES,
    **dict.fromkeys(("law_texts/text", "semilinear_saved/text"), _ASSUMED),
    **{
        f"shell_linear/{command}.law.info.{entry}": _ASSUMED
        for command in ("fit", "show")
        for entry in ("assumed", "residual")
    },
    "sphere_turning/search:modes pattern": "the phase of a complex pattern is free",
    **dict.fromkeys(("shell_linear/reconstruct.variables", "shell_linear/reconstruct.std"), _BANDS),
    "semilinear_scheme/law decided": _ENTRIES,
    "semilinear_nagumo/fit:law": "standard errors of nearly collinear terms, as by central "
    "differences; those of 0.2 were a fifth too large",
    **{
        f"semilinear_{name}/{part}": _ENTRIES if part == "law decided" else _NEARER
        for name in ("nagumo", "fisher_kpp", "burgers", "kpz", "allen_cahn_2d")
        for part in ("law decided", "forecast")
    },
    **{
        f"{name}/law {part}": _ENTRIES if part == "decided" else _NEARER
        for name in ("semilinear_complete", "semilinear_gaps", "fields_semilinear")
        for part in ("decided", "log_likelihood", "forecast", "reconstruct", "sample", "predict")
    },
    **dict.fromkeys(("semilinear_evaluate", "semilinear_evaluate_ring"), _NEARER),
    **dict.fromkeys(("fields_semilinear_evaluate", "fields_semilinear_gaps"), _NEARER),
    "semilinear_saved/samples": _NEARER,
    "discover_fronts/law decided": _ENTRIES,
    **dict.fromkeys(("discover_fronts/table", "discover_linear/table"), _NEARER),
    **dict.fromkeys(("mean_auto", "mean_constant_gaps", "update_with_mean"), _INTERVALS),
    **dict.fromkeys(("mean_constant_complete", "mean_given", "profiles"), _INTERVALS),
    **dict.fromkeys(("residual_memory", "residual_auto", "law_saved", "check_coupled"), _SELECTED),
    **dict.fromkeys(("fill_domain", "fill_modes", "fill_patterns", "fill_dense"), _SELECTED),
    **dict.fromkeys(("fill_memory_smooth", "fill_everywhere", "fill_lazy_paths"), _SELECTED),
    **dict.fromkeys(("skill_modes", "skill_dates", "skill_patterns"), _SELECTED),
    **dict.fromkeys(("leave_future_out", "table_of_stations", "mesh_elsewhere"), _SELECTED),
    **dict.fromkeys(("report_linear", "shell_record", "shell_semilinear"), _SELECTED),
    **dict.fromkeys(("shell_table", "prepared_month"), _SELECTED),
    "shell_errors/show.error": "a missing law is reported as any missing file is",
    **{
        f"{name}/{prefix}{part}": _TWO_PARTS
        for name in (*SCORED, "lazy_evaluate", "semilinear_evaluate", "semilinear_evaluate_ring")
        for prefix in ("card.", "search:card.")
        for part in ("answer", "impact", "model_check.overall.outside the modes")
    },
    **{
        f"{name}/{prefix}{part}": _CAUSES
        for name in (*SCORED, "lazy_evaluate", "semilinear_evaluate", "semilinear_evaluate_ring")
        for prefix in ("card.", "search:card.")
        for part in _OF_CAUSES
    },
    "check_fits/card.model_check.overall.point noise": "errors with memory count less",
    **{
        f"{case}/{prefix}card.model_check.{part}": _AT_BOUND
        for case in ("check_mean", "check_cubic")
        for prefix in ("", "search:")
        for part in ("p_values", "overall")
    },
    # A law with terms leaves its own terms free, not all that there are.
    **{f"semilinear_evaluate/card.model_check.{x}": _CAUSES for x in ("overall", "p_values")},
    **{
        f"report_{name}/{part}": "the report says the same in plain English, and what training is"
        for name in ("linear", "semilinear", "dates")
        for part in ("texts", "titles", "rows")
    },
    "chaos_coordinates/law warnings": _PLAIN,
    **{f"{name}/sentence": _PLAIN for name in ("discover_fronts", "discover_linear")},
    "fields_gray_scott/sentence": _PLAIN,
    "fill_dates/filled attrs": _PLAIN,
    "fill_dates/filled candidate": _RESIDUAL,
    "skill_modes/skill.re": _RESIDUAL,
    **{f"shell_record/{x}.re": _RESIDUAL for x in ("skill", "fill.chosen", "fill.candidates")},
    **{f"compare_without_data/{x}": _PLAIN for x in ("comparison.sentence", "sentence", "text")},
    **{f"prepared_{name}/law warnings": _PLAIN for name in ("mean", "trend", "waves", "leads")},
    "prepared_waves/prepared by": _PLAIN,
    "learner/settings": "the model has a new option, state_noise",
    **dict.fromkeys(("real_map/law warnings", "patterns_dense/law warnings"), _PLAIN),
    **{
        f"report_{name}/figure": "the same numbers in another order, from one chart per figure"
        for name in ("linear", "semilinear", "dates")
    },
}
#: What a training reports, one number an epoch.
CURVES = ("loss", "validation_loss", "validation_relative_l2")


def main(arguments: list[str] | None = None) -> int:
    """Write a reference, or compare with both; 1 where something differs."""
    options = _options(arguments)
    first, second = (
        [name for name in names if not options.only or name in options.only]
        if options.net in (None, net)
        else []
        for net, names in zip(NETS, ((*CASES, *SCORES), tuple(TODAY)), strict=True)
    )
    print(f"spdelaw {sl.__version__} of {Path(sl.__file__).parent}")
    # Complaints about what the data cannot tell belong to some cases.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.write:
            return _write_today(second) if options.net == "0.2" else _with_laws(_write, first)
        ended = [_with_laws(_compare, first)] if first else []
        return max([*ended, *([_compare_today(second)] if second else [])], default=0)


def _with_laws(task: Callable[[list[str], Path], int], names: list[str]) -> int:
    """Do something with cases of the first net and its laws, unpacked."""
    with tempfile.TemporaryDirectory() as folder:
        if LAWS.exists():
            with zipfile.ZipFile(LAWS) as archive:
                archive.extractall(folder)
        return task(names, Path(folder))


def _write(names: list[str], laws: Path) -> int:
    """Run the cases and keep them; those not asked for stay as they are."""
    old = json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {"seconds": {}, "cases": {}}
    known, seconds = old["cases"], old["seconds"]
    for name in names:
        clock = time.perf_counter()
        known[name] = _score_record(name) if name in SCORES else _law_record(name, laws)
        seconds[name] = round(time.perf_counter() - clock, 3)
        print(f"{name:36} {seconds[name]:7.2f} s", flush=True)
    order = [name for name in (*CASES, *SCORES) if name in known]
    document = {
        "command": f"{COMMAND} 0.1",
        "versions": _versions(),
        "seconds": {name: seconds[name] for name in order},
        "cases": {name: known[name] for name in order},
    }
    _pack(laws, [name for name in order if name in CASES])
    _replace(REFERENCE, _json(document).encode())
    print(f"{len(order)} cases, {sum(document['seconds'].values()):.0f} s: {REFERENCE}, {LAWS}")
    return 0


def _compare(names: list[str], laws: Path) -> int:
    """Run the cases and print how far they are from the reference."""
    row_of = functools.partial(_row, laws=laws)
    return _compare_rows(names, json.loads(REFERENCE.read_text()), row_of)


def _compare_rows(
    names: list[str], reference: Record, row_of: Callable[[str, Record | None], Row]
) -> int:
    """Print one row a case; 1 where one of them differs."""
    if reference["versions"] != (present := _versions()):
        print(f"reference of {reference['versions']}\npresent code {present}")
    print(HEAD)
    clock, different = time.process_time(), []
    for name in names:
        row = row_of(name, reference["cases"].get(name))
        print(row, flush=True)
        different += [] if row.is_same else [name]
    seconds = time.process_time() - clock
    print(f"{len(names)} cases, {seconds:.0f} s of CPU, {len(different)} differ", *different)
    return 1 if different else 0


def _write_today(names: list[str]) -> int:
    """Run cases of the second net and keep them; those not asked for stay as they are."""
    is_new = not REFERENCE_TODAY.exists()
    known = {} if is_new else json.loads(REFERENCE_TODAY.read_text())["cases"]
    for name in names:
        clock = time.process_time()
        known[name] = TODAY[name]()
        print(f"{name:36} {time.process_time() - clock:7.2f} s of CPU", flush=True)
    cases = {name: known[name] for name in TODAY if name in known}
    document = {"command": f"{COMMAND} 0.2", "versions": _versions(), "cases": cases}
    _replace(REFERENCE_TODAY, _json(document).encode())
    print(f"{len(cases)} cases: {REFERENCE_TODAY}")
    return 0


def _compare_today(names: list[str]) -> int:
    """Run cases of the second net and print how far they are from the reference."""
    return _compare_rows(names, json.loads(REFERENCE_TODAY.read_text()), _row_today)


def _row_today(name: str, old: Record | None) -> Row:
    if old is None:
        return failed(name, old, "not in the reference")
    try:
        new = TODAY[name]()
    except Exception as error:  # a case that raises is one that differs, and the others go on
        return failed(name, old, f"{type(error).__name__}: {error}")
    return judge_flat(name, old, new, CHANGED_TODAY)


def _row(name: str, old: Record | None, laws: Path) -> Row:
    if old is None:
        return failed(name, old, "not in the reference")
    try:
        new = _score_record(name) if name in SCORES else _law_record(name, laws, old)
    except Exception as error:  # a case that raises is one that differs, and the others go on
        return failed(name, old, f"{type(error).__name__}: {error}")
    profiled = new.pop("profiled", [])
    _take_old_ends(old, new, profiled)
    row = judge(name, old, new, NAMED_CHANGES.get(name, ""), NAMED_ON_FILE.get(name, ""))
    if row.is_same and profiled:
        row = row._replace(verdict=f"{row.verdict}; {PROFILED.format(len(profiled))}")
    if (
        row.verdict.startswith(("DIFFERS: fit", "DIFFERS: decided", "DIFFERS: training"))
        and name in IMPROVED
    ):
        return row._replace(verdict=f"OK: {IMPROVED[name]}")
    return row


def _take_old_ends(old: Record, new: Record, profiled: list[str]) -> None:
    """Put the ends of 0.1 in place of those that come from profiles.

    Likewise those of initial variances, which are roots of a law now and may be zero.
    """
    for label in (*profiled, *(f"initial_variance[{n}]" for n in range(1, _n_initial(new) + 1))):
        name, _, index = label.partition("[")
        place, before = new["parameters"].get(name), old["parameters"].get(name)
        if place is None or np.shape(place) != np.shape(before):
            continue
        if index:
            place, before = place[int(index[:-1]) - 1], before[int(index[:-1]) - 1]
        place[2:] = before[2:]


def _n_initial(new: Record) -> int:
    return len(new.get("parameters", {}).get("initial_variance", []))


# -- what is kept of a case ----------------------------------------------------------------


def _law_record(name: str, laws: Path, old: Record | None = None) -> Record:
    """All that is kept of a fit; results at fixed parameters come from the law on file.

    Without an ``old`` record to compare with the law is saved.
    """
    case = CASES[name]()
    if old is not None:
        case = dataclasses.replace(case, words=_stated(case, old) | case.words)
    law = case.learn()
    if old is None:
        law.save(laws / name, overwrite=True)
    record = {
        "sha256": case.data.sha256,
        "route": law.info["route"],
        "decisions": _decisions(law),
        "log_likelihood": float(law.info["log_likelihood"]),
        "parameters": _parameters(law),
        "profiled": law.info.get("profiled", []) if "bootstrap" not in law.info else [],
        "fixed": _digests(_collect_warnings(sl.load(laws / name), case)),
    }
    return record | ({"training": _training(law)} if case.is_training else {})


def _stated(case: Case, old: Record) -> dict[str, Any]:
    """What version 0.1 selected and the present one selects otherwise."""
    engine, initial = case.words.get("engine", "exact"), old["decisions"]["initial_state"]
    if engine not in ("exact", "chaos"):
        return {"initial": initial} if case.words.get("preset") == "structured" else {}
    return STATED_SINCE | {"initial": initial}


def _score_record(name: str) -> Record:
    case = SCORES[name]()
    return {"sha256": case.data.sha256, "fixed": _digests(_score(case))}


def _decisions(law: sl.Law) -> Record:
    """What a fit decided by itself, which has to be the same."""
    kept = ("n_nuisance", "n_parameters", "initial_state")
    return {"n_modes": law.n_modes, **{key: law.info[key] for key in kept}}


def _parameters(law: sl.Law) -> Record:
    """Estimates, standard errors and intervals by name, (..., 4)."""
    rest = float(law.unresolved_variance)
    tables = {str(name): table.values.tolist() for name, table in law.parameters.data_vars.items()}
    # It has no standard error; its own size stands in for one.
    return tables | {"unresolved_variance": [rest] * 4}


def _training(law: sl.Law) -> dict[str, list[float]]:
    curve = law.info["training"]["curve"]
    return {"elbo": [float(law.info["elbo"])], **{key: curve[key] for key in CURVES}}


def _collect_warnings(law: sl.Law, case: Case) -> dict[str, Array]:
    """What a law says of new data, and of itself."""
    new = case.data.new
    smooth = law.reconstruct(new)
    ahead = law.forecast(new, np.asarray(case.forecast), n_samples=2, seed=5, grid=case.grid)
    return {
        "log_likelihood": law.log_likelihood(new).values,
        "reconstruct_mean": smooth["mean"].values,
        "reconstruct_std": smooth["std_field"].values,
        "forecast_mean": ahead["mean"].values,
        "forecast_std": ahead["std_field"].values,
        "forecast_sample": ahead["sample"].values,
        "sample": law.sample(2, seed=7).values,
        "sample_noisy": law.sample(2, seed=7, observation_noise=True).values,
        "innovations": sl.evaluate(law, new, tiers=()).check.innovations,
        "stationary_covariance": law.stationary_covariance().values,
        "decay_rate": law.eigenmodes()["decay_rate"].values,
    }


def _digests(arrays: dict[str, Any]) -> dict[str, list[float]]:
    return {name: digest(values) for name, values in arrays.items()}


# -- files and machine ---------------------------------------------------------------------


def _pack(folder: Path, names: list[str]) -> None:
    """All laws in one archive."""
    work = LAWS.with_name(f".{LAWS.name}.{os.getpid()}")
    with zipfile.ZipFile(work, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in names:
            for file in sorted((folder / name).iterdir()):
                archive.write(file, f"{name}/{file.name}")
    work.replace(LAWS)


def _replace(path: Path, content: bytes) -> None:
    work = path.with_name(f".{path.name}.{os.getpid()}")
    work.write_bytes(content)
    work.replace(path)


def _json(document: Record) -> str:
    """JSON with one line for each entry of a case; Python writes all digits of a number."""
    head = json.dumps({k: v for k, v in document.items() if k != "cases"}, indent=2)
    cases = []
    for name, case in document["cases"].items():
        lines = [f"      {json.dumps(key)}: {json.dumps(value)}" for key, value in case.items()]
        cases.append(f"    {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n    }")
    return head[:-2] + ',\n  "cases": {\n' + ",\n".join(cases) + "\n  }\n}\n"


def _versions() -> dict[str, str]:
    packages = ("numpy", "scipy", "xarray", "torch", "numba")
    return {"spdelaw": sl.__version__, **versions(*packages), "machine": platform.machine()}


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--write", action="store_true", help="make the reference of a --net")
    parser.add_argument("--net", choices=NETS, help="cases of this version alone")
    parser.add_argument("--only", nargs="+", choices=[*CASES, *SCORES, *TODAY], metavar="NAME")
    options = parser.parse_args(arguments)
    if options.write and options.net is None:
        parser.error("--write needs --net 0.1 or --net 0.2")
    return options


# -- the inside of the package -------------------------------------------------------------


def _score(case: ScoreCase) -> dict[str, Any]:
    """Log-likelihood and exact score at given parameters.

    No public function gives them: this one, and no other here, knows names from the inside.
    """
    from spdelaw.chaos.posterior import ChaosModel, chaos_latents, evaluate_chaos
    from spdelaw.processes.linear import Linear
    from spdelaw.processes.specification import InitialState
    from spdelaw.statespace.chain import StateSpace
    from spdelaw.statespace.collapse import Collapsed, collapse, decoupled_block, rotate
    from spdelaw.statespace.likelihood import evaluate_likelihood
    from spdelaw.statespace.statistics import collect, evaluate_statistics

    data, n = case.data, case.n_modes
    phi = data.domain.eigenfunctions(data.points, n)
    (drift, noise), r = case.spectra, np.asarray(0.012)
    mean, spread = 0.9 / np.arange(1, n + 1), np.full(n, 0.2 * (case.initial == "gaussian"))
    forcing = case.forcing if case.is_forced else None
    dynamics = Linear(drift, noise, case.season, forcing, float(np.min(data.times)))
    spread = np.diag(spread) if case.is_coupled else spread
    space = StateSpace(dynamics, InitialState(case.initial, mean, spread), r)
    if case.way == "statistics":
        back = np.linalg.pinv(phi)
        s = collect([data.values], data.times, back, phi, pairs=case.is_coupled)
        found = _by_name(evaluate_statistics(s, space), case)
        # Of a state that is known, sums over complete paths say nothing.
        void = {"initial_information"} if case.initial == "deterministic" else set()
        return {key: value for key, value in found.items() if key not in void}
    weights = 0.5 + 0.1 * np.arange(len(phi)) if case.has_weights else None
    seen = collapse(data.values, data.times, phi, weights)
    if case.way in ("chaos", "latents"):
        chaos = ChaosModel(6, float(np.max(data.times)), case.tail)
        if case.way == "latents":
            return chaos_latents(seen, space, chaos)[0]._asdict()
        if case.tail == "dropped":
            return _by_name(evaluate_chaos(seen, space, chaos), case)
        # With its tail the decoder is the untruncated law, whose likelihood is the one below.
    if case.way == "rotated":
        seen = rotate(seen)
    if case.way == "decoupled":
        paths = np.arange(len(data.values))
        block = decoupled_block(data.values, data.times, phi, None, None, paths)
        seen = Collapsed((block,), len(paths), n, True)
    return _by_name(evaluate_likelihood(seen, space, use_misfit=case.use_misfit), case)


#: Gradients of version 0.1, by its names: of modes apart, and of coupled ones.
APART = {"by_drift": "by_eigenvalue", "by_noise": "by_noise_variance",
         "by_initial_covariance": "by_initial_variance"}  # fmt: skip
COUPLED = {"by_noise": "by_noise_covariance"}


def _by_name(found: Any, case: ScoreCase) -> dict[str, Any]:
    """An evaluation under the names that the reference has."""
    names = COUPLED if case.is_coupled else APART
    fields = {key: value for key, value in found._asdict().items() if key != "by_mean"}
    named = {names.get(key, key): value for key, value in fields.items()}
    if case.is_coupled:  # seasons of coupled modes are new
        del named["by_season"]
    return named


if __name__ == "__main__":
    sys.exit(main())
