"""``preset="structured"``: stochastic maximum likelihood with the exact posterior as encoder.

Inputs are collapsed onto the modes, so neither the resolution nor the dimension of the grid enters
the cost of a step. The tail beyond K is part of the model: the truncated coordinates and their
tail together are the Ornstein-Uhlenbeck coefficients, whose posterior is a smoother's. Batches
take the parameters close to the maximum; Newton steps over all paths end there, with the
information matrix that gives the standard errors.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.infer._assemble import assemble
from spdelaw.infer._estimate import Estimate
from spdelaw.infer._filter_route import pose
from spdelaw.infer._posterior import estimate
from spdelaw.infer._problem import Problem
from spdelaw.infer.amortized._assess_exact import latent_use
from spdelaw.infer.amortized._job import Job, training_curve
from spdelaw.infer.amortized._reconstruct import decode
from spdelaw.infer.amortized._stochastic import StructuredRun
from spdelaw.law import Law, Provenance
from spdelaw.model import Collapsed, StateSpace, collapse, evaluate_likelihood
from spdelaw.train import train

Array = np.ndarray

#: Epochs between two scores, and the paths scored: a smoother costs as much as many steps.
SCORE_EVERY, SCORED_PATHS = 10, 16
#: Note of a run that was too short.
FAR = "training ended far from the maximum and a search over all paths went on: raise epochs"
#: Steps that an epoch should have at least, where there are as many paths.
FEWEST_STEPS = 16


def fit_structured(job: Job) -> Law:
    """Law of the observed fields."""
    clock = time.perf_counter()
    observed, config = job.observed, job.config
    problem = pose(observed, job.n_modes, job.model, threads=job.threads)
    batches = _batches(problem, config.batch_size)
    run = StructuredRun(
        problem.posterior(), batches, problem.likelihood, config, job.seed, _Scores(job, problem)
    )
    seconds = {"prepare": time.perf_counter() - clock}
    snapshot = train(run, identity=_identity(job), checkpoint=job.folder, report=job.report)
    clock = time.perf_counter()
    found, notes = _finished(problem, run)
    seconds |= {"training": snapshot.seconds, "finish": time.perf_counter() - clock}
    fit = dataclasses.replace(problem, notes=problem.notes + notes).fit(found, seconds)
    law = assemble(fit, observed, job.model, job.level)
    training = {**_errors(law, job), **training_curve(snapshot)}
    facts = {**job.facts(), **_facts(law, job), "epochs": snapshot.epoch}
    return law.with_info(**facts, training=training)


def _finished(problem: Problem, run: StructuredRun) -> tuple[Estimate, tuple[str, ...]]:
    """Maximum over all paths from where the batches led, and a note where that was not near."""
    posterior = run.posterior.moved(run.x)
    found = estimate(posterior, search=False)
    return (found, ()) if found.optimum.converged else (estimate(posterior), (FAR,))


def _batches(problem: Problem, size: int) -> list[Collapsed]:
    """Paths in groups of equal size, each collapsed once."""
    n = problem.collapsed.n_paths
    size = min(size, -(-n // FEWEST_STEPS))
    groups = np.array_split(np.arange(n), -(-n // size))
    return [problem.design.paths(part).collapsed() for part in groups]


class _Scores:
    """Loss and rel L2 of the decoder on some paths, every so many epochs."""

    def __init__(self, job: Job, problem: Problem) -> None:
        self.job, self.problem = job, problem
        held_out, design = job.held_out, problem.design
        self.own = held_out.paths(slice(SCORED_PATHS))
        values = design.of(self.own.values)
        self.collapsed = collapse(values, self.own.times, design.basis, design.weights)

    def __call__(self, state_space: StateSpace, epoch: int) -> tuple[float, float] | None:
        config = self.job.config
        if epoch % SCORE_EVERY and epoch + 1 < config.epochs:
            return None
        use_misfit = self.problem.use_misfit
        found = evaluate_likelihood(self.collapsed, state_space, use_misfit=use_misfit)
        decoded = decode(self._law(state_space), self.own, config.n_time)
        return -float(found.log_likelihood.mean()), decoded.attrs["relative_l2"]

    def _law(self, state_space: StateSpace) -> Law:
        """A law without uncertainty, for its smoother."""
        job, variance = self.job, state_space.observation_variance
        if "observation" not in self.problem.parametrisation.parts:
            variance = np.asarray(job.model.known_variance or 0.0)
        return Law(
            domain=job.domain,
            n_modes=job.n_modes,
            parameters=xr.Dataset(),
            dynamics=state_space.dynamics,
            initial=state_space.initial,
            observation_variance=variance,
            times=np.unique(job.observed.times),
            points=job.observed.points,
            unresolved_variance=self.problem.outside or 0.0,
            info=Provenance(),
        )


def _identity(job: Job) -> dict[str, Any]:
    return job.identity() | {"model": repr(job.model)}


def _errors(law: Law, job: Job) -> dict[str, float]:
    return dict(decode(law, job.observed, job.config.n_time).attrs)


def _facts(law: Law, job: Job) -> dict[str, Any]:
    """What every training reports: the bound, how tight it is, what the truncation costs."""
    some = job.observed.paths(slice(SCORED_PATHS))
    return {
        "elbo": law.info["log_likelihood"],
        "amortization_gap": 0.0,
        "truncation_loss": 0.0,
        "n_time": job.config.n_time,
        "tail": "modelled",
        "horizon": job.observed.span,
        "latent_use": latent_use(law, some, job.config.n_time),
    }
