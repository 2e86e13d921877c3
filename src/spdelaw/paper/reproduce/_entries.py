"""Every system of the comparison, in the order of the tables: to add one, add a line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from spdelaw.errors import InputError
from spdelaw.infer.amortized import make_config

Kind = Literal["reference", "law", "predictor", "features"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """One row of the tables.

    Attributes:
        key: name in files.
        label: name in tables.
        kind: "reference" (what no method can beat), "law" (an engine of `spdelaw.fit`),
            "predictor" (a system of `spdelaw.paper.baselines`), "features" (DLR-Net's, untrained).
        regimes: of the paper, "a", "b" or both.
        settings: keywords of the fit, or of the system.
        noise: what a predictor is told about the noise.
        epochs: at most; None where nothing is trained.
        network: whether it has weights drawn at random: it is trained from several initialisations
            on one data set, and others are fitted to several data sets.
        ends: epoch at which the published rule ended a training, for estimates of time.
        seconds: rough time on an idle core, of one epoch where there are epochs.
        published: name of its row in the paper's tables.
    """

    key: str
    label: str
    kind: Kind
    regimes: str = "ab"
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    noise: str | None = None
    epochs: int | None = None
    network: bool = False
    ends: int | None = None
    seconds: float = 1.0
    published: str | None = None

    @property
    def system(self) -> str:
        """Name of the system in `spdelaw.paper.baselines.SYSTEMS`."""
        return self.key.removesuffix(f"-{self.noise}").removesuffix("-periodic")

    @property
    def available(self) -> bool:
        """Whether this version of the package has it: engines may know fewer presets."""
        if "preset" not in self.settings:
            return True
        try:
            make_config(preset=self.settings["preset"])
        except InputError:
            return False
        return True


def _amortized(preset: str, label: str, epochs: int, **others: Any) -> Entry:
    settings = {"engine": "amortized", "preset": preset}
    return Entry(
        f"amortized-{preset}", label, "law", settings=settings, epochs=epochs, seconds=1.2, **others
    )


def _peer(
    system: str, label: str, noise: str, seconds: float, *, regimes: str = "b", **others: Any
) -> Entry:
    return Entry(
        f"{system}-{noise}", label, "predictor", regimes, noise=noise, epochs=1000, network=True,
        seconds=seconds, **others,
    )  # fmt: skip


PERIODIC = {"boundary": "periodic"}

ENTRIES: tuple[Entry, ...] = (
    Entry("limits", "limits", "reference", seconds=5.0),
    Entry("exact", "spdelaw, exact", "law", settings={"engine": "exact"}, seconds=2.0),
    Entry("chaos-modelled", "spdelaw, chaos, tail modelled", "law",
          settings={"engine": "chaos", "tail": "modelled"}, seconds=3.0),
    Entry("chaos-dropped", "spdelaw, chaos, tail dropped", "law",
          settings={"engine": "chaos", "tail": "dropped"}, seconds=10.0),
    _amortized("paper", "amortized, preset paper", 640, network=True, published="ours"),
    _amortized("literal", "amortized, preset literal", 2000, network=True),
    _amortized("structured", "amortized, preset structured", 60),
    _peer("sv-nn", "SV&NN", "independent", 2.5, regimes="a", published="sv-nn"),
    _peer("sv-nn", "SV&NN", "observed", 2.5, regimes="a"),
    _peer("deeponet", "DeepONet", "hidden", 45.0, ends=101, published="deeponet"),
    _peer("fno", "FNO", "hidden", 9.7, ends=164, published="fno"),
    _peer("nspde", "NSPDE", "hidden", 9.0, ends=164, published="nspde"),
    _peer("dlr-net", "DLR-Net", "hidden", 3.2, ends=258, published="dlr-net"),
    _peer("deeponet", "DeepONet", "observed", 45.0),
    _peer("fno", "FNO", "observed", 217.0),
    _peer("nspde", "NSPDE", "observed", 230.0),
    _peer("dlr-net", "DLR-Net", "observed", 119.0),
    Entry("dlr-features", "DLR-Net's features, untrained", "features", "b", noise="observed"),
    Entry("dlr-features-periodic", "the same, periodic ends as published", "features", "b",
          settings=PERIODIC, noise="observed"),
)  # fmt: skip
