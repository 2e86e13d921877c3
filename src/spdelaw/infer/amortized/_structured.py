"""``preset="structured"``: stochastic maximum likelihood with the exact posterior as encoder.

Inputs are collapsed onto the modes, so neither the resolution nor the dimension of the grid enters
the cost of a step. The tail beyond K is part of the model: the truncated coordinates and their
tail together are the Ornstein-Uhlenbeck coefficients, whose posterior is a smoother's. Batches
take the parameters close to the maximum; Newton steps over all paths end there, with the
information matrix that gives the standard errors.

For every variational posterior, ``ELBO = log p(X) - KL(q(z | X) || p(z | X))``. In a linear
Gaussian model the right-hand posterior is known, so the bound is tight, the ELBO is the
likelihood, and its gradient over a batch is the score: expectations of the smoothed states
(Fisher's identity). A network that corrects the posterior would learn to be zero.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data import Observed
from spdelaw.errors import ConvergenceError
from spdelaw.infer._assemble import assemble
from spdelaw.infer._filter_route import pose
from spdelaw.infer._posterior import LogPosterior, estimate
from spdelaw.infer._problem import Problem
from spdelaw.infer.amortized._job import Job, training_curve
from spdelaw.infer.amortized._reconstruct import decode
from spdelaw.law import Law, chaos_posterior, state_space_law
from spdelaw.model import Collapsed, Evaluation, StateSpace, collapse, evaluate_likelihood
from spdelaw.train import Run, Snapshot, stream

Array = np.ndarray

#: Epochs between two scores, and the paths scored: a smoother costs as much as many steps.
SCORE_EVERY, SCORED_PATHS = 10, 16
#: Note of a run that was too short.
FAR = "training ended far from the maximum and a search over all paths went on: raise epochs"
#: Steps that an epoch should have at least, where there are as many paths.
FEWEST_STEPS = 16
#: Adam's memory of the gradient and of its square. The second is short: gradients far from the
#: maximum must not slow the end of a run of a thousand steps.
MEMORY = (0.9, 0.99)
#: A coordinate whose posterior mean varies by less than this over paths is not in use: its prior
#: variance is 1. (Burda et al., Importance Weighted Autoencoders, ICLR 2016, use 0.01.)
ACTIVE = 0.01
#: Most times: the covariance of a mode over all of them is a matrix of that size.
MOST_TIMES = 2000


def fit_structured(job: Job) -> Law:
    """Law of the observed fields."""
    clock, observed, n_time = time.perf_counter(), job.observed, job.engine.config.n_time
    problem = pose(observed, job.n_modes, job.model, threads=job.engine.threads)
    run = StructuredRun(job, problem)
    seconds = {"prepare": time.perf_counter() - clock}
    snapshot = job.train(run, model=repr(job.model))
    clock = time.perf_counter()
    # The maximum over all paths from where the batches led, and a note where that was not near.
    posterior, notes = run.posterior.moved(run.x), problem.notes
    found = estimate(posterior, search=False)
    if not found.optimum.converged:
        found, notes = estimate(posterior), (*notes, FAR)
    seconds |= {"training": snapshot.seconds, "finish": time.perf_counter() - clock}
    fit = dataclasses.replace(problem, notes=notes).fit(found, seconds)
    law = assemble(fit, observed, job.model, job.level)
    return law.with_info(
        **job.facts(),
        epochs=snapshot.epoch,
        elbo=law.info["log_likelihood"],  # the bound is tight, and nothing is truncated
        amortization_gap=0.0,
        truncation_loss=0.0,
        n_time=n_time,
        tail="modelled",
        horizon=observed.span,
        latent_use=latent_use(law, observed.paths(slice(SCORED_PATHS)), n_time),
        training={**decode(law, observed, n_time).attrs, **training_curve(snapshot)},
    )


class StructuredRun(Run):
    """Adam on the log-likelihood of batches, in coordinates in which one path says about one.

    Batches are groups of paths of equal size, each collapsed once, that come in a new order in
    every epoch. Some of the held-out paths score the epochs.

    Args:
        job: how long and how fast, the seed of the order, and the held-out paths.
        problem: what all paths say.
    """

    def __init__(self, job: Job, problem: Problem) -> None:
        self.job, self.problem, self.config = job, problem, job.engine.config
        design, n = problem.design, problem.collapsed.n_paths
        size = min(self.config.batch_size, -(-n // FEWEST_STEPS))
        groups = np.array_split(np.arange(n), -(-n // size))
        self.batches = [design.paths(part).collapsed() for part in groups]
        self.held_out, self.n_paths = job.held_out.paths(slice(SCORED_PATHS)), n
        values = design.of(self.held_out.values)
        self.scored = collapse(values, self.held_out.times, design.basis, design.weights)
        self.posterior = _per_path(problem.posterior(), n)
        self.x, self.first, self.second = np.zeros((3, self.posterior.columns.shape[1]))
        self.n_steps, self.snapshot = 0, Snapshot()

    def epoch(self, epoch: int) -> float:
        """One pass over the batches; mean loss of a path."""
        rate = self.config.rate * self.rate(epoch)
        order = np.random.default_rng(stream(self.job.seed, "order", epoch))
        total = sum(self._step(self.batches[i], rate) for i in order.permutation(len(self.batches)))
        return total / len(self.batches)

    def _step(self, batch: Collapsed, rate: float) -> float:
        share = batch.n_paths / self.n_paths

        def evaluate(p: StateSpace) -> Evaluation:
            found: tuple[Any, ...] = self.problem.likelihood(batch, p)
            return Evaluation(*(part / share for part in found))

        with np.errstate(all="ignore"):
            of_batch = dataclasses.replace(self.posterior, evaluate=evaluate)
            value, gradient, _ = of_batch.at(self.x)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            what, got = f"training, step {self.n_steps + 1}", f"log-likelihood {value:g}"
            expected, fix = "a finite likelihood and score", "lower rate, or use engine='exact'"
            raise ConvergenceError(what, expected=expected, got=got, fix=fix)
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
        validation = self._score(epoch)
        moments = {"first": self.first, "second": self.second, "n_steps": [self.n_steps]}
        arrays = {f"optimiser.{name}": np.array(part) for name, part in moments.items()}
        arrays |= {"model.free": self.x.copy(), "best.free": self.x.copy()}
        history = (*self.snapshot.history, (loss, *validation))
        self.snapshot = Snapshot(epoch + 1, arrays, epoch + 1, validation[1], history, seconds)

    def _score(self, epoch: int) -> tuple[float, float]:
        """Loss and rel L2 of the decoder on held-out paths; the last ones between two scores."""
        job, problem = self.job, self.problem
        if epoch % SCORE_EVERY and epoch + 1 < self.config.epochs:
            return self.snapshot.history[-1][1:]
        space = self.posterior.parametrisation.state_space(self.posterior.full(self.x))
        found = evaluate_likelihood(self.scored, space, use_misfit=problem.use_misfit)
        if "observation" not in problem.parametrisation.parts:
            space = space.with_noise(np.asarray(job.model.known_variance or 0.0))
        # A law without uncertainty, for its smoother.
        given = (job.observed, job.n_modes, space, xr.Dataset())
        law = state_space_law(*given, unresolved_variance=problem.outside or 0.0)
        decoded = decode(law, self.held_out, self.config.n_time)
        return -float(found.log_likelihood.mean()), decoded.attrs["relative_l2"]

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


def latent_use(law: Law, own: Observed, n_time: int) -> dict[str, Any] | None:
    """Posterior-collapse diagnostics; None for very many times, or clocks of each path's own.

    ``KL(N(m, s^2) || N(0, 1)) = (m^2 + s^2 - 1 - log s^2) / 2`` of each coordinate's marginal,
    summed over k, its mean over paths: a mode with KL near 0 carries nothing.
    """
    if own.has_own_clocks or own.fields.sizes["time"] > MOST_TIMES:
        return None
    found = chaos_posterior(law, own, n_time=n_time, tail="modelled")
    found = found.sel(mode=slice(1, law.n_modes))
    m, s = found["xi_mean"], np.maximum(found["xi_std"], 1e-12)
    divergence = (0.5 * (m**2 + s**2 - 1.0 - 2.0 * np.log(s))).sum("k").mean("path")
    active = (m.var("path") > ACTIVE).mean("k")
    return {
        "kl_chaos": [round(float(v), 6) for v in divergence],
        "active_share": [round(float(v), 6) for v in active],
    }
