"""The amortized engine: reconstruction, posterior and samples of its encoder and decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr

from spdelaw.chaos.higher_order import augment, propagate_chaos
from spdelaw.chaos.indices import decoder_indices
from spdelaw.chaos.posterior import project_on_decoder
from spdelaw.chaos.propagators import CosineBasis, expand, propagate
from spdelaw.checks import checked, optional, whole
from spdelaw.data.observed import Observed, observe
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import InputError
from spdelaw.infer.engines.registry import Engine
from spdelaw.infer.model import WORDS, Model
from spdelaw.law.derived import relative_l2, rmse
from spdelaw.law.law import Law
from spdelaw.processes.semilinear import Reacting
from spdelaw.statespace.collapse import collapse

# ---------- Reconstruction by the encoder: a path in chaos coordinates, decoded again


def amortized_reconstruct(source: Law | str | Path, data: Any, **adapter: Any) -> xr.Dataset:
    """Field of the encoder's posterior with the variables of `spdelaw.Law.reconstruct`.

    The errors against the data are in ``attrs``: ``relative_l2``, the mean over paths of
    ``|X_hat - X| / |X|``, and ``rmse``, pooled; both without the first time (paper, section 3.3),
    at which the field is the learned initial state and not fitted to the path.

    Args:
        source: a law of ``engine="amortized"``; with ``preset="paper"`` one that was trained with
            ``checkpoint=``, or that folder.
        data: fields, NaN for missing; with ``preset="paper"`` on the points of the training data
            and within its times.
        adapter: as in `spdelaw.fit`.
    """
    if isinstance(source, Law) and source.info.get("preset") == "structured":
        observed = observe(data, source.domain, **adapter).in_memory()
        return decode(source, observed, source.info["n_time"])
    return _neural_module().neural_reconstruct(_checkpoint_folder(source), data, **adapter)


def amortized_posterior(source: Law | str | Path, data: Any, **adapter: Any) -> xr.Dataset:
    """Posterior of the paper's encoder for each path, before decoding.

    Independent normals: ``z0_mean``, ``z0_std`` over (path, mode) and ``xi_mean``, ``xi_std`` over
    (path, k, noise). `spdelaw.law.chaos_posterior` has the exact ones.

    Args:
        source: a law of ``preset="paper"``, ``"literal"`` or ``"rescaled"`` trained with
            ``checkpoint=``, or that folder.
        data: fields on the points of the training data and within its times.
        adapter: as in `spdelaw.fit`.
    """
    return _neural_module().neural_posterior(_checkpoint_folder(source), data, **adapter)


def _neural_module() -> Any:
    return optional("spdelaw.amortized.neural", "preset='paper'", "neural")


def _checkpoint_folder(source: Law | str | Path) -> Path:
    if not isinstance(source, Law):
        return Path(source)
    folder = source.info.get("checkpoint")
    if source.info.get("engine") != "amortized" or folder is None:
        expected = "a law of engine='amortized' trained with checkpoint="
        got = f"engine {source.info.get('engine')!r}, checkpoint {folder!r}"
        fix = "use law.reconstruct, which every law has"
        raise InputError("law", expected=expected, got=got, fix=fix)
    return Path(folder)


def decode(law: Law, observed: Observed, n_time: int) -> xr.Dataset:
    """Best field of the decoder in expectation, with the variables of `spdelaw.Law.reconstruct`.

    ``E|f - X|^2 = |f - E[X | data]|^2 + const``, so among the fields ``f`` of N modes and K
    functions of time the best is the least-squares projection of the posterior mean, which needs
    no truncation. The deviations are those of the posterior. Errors are in ``attrs`` as in
    `spdelaw.amortized.amortized_reconstruct`.
    """
    domain, smoothed, places = law.domain, law.reconstruct(observed), observed.places
    basis = observed.basis(law.n_modes)
    smoothed_mean = np.asarray(domain.flatten(smoothed["mean"]).values)
    times = (
        observed.times
        if observed.times.ndim == 1
        else np.take_along_axis(observed.times, observed.rows, axis=1)
    )
    lam, horizon = law.linear.drift[: law.n_modes], float(np.ptp(law.times))
    mean = np.empty(smoothed_mean.shape)
    for projection in project_on_decoder(
        collapse(smoothed_mean, times, basis), lam, n_time, horizon
    ):
        mean[projection.paths] = projection.coefficients.transpose(2, 0, 1) @ basis.T
    truth = np.array(observed.fields.values)
    truth[:, 0] = np.nan  # not scored, as in the paper
    scored = np.where(np.isnan(truth), np.nan, mean)
    errors = {"relative_l2": relative_l2(scored, truth), "rmse": rmse(scored, truth)}
    shown = (smoothed["mean"].dims, places.unflatten(mean))
    return smoothed.assign(mean=shown).assign_attrs(errors)


# ---------- Paths of the truncated decoder, the paper's samples of the learned model
#
# ``X(t, x) = sum_n [z0_n e^(-lambda_n t) + sqrt(q_n) sum_{k<=K} psi_k(t; lambda_n) xi_{k,n}] h_n(x)
# + sigma(x) e(t, x)`` with ``xi, e ~ N(0, 1)``: smooth sums of K functions of time, and white noise
# in place of the dropped tail. `Law.sample` draws the process with the same lambda and q
# without the truncation, rough in time and without observation noise: another law wherever the
# truncation biased the numbers.


def sample_decoder(
    law: Law, n_paths: int = 1, *, seed: int = 0, observation_noise: bool = True
) -> xr.DataArray:
    """Unconditional draws of a truncated model, at the times and points of its fit.

    Args:
        law: of the paper's learner, or of ``engine="chaos"`` with ``tail="dropped"``.
        n_paths: number of paths.
        seed: of the chaos coordinates and of the noise.
        observation_noise: whether the observation variance is part of a sample, as in the paper.

    Returns:
        Fields with dims (path, time, x). The initial state is the learned mean of ``z0``.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=40, seed=0)
        >>> law = sl.fit(data, sl.Interval(0, np.pi), 2, engine="chaos", tail="dropped", n_time=8)
        >>> sample_decoder(law, 3).shape
        (3, 201, 101)
    """
    whole("n_paths", n_paths, 1)
    n_time, rng = _n_time_functions(law), np.random.default_rng(seed)
    n, age = law.dynamics.n_modes, law.times - law.times[0]
    if isinstance(law.dynamics, Reacting):
        c = _draw_polynomials(law, age, n_paths, rng)
    else:
        linear, basis = law.linear, CosineBasis(float(age[-1]))
        curves = propagate(basis, age, linear.drift, np.sqrt(linear.noise), n_time)
        c = expand(curves, law.initial.mean, rng.standard_normal((n_paths, n_time, n)))
    values = c @ law.domain.eigenfunctions(law.points, n).T
    if observation_noise:
        variance = law.observation_variance + law.unresolved_variance
        values = values + np.sqrt(variance) * rng.standard_normal(values.shape)
    places = law.domain.places(law.points)
    coords = {"path": np.arange(n_paths), "time": law.times, **places.coords}
    dims = ("path", "time", *places.dims)
    return xr.DataArray(places.unflatten(values), dims=dims, coords=coords, name="field")


def _draw_polynomials(law: Law, ages: Any, n_paths: int, rng: np.random.Generator) -> Any:
    """Coefficients (paths, T, N) of a decoder of any order."""
    config, d = law.info["config"], cast(Reacting, law.dynamics)
    n_noise, q = config["n_noise"] or law.n_modes, np.sqrt(d.noise)[:, None]
    indices = decoder_indices(config["n_time"], n_noise, config["order"], config["n_indices"])
    operators, constants, _ = d.noise_operators
    noise = q[..., None] * operators, q * constants
    a, b = augment(-d.rates, *(part[:n_noise] for part in noise))
    start = np.append(law.initial.mean, 1.0)
    u = propagate_chaos(a, b, start, ages, indices)[..., : law.n_modes]
    h = indices.polynomials(rng.standard_normal((n_paths, *indices.degrees.shape[1:])))
    return np.einsum("pa,tan->ptn", h, u)


def _n_time_functions(law: Law) -> int:
    """K, or an error where the law was not learned with a truncated model."""
    info = law.info
    if info.get("preset") in ("paper", "literal", "rescaled"):
        return int(info["config"]["n_time"])
    if info.get("tail") == "dropped":
        return int(info["n_time"])
    expected = "a law of a truncated model (engine='amortized', or tail='dropped')"
    got = f"engine {info.get('engine')!r} without a truncation"
    raise InputError("law", expected=expected, got=got, fix="use law.sample")


# ---------- The amortized engine: training on batches of paths


#: Options of the model that ``preset="structured"`` uses.
STRUCTURED_SUPPORTS = frozenset(WORDS) - {"forcing", "season", "state_noise"}
#: And those of the other presets.
NEURAL_SUPPORTS = frozenset({"state_noise"})


@checked()
class Amortized(Engine):
    """Training on batches of paths.

    ``preset="paper"`` is the paper's encoder and needs the extra ``neural``; the encoder of
    ``preset="structured"`` is the exact posterior.

    Args:
        config: a config, a mapping or a YAML file of settings of
            `spdelaw.amortized.AmortizedConfig` or `spdelaw.amortized.StructuredConfig`.
        validation: fields that score the epochs; for "paper", by default a share of the paths.
        checkpoint: folder for checkpoints of the training, which resumes from the last one in it.
        tensorboard: folder for a log of the training that TensorBoard shows.
        threads: number of threads for data with gaps, with ``preset="structured"``.
        settings: single settings such as ``preset``, ``epochs``, ``n_time``, on top of ``config``.

    Example:
        >>> Amortized(preset="structured", epochs=4)
        Amortized(preset='structured', epochs=4)
    """

    name = "amortized"

    def __init__(
        self,
        config: Any = None,
        *,
        validation: Any = None,
        checkpoint: str | Path | None = None,
        tensorboard: str | Path | None = None,
        threads: int = 1,
        **settings: Any,
    ) -> None:
        """Check every setting."""
        from spdelaw.amortized.structured import make_config

        self.config: Any = make_config(config, **settings)
        self.settings, self.validation, self.tensorboard = settings, validation, tensorboard
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.threads, preset = threads, self.config.preset
        self.supports = STRUCTURED_SUPPORTS if preset == "structured" else NEURAL_SUPPORTS
        if preset != "structured" and threads != 1:
            expected = f"1: preset={preset!r} does not use it"
            fix = "leave threads out"
            raise InputError("threads", expected=expected, got=repr(threads), fix=fix)

    def check(self, model: Model, bootstrap: int) -> None:
        """Refuse options that the preset does not support."""
        super().check(model, bootstrap)
        for what, value in (("drift", model.drift), ("noise", model.noise)):
            if value not in ("diagonal", "parametric"):
                expected = "'diagonal' or 'parametric': chaos coordinates belong to single modes"
                raise InputError(what, expected=expected, got=repr(value), fix="use engine='exact'")
        if model.noise_word == "per_point":
            expected = "one variance for all points, or known ones"
            fix = "use engine='exact', which learns one per point"
            raise InputError("observation_noise", expected=expected, got="'per_point'", fix=fix)
        if model.state_noise != "none":
            self._check_state_noise(model.state_noise)
        if bootstrap:
            expected, fix = "0, as each replicate would need a training", "use engine='exact'"
            raise InputError("bootstrap", expected=expected, got=repr(bootstrap), fix=fix)

    def _check_state_noise(self, kind: str) -> None:
        """Refuse what a decoder of higher order cannot have."""
        if kind == "square_root":
            expected = "noise that is linear in the field, as a chaos of xi needs"
            fix = "use state_noise='affine', or engine='exact', which learns a square root"
            raise InputError("state_noise", expected=expected, got=repr(kind), fix=fix)
        for name, value in (("propagators", "closed_form"), ("rescale", False)):
            if (got := getattr(self.config, name)) != value:
                expected, fix = f"{value!r} with state_noise", "leave it out, with preset='paper'"
                raise InputError(name, expected=expected, got=repr(got), fix=fix)

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Law of the observed fields by training on batches of paths."""
        from spdelaw.amortized.structured import Job, StructuredConfig, fit_structured

        job = Job.of(self, observed, n_modes, model, run)
        if isinstance(self.config, StructuredConfig):
            return fit_structured(job)
        law: Law = _neural_module().fit_neural(job)
        return law

    def __repr__(self) -> str:
        """The settings that the user passed."""
        return f"Amortized({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"
