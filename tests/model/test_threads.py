"""Small pieces of linear algebra run in one thread, and leave the number as it was."""

import numpy as np
import pytest
import scipy.linalg  # both libraries are there when their threads are counted
from threadpoolctl import threadpool_info, threadpool_limits

import spdelaw as sl
from spdelaw.model import _chaos
from spdelaw.model._threads import one_thread


def threads():
    return {
        info["filepath"]: info["num_threads"]
        for info in threadpool_info()
        if info["user_api"] == "blas"
    }


@pytest.fixture(autouse=True)
def two_threads():
    scipy.linalg.cholesky(np.eye(2))
    with threadpool_limits(2, user_api="blas"):
        yield


def test_one_thread_inside_and_two_afterwards():
    assert set(threads().values()) == {2}
    assert set(one_thread(threads)().values()) == {1}
    assert set(threads().values()) == {2}


def test_the_number_is_back_after_an_error():
    with pytest.raises(ZeroDivisionError):
        one_thread(lambda: 1 / 0)()
    assert set(threads().values()) == {2}


def test_the_truncated_likelihood_runs_in_one_thread(monkeypatch):
    seen, real = [], _chaos._evaluate

    def watched(*args, **kwargs):
        seen.extend(threads().values())
        return real(*args, **kwargs)

    monkeypatch.setattr(_chaos, "_evaluate", watched)
    equation = sl.catalogue.heat(n_modes=2)
    data = sl.simulate(equation, 6, seed=0, times=np.linspace(0, 1, 6), observation_std=0.05)
    gappy = sl.mask(data, "random", fraction=0.2, seed=1)
    sl.fit(gappy, equation.domain, 2, engine="chaos", tail="dropped")
    assert set(seen) == {1}
    assert set(threads().values()) == {2}
