"""The published sizes, to the last weight."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.paper.baselines import FNO, NSPDE, SVNN, SYSTEMS, DeepONet, DLRNet
from spdelaw.paper.baselines._complex import count_parameters
from spdelaw.paper.baselines._grid import Grid

PUBLISHED = {
    DeepONet: (11_292_672, 11_292_672),
    FNO: (4_929_249, 9_844_449),
    NSPDE: (3_283_457, 6_560_257),
    DLRNet: (133_178, 264_250),
    SVNN: (1_408, 1_408),
}


@pytest.mark.parametrize("cls", PUBLISHED, ids=lambda cls: cls.name)
def test_published_configuration_has_the_published_number_of_weights(cls):
    equation = sl.catalogue.ornstein_uhlenbeck(8) if cls is SVNN else sl.catalogue.heat(8)
    system = cls(equation.domain)
    grid = Grid(equation.times, equation.default_grid(), equation.domain)
    network = system.network(system._kept(grid))
    counts = count_parameters(network), count_parameters(network, complex_as=2)
    assert counts == PUBLISHED[cls]


def test_every_system_is_known_by_name():
    assert set(SYSTEMS.values()) == set(PUBLISHED)
    assert all(name == cls.name for name, cls in SYSTEMS.items())


@pytest.mark.parametrize(
    ("domain", "kept"),
    [
        (sl.Interval(0, np.pi), 100),
        (sl.Interval(0, np.pi, "neumann"), 101),
        (sl.Interval(0, np.pi, "periodic"), 101),
        (sl.Line(), 101),
    ],
)
def test_only_a_dirichlet_end_is_left_out(domain, kept):
    grid = Grid(np.linspace(0, 1, 5), domain.grid(101), domain)
    assert grid.without_known_end().shape == (5, kept)


def test_inner_points_are_all_kept():
    domain = sl.Interval(0, 1)
    grid = Grid(np.linspace(0, 1, 5), domain.grid(11)[1:-1], domain)
    assert grid.without_known_end().shape == (5, 9)
