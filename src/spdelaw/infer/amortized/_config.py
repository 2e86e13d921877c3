"""How the amortized engine learns: one validated set of values, from keywords or a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from spdelaw.checks import one_of, optional
from spdelaw.errors import FileError, InputError

#: Where ``preset="literal"`` differs: the paper's sentences alone, each read in the plainest way.
LITERAL: dict[str, Any] = {"epochs": 2000, "schedule": (), "variance": "log"}


class TrainingConfig(BaseModel):
    """What every training is told: how long it takes, and how often it is saved."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    preset: str
    epochs: PositiveInt
    warmup_epochs: int = Field(ge=0)
    batch_size: PositiveInt = 40
    n_time: PositiveInt = 16
    checkpoint_every: PositiveInt = 10

    @model_validator(mode="after")
    def _room_for_the_cosine(self) -> Self:
        first = min(self.epochs, *getattr(self, "schedule", ())[:1], self.epochs)
        if 3 * self.warmup_epochs > first:
            object.__setattr__(self, "warmup_epochs", first // 3)
        return self


class AmortizedConfig(TrainingConfig):
    """Settings of ``preset="paper"``, the default, and of ``preset="literal"``.

    The two have one model and one set of rates, widths and weights: those of the paper's section
    3.2 and Appendix B. They differ in what the paper leaves open: the cycles of the cosine and how
    the observation variance is written. "literal" takes one cosine over 2000 epochs and learns the
    logarithm of the variance; "paper" has the readings that come closest to the paper's
    figures. The scale of the loss, the number of reference times and the measure that selects the
    checkpoint are not stated there either.

    Attributes:
        preset: name of the defaults.
        epochs: passes over the training paths.
        warmup_epochs: of the linear warm-up, before each cosine; at most a third of a cycle.
        schedule: epochs of each cycle of warm-up and cosine. The last length repeats, and the last
            cycle ends with the training. Empty: one cycle.
        loss_scale: "sum" over all values of a path; "per_value" or "per_time": the objective
            divided by the number of observed values of a path or times of a point, beside which
            weight decay counts.
        kl_scale: "sum" over the coordinates of each divergence, or "mean": their mean, beside the
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
        select_by: what the best checkpoint has least of on the validation paths: "relative_l2"
            of the reconstruction, or "loss".
        validation_fraction: of the paths, held out where no validation paths are given.
        checkpoint_every: epochs between two checkpoints.

    Example:
        >>> AmortizedConfig(epochs=100).kl_chaos
        1.3
    """

    preset: Literal["paper", "literal"] = "paper"
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
    select_by: Literal["relative_l2", "loss"] = "relative_l2"
    validation_fraction: float = Field(0.15, gt=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_preset(cls, values: dict[str, Any]) -> dict[str, Any]:
        return LITERAL | values if values.get("preset") == "literal" else values


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
        values = _read(Path(config))
    else:
        values = dict(config or {})
    values |= {key: value for key, value in settings.items() if value is not None}
    preset = one_of("preset", values.get("preset", "paper"), ("paper", "literal", "structured"))
    kind = StructuredConfig if preset == "structured" else AmortizedConfig
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "config"
        expected = f"a setting of preset={preset!r} ({', '.join(kind.model_fields)})"
        fix = "check the spelling"
        if name in kind.model_fields:
            expected = first["msg"][0].lower() + first["msg"][1:]
            fix = f"pass {name}={kind.model_fields[name].default!r}"
        raise InputError(name, expected=expected, got=repr(first["input"]), fix=fix) from error


def _read(path: Path) -> dict[str, Any]:
    yaml = optional("yaml", "a YAML config", "neural")
    fix = "write one setting per line, such as 'epochs: 500'"
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        got = f"{type(error).__name__}: {error}"
        raise FileError(str(path), expected="a readable YAML file", got=got, fix=fix) from error
    if not isinstance(values, dict):
        raise FileError(str(path), expected="settings by name", got=type(values).__name__, fix=fix)
    return values
