"""The runs of the comparison: systems, profiles, and all settings that decide a run's numbers.

A system with a network is trained on one data set, that of seed 0, from several initialisations,
as in the paper; the paper's model is also trained on further data sets. A system without a network
is fitted to several data sets, each with its own paths and split. To add a system, add a line to
`ENTRIES`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from paper.baselines import Predictor
from spdelaw.amortized.structured import make_config
from spdelaw.errors import InputError

Kind = Literal["reference", "law", "predictor", "features"]
#: The paper's numbers of paths, modes and functions of time.
N_PATHS, N_MODES, N_TIME = 1000, 8, 16


@dataclasses.dataclass(frozen=True)
class Entry:
    """One row of the tables.

    Attributes:
        key: name in files.
        label: name in tables.
        kind: "reference" (limits of every method), "law" (an engine of `spdelaw.fit`),
            "predictor" (a system of `paper.baselines`), "features" (DLR-Net's, untrained).
        regimes: regimes of the paper, "a", "b" or both.
        settings: keywords of the fit, or of the system.
        noise: tier of noise that a predictor is given.
        epochs: largest number of epochs; None where nothing is trained.
        network: whether it has weights drawn at random: it is trained from several initialisations
            on one data set, and others are fitted to several data sets.
        ends: epoch at which the published rule ended a training, for estimates of time.
        seconds: rough time on an idle core, of one epoch where there are epochs.
        published: name of its row in the paper's tables.
        gappy: regimes in which it also completes test paths with gaps.
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
    gappy: str = ""

    @property
    def system(self) -> str:
        """Name of the system in `paper.baselines.SYSTEMS`."""
        return self.key.removesuffix(f"-{self.noise}").removesuffix("-periodic")

    @property
    def available(self) -> bool:
        """Whether this version of the package has it: an engine may lack the preset."""
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
    system: str, label: str, noise: str, seconds: float, *, regimes: str = "b",
    network: bool = True, **others: Any,
) -> Entry:  # fmt: skip
    epochs = Predictor.systems[system].protocol.epochs
    return Entry(
        f"{system}-{noise}", label, "predictor", regimes, noise=noise, epochs=epochs,
        network=network, seconds=seconds, **others,
    )  # fmt: skip


PERIODIC = {"boundary": "periodic"}

ENTRIES: tuple[Entry, ...] = (
    Entry("limits", "limits", "reference", seconds=5.0),
    Entry("exact", "spdelaw, exact", "law", settings={"engine": "exact"}, seconds=2.0,
          gappy="b"),
    Entry("chaos-modelled", "spdelaw, chaos, tail modelled", "law",
          settings={"engine": "chaos", "tail": "modelled"}, seconds=3.0),
    Entry("chaos-dropped", "spdelaw, chaos, tail dropped", "law",
          settings={"engine": "chaos", "tail": "dropped"}, seconds=10.0),
    _amortized("paper", "amortized, preset paper", 640, network=True, published="ours"),
    _amortized("rescaled", "amortized, preset rescaled", 640, network=True),
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
    # Systems that the paper cites and does not compare with.
    _peer("latent-ode", "Latent ODE", "hidden", 7.5, regimes="ab"),
    _peer("neural-cde", "Neural CDE", "hidden", 3.6),
    _peer("neural-cde", "Neural CDE", "observed", 14.0),
    _peer("f-spdeno", "F-SPDENO", "hidden", 3.0),
    _peer("f-spdeno", "F-SPDENO", "observed", 2.4),
    _peer("sdeno", "SDENO", "hidden", 0.8),
    _peer("sdeno", "SDENO", "observed", 0.5),
    _peer("spde-prior", "SPDE prior", "hidden", 1.0, gappy="b", network=False),
    _peer("lec", "LEC", "hidden", 0.1, regimes="ab"),
    Entry("dlr-features", "DLR-Net's features, untrained", "features", "b", noise="observed"),
    Entry("dlr-features-periodic", "the same, periodic ends as published", "features", "b",
          settings=PERIODIC, noise="observed"),
)  # fmt: skip


# ------------------------------------------------------------------ runs


@dataclasses.dataclass(frozen=True)
class Profile:
    """How much of the paper's protocol to run.

    Attributes:
        name: name of the profile.
        reference_modes: modes of the simulated equation by regime.
        data_sets: number of data sets for entries without a network.
        initialisations: number of initialisations by entry; "" stands for all other entries.
        further: number of data sets beyond the first on which one network is trained, by entry.
        epochs: epochs in place of the published ones, by entry; others are trained in full.
        n_train: training paths by entry, where fewer than 700, and at most as many for validation.
        thin: step in time and space between values that are trained on, by entry.
        rules: rules of training in place of the published ones, by entry.
        left_out: entries that do not run.
        keep_runs: whether checkpoints stay after a record is written.
    """

    name: str
    reference_modes: Mapping[str, int]
    data_sets: int = 3
    initialisations: Mapping[str, int] = dataclasses.field(default_factory=lambda: {"": 1})
    further: Mapping[str, int] = dataclasses.field(default_factory=dict)
    epochs: Mapping[str, int] = dataclasses.field(default_factory=dict)
    n_train: Mapping[str, int] = dataclasses.field(default_factory=dict)
    thin: Mapping[str, int] = dataclasses.field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    keep_runs: bool = True


QUICK = Profile(
    "quick",
    # Eight modes on the line: its uniform grid mixes more, and the exact engine then spends
    # minutes on modelling the others.
    reference_modes={"a": 8, "b": 50},
    data_sets=1,
    epochs={
        "amortized-paper": 20, "amortized-structured": 20, "sv-nn-independent": 100,
        "sv-nn-observed": 100, "deeponet-hidden": 1, "fno-hidden": 3, "nspde-hidden": 3,
        "dlr-net-hidden": 10, "dlr-net-observed": 12, "latent-ode-hidden": 3,
        "neural-cde-hidden": 8, "neural-cde-observed": 2, "f-spdeno-hidden": 8,
        "f-spdeno-observed": 8, "sdeno-hidden": 10, "sdeno-observed": 10,
        "spde-prior-hidden": 20, "lec-hidden": 200,
    },
    n_train={"deeponet-hidden": 200, "dlr-net-observed": 40},
    thin={"sv-nn-independent": 4, "sv-nn-observed": 4},
    rules={"dlr-net-observed": {"batch_size": 4}},
    left_out=(
        "amortized-literal", "amortized-rescaled",
        "deeponet-observed", "fno-observed", "nspde-observed",
    ),
    keep_runs=False,
)  # fmt: skip
FULL = Profile(
    "full",
    reference_modes={"a": 50, "b": 50},
    initialisations={"": 3, "amortized-literal": 1},
    further={"amortized-paper": 2},
)
PROFILES = {profile.name: profile for profile in (QUICK, FULL)}


@dataclasses.dataclass(frozen=True)
class Run:
    """One entry on one regime.

    Attributes:
        entry: the system.
        regime: "a" or "b".
        number: number of the initialisation where there is a network, else of the data set.
        profile: how much of the protocol runs.
        data_set: number of the data set of a network.
    """

    entry: Entry
    regime: str
    number: int
    profile: Profile
    data_set: int = 0

    @property
    def name(self) -> str:
        """Name of its record."""
        further = f"-data{self.data_set}" if self.data_set else ""
        return f"{self.regime}-{self.entry.key}-{self.number}{further}"

    @property
    def seed(self) -> int:
        """Seed of the paths and of the split."""
        return self.data_set if self.entry.network else self.number

    @property
    def initialisation(self) -> int | None:
        """Seed of the network, None where there is none."""
        return self.number if self.entry.network else None

    @property
    def epochs(self) -> int | None:
        """Largest number of epochs, None where nothing is trained."""
        return self.profile.epochs.get(self.entry.key, self.entry.epochs)

    @property
    def n_train(self) -> int | None:
        """Training paths where not all are used."""
        return self.profile.n_train.get(self.entry.key)

    @property
    def thin(self) -> int:
        """Step between values that are trained on."""
        return self.profile.thin.get(self.entry.key, 1)

    @property
    def rules(self) -> dict[str, Any]:
        """Rules of training that differ from the published ones."""
        return dict(self.profile.rules.get(self.entry.key, {}))

    @property
    def estimate(self) -> float:
        """Rough seconds on one idle core."""
        share = (self.n_train or 700) / 700 / self.thin**2
        heavy = 30.0 if (self.regime, self.profile.name) == ("a", "full") else 1.0
        if self.epochs is None:
            return self.entry.seconds * (heavy if self.entry.kind == "law" else 1.0)
        return self.entry.seconds * min(self.epochs, self.entry.ends or self.epochs) * share

    @property
    def shortened(self) -> list[str]:
        """Differences that make it less than the paper's protocol."""
        notes = []
        if self.epochs is not None and self.epochs != self.entry.epochs:
            notes.append(f"{self.epochs} of {self.entry.epochs} epochs")
        if self.n_train is not None:
            notes.append(f"{self.n_train} of 700 training paths")
        if self.thin > 1:
            notes.append(f"trained on every {self.thin}th time and point")
        notes += [f"{name.replace('_', ' ')} {value}" for name, value in self.rules.items()]
        return notes

    @property
    def configuration(self) -> dict[str, Any]:
        """All settings that decide the numbers; a record with others belongs to another run."""
        n_modes = self.profile.reference_modes[self.regime]
        data = {"n_paths": N_PATHS, "reference_modes": n_modes, "scheme": "semi_implicit"}
        system: dict[str, Any] = {"settings": dict(self.entry.settings), "noise": self.entry.noise}
        if self.entry.kind == "predictor":
            protocol = Predictor.systems[self.entry.system].protocol
            changed = protocol.changed(epochs=self.epochs, **self.rules)
            system["protocol"] = dataclasses.asdict(changed)
        return {
            "data": data, "seed": self.seed, "initialisation": self.initialisation,
            "n_modes": N_MODES, "n_time": N_TIME,
            "epochs": self.epochs, "n_train": self.n_train, "thin": self.thin, **system,
        }  # fmt: skip


def plan(regimes: str, profile: Profile) -> list[Run]:
    """Runs of a profile, the first of everything before the second of anything.

    Example:
        >>> runs = plan("b", PROFILES["quick"])
        >>> [run.name for run in runs[:2]]
        ['b-limits-0', 'b-exact-0']
    """
    runs = []
    for number in range(max(profile.data_sets, *profile.initialisations.values())):
        for regime in regimes:
            for entry in ENTRIES:
                if regime not in entry.regimes or entry.key in profile.left_out:
                    continue
                if entry.available and number < repeats(entry, profile):
                    runs.append(Run(entry, regime, number, profile))
                if entry.available and 0 < number <= profile.further.get(entry.key, 0):
                    runs.append(Run(entry, regime, 0, profile, data_set=number))
    return runs


def repeats(entry: Entry, profile: Profile) -> int:
    """Number of initialisations of its network, or of data sets."""
    counts = profile.initialisations
    return counts.get(entry.key, counts[""]) if entry.network else profile.data_sets
