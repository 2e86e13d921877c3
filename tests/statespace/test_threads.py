"""Small pieces of linear algebra run in one thread, and leave the number as it was."""

import numpy as np
import pytest
import scipy.linalg  # both libraries are there when their threads are counted
from tests.statespace.cases import make
from tests.statespace.numbers import evaluate_chaos
from threadpoolctl import threadpool_info, threadpool_limits

from spdelaw.chaos import posterior as posterior_module
from spdelaw.chaos.posterior import ChaosModel, one_thread


def threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    scipy.linalg.cholesky(np.eye(2))
    with threadpool_limits(2, user_api="blas"):
        yield
        assert threads() == {2}


def test_one_thread_inside_and_two_afterwards():
    assert threads() == {2}
    assert one_thread(threads)() == {1}
    with pytest.raises(ZeroDivisionError):
        one_thread(lambda: 1 / 0)()


def test_the_truncated_likelihood_runs_in_one_thread(monkeypatch):
    counts, plain = set(), posterior_module._evaluate_block
    monkeypatch.setattr(
        posterior_module,
        "_evaluate_block",
        lambda *a, **k: counts.update(threads()) or plain(*a, **k),
    )
    case = make("gaussian", "random")
    evaluate_chaos(case.collapsed, case.parameters, ChaosModel(3, 3.0, "dropped"))
    assert counts == {1}
