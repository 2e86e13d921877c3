"""The interface of all systems: fit, predict, sample, count parameters, save, load."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import xarray as xr
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import spdelaw as sl
from paper.baselines.fourier import count_parameters
from paper.baselines.inputs import (
    TIERS,
    Cases,
    Grid,
    check_tier,
    fields_of,
    grid_of,
    independent_increments,
    labelled,
    noise_variable,
    split_off,
)
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network, train
from spdelaw.amortized.training import reporter, stream
from spdelaw.checks import whole
from spdelaw.data.io.safe_files import recover_directory, replace_directory
from spdelaw.data.summary import fingerprint
from spdelaw.domains import from_dict as domain_from_dict
from spdelaw.errors import DataError, DomainError, FileError, InputError, SpdeLawError

Array = np.ndarray
#: Names of the random streams of a system.
WEIGHTS, DRIVE, VALIDATION_DRIVE, PREDICTION_DRIVE, SAMPLE_DRIVE = range(10, 15)
#: Paths in one forward pass of a prediction.
AT_ONCE = 20
#: Version of the layout on disk, and the two files of a saved system.
SCHEMA = 1
DOCUMENT_FILE, WEIGHTS_FILE = "predictor.json", "weights.safetensors"


class Fitted(NamedTuple):
    """A trained system.

    Attributes:
        network: network with its best weights.
        grid: grid of the training data, all points.
        noise: tier.
        initial: mean initial state, (M,).
        info: seed, protocol, training curve, timings.
    """

    network: Network
    grid: Grid
    noise: str
    initial: Array
    info: dict[str, Any]


@dataclasses.dataclass(eq=False)
class Predictor:
    """A published system that predicts fields from initial state and noise.

    A subclass is a dataclass of its architecture with the published numbers as defaults, and
    names the class of its network. Data are fields (path, time, x), or for ``noise="observed"`` the
    Dataset of ``simulate(..., return_noise=True)``.
    """

    domain: sl.AbstractDomain
    #: Name in files and in the shell; name in tables; published rules of training.
    name: ClassVar[str]
    label: ClassVar[str]
    protocol: ClassVar[Protocol]
    #: Its network, and whether that needs equidistant times and points.
    network_class: ClassVar[type[Network]]
    needs_regular_grid: ClassVar[bool] = False
    #: Tiers of noise that it can be given, and those in which it has a distribution to sample.
    tiers: ClassVar[tuple[str, ...]] = TIERS
    sampled: ClassVar[tuple[str, ...]] = ("independent",)
    #: Whether `predict` with hidden noise is its mean; otherwise its mean is that of draws.
    predicts_mean: ClassVar[bool] = True
    #: Whether it is given the whole path and reconstructs it; the path is its ``drive``.
    sees_path: ClassVar[bool] = False
    #: Whether the initial state is an input; whether the network uses a Dirichlet end as a grid
    #: point; whether a network can be moved to another grid.
    uses_initial: ClassVar[bool] = False
    uses_every_point: ClassVar[bool] = False
    mesh_free: ClassVar[bool] = False
    systems: ClassVar[dict[str, type[Predictor]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Register the system under its name."""
        super().__init_subclass__(**keywords)
        Predictor.systems[cls.name] = cls

    def __post_init__(self) -> None:
        """Check the domain and the sizes."""
        if not isinstance(self.domain, sl.AbstractDomain):
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

    # -- defined by each system -----------------------------------------------------------

    def network(self, grid: Grid) -> Network:
        """Network with fresh weights on a grid."""
        if self.needs_regular_grid:
            grid.require_regular(self.label)
        return self.network_class(self, grid)

    def hidden_drive(self, grid: Grid) -> Array:
        """Constant input of the tier "hidden", one row."""
        return np.zeros((1, *grid.shape))

    def independent_drive(self, n_paths: int, grid: Grid, seed: int) -> Array:
        """Input of the tier "independent"."""
        return independent_increments(n_paths, grid.times, grid.shape[1], seed)

    def observed_drive(self, data: Any, grid: Grid) -> Array:
        """Input of the tier "observed"."""
        return noise_variable(data, "noise_field")[..., : grid.shape[1]]

    def sample_drive(self, n_paths: int, grid: Grid, seed: int) -> Array:
        """Input of a draw."""
        return self.independent_drive(n_paths, grid, seed)

    # -- learning -------------------------------------------------------------------------

    def fit(
        self, data: Any, *, noise: str = "hidden", validation: Any = None, seed: int = 0,
        progress: Any = None, checkpoint: str | Path | None = None, **rules: Any,
    ) -> Self:  # fmt: skip
        """Train on paths.

        Args:
            data: complete fields, with their noise for ``noise="observed"``.
            noise: noise that the system is given: "hidden", "independent" or "observed".
            validation: paths that choose the best epoch; by default 15 % of the data.
            seed: seed of weights, order of the paths and independent noise.
            progress: True, or a function of `spdelaw.amortized.Progress`.
            checkpoint: folder to save the run in; a run that it holds is resumed.
            rules: rules of `Protocol` in place of the published ones, such as ``epochs=50``.

        Returns:
            The system itself.
        """
        noise, protocol = check_tier(noise, self.tiers), self.protocol.changed(**rules)
        report = reporter(progress)
        if validation is None:
            data, validation = split_off(data, stream(seed, VALIDATION_DRIVE))
        grid = grid_of(fields_of(data, self.domain), self.domain)
        held = grid_of(fields_of(validation, self.domain), self.domain)
        if not grid.matches(held):
            raise _other_grid("validation", grid, held)
        seeds = stream(seed, DRIVE), stream(seed, VALIDATION_DRIVE)
        cases = self._cases(data, noise, grid, seeds[0])
        held_out = self._cases(validation, noise, grid, seeds[1])
        network = self._new_network(self._kept(grid), seed)
        network.prepare(cases)
        training = train(
            network, cases, held_out, protocol, seed, report=report,
            identity=self._identity(data, validation, noise, protocol, seed),
            checkpoint=None if checkpoint is None else Path(checkpoint),
        )  # fmt: skip
        initial = fields_of(data, self.domain).isel(time=0).mean("path").values
        info = training.describe(protocol, seed, len(cases), len(held_out))
        self._fitted = Fitted(network.eval(), grid, noise, initial, info)
        return self

    # -- using ----------------------------------------------------------------------------

    def predict(self, data: Any, *, seed: int = 0) -> xr.DataArray:
        """Fields (path, time, x) predicted for the initial states, and noise, of the data.

        The first time is the initial state itself. The seed draws the noise of the tier
        "independent".
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
        """Fields of new noise: draws from the system's distribution, where it has one.

        It has one in the tiers of ``sampled``, by default ``noise="independent"`` alone.
        """
        fitted = self._require_fit()
        if fitted.noise not in self.sampled:
            tiers = " or ".join(f"noise={tier!r}" for tier in self.sampled) or "a distribution"
            raise InputError(
                "sample",
                expected=f"a system fitted with {tiers}",
                got=f"noise={fitted.noise!r}",
                fix="a hidden input has no distribution"
                if fitted.noise == "hidden"
                else "simulate noise with its true law and pass it to predict",
            )
        whole("n_paths", n_paths, 1)
        grid, kept = fitted.grid, self._kept(fitted.grid)
        start = np.broadcast_to(fitted.initial, (n_paths, grid.shape[1]))
        drive = self.sample_drive(n_paths, kept, stream(seed, SAMPLE_DRIVE))
        nothing = torch.empty(n_paths, 0)
        cases = Cases(_tensor(start[:, : kept.shape[1]]), _tensor(drive), nothing)
        later = self._outputs(fitted.network.generate, cases, grid)
        return labelled(np.concatenate([start[:, None], later], axis=1), grid).rename("sample")

    # -- counting and files ---------------------------------------------------------------

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
        """Seed, protocol, training curve and timings of the fit."""
        fitted = self._require_fit()
        return {"system": self.name, "noise": fitted.noise, **fitted.info}

    def save(self, path: str | Path) -> None:
        """Write to a directory; the old one stays until the new one is complete."""
        path, fitted = Path(path), self._require_fit()
        if path.exists() and not (path / DOCUMENT_FILE).is_file():
            expected, got = "a free name, or a predictor to replace", "something else"
            raise FileError(str(path), expected=expected, got=got, fix="choose another name")
        document = {
            "schema": SCHEMA, "version": sl.__version__, "system": self.name,
            "settings": self.settings(), "domain": self.domain.to_dict(), "noise": fitted.noise,
            "times": fitted.grid.times.tolist(), "points": fitted.grid.points.tolist(),
            "initial": fitted.initial.tolist(), "info": fitted.info,
        }  # fmt: skip
        with replace_directory(path, lambda _: (DOCUMENT_FILE, WEIGHTS_FILE)) as new:
            state = fitted.network.state_dict()
            save_file({k: v.contiguous() for k, v in state.items()}, new / WEIGHTS_FILE)
            (new / DOCUMENT_FILE).write_text(json.dumps(document, indent=1, sort_keys=True))

    def settings(self) -> dict[str, Any]:
        """Architecture by name."""
        names = (f.name for f in dataclasses.fields(self) if f.name != "domain")
        return {name: getattr(self, name) for name in names}

    # -- helpers --------------------------------------------------------------------------

    def _require_fit(self) -> Fitted:
        if self._fitted is None:
            got, fix = "one without weights", "call fit(data) first"
            raise InputError(type(self).__name__, expected="a fitted system", got=got, fix=fix)
        return self._fitted

    def _kept(self, grid: Grid) -> Grid:
        return grid if self.uses_every_point else grid.without_dirichlet_end()

    def _new_network(self, kept: Grid, seed: int) -> Network:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream(seed, WEIGHTS))
            return self.network(kept)

    def _network_on(self, grid: Grid) -> Network:
        fitted = self._require_fit()
        if fitted.grid.matches(grid):
            return fitted.network
        if not self.mesh_free:
            raise _other_grid("data", fitted.grid, grid)
        moved = self._new_network(self._kept(grid), 0)
        moved.load_state_dict(fitted.network.state_dict())
        return moved.eval()

    def _cases(self, data: Any, noise: str, grid: Grid, seed: int) -> Cases:
        values, kept = fields_of(data, self.domain).values, self._kept(grid)
        initial, target = values[:, 0, : kept.shape[1]], values[:, 1:, : kept.shape[1]]
        if self.sees_path:
            drive = values[..., : kept.shape[1]]
        elif noise == "hidden":
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
    def _outputs(self, network: Callable[..., Tensor], cases: Cases, grid: Grid) -> Array:
        if cases.shared:
            fields = network(cases.initial, cases.drive).expand(len(cases), -1, -1)
        else:
            batches = cases.batches(AT_ONCE)
            fields = torch.cat([network(batch.initial, batch.drive) for batch in batches])
        at_end = grid.shape[1] - fields.shape[-1]  # a Dirichlet end, where the field is 0
        return nn.functional.pad(fields, (0, at_end)).double().numpy()

    def _identity(
        self, data: Any, validation: Any, noise: str, protocol: Protocol, seed: int
    ) -> dict[str, Any]:
        return {
            "system": self.name, "settings": self.settings(), "domain": self.domain.to_dict(),
            "noise": noise, "config": dataclasses.asdict(protocol), "seed": seed,
            "data": fingerprint(fields_of(data, self.domain)),
            "validation": fingerprint(fields_of(validation, self.domain)),
        }  # fmt: skip


def load(path: str | Path) -> Predictor:
    """Load a system that `Predictor.save` wrote.

    Example:
        >>> import spdelaw as sl, tempfile, pathlib
        >>> from paper.baselines import SVNN, load
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
        document = json.loads((path / DOCUMENT_FILE).read_text())
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}, this version reads {SCHEMA}")
        domain = domain_from_dict(document["domain"])
        system = Predictor.systems[document["system"]](domain, **document["settings"])
        times, points = (np.asarray(document[key]) for key in ("times", "points"))
        grid = Grid(times, points, domain)
        network = system._new_network(system._kept(grid), 0)
        network.load_state_dict(load_file(path / WEIGHTS_FILE))
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


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float32))


def _other_grid(what: str, expected: Grid, got: Grid) -> DataError:
    return DataError(
        what,
        expected="the {} times and {} points of the training data".format(*expected.shape),
        got="{} times and {} points, or others".format(*got.shape),
        fix="use the grid of the training data, or a system that works on any grid: SVNN",
    )
