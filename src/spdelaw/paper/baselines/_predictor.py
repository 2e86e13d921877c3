"""The one interface of all systems: fit, predict, sample, count, save."""

from __future__ import annotations

import abc
import dataclasses
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from spdelaw.checks import whole
from spdelaw.data import fingerprint
from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError, DomainError, InputError
from spdelaw.paper.baselines._cases import Cases
from spdelaw.paper.baselines._complex import count_parameters
from spdelaw.paper.baselines._fields import fields_of, grid_of, labelled, matches, split_off
from spdelaw.paper.baselines._fitted import Fitted, Network, describe_training
from spdelaw.paper.baselines._grid import Grid
from spdelaw.paper.baselines._noise import check_tier, independent_increments, noise_variable
from spdelaw.paper.baselines._protocol import Protocol
from spdelaw.paper.baselines._training import train
from spdelaw.train import reporter, stream

Array = np.ndarray
#: Names of the random streams of a system.
WEIGHTS, DRIVE, VALIDATION_DRIVE, PREDICTION_DRIVE, SAMPLE_DRIVE = range(10, 15)
#: Paths in one forward pass of a prediction.
AT_ONCE = 20


@dataclasses.dataclass(eq=False)
class Predictor(abc.ABC):
    """A published system that predicts fields from initial state and noise.

    A subclass is a dataclass of its architecture with the published numbers as defaults, and says
    how to build its network on a grid. Data are fields (path, time, x), or for
    ``noise="observed"`` the Dataset of ``simulate(..., return_noise=True)``.
    """

    domain: AbstractDomain
    #: Name in files and in the shell; name in tables; published rules of training.
    name: ClassVar[str]
    label: ClassVar[str]
    protocol: ClassVar[Protocol]
    #: Whether the initial state is an input; whether a Dirichlet end is a point like any other;
    #: whether a network can be moved to another grid.
    uses_initial: ClassVar[bool] = False
    uses_every_point: ClassVar[bool] = False
    mesh_free: ClassVar[bool] = False
    systems: ClassVar[dict[str, type[Predictor]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Enter the system under its name."""
        super().__init_subclass__(**keywords)
        Predictor.systems[cls.name] = cls

    def __post_init__(self) -> None:
        """Check the domain and the sizes."""
        if not isinstance(self.domain, AbstractDomain):
            raise DomainError(
                "domain",
                expected="a domain such as sl.Interval(0, np.pi)",
                got=type(self.domain).__name__,
                fix="pass equation.domain",
            )
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, int):
                whole(field.name, value, 0 if field.name == "padding" else 1)
        self._fitted: Fitted | None = None

    # -- what a system defines ----------------------------------------------------------

    @abc.abstractmethod
    def network(self, grid: Grid) -> Network:
        """Network with fresh weights on a grid."""

    def hidden_drive(self, grid: Grid) -> Array:
        """Constant input of the tier "hidden", one row."""
        return np.zeros((1, *grid.shape))

    def independent_drive(self, n_paths: int, grid: Grid, seed: int) -> Array:
        """Input of the tier "independent"."""
        return independent_increments(n_paths, grid.times, grid.shape[1], seed)

    def observed_drive(self, data: Any, grid: Grid) -> Array:
        """Input of the tier "observed"."""
        return noise_variable(data, "noise_field")[..., : grid.shape[1]]

    # -- learning -------------------------------------------------------------------------

    def fit(
        self, data: Any, *, noise: str = "hidden", validation: Any = None, seed: int = 0,
        progress: Any = None, checkpoint: str | Path | None = None, **rules: Any,
    ) -> Self:  # fmt: skip
        """Train on paths.

        Args:
            data: complete fields, with their noise for ``noise="observed"``.
            noise: what the system is told: "hidden", "independent" or "observed".
            validation: paths that choose the best epoch; by default 15 % of the data.
            seed: of weights, order of the paths and independent noise.
            progress: True, or a function of `spdelaw.infer.amortized.Progress`.
            checkpoint: folder to save the run in, and to go on from where it holds one.
            rules: of `Protocol`, in place of the published ones, such as ``epochs=50``.

        Returns:
            The system itself.
        """
        noise, rules_of_run = check_tier(noise), self.protocol.changed(**rules)
        report = reporter(progress)
        if validation is None:
            data, validation = split_off(data, stream(seed, VALIDATION_DRIVE))
        grid = grid_of(fields_of(data, self.domain), self.domain)
        if not matches(grid, held := grid_of(fields_of(validation, self.domain), self.domain)):
            raise _other_grid("validation", grid, held)
        seeds = stream(seed, DRIVE), stream(seed, VALIDATION_DRIVE)
        cases = self._cases(data, noise, grid, seeds[0])
        held_out = self._cases(validation, noise, grid, seeds[1])
        network = self._new_network(self._kept(grid), seed)
        network.prepare(cases)
        training = train(
            network, cases, held_out, rules_of_run, seed, report=report,
            identity=self._identity(data, validation, noise, rules_of_run, seed),
            checkpoint=None if checkpoint is None else Path(checkpoint),
        )  # fmt: skip
        initial = fields_of(data, self.domain).isel(time=0).mean("path").values
        info = describe_training(training, rules_of_run, seed, len(cases), len(held_out))
        self._fitted = Fitted(network.eval(), grid, noise, initial, info)
        return self

    # -- using ----------------------------------------------------------------------------

    def predict(self, data: Any, *, seed: int = 0) -> xr.DataArray:
        """Fields (path, time, x) predicted for the initial states, and noise, of the data.

        The first time is the initial state itself. For ``noise="independent"`` the seed draws it.
        """
        fitted = self._require_fit()
        fields = fields_of(data, self.domain)
        grid = grid_of(fields, self.domain)
        network = self._network_on(grid)
        cases = self._cases(data, fitted.noise, grid, stream(seed, PREDICTION_DRIVE))
        predicted = np.array(fields.values)
        predicted[:, 1:] = self._outputs(network, cases, grid)
        return fields.copy(data=predicted).rename("predicted")

    def sample(self, n_paths: int, *, seed: int = 0) -> xr.DataArray:
        """Fields of new noise: the system's distribution, where it has one.

        Only a system that was fitted with ``noise="independent"`` knows the law of its noise.
        """
        fitted = self._require_fit()
        if fitted.noise != "independent":
            raise InputError(
                "sample",
                expected="a system fitted with noise='independent'",
                got=f"noise={fitted.noise!r}",
                fix="a hidden input has no distribution"
                if fitted.noise == "hidden"
                else "simulate noise with its true law and pass it to predict",
            )
        whole("n_paths", n_paths, 1)
        grid, kept = fitted.grid, self._kept(fitted.grid)
        start = np.broadcast_to(fitted.initial, (n_paths, grid.shape[1]))
        drive = self.independent_drive(n_paths, kept, stream(seed, SAMPLE_DRIVE))
        nothing = torch.empty(n_paths, 0)
        cases = Cases(_tensor(start[:, : kept.shape[1]]), _tensor(drive), nothing)
        later = self._outputs(fitted.network, cases, grid)
        return labelled(np.concatenate([start[:, None], later], axis=1), grid).rename("sample")

    # -- counting and files -----------------------------------------------------------------

    @property
    def n_parameters(self) -> int:
        """Weights; a complex one counts once, as in the paper."""
        return count_parameters(self._require_fit().network)

    @property
    def n_real_parameters(self) -> int:
        """Real numbers in the weights; a complex one counts twice."""
        return count_parameters(self._require_fit().network, complex_as=2)

    @property
    def info(self) -> dict[str, Any]:
        """How it was trained."""
        return {"system": self.name, "noise": self._require_fit().noise, **self._fitted.info}  # type: ignore[union-attr]

    def save(self, path: str | Path) -> None:
        """Write to a directory; the old one stays until the new one is complete."""
        from spdelaw.paper.baselines._store import write_predictor

        write_predictor(Path(path), self, self._require_fit())

    def settings(self) -> dict[str, Any]:
        """Architecture by name."""
        own = (f.name for f in dataclasses.fields(self) if f.name != "domain")
        return {name: getattr(self, name) for name in own}

    # -- helpers --------------------------------------------------------------------------

    def _require_fit(self) -> Fitted:
        if self._fitted is None:
            got, fix = "one without weights", "call fit(data) first"
            raise InputError(type(self).__name__, expected="a fitted system", got=got, fix=fix)
        return self._fitted

    def _kept(self, grid: Grid) -> Grid:
        return grid if self.uses_every_point else grid.without_known_end()

    def _new_network(self, kept: Grid, seed: int) -> Network:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream(seed, WEIGHTS))
            return self.network(kept)

    def _network_on(self, grid: Grid) -> Network:
        fitted = self._require_fit()
        if matches(fitted.grid, grid):
            return fitted.network
        if not self.mesh_free:
            raise _other_grid("data", fitted.grid, grid)
        moved = self._new_network(self._kept(grid), 0)
        moved.load_state_dict(fitted.network.state_dict())
        return moved.eval()

    def _cases(self, data: Any, noise: str, grid: Grid, seed: int) -> Cases:
        values, kept = fields_of(data, self.domain).values, self._kept(grid)
        initial, target = values[:, 0, : kept.shape[1]], values[:, 1:, : kept.shape[1]]
        if noise == "hidden":
            drive = self.hidden_drive(kept)
            if not self.uses_initial or (initial == initial[:1]).all():
                return Cases(_tensor(initial[:1]), _tensor(drive), _tensor(target))
            drive = np.broadcast_to(drive, (len(initial), *drive.shape[1:]))
        elif noise == "independent":
            drive = self.independent_drive(len(initial), kept, seed)
        else:
            drive = self.observed_drive(data, kept)
        return Cases(_tensor(initial), _tensor(drive), _tensor(target))

    @torch.no_grad()
    def _outputs(self, network: Network, cases: Cases, grid: Grid) -> Array:
        if cases.shared:
            found = network(cases.initial, cases.drive).expand(len(cases), -1, -1)
        else:
            parts = cases.batches(AT_ONCE)
            found = torch.cat([network(part.initial, part.drive) for part in parts])
        at_end = grid.shape[1] - found.shape[-1]  # a Dirichlet end, where the field is 0
        return nn.functional.pad(found, (0, at_end)).double().numpy()

    def _identity(
        self, data: Any, validation: Any, noise: str, rules: Protocol, seed: int
    ) -> dict[str, Any]:
        return {
            "system": self.name, "settings": self.settings(), "domain": self.domain.to_dict(),
            "noise": noise, "config": dataclasses.asdict(rules), "seed": seed,
            "data": fingerprint(fields_of(data, self.domain)),
            "validation": fingerprint(fields_of(validation, self.domain)),
        }  # fmt: skip


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float32))


def _other_grid(what: str, expected: Grid, got: Grid) -> DataError:
    return DataError(
        what,
        expected="the {} times and {} points of the training data".format(*expected.shape),
        got="{} times and {} points, or others".format(*got.shape),
        fix="use one grid, or a system that needs none: SVNN",
    )
