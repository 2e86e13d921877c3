"""Wrong input of every function: the argument is named, and a fix is offered."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.chaos.indices import total_degree_set
from spdelaw.chaos.propagators import (
    CosineBasis,
    HaarBasis,
    chaos_coordinates,
    decode_states,
    expand,
    noise_covariance,
    propagate,
    rk4_responses,
    rk4_states,
    tail_covariance,
    unit_response,
)
from spdelaw.errors import ConvergenceError, DataError, InputError

COSINE, ZEROS = CosineBasis(1.5), np.zeros
EQUATION = sl.catalogue.heat(n_modes=2)
DATA = sl.simulate(EQUATION, 3, seed=0, return_noise=True)
SILENT = sl.SpectralSPDE(sl.Interval(0, 1), 2, noise=[1.0, 0.0], initial=[0.0])


def curves(**changes):
    good = {
        "basis": COSINE, "times": [0.0, 1.0], "eigenvalues": [1.0, 2.0], "noise_factor": [1.0, 1.0],
        "n_time": 3,
    }  # fmt: skip
    return propagate(**(good | changes))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: total_degree_set(0, 1, 1), "n_time"),
        (lambda: total_degree_set(1, True, 1), "n_noise"),
        (lambda: total_degree_set(1, 1, -1), "order"),
        (lambda: CosineBasis(0.0), "horizon"),
        (lambda: HaarBasis(np.nan), "horizon"),
        (lambda: CosineBasis("1"), "horizon"),
        (lambda: COSINE.values(ZEROS(1), 0), "n_time"),
        (lambda: unit_response("cosine", [0.0], [1.0], 2), "basis"),
        (lambda: curves(times=[0.0, 2.0]), "times"),
        (lambda: curves(times=[0.0, 1.5015]), "times"),
        (lambda: curves(times=[-0.1, 1.0]), "times"),
        (lambda: curves(times=[1.0, 0.5]), "times"),
        (lambda: curves(eigenvalues=1.0), "eigenvalues"),
        (lambda: curves(eigenvalues=[np.nan, 1.0]), "eigenvalues"),
        (lambda: curves(noise_factor=[1.0, 1.0, 1.0]), "noise_factor"),
        (lambda: curves(noise_factor=[1.0, np.inf]), "noise_factor"),
        (lambda: curves(noise_factor=np.ones((2, 2, 2))), "noise_factor"),
        (lambda: curves(n_time=0), "n_time"),
        (lambda: curves(n_time=2.0), "n_time"),
        (lambda: curves(method="euler"), "method"),
        (lambda: curves(basis="cosine"), "basis"),
        (lambda: curves(xp="torch"), "xp"),
        (lambda: expand(curves(), ZEROS(2), ZEROS((2, 3))), "coordinates"),
        (lambda: expand(curves(), ZEROS(2), ZEROS((5, 3, 1))), "coordinates"),
        (lambda: expand(curves(), ZEROS(3), ZEROS((3, 2))), "initial"),
        (lambda: expand(curves(), 0.0, ZEROS((3, 2))), "initial"),
        (lambda: expand(curves(), ZEROS((4, 2)), ZEROS((5, 3, 2))), "initial"),
        (lambda: tail_covariance(COSINE, [0.0, 3.0], [1.0], [1.0], 4), "times"),
        (lambda: noise_covariance([0.0, 1.0], [1.0], 1.0), "noise_factor"),
        (lambda: rk4_states(COSINE, [0.0, 1.0], [1.0], [1.0], [1.0], 2), "initial"),
        (lambda: decode_states(ZEROS((2, 4, 5, 1)), ZEROS((4, 5, 1))), "coordinates"),
    ],
)
def test_wrong_input(call, what):
    with pytest.raises(InputError) as caught:
        call()
    error = caught.value
    assert error.what == what
    assert all((error.expected, error.got, error.fix))


@pytest.mark.parametrize(
    ("data", "equation", "basis", "word"),
    [
        (DATA.field, EQUATION, CosineBasis(), "return_noise=True"),
        (DATA, EQUATION, CosineBasis(0.8), r"CosineBasis\(horizon=1\)"),
        (DATA, EQUATION.with_modes(1), CosineBasis(), "equation that was simulated"),
        (DATA, SILENT, CosineBasis(), "positive q_n"),
    ],
)
def test_data_without_coordinates(data, equation, basis, word):
    with pytest.raises(DataError, match=word):
        chaos_coordinates(data, equation, basis, 4)


def test_unstable_steps():
    pytest.importorskip("torchdiffeq")
    with pytest.raises(ConvergenceError, match="closed_form") as caught:
        rk4_responses(CosineBasis(), np.linspace(0, 1, 11), [30.0], 2)
    assert caught.value.got == "3"


def test_times_may_pass_the_horizon_by_rounding():
    curves(times=[0.0, 1.5 * (1 + 1e-12)])
