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

from spdelaw.errors import ConvergenceError
from spdelaw.infer._assemble import assemble
from spdelaw.infer._filter_route import Plan, prepare
from spdelaw.infer._problem import Problem, Solution, free_vector, solve
from spdelaw.infer.amortized._assess_exact import latent_use
from spdelaw.infer.amortized._decode import decode
from spdelaw.infer.amortized._job import Job, training_curve
from spdelaw.infer.amortized._stochastic import StructuredRun
from spdelaw.law import Law
from spdelaw.model import Collapsed, Evaluation, Parameters, collapse, evaluate_likelihood
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
    observed, settings, config = job.observed, job.settings, job.config
    plan = prepare(observed, job.domain, job.n_modes, settings)
    task = plan.task

    def likelihood(batch: Collapsed, p: Parameters) -> Evaluation:
        return evaluate_likelihood(batch, p, use_misfit=plan.use_misfit, threads=settings.threads)

    problem = task.problem(plan.use_misfit, plan.count)
    free = free_vector(problem)
    run = StructuredRun(
        problem, _batches(plan, config.batch_size), free, likelihood, config, settings.seed,
        _Scores(job, plan),
    )  # fmt: skip
    seconds = {"prepare": time.perf_counter() - clock}
    snapshot = train(run, identity=_identity(job), checkpoint=job.folder, report=job.report)
    clock = time.perf_counter()
    solution, notes = _finished(problem, run)
    seconds |= {"training": snapshot.seconds, "finish": time.perf_counter() - clock}
    plan = dataclasses.replace(plan, notes=plan.notes + notes)
    law = assemble(plan.fitted(solution, job.n_modes, seconds), observed, job.domain, settings)
    info = {**law.info, **job.facts(), **_facts(law, job, solution), "epochs": snapshot.epoch}
    info["training"] = {**_errors(law, job), **training_curve(snapshot)}
    return dataclasses.replace(law, info=info)


def _finished(problem: Problem, run: StructuredRun) -> tuple[Solution, tuple[str, ...]]:
    """Maximum over all paths from where the batches led, and a note where that was not near."""
    start = (run.free, run.x)
    try:
        return solve(problem, start=start, search=False), ()
    except ConvergenceError:
        return solve(problem, start=start), (FAR,)


def _batches(plan: Plan, size: int) -> list[Collapsed]:
    """Paths in groups of equal size, each collapsed once."""
    view = plan.task.view
    n = len(view.values)
    size = min(size, -(-n // FEWEST_STEPS))
    groups = np.array_split(np.arange(n), -(-n // size))
    return [
        collapse(
            view.values[part], view.times if view.times.ndim == 1 else view.times[part],
            view.basis, view.weights,
        )
        for part in groups
    ]  # fmt: skip


class _Scores:
    """Loss and rel L2 of the decoder on some paths, every so many epochs."""

    def __init__(self, job: Job, plan: Plan) -> None:
        self.job, self.plan = job, plan
        held_out, view = job.held_out, plan.task.view
        self.fields = held_out.fields.isel(path=slice(SCORED_PATHS)).load()
        times = held_out.times if held_out.times.ndim == 1 else held_out.times[:SCORED_PATHS]
        values = view.of(held_out.load()[:SCORED_PATHS])
        self.collapsed = collapse(values, times, view.basis, view.weights)

    def __call__(self, parameters: Parameters, epoch: int) -> tuple[float, float] | None:
        config = self.job.config
        if epoch % SCORE_EVERY and epoch + 1 < config.epochs:
            return None
        found = evaluate_likelihood(self.collapsed, parameters, use_misfit=self.plan.use_misfit)
        decoded = decode(self._law(parameters), self.fields, config.n_time)
        return -float(found.log_likelihood.mean()), decoded.attrs["relative_l2"]

    def _law(self, parameters: Parameters) -> Law:
        """The parameters as a law without uncertainty, for its smoother."""
        job = self.job
        known = job.settings.known_variance if self.plan.task.layout.n_noise == 0 else None
        if self.plan.task.layout.n_noise == 0:
            variance = np.asarray(0.0 if known is None else known)
            parameters = parameters._replace(observation_variance=variance)
        return Law(
            domain=job.domain, n_modes=job.n_modes, parameters=xr.Dataset(), state=parameters,
            times=np.unique(job.observed.times), points=job.observed.points,
            unresolved_variance=self.plan.outside or 0.0, info={},
        )  # fmt: skip


def _identity(job: Job) -> dict[str, Any]:
    return job.identity() | {"settings": repr(job.settings)}


def _errors(law: Law, job: Job) -> dict[str, float]:
    return dict(decode(law, job.observed.fields, job.config.n_time).attrs)


def _facts(law: Law, job: Job, solution: Solution) -> dict[str, Any]:
    """What every training reports: the bound, how tight it is, what the truncation costs."""
    some = job.observed.fields.isel(path=slice(SCORED_PATHS))
    return {
        "elbo": float(solution.log_likelihood),
        "amortization_gap": 0.0,
        "truncation_loss": 0.0,
        "n_time": job.config.n_time,
        "tail": "modelled",
        "horizon": job.observed.span,
        "latent_use": latent_use(law, some, job.config.n_time),
    }
