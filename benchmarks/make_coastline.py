"""Turn Natural Earth's land at 1:110,000,000 into the small file that maps of the report draw.

    npm pack world-atlas@2.0.2 && tar xf world-atlas-2.0.2.tgz
    python -m benchmarks.make_coastline package/land-110m.json

reads TopoJSON, in which lines are whole steps on a grid of ``scale`` degrees from a corner
``translate``, and writes ``src/spdelaw/report/coastline.npz``: ``points`` (n, 2), longitude and
latitude in hundredths of a degree, and ``starts``, where each line begins. Natural Earth is in the
public domain.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from spdelaw.data.io.safe_files import replace_file

TARGET = Path(__file__).resolve().parents[1] / "src" / "spdelaw" / "report" / "coastline.npz"
#: Degrees of a step in the file.
STEP = 0.01


def main(arguments: list[str]) -> int:
    """Decode and write."""
    topology = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    lines = outlines(topology)
    steps = [np.round(line / STEP).astype(np.int16) for line in lines]
    starts = np.cumsum([0, *(len(line) for line in steps)])[:-1]
    with replace_file(TARGET) as new, new.open("wb") as file:
        np.savez_compressed(file, points=np.concatenate(steps), starts=starts.astype(np.int32))
    print(f"{len(steps)} lines, {sum(map(len, steps))} points, {TARGET.stat().st_size} bytes")
    return 0


def outlines(topology: dict[str, Any]) -> list[np.ndarray]:
    """Lines in degrees, without the seam that polygons have at the date line and the pole."""
    scale, corner = (np.array(topology["transform"][key]) for key in ("scale", "translate"))
    lines = []
    for arc in topology["arcs"]:
        line = np.cumsum(np.array(arc), axis=0) * scale + corner
        seam = (np.abs(np.abs(line[:, 0]) - 180.0) < 0.01) | (line[:, 1] < -89.9)
        around = np.abs(np.diff(line[:, 0])) > 180.0
        cuts = np.flatnonzero(seam[:-1] & seam[1:] | around) + 1
        lines += [part for part in np.split(line, cuts) if len(part) > 1]
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
