"""Files that a shell user may have: complete, gappy, irregular, a single path."""

import numpy as np

import spdelaw as sl
from spdelaw.data import write

EQUATION = sl.catalogue.heat(n_modes=3)
TIMES = np.linspace(0.0, 1.0, 21)
GRID = np.linspace(0.0, np.pi, 17)
MODES = ("--modes", 3)


def complete(n_paths=12, seed=0, times=TIMES):
    return sl.simulate(EQUATION, n_paths, times=times, grid=GRID, seed=seed)


def masked():
    noisy = complete() + 0.05 * np.random.default_rng(0).standard_normal((12, 21, 17))
    return sl.mask(noisy.assign_attrs(complete(1).attrs), "random", 0.3, seed=0)


def irregular():
    """Times of each path's own, all from zero on, of different number."""
    rng = np.random.default_rng(0)
    times = [np.r_[0.0, np.sort(rng.uniform(0.02, 1.0, 12 + i % 3))] for i in range(12)]
    return sl.stack([complete(1, i, t)[0] for i, t in enumerate(times)])


def single():
    return complete(1, times=np.linspace(0.0, 4.0, 201))


KINDS = {"complete": complete, "masked": masked, "irregular": irregular, "single": single}


def write_kind(kind, name="data.nc"):
    fields = KINDS[kind]()
    write(fields, name)
    return fields
