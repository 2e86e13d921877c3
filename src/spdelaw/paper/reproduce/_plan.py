"""What runs: every entry and regime of a profile, with all that decides its numbers.

A system with a network is trained on one data set, that of seed 0, from several initialisations,
as in the paper; what has none is fitted to several data sets, each with paths and split of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from spdelaw.paper.baselines import Predictor
from spdelaw.paper.reproduce._entries import ENTRIES, Entry

#: The paper's numbers of paths, modes and functions of time.
N_PATHS, N_MODES, N_TIME = 1000, 8, 16


@dataclasses.dataclass(frozen=True)
class Profile:
    """How much of the paper's protocol to run.

    Attributes:
        name: of the profile.
        reference_modes: modes of the simulated equation by regime.
        data_sets: for entries without a network.
        initialisations: of entries with one, by entry or, under "", of all others.
        epochs: in place of the published ones, by entry; others are trained in full.
        n_train: training paths by entry, where fewer than 700.
        thin: step in time and space between values that are trained on, by entry.
        rules: of training in place of the published ones, by entry.
        left_out: entries that do not run.
        keep_runs: whether checkpoints stay after a record is written.
    """

    name: str
    reference_modes: Mapping[str, int]
    data_sets: int = 3
    initialisations: Mapping[str, int] = dataclasses.field(default_factory=lambda: {"": 1})
    epochs: Mapping[str, int] = dataclasses.field(default_factory=dict)
    n_train: Mapping[str, int] = dataclasses.field(default_factory=dict)
    thin: Mapping[str, int] = dataclasses.field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    keep_runs: bool = True


QUICK = Profile(
    "quick",
    # Eight modes on the line: with more, its uniform grid mixes them, and the exact engine
    # spends minutes on modelling the others.
    reference_modes={"a": 8, "b": 50},
    epochs={
        "amortized-paper": 30, "deeponet-hidden": 1, "fno-hidden": 5,
        "nspde-hidden": 5, "dlr-net-hidden": 15, "sv-nn-independent": 200, "sv-nn-observed": 200,
        "dlr-net-observed": 12,
    },
    n_train={"dlr-net-observed": 60},
    thin={"sv-nn-independent": 4, "sv-nn-observed": 4},
    rules={"dlr-net-observed": {"batch_size": 4}},
    left_out=("amortized-literal", "deeponet-observed", "fno-observed", "nspde-observed"),
    keep_runs=False,
)  # fmt: skip
FULL = Profile(
    "full", reference_modes={"a": 50, "b": 50}, initialisations={"": 3, "amortized-literal": 1}
)
PROFILES = {profile.name: profile for profile in (QUICK, FULL)}


@dataclasses.dataclass(frozen=True)
class Run:
    """One entry on one regime.

    Attributes:
        entry: the system.
        regime: of the paper.
        number: of the initialisation where there is a network, else of the data set.
        profile: how much of the protocol.
    """

    entry: Entry
    regime: str
    number: int
    profile: Profile

    @property
    def name(self) -> str:
        """Name of its record."""
        return f"{self.regime}-{self.entry.key}-{self.number}"

    @property
    def seed(self) -> int:
        """Of the paths and of the split."""
        return 0 if self.entry.network else self.number

    @property
    def initialisation(self) -> int | None:
        """Seed of the network, None where there is none."""
        return self.number if self.entry.network else None

    @property
    def epochs(self) -> int | None:
        """Epochs at most, None where nothing is trained."""
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
        """In which ways it is less than the paper's protocol."""
        found = []
        if self.epochs is not None and self.epochs != self.entry.epochs:
            found.append(f"{self.epochs} of {self.entry.epochs} epochs")
        if self.n_train is not None:
            found.append(f"{self.n_train} of 700 training paths")
        if self.thin > 1:
            found.append(f"trained on every {self.thin}th time and point")
        found += [f"{name.replace('_', ' ')} {value}" for name, value in self.rules.items()]
        return found

    @property
    def configuration(self) -> dict[str, Any]:
        """All that decides the numbers; a record with another one is not of this run."""
        n_modes = self.profile.reference_modes[self.regime]
        data = {"n_paths": N_PATHS, "reference_modes": n_modes, "scheme": "semi_implicit"}
        own: dict[str, Any] = {"settings": dict(self.entry.settings), "noise": self.entry.noise}
        if self.entry.kind == "predictor":
            protocol = Predictor.systems[self.entry.system].protocol
            changed = protocol.changed(epochs=self.epochs, **self.rules)
            own["protocol"] = dataclasses.asdict(changed)
        return {
            "data": data, "seed": self.seed, "initialisation": self.initialisation,
            "n_modes": N_MODES, "n_time": N_TIME,
            "epochs": self.epochs, "n_train": self.n_train, "thin": self.thin, **own,
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
                fits = regime in entry.regimes and number < repeats(entry, profile)
                if fits and entry.available and entry.key not in profile.left_out:
                    runs.append(Run(entry, regime, number, profile))
    return runs


def repeats(entry: Entry, profile: Profile) -> int:
    """Initialisations of its network, or data sets."""
    counts = profile.initialisations
    return counts.get(entry.key, counts[""]) if entry.network else profile.data_sets
