"""An equation in plain types, for files, and in words, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spdelaw.domain import from_dict as domain_from_dict
from spdelaw.domain import table_html
from spdelaw.equation._forcing import Forcing
from spdelaw.equation._given import InitialState, is_matrix
from spdelaw.equation._season import Season
from spdelaw.equation._spectra import AbstractSpectrum, spectrum_from_dict

if TYPE_CHECKING:
    from spdelaw.equation._spde import SpectralSPDE

Array = np.ndarray
#: Modes that a notebook shows.
MOST_MODES = 6


def describe(e: SpectralSPDE) -> dict[str, Any]:
    """JSON types that `arguments` turns back."""
    state = e.initial_state
    out = {
        "domain": e.domain.to_dict(),
        "n_modes": int(e.n_modes),
        "drift": _plain(e.drift),
        "noise": _plain(e.noise),
        "initial": {
            "kind": state.kind,
            "mean": state.mean.tolist(),
            "variance": state.covariance.tolist(),
        },
        "times": e.times.tolist(),
        "n_points": int(e.n_points),
        "initial_time": float(e.initial_time),
        "label": e.label,
    }
    for name, part in (("forcing", e.forcing), ("season", e.season)):
        if part is not None:
            out[name] = part.to_dict()
    if e.centre is not None:
        out["centre"] = e.centre.tolist()
    return out


def arguments(description: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `SpectralSPDE` from the result of `describe`."""
    d = dict(description)
    state = d.pop("initial")
    d["initial"] = InitialState(state["kind"], state["mean"], state["variance"]).given
    d["domain"] = domain_from_dict(d["domain"])
    for name in ("drift", "noise"):
        d[name] = d[name]["values"] if "values" in d[name] else spectrum_from_dict(d[name])
    for name, kind in (("forcing", Forcing), ("season", Season)):
        if name in d:
            d[name] = kind(**d[name])
    return d


def in_words(e: SpectralSPDE) -> str:
    """One line per part."""
    name = f" ({e.label})" if e.label else ""
    lines = [
        f"SpectralSPDE{name}: dX = A X dt + dW, {e.n_modes} modes on {e.domain}",
        f"  lambda  {_shorten(e.eigenvalues)}  {_formula(e.drift)}",
        f"  q       {_shorten(e.noise_variance)}  {_formula(e.noise)}",
        *(["  modes coupled; see drift_matrix and noise_covariance"] * e.is_coupled),
        f"  X(0)    {e.initial_kind}, mean {_shorten(e.initial_mean)}",
        *([] if e.centre is None else [f"  centre  {_shorten(e.centre)}"]),
        *(["  forced; see forcing"] * (e.forcing is not None)),
        *(["  noise with seasons; see season"] * (e.season is not None)),
    ]
    return "\n".join(lines)


def in_html(e: SpectralSPDE, text: str) -> str:
    """The same lines, and the first modes as a table."""
    title, *lines = text.splitlines()
    shown = {"lambda": e.eigenvalues, "q": e.noise_variance, "mean of X(0)": e.initial_mean}
    rows = [[name, *(f"{x:.4g}" for x in v[:MOST_MODES])] for name, v in shown.items()]
    modes = [str(i + 1) for i in range(len(rows[0]) - 1)]
    facts = [" ".join(line.split()) for line in lines]
    return table_html(title, facts, ["mode", *modes], rows, [])


def _plain(given: Any) -> dict[str, Any]:
    if isinstance(given, AbstractSpectrum):
        return given.to_dict()
    return {"values": np.asarray(given, dtype=float).tolist()}


def _formula(given: Any) -> str:
    if is_matrix(given):
        return "of a matrix"
    return repr(given) if isinstance(given, AbstractSpectrum) else ""


def _shorten(v: Array) -> str:
    head = ", ".join(f"{x:.4g}" for x in v[:4])
    return f"[{head}{', ...' if len(v) > 4 else ''}]"
