"""Small data sets, and systems small enough for them."""

import numpy as np

import spdelaw as sl
from spdelaw.paper.baselines import FNO, NSPDE, SVNN, DeepONet, DLRNet

#: Sizes that fit a grid of 21 x 17.
SMALL = {
    DeepONet: {"width": 24},
    FNO: {"width": 8, "modes_x": 6, "modes_t": 8, "n_layers": 2},
    NSPDE: {"width": 8, "modes_x": 12, "modes_t": 12},
    DLRNet: {"width": 4, "modes_x": 6, "modes_t": 8, "n_layers": 2},
    SVNN: {"n_indices": 7, "n_neurons": 16},
}
ALL = list(SMALL)


def heat_data(n_paths=60, seed=0, n_times=21, n_points=17, scheme="exact", equation=None):
    """Paths of the heat equation with their noise, on a small grid."""
    equation = sl.catalogue.heat(n_modes=6) if equation is None else equation
    return sl.simulate(
        equation, n_paths, np.linspace(0, 1, n_times), equation.domain.grid(n_points),
        seed=seed, scheme=scheme, return_noise=True,
    )  # fmt: skip


def small(cls, domain=None, **settings):
    """A small system."""
    domain = sl.Interval(0, np.pi) if domain is None else domain
    return cls(domain, **{**SMALL[cls], **settings})
