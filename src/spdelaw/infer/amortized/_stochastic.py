"""A run without a network: the encoder is the exact posterior of the current parameters.

For every variational posterior, ``ELBO = log p(X) - KL(q(z | X) || p(z | X))``. In a linear
Gaussian model the right-hand posterior is known, so the bound is tight, the ELBO is the
likelihood, and its gradient over a batch is the score: expectations of the smoothed states
(Fisher's identity). A network that corrects the posterior would learn to be zero.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from spdelaw.errors import ConvergenceError
from spdelaw.infer._posterior import LogPosterior
from spdelaw.infer.amortized._config import StructuredConfig
from spdelaw.model import Collapsed, Evaluation, StateSpace
from spdelaw.train import ORDER, Run, Snapshot, stream

Array = np.ndarray

#: Adam's memory of the gradient and of its square. The second is short: gradients far from the
#: maximum must not slow the end of a run of a thousand steps.
MEMORY = (0.9, 0.99)


class StructuredRun(Run):
    """Adam on the log-likelihood of batches, in coordinates in which one path says about one.

    Args:
        posterior: log-posterior of all paths.
        batches: its paths, in fixed groups that come in a new order in every epoch.
        likelihood: log-likelihood and score of one group.
        config: how long and how fast.
        seed: of the order.
        score: validation loss and rel L2 of parameters; None in epochs that are not scored.
    """

    def __init__(
        self,
        posterior: LogPosterior,
        batches: list[Collapsed],
        likelihood: Callable[[Collapsed, StateSpace], Evaluation],
        config: StructuredConfig,
        seed: int,
        score: Callable[[StateSpace, int], tuple[float, float] | None],
    ) -> None:
        self.batches, self.likelihood = batches, likelihood
        self.config, self.seed, self.score = config, seed, score
        self.n_paths = sum(batch.n_paths for batch in batches)
        self.posterior = _per_path(posterior, self.n_paths)
        size = posterior.columns.shape[1]
        self.x, self.first, self.second = np.zeros(size), np.zeros(size), np.zeros(size)
        self.n_steps = 0
        self.snapshot = Snapshot(0, {}, 0, math.inf, (), 0.0)

    @property
    def state_space(self) -> StateSpace:
        """The current one."""
        return self.posterior.parametrisation.state_space(self.posterior.full(self.x))

    def epoch(self, epoch: int) -> float:
        """One pass over the batches; mean loss of a path."""
        rate = self.config.rate * self.rate(epoch)
        order = np.random.default_rng(stream(self.seed, ORDER, epoch))
        total = sum(self._step(self.batches[i], rate) for i in order.permutation(len(self.batches)))
        return total / len(self.batches)

    def _step(self, batch: Collapsed, rate: float) -> float:
        share = batch.n_paths / self.n_paths

        def evaluate(p: StateSpace) -> Evaluation:
            found: tuple[Any, ...] = self.likelihood(batch, p)
            return Evaluation(*(part / share for part in found))

        with np.errstate(all="ignore"):
            of_batch = dataclasses.replace(self.posterior, evaluate=evaluate)
            value, gradient, _ = of_batch.at(self.x)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise ConvergenceError(
                f"training, step {self.n_steps + 1}", expected="a finite likelihood and score",
                got=f"log-likelihood {value:g}", fix="lower rate, or use engine='exact'",
            )  # fmt: skip
        self.n_steps += 1
        a, b = MEMORY
        self.first = a * self.first + (1.0 - a) * gradient
        self.second = b * self.second + (1.0 - b) * gradient**2
        mean = self.first / (1.0 - a**self.n_steps)
        size = np.sqrt(self.second / (1.0 - b**self.n_steps))
        self.x = self.x + rate * mean / np.maximum(size, 1e-300)
        return -value / self.n_paths

    def finish(self, epoch: int, loss: float, seconds: float) -> None:
        """Score the epoch and replace the snapshot in one assignment, which Ctrl-C cannot split."""
        validation = self.score(self.state_space, epoch) or self.snapshot.history[-1][1:]
        arrays = {
            "model.free": self.x.copy(), "best.free": self.x.copy(),
            "optimiser.first": self.first.copy(), "optimiser.second": self.second.copy(),
            "optimiser.n_steps": np.array([self.n_steps]),
        }  # fmt: skip
        history = (*self.snapshot.history, (loss, *validation))
        self.snapshot = Snapshot(epoch + 1, arrays, epoch + 1, validation[1], history, seconds)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        self.x = snapshot.part("model")["free"].copy()
        moments = snapshot.part("optimiser")
        self.first, self.second = moments["first"].copy(), moments["second"].copy()
        self.n_steps = int(moments["n_steps"][0])
        self.snapshot = snapshot


def _per_path(posterior: LogPosterior, n_paths: int) -> LogPosterior:
    """The initial mean's directions in units of one path's information instead of all paths'."""
    columns, scale = posterior.columns.copy(), posterior.scale.copy()
    columns[:, posterior.n_plain :] *= np.sqrt(n_paths)
    scale[posterior.n_plain :] /= np.sqrt(n_paths)
    return dataclasses.replace(posterior, columns=columns, scale=scale)
