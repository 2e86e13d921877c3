"""What to cite, by what ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PAPER = (
    "S. Zeng, A. Petersson, W. Bock: Latent-Variable Learning of SPDEs via Wiener Chaos. "
    "Preprint, 2026."
)
SOFTWARE = "spdelaw {version}: learning the law of stochastic PDEs from observed fields."


def citation(info: Mapping[str, Any]) -> str:
    """Software and, where its method was used, the paper."""
    lines = [SOFTWARE.format(version=info.get("version", ""))]
    if info.get("engine") in ("chaos", "amortized"):
        lines.append(PAPER)
    else:
        lines.append(f"The problem and the spectral setting follow {PAPER}")
    return "\n".join(lines)
