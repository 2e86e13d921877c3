"""Fitted systems on disk: a directory with ``predictor.json`` and ``weights.safetensors``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from spdelaw import __version__
from spdelaw.data.atomic import recover_directory, replace_directory
from spdelaw.domain import from_dict as domain_from_dict
from spdelaw.errors import FileError, SpdeLawError
from spdelaw.paper.baselines._fitted import Fitted
from spdelaw.paper.baselines._grid import Grid
from spdelaw.paper.baselines._predictor import Predictor

#: Version of the layout on disk.
SCHEMA = 1
DOCUMENT, WEIGHTS = "predictor.json", "weights.safetensors"


def write_predictor(path: Path, system: Predictor, fitted: Fitted) -> None:
    """Write a fitted system; old or new, never half."""
    if path.exists() and not (path / DOCUMENT).is_file():
        expected, got = "a free name, or a predictor to replace", "something else"
        raise FileError(str(path), expected=expected, got=got, fix="choose another name")
    document = {
        "schema": SCHEMA, "version": __version__, "system": system.name,
        "settings": system.settings(), "domain": system.domain.to_dict(), "noise": fitted.noise,
        "times": fitted.grid.times.tolist(), "points": fitted.grid.points.tolist(),
        "initial": fitted.initial.tolist(), "info": fitted.info,
    }  # fmt: skip
    with replace_directory(path, lambda _: (DOCUMENT, WEIGHTS)) as new:
        state = fitted.network.state_dict()
        save_file({k: v.contiguous() for k, v in state.items()}, new / WEIGHTS)
        (new / DOCUMENT).write_text(json.dumps(document, indent=1, sort_keys=True))


def load(path: str | Path) -> Predictor:
    """Load a system that `Predictor.save` wrote.

    Example:
        >>> import spdelaw as sl, tempfile, pathlib
        >>> from spdelaw.paper.baselines import SVNN, load
        >>> equation = sl.catalogue.heat(n_modes=2)
        >>> paths = sl.simulate(equation, 10, times=[0, 0.5, 1], grid=equation.domain.grid(5))
        >>> system = SVNN(equation.domain).fit(paths, epochs=1)
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "sv-nn"
        >>> system.save(folder)
        >>> bool((load(folder).predict(paths) == system.predict(paths)).all())
        True
    """
    path = Path(path)
    recover_directory(path)
    try:
        document = json.loads((path / DOCUMENT).read_text())
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}, this version reads {SCHEMA}")
        domain = domain_from_dict(document["domain"])
        system = Predictor.systems[document["system"]](domain, **document["settings"])
        times, points = (np.asarray(document[key]) for key in ("times", "points"))
        grid = Grid(times, points, domain)
        network = system._new_network(system._kept(grid), 0)
        network.load_state_dict(load_file(path / WEIGHTS))
    except SpdeLawError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        expected = "a directory written by Predictor.save"
        got = f"{type(error).__name__}: {error}".splitlines()[0]
        fix = "check the name; a damaged system has to be fitted again"
        raise FileError(str(path), expected=expected, got=got, fix=fix) from error
    initial = np.asarray(document["initial"])
    system._fitted = Fitted(network.eval(), grid, document["noise"], initial, document["info"])
    return system
