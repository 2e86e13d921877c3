"""Small data sets, systems small enough for them, and a small profile of runs."""

import dataclasses

import numpy as np
import pytest

import spdelaw as sl
from paper.baselines import (
    FNO,
    FSPDENO,
    LEC,
    NSPDE,
    SDENO,
    SVNN,
    DeepONet,
    DLRNet,
    LatentODE,
    NeuralCDE,
    Predictor,
    SPDEPrior,
)
from paper.reproduction.plan import ENTRIES, Profile, Run

#: Sizes that fit a grid of 21 x 17.
SMALL = {
    DeepONet: {"width": 24},
    FNO: {"width": 8, "modes_x": 6, "modes_t": 8, "n_layers": 2},
    NSPDE: {"width": 8, "modes_x": 12, "modes_t": 12},
    DLRNet: {"width": 4, "modes_x": 6, "modes_t": 8, "n_layers": 2},
    SVNN: {"n_indices": 7, "n_neurons": 16},
}
SYSTEMS = {cls.name: cls for cls in SMALL}
#: Systems that the paper cites.
CITED = {
    LatentODE: {"n_latent": 4, "n_units": 20},
    NeuralCDE: {"width": 12, "n_hidden": 24},
    FSPDENO: {"n_space": 4, "n_time": 4, "width": 16, "n_layers": 2, "modes_x": 6, "n_haar": 8},
    SDENO: {"n_space": 4, "n_time": 4, "width": 48, "rank": 16, "n_embedding": 16},
    SPDEPrior: {"n_pieces": 1},
    LEC: {"width": 12, "n_layers": 1},
}
by_system = pytest.mark.parametrize("cls", SYSTEMS.values(), ids=SYSTEMS)
TINY = Profile(
    "tiny",
    reference_modes={"a": 8, "b": 12},
    data_sets=2,
    epochs={e.key: 2 for e in ENTRIES if e.epochs},
    n_train={"dlr-net-observed": 20},
    thin={"sv-nn-independent": 2},
    rules={"dlr-net-observed": {"batch_size": 8}},
    keep_runs=False,
)


def heat_data(n_paths=60, seed=0, n_times=21, n_points=17, equation=None):
    """Paths of the heat equation with their noise, on a small grid."""
    equation = sl.catalogue.heat(n_modes=6) if equation is None else equation
    times, grid = np.linspace(0, 1, n_times), equation.domain.grid(n_points)
    return sl.simulate(equation, n_paths, times, grid, seed=seed, return_noise=True)


def small(cls, **settings):
    """A small system, on the domain of the heat equation."""
    return cls(**{"domain": sl.Interval(0, np.pi), **(SMALL | CITED)[cls], **settings})


def tiny_run(key, regime="b", number=0, profile=TINY):
    """A run of one entry, its system made small."""
    (entry,) = (e for e in ENTRIES if e.key == key)
    sizes = {}
    if entry.kind == "predictor":
        sizes = (SMALL | CITED)[Predictor.systems[entry.system]]
    entry = dataclasses.replace(entry, settings={**entry.settings, **sizes})
    return Run(entry, regime, number, profile)
