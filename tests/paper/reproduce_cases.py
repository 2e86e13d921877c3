"""A profile small enough for tests: few paths, a coarse grid, tiny systems."""

import dataclasses

import numpy as np
import pytest

from spdelaw.paper.reproduce import ENTRIES, Profile, Run, _data, _execute, _plan, execute

#: Sizes for 60 paths on 41 x 33 values.
SETTINGS = {
    "deeponet-hidden": {"width": 16},
    "fno-hidden": {"width": 4, "modes_x": 6, "modes_t": 6, "n_layers": 2},
    "dlr-net-observed": {"width": 4, "modes_x": 6, "modes_t": 6, "n_layers": 1},
    "sv-nn-independent": {"n_neurons": 4},
}
#: Entries that take a second or two.
CHEAP = ("limits", "exact", "chaos-dropped", "dlr-features", "fno-hidden", "dlr-net-observed")
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


def tiny_run(key, regime="b", number=0, profile=TINY):
    """A run of one entry, its system made small."""
    (entry,) = (e for e in ENTRIES if e.key == key)
    entry = dataclasses.replace(entry, settings={**entry.settings, **SETTINGS.get(key, {})})
    return Run(entry, regime, number, profile)


@pytest.fixture(scope="module")
def small_data():
    """Sixty paths on a coarse grid in place of a thousand."""

    def coarse(make):
        return lambda n: dataclasses.replace(make(n), times=np.linspace(0.0, 1.0, 41), n_points=33)

    equations = {regime: coarse(make) for regime, make in _data.EQUATIONS.items()}
    _data.make_data.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_data, "EQUATIONS", equations)
        patch.setattr(_plan, "N_PATHS", 60)
        patch.setattr(_execute, "N_PATHS", 60)
        yield
    _data.make_data.cache_clear()


@pytest.fixture(scope="module")
def records(small_data, tmp_path_factory):
    """Records of cheap entries, their runs and the folder they are in."""
    runs = [
        tiny_run(key, number=s) for s in range(2) for key in CHEAP if s == 0 or key != CHEAP[-1]
    ]
    out = tmp_path_factory.mktemp("results")
    return [execute(run, out) for run in runs], runs, out
