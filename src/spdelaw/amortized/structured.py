"""Settings of a training, and stochastic maximum likelihood with the exact posterior."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import xarray as xr
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from spdelaw.amortized.engine import decode
from spdelaw.amortized.training import (
    Report,
    Run,
    Snapshot,
    reporter,
    stream,
    train,
    with_tensorboard,
)
from spdelaw.chaos.posterior import ChaosModel, evaluate_chaos
from spdelaw.checks import instance, one_of, optional, shown
from spdelaw.data.io.safe_files import read_regular, reading
from spdelaw.data.observed import Observed, observe
from spdelaw.data.summary import fingerprint
from spdelaw.errors import (
    ConvergenceError,
    DataError,
    FileError,
    IdentifiabilityWarning,
    InputError,
    SpdeLawError,
)
from spdelaw.infer.assemble import assemble
from spdelaw.infer.engines.filter_route import NO_MISFIT, FilterObjective, build_objective
from spdelaw.infer.model import Model
from spdelaw.infer.objective import LogPosterior, estimate
from spdelaw.infer.semilinear.engine import SemilinearEngine
from spdelaw.law.law import Law, state_space_law
from spdelaw.law.prediction import chaos_posterior
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Collapsed, collapse
from spdelaw.statespace.likelihood import Evaluation, evaluate_likelihood

if TYPE_CHECKING:
    from spdelaw.amortized.engine import Amortized


# ---------- Settings of a training, validated, from keywords or a YAML file


#: Where presets differ from "paper". "literal": the paper's sentences alone, each read in the
#: plainest way. "rescaled": a step after each epoch that is not in the paper.
PRESET_DEFAULTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "literal": {"epochs": 2000, "schedule": (), "variance": "log"},
    "rescaled": {"rescale": True},
}


class TrainingConfig(BaseModel):
    """Settings of every training: its length, and how often it is saved."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    preset: str
    epochs: PositiveInt
    warmup_epochs: int = Field(ge=0)
    batch_size: PositiveInt = 40
    n_time: PositiveInt = 16
    checkpoint_every: PositiveInt = 10

    @model_validator(mode="after")
    def _shorten_warmup(self) -> Self:
        first = min(self.epochs, *getattr(self, "schedule", ())[:1], self.epochs)
        if 3 * self.warmup_epochs > first:
            object.__setattr__(self, "warmup_epochs", first // 3)
        return self


class AmortizedConfig(TrainingConfig):
    """Settings of ``preset="paper"``, the default, of ``"literal"`` and of ``"rescaled"``.

    All have one model and one set of rates, widths and weights: those of the paper's section 3.2
    and Appendix B. The first two differ in what the paper leaves open: the cycles of the cosine and
    how the observation variance is written. "literal" takes one cosine over 2000 epochs and the
    logarithm of the variance; "paper" has the readings that come closest to the paper's
    figures. The scale of the loss, the number of reference times and the measure that selects the
    checkpoint are not stated there either. "rescaled" is "paper" with ``rescale=True``.

    Attributes:
        preset: set of defaults: "paper", "literal", "rescaled" or "structured".
        epochs: number of passes over the training paths.
        warmup_epochs: of the linear warm-up, before each cosine; at most a third of a cycle.
        schedule: epochs of each cycle of warm-up and cosine. The last length repeats, and the last
            cycle ends with the training. Empty: one cycle.
        loss_scale: "sum" over all values of a path; "per_value" or "per_time": the objective
            divided by the number of observed values of a path or times of a point; weight decay
            is relative to it.
        kl_scale: "sum" over the coordinates of each divergence, or "mean": their mean, with the
            likelihood at its own scale.
        variance: what is learned of the observation variance: "log", its logarithm, or "squared",
            the square root s of the standard deviation, whose logarithm 4 log s then moves 4 / s
            times faster.
        variance_start: standard deviation of the observations at the start.
        initialisation: seed of the weights, of the order of paths and of the noise; by default the
            seed of the fit. The held-out paths are those of the seed of the fit.
        batch_size: paths in one step.
        n_time: K, functions of time in the chaos expansion.
        n_noise: L, driving Wiener processes, one for each of the first L modes; by default N.
        n_reference: reference times of the encoder's attention.
        n_hidden: width of the recurrent state, "encoder latent dimension".
        n_embedding: width of the time embedding.
        encoder_rate, dynamics_rate, variance_rate: learning rates of the encoder's weights, of
            lambda and q, and of the observation variances.
        weight_decay: in units of the loss.
        decay_of: what decays: "all" parameters, or the weights of the "encoder" alone and not
            lambda, q and the observation variances.
        kl_initial, kl_chaos: weights of the two Kullback-Leibler terms.
        propagators: "closed_form", or "rk4" on the observation times, as in the paper.
        expectation: of the log-likelihood under the posterior, one draw per path ("sampled") or
            in closed form ("exact").
        encoder: network, "mtan" (the paper's attention to reference times and GRU), "modes"
            (estimates of the modes and attention over time), "grid" (convolutions in space, in one
            or two dims, and attention over time) or "ode_rnn" (that of latent ODEs, Rubanova et al.
            2019). "modes" works on any domain, and on other points than those it was trained on;
            its model has one observation variance for all points. "ode_rnn" has its published size
            and uses neither ``n_reference`` nor ``n_hidden`` nor ``n_embedding``.
        order: p, largest order of the decoder's Hermite polynomials in xi, for noise that depends
            on the state. With additive noise every order is the first.
        n_indices: most multi-indices of a decoder of higher order than the first; those of slow
            functions of time and of the first modes are kept.
        rescale: whether each epoch ends with ``E xi^2 = 1`` for each driving process, over paths
            and posterior; q absorbs the factor, so reconstructions do not change. Not in the paper.
        select_by: what the best checkpoint has least of on the validation paths: "relative_l2"
            of the reconstruction, or "loss".
        validation_fraction: of the paths, held out where no validation paths are given.
        checkpoint_every: epochs between two checkpoints.

    Example:
        >>> AmortizedConfig(epochs=100).kl_chaos
        1.3
    """

    preset: Literal["paper", "literal", "rescaled"] = "paper"
    epochs: PositiveInt = 640
    warmup_epochs: int = Field(10, ge=0)
    schedule: tuple[PositiveInt, ...] = (250, 120, 120, 150)
    loss_scale: Literal["sum", "per_value", "per_time"] = "sum"
    kl_scale: Literal["sum", "mean"] = "sum"
    variance: Literal["log", "squared"] = "squared"
    variance_start: PositiveFloat = 1.0
    initialisation: int | None = Field(None, ge=0)
    n_noise: PositiveInt | None = None
    n_reference: PositiveInt = 32
    n_hidden: PositiveInt = 256
    n_embedding: int = Field(128, ge=2)
    encoder_rate: PositiveFloat = 1e-3
    dynamics_rate: PositiveFloat = 2e-2
    variance_rate: PositiveFloat = 1e-3
    weight_decay: float = Field(1e-4, ge=0)
    decay_of: Literal["all", "encoder"] = "all"
    kl_initial: float = Field(0.07, ge=0)
    kl_chaos: float = Field(1.3, ge=0)
    propagators: Literal["closed_form", "rk4"] = "closed_form"
    expectation: Literal["sampled", "exact"] = "sampled"
    encoder: Literal["mtan", "modes", "grid", "ode_rnn"] = "mtan"
    order: PositiveInt = 1
    n_indices: PositiveInt = 400
    rescale: bool = False
    select_by: Literal["relative_l2", "loss"] = "relative_l2"
    validation_fraction: float = Field(0.15, gt=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: dict[str, Any]) -> dict[str, Any]:
        return PRESET_DEFAULTS.get(values.get("preset", "paper"), {}) | values


class StructuredConfig(TrainingConfig):
    """Settings of ``preset="structured"``, which has no network.

    Attributes:
        preset: name of the defaults.
        epochs: passes over the training paths.
        warmup_epochs: of the linear warm-up, before the cosine; at most a third of all.
        batch_size: paths in one step, fewer where there are fewer than sixteen steps in an epoch.
        n_time: K, functions of time in the chaos expansion.
        rate: learning rate of the logarithms of lambda, q and the observation variance.
        checkpoint_every: epochs between two checkpoints.

    Example:
        >>> StructuredConfig(epochs=4).warmup_epochs
        1
    """

    preset: Literal["structured"] = "structured"
    epochs: PositiveInt = 30
    warmup_epochs: int = Field(2, ge=0)
    rate: PositiveFloat = 5e-2


def make_config(config: Any = None, **settings: Any) -> AmortizedConfig | StructuredConfig:
    """Config from a preset, a mapping or a YAML file, with single settings on top.

    Args:
        config: None, a config, a mapping, or the path of a YAML file with one; its ``preset``
            names the defaults, by default "paper".
        settings: values that replace those of ``config``; None counts as not given.

    Example:
        >>> make_config({"epochs": 300}, batch_size=20).batch_size
        20
    """
    if isinstance(config, TrainingConfig):
        values = config.model_dump()
    elif isinstance(config, (str, Path)):
        values = _read_yaml(Path(config))
    else:
        fix = "pass config={'epochs': 500}, or the name of a YAML file"
        given = {} if config is None else config
        values = dict(instance("config", given, Mapping, fix))  # type: ignore[type-abstract]
    values |= {key: value for key, value in settings.items() if value is not None}
    presets = (*PRESET_DEFAULTS, "structured")
    preset = one_of("preset", values.get("preset", "paper"), presets)
    kind = StructuredConfig if preset == "structured" else AmortizedConfig
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "config"
        expected = f"a setting of preset={preset!r} ({', '.join(kind.model_fields)})"
        fix = "check the spelling"
        if name in kind.model_fields:
            expected = first["msg"][0].lower() + first["msg"][1:]
            fix = f"pass {name}={kind.model_fields[name].default!r}"
        raise InputError(name, expected=expected, got=shown(first["input"]), fix=fix) from error


def _read_yaml(path: Path) -> dict[str, Any]:
    yaml = optional("yaml", "a YAML config", "neural")
    fix = "write one setting per line, such as 'epochs: 500'"
    with reading(path, "a readable YAML file", fix):
        values = yaml.safe_load(read_regular(path))
    if not isinstance(values, dict):
        raise FileError(str(path), expected="settings by name", got=type(values).__name__, fix=fix)
    return values


# ---------- Log-likelihoods that a bound is compared with: truncated and untruncated model


Array = np.ndarray


def truncated_log_likelihood(
    observed: Observed, basis: Array, parameters: StateSpace, n_time: int, horizon: float
) -> Array:
    """``log p(X)`` of every path in the truncated model with ``z0, xi ~ N(0, I)``, (P,).

    The bound is this minus ``KL(q(z0, xi | X) || p(z0, xi | X))``: the difference is what the
    encoder loses, the amortization gap (a Gaussian with independent entries included).

    Args:
        observed: fields.
        basis: eigenfunctions at the points, (M, N).
        parameters: eigenvalues, noise variances, one observation variance per point.
        n_time: K.
        horizon: T.
    """
    n = parameters.n_modes
    standard = InitialState("gaussian", np.zeros(n), np.ones(n))
    weighted = parameters.with_noise(1.0)._replace(initial=standard)
    weights = 1.0 / parameters.observation_variance
    collapsed = collapse(observed.values, observed.times, basis, weights)
    model = ChaosModel(n_time, horizon, "dropped")
    return evaluate_chaos(collapsed, weighted, model).log_likelihood


def untruncated_log_likelihood(
    observed: Observed, n_modes: int, state_noise: str = "none"
) -> float | None:
    """Largest ``log p(X)`` of all paths without truncation, the same modes and one variance.

    With noise that depends on the state the Gaussian closure gives it. None where there is no such
    number: fields that lie in the modes without noise have no density, and a wrong basis has no
    maximum.
    """
    model = Model(observation_noise="estimate", nuisance=0)
    try:
        if state_noise != "none":
            return _conditional_log_likelihood(observed, n_modes, state_noise)
        problem = build_objective(observed, n_modes, model, polish=False)
        collapsed = problem.collapsed
        spare = collapsed.n_values - collapsed.n_states
        energy = float(np.nanmean(observed.values**2))
        if spare <= 0 or collapsed.misfit <= NO_MISFIT * spare * energy:
            return None
        whole = dataclasses.replace(problem, count=spare, outside=None)
        return float(whole.run().log_likelihood)
    except ConvergenceError:
        return None


def _conditional_log_likelihood(observed: Observed, n_modes: int, state_noise: str) -> float | None:
    model = Model(observation_noise="estimate", state_noise=state_noise)
    engine, words = SemilinearEngine(terms=()), {"level": 0.95, "progress": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IdentifiabilityWarning)  # about another law than this
            law = engine.learn(observed, observed.domain, n_modes, model, **words)
        return float(law.log_likelihood(observed).sum())
    except SpdeLawError:
        return None


# ---------- One training job: data, settings and model, for every preset


@dataclasses.dataclass(frozen=True)
class Job:
    """Data, settings and where the run is kept.

    Attributes:
        engine: config, folder of the checkpoint and threads.
        observed: training paths.
        held_out: paths that score the epochs.
        n_modes: N.
        model: what is assumed.
        report: called after every epoch.
        level: of the intervals.
        seed: of weights, order, noise and held-out paths; it repeats a run on one machine.
    """

    engine: Amortized
    observed: Observed
    held_out: Observed
    n_modes: int
    model: Model
    report: Report
    level: float
    seed: int

    @classmethod
    def of(
        cls, engine: Amortized, observed: Observed, n_modes: int, model: Model, run: dict[str, Any]
    ) -> Job:
        """Job of an engine; ``run``: arguments of `spdelaw.infer.Engine.learn` by name."""
        data = _hold_out(observed, engine.validation, engine.config, run["seed"])
        report = with_tensorboard(reporter(run["progress"]), engine.tensorboard)
        return cls(engine, *data, n_modes, model, report, run["level"], run["seed"])

    @property
    def clock(self) -> tuple[float, float]:
        """Start and horizon of the training paths: the model lives on ``(t - start) / horizon``.

        Rates and noise variances per unit of that are ``horizon`` times those per unit of the
        data's time, so that lambda = q = 1 is a neutral start in every unit.
        """
        times = self.observed.times
        return float(times.min()), float(times.max() - times.min())

    @property
    def state_noise(self) -> str:
        """How the noise depends on the state, "none" where it is additive."""
        return self.model.state_noise

    def train(self, run: Run, **more: Any) -> Snapshot:
        """Take a run to its end, or go on with one that agrees on all this and on ``more``."""
        identity = {
            "config": self.engine.config.model_dump(mode="json"), "seed": self.seed,
            "domain": self.observed.domain.to_dict(), "n_modes": self.n_modes,
            "points": self.observed.points.tolist(), "clock": list(self.clock),
            "data": fingerprint(self.observed.fields),
            "validation": fingerprint(self.held_out.fields), **more,
        }  # fmt: skip
        return train(run, identity=identity, checkpoint=self.engine.checkpoint, report=self.report)

    def facts(self) -> dict[str, Any]:
        """Entries of a law's ``info`` that every training has."""
        config, folder = self.engine.config, self.engine.checkpoint
        return {
            "engine": "amortized",
            "route": config.preset,
            "preset": config.preset,
            "config": config.model_dump(mode="json"),
            "seed": self.seed,
            **self.observed.sizes,
            "n_validation": self.held_out.n_paths,
            "checkpoint": None if folder is None else str(folder.absolute()),
        }


def _hold_out(
    observed: Observed, validation: Any, config: Any, seed: int
) -> tuple[Observed, Observed]:
    """Training paths, and those that score the epochs."""
    if validation is not None:
        given = observe(validation, observed.domain).in_memory().where_observed()
        if not np.array_equal(given.points, observed.points):
            got = f"{len(given.points)} others"
            fix = "split one set of fields: train, validation, test = sl.split(fields)"
            raise DataError("validation", expected="the points of the data", got=got, fix=fix)
        return observed, given
    if not isinstance(config, AmortizedConfig):  # nothing to choose by validation
        return observed, observed
    n = observed.n_paths
    if n < 2:
        expected = "at least two paths, one to validate with"
        fix = "simulate or observe more paths, or use preset='structured' or engine='exact'"
        raise DataError("data", expected=expected, got=str(n), fix=fix)
    order = np.random.default_rng(stream(seed, "hold out")).permutation(n)
    last = n - min(max(1, round(config.validation_fraction * n)), n - 1)
    return observed.paths(np.sort(order[:last])), observed.paths(np.sort(order[last:]))


def training_curve(snapshot: Snapshot, n_points: int = 20) -> dict[str, Any]:
    """The training at a few epochs, and the best one."""
    at = np.unique(np.linspace(1, snapshot.epoch, n_points).round().astype(int))
    columns = map(list, zip(*(snapshot.history[i - 1] for i in at), strict=True))
    names = ("loss", "validation_loss", "validation_relative_l2")
    return {
        "best_epoch": snapshot.best_epoch,
        "best_score": snapshot.best_score,
        "curve": {"epoch": at.tolist(), **dict(zip(names, columns, strict=True))},
    }


# ---------- ``preset="structured"``: stochastic maximum likelihood with the exact posterior
#
# Inputs are collapsed onto the modes, so neither the resolution nor the dimension of the grid
# enters the cost of a step. The tail beyond K is part of the model: the truncated coordinates and
# their tail together are the Ornstein-Uhlenbeck coefficients, whose posterior is a smoother's.
# Batches take the parameters close to the maximum; Newton steps over all paths end there, with the
# information matrix that gives the standard errors.
#
# For every variational posterior, ``ELBO = log p(X) - KL(q(z | X) || p(z | X))``. In a linear
# Gaussian model the right-hand posterior is known, so the bound is tight, the ELBO is the
# likelihood, and its gradient over a batch is the score: expectations of the smoothed states
# (Fisher's identity). A network that corrects the posterior would learn to be zero.


#: Epochs between two scores, and the paths scored: a smoother costs as much as many steps.
SCORE_EVERY, SCORED_PATHS = 10, 16
#: Note of a run that was too short.
FAR_FROM_MAXIMUM_NOTE = (
    "training ended far from the maximum and a search over all paths went on: raise epochs"
)
#: Steps that an epoch should have at least, where there are as many paths.
FEWEST_STEPS = 16
#: Adam's memory of the gradient and of its square. The second is short: gradients far from the
#: maximum must not slow the end of a run of a thousand steps.
ADAM_DECAYS = (0.9, 0.99)
#: A coordinate whose posterior mean varies by less than this over paths is not in use: its prior
#: variance is 1. (Burda et al., Importance Weighted Autoencoders, ICLR 2016, use 0.01.)
ACTIVE_VARIANCE = 0.01
#: Most times: the covariance of a mode over all of them is a matrix of that size.
MOST_TIMES = 2000


def fit_structured(job: Job) -> Law:
    """Law of the observed fields."""
    clock, observed, n_time = time.perf_counter(), job.observed, job.engine.config.n_time
    problem = build_objective(observed, job.n_modes, job.model, threads=job.engine.threads)
    run = StructuredRun(job, problem)
    seconds = {"prepare": time.perf_counter() - clock}
    snapshot = job.train(run, model=repr(job.model))
    clock = time.perf_counter()
    # The maximum over all paths from where the batches led, and a note where that was not near.
    posterior, notes = run.posterior.moved(run.x), problem.notes
    maximum = estimate(posterior, near=True)
    if not maximum.optimum.converged:
        maximum, notes = estimate(posterior), (*notes, FAR_FROM_MAXIMUM_NOTE)
    seconds |= {"training": snapshot.seconds, "finish": time.perf_counter() - clock}
    fit = dataclasses.replace(problem, notes=notes).fit(maximum, seconds)
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
    """Adam on the log-likelihood of batches; one path has unit information in each coordinate.

    Batches are groups of paths of equal size, each collapsed once, that come in a new order in
    every epoch. Some of the held-out paths score the epochs.

    Args:
        job: how long and how fast, the seed of the order, and the held-out paths.
        problem: likelihood of all paths.
    """

    def __init__(self, job: Job, problem: FilterObjective) -> None:
        self.job, self.problem, self.config = job, problem, job.engine.config
        design, n = problem.design, problem.collapsed.n_paths
        size = min(self.config.batch_size, -(-n // FEWEST_STEPS))
        groups = np.array_split(np.arange(n), -(-n // size))
        self.batches = [design.paths(group).collapsed() for group in groups]
        self.held_out, self.n_paths = job.held_out.paths(slice(SCORED_PATHS)), n
        values = design.of(self.held_out.values)
        self.scored = collapse(values, self.held_out.times, design.basis, design.weights)
        self.posterior = _scale_to_one_path(problem.posterior(), n)
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
            evaluation: tuple[Any, ...] = self.problem.likelihood(batch, p)
            return Evaluation(*(term / share for term in evaluation))

        with np.errstate(all="ignore"):
            of_batch = dataclasses.replace(self.posterior, evaluate=evaluate)
            value, gradient, _ = of_batch.at(self.x)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            what, got = f"training, step {self.n_steps + 1}", f"log-likelihood {value:g}"
            expected, fix = "a finite likelihood and score", "lower rate, or use engine='exact'"
            raise ConvergenceError(what, expected=expected, got=got, fix=fix)
        self.n_steps += 1
        a, b = ADAM_DECAYS
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
        arrays = {f"optimiser.{name}": np.array(moment) for name, moment in moments.items()}
        arrays |= {"model.free": self.x.copy(), "best.free": self.x.copy()}
        history = (*self.snapshot.history, (loss, *validation))
        self.snapshot = Snapshot(epoch + 1, arrays, epoch + 1, validation[1], history, seconds)

    def _score(self, epoch: int) -> tuple[float, float]:
        """Loss and rel L2 of the decoder on held-out paths; the last ones between two scores."""
        job, problem = self.job, self.problem
        if epoch % SCORE_EVERY and epoch + 1 < self.config.epochs:
            return self.snapshot.history[-1][1:]
        space = self.posterior.parametrisation.state_space(self.posterior.full(self.x))
        evaluation = evaluate_likelihood(self.scored, space, use_misfit=problem.use_misfit)
        if "observation" not in problem.parametrisation.parts:
            space = space.with_noise(np.asarray(job.model.known_variance or 0.0))
        # A law without uncertainty, for its smoother.
        given = (job.observed, job.n_modes, space, xr.Dataset())
        law = state_space_law(*given, unresolved_variance=problem.outside or 0.0)
        decoded = decode(law, self.held_out, self.config.n_time)
        return -float(evaluation.log_likelihood.mean()), decoded.attrs["relative_l2"]

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        self.x = snapshot.part("model")["free"].copy()
        moments = snapshot.part("optimiser")
        self.first, self.second = moments["first"].copy(), moments["second"].copy()
        self.n_steps = int(moments["n_steps"][0])
        self.snapshot = snapshot


def _scale_to_one_path(posterior: LogPosterior, n_paths: int) -> LogPosterior:
    """The initial mean's directions in units of one path's information instead of all paths'."""
    columns, scale = posterior.columns.copy(), posterior.scale.copy()
    columns[:, posterior.n_plain :] *= np.sqrt(n_paths)
    scale[posterior.n_plain :] /= np.sqrt(n_paths)
    return dataclasses.replace(posterior, columns=columns, scale=scale)


def latent_use(law: Law, observed: Observed, n_time: int) -> dict[str, Any] | None:
    """Posterior-collapse diagnostics; None for very many times, or one clock per path.

    ``KL(N(m, s^2) || N(0, 1)) = (m^2 + s^2 - 1 - log s^2) / 2`` of each coordinate's marginal,
    summed over k, its mean over paths: a mode with KL near 0 carries nothing.
    """
    if observed.has_own_clocks or observed.fields.sizes["time"] > MOST_TIMES:
        return None
    posterior = chaos_posterior(law, observed, n_time=n_time, tail="modelled")
    posterior = posterior.sel(mode=slice(1, law.n_modes))
    m, s = posterior["xi_mean"], np.maximum(posterior["xi_std"], 1e-12)
    divergence = (0.5 * (m**2 + s**2 - 1.0 - 2.0 * np.log(s))).sum("k").mean("path")
    active = (m.var("path") > ACTIVE_VARIANCE).mean("k")
    return {
        "kl_chaos": [round(float(v), 6) for v in divergence],
        "active_share": [round(float(v), 6) for v in active],
    }
