"""One meaning of a log-likelihood: the log density of a named set of numbers.

The numbers are all observed values. In a row with n values whose modes ``Phi`` have rank k, the
values are k coordinates in the span of the modes and n - k outside it,

    log p(y) = log p(y in the span)  -  1/2 [ (n - k) log(2 pi s) + |y outside|^2 / s ],

where s is the variance of the residual: the observation noise and, outside only, the variance of
finer modes. In the coefficients ``c_hat`` of the modes, ``y = Phi c_hat`` in the span, so that
``log p(c_hat) = log p(y in the span) + 1/2 log |Phi' Phi|``.

Fields that lie in their modes without any noise have no density. Then the numbers are the
coefficients, and a start that is one known point, the same in all paths, is not among them. With
noise, however small, the coordinates of such a start are numbers like those outside the modes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from spdelaw.checks import LARGEST_VALUE
from spdelaw.data.fields import check_values
from spdelaw.data.observed import Observed
from spdelaw.data.summary import checksum
from spdelaw.errors import DataError
from spdelaw.law.observations import (
    blocks_of,
    subtract_mean_and_forcing,
    variance_floor,
    weights_of,
    with_initial_state,
)
from spdelaw.law.prediction import in_parts, in_paths
from spdelaw.processes.linear import Linear
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Block, Collapsed
from spdelaw.statespace.filter import filter_log_likelihood
from spdelaw.statespace.likelihood import evaluate_likelihood
from spdelaw.statespace.statistics import Statistics

if TYPE_CHECKING:
    from spdelaw.law.law import Law

Array = np.ndarray
Kind = Literal["values", "coefficients", "components"]

#: Eigenvalues of a Gram matrix below this share of the largest are zero.
RANK_TOLERANCE = 1e-13
#: Share of the floor under the noise that is enough where each row determines all modes or none.
FULL_RANK_SHARE = 1e-5


@dataclasses.dataclass(frozen=True)
class Numbers:
    """The numbers whose log density a log-likelihood is.

    Attributes:
        kind: "values" for all observed values after preparation, "coefficients" of the modes where
            values have no density, "components" for principal components of the fields.
        count: how many numbers.
        fingerprint: of the data, see `spdelaw.data.summary.checksum`; or empty.
    """

    kind: Kind
    count: int
    fingerprint: str = ""


def log_likelihood(law: Law, data: Any) -> xr.DataArray:
    """Log density of each path; see `spdelaw.Law.log_likelihood`."""
    observed = subtract_mean_and_forcing(law, data)
    if in_paths(observed):
        bare = law.without_preparation_and_mean
        in_memory = (block.in_memory(may_be_empty=True) for block in observed.blocks())
        return _concatenate_paths([log_likelihood(bare, block) for block in in_memory], observed)
    lazy = in_parts(law, observed)
    observed = with_initial_state(law, observed, lazy).at_observed_points()
    weights, floor = weights_of(law, observed), variance_floor(law, observed)
    space, unresolved = law.without_preparation_and_mean.state_space, law.unresolved_variance
    if weights is not None:  # they hold all the noise there is
        space, unresolved, floor = space.with_noise(1.0), 0.0, 0.0
    collapsed = blocks_of(law, observed, weights)
    values, of = log_density(collapsed, observed.n_paths, space, unresolved, floor)
    attrs = {"of": of.kind, "count": of.count}
    return xr.DataArray(values, {"path": observed.fields["path"]}, ("path",), attrs=attrs)


def _concatenate_paths(blocks: list[xr.DataArray], observed: Observed) -> xr.DataArray:
    """Log densities of blocks of paths, which are of the same kind of numbers, as one."""
    kinds = {block.attrs["of"] for block in blocks if block.attrs["count"]}
    if not kinds:
        check_values(observed.fields, LARGEST_VALUE)  # all values are missing
    if len(kinds) > 1:
        expected = "paths with log-likelihoods of the same kind"
        fix = "load the data first: data.load()"
        raise DataError("data", expected=expected, got=" and ".join(sorted(kinds)), fix=fix)
    count = sum(block.attrs["count"] for block in blocks)
    return xr.concat(blocks, "path").assign_attrs(of=kinds.pop(), count=count)


def log_density(
    blocks: Iterable[Block] | Collapsed,
    n_paths: int,
    space: StateSpace,
    unresolved: float,
    floor: float,
) -> tuple[Array, Numbers]:
    """Log density of collapsed observations, path by path (P,), and of what.

    Args:
        blocks: the observations; ``paths`` index all of them.
        n_paths: how many there are.
        space: the law; its observation variance is that inside the modes, one number.
        unresolved: variance that finer modes add outside the modes.
        floor: least observation variance with which the filter is accurate.
    """
    given = (space, unresolved, floor)
    if isinstance(blocks, Collapsed):
        terms_by_block = blocks.map(_block_terms, *given)
    else:
        terms_by_block = [_block_terms(block, *given) for block in blocks]
    terms = np.empty((5, n_paths))
    for paths, block_terms in terms_by_block:
        terms[:, paths] = np.broadcast_arrays(*block_terms)
    in_span, change, n_inside, n_outside, misfit = terms
    left_over = float(space.observation_variance) + unresolved
    if left_over > 0 or not n_outside.any():
        of = Numbers("values", int((n_inside + n_outside).sum()))
        return in_span + _white_noise_density(n_outside, misfit, left_over), of
    return in_span + change, Numbers("coefficients", int(n_inside.sum()))


def statistics_density(
    statistics: Statistics,
    of_coefficients: float,
    initial: InitialState,
    gram: Array,
    unresolved: float,
) -> tuple[float, Numbers]:
    """The same of all paths together, for complete fields without noise inside the modes.

    Args:
        statistics: of the coefficients.
        of_coefficients: their log density, of all paths together, after a start that is known.
        initial: the start.
        gram: ``Phi' Phi``, (N, N).
        unresolved: variance of the residual.
    """
    s = statistics
    known_start = initial.kind == "deterministic"
    rows = s.n_paths * (len(s.times) - known_start)
    inside = rows * s.n_modes
    outside = int(s.n_values) - inside
    if unresolved <= 0 and outside:
        return of_coefficients, Numbers("coefficients", inside)
    misfit = s.outside
    if known_start:
        gap = s.first[0] / s.n_paths - initial.mean
        misfit += float(np.diag(gram) @ s.start_spread) + s.n_paths * float(gap @ gram @ gap)
    in_span = of_coefficients - 0.5 * rows * float(np.linalg.slogdet(gram)[1])
    density = in_span + float(_white_noise_density(outside, misfit, unresolved))
    return density, Numbers("values", int(s.n_values))


def density_entries(value: Any, of: Numbers, observed: Observed) -> dict[str, Any]:
    """Entries of a provenance for the log density of the data that a law was learned from.

    Lazy data are not read again for a fingerprint.
    """
    if not observed.is_lazy:
        of = dataclasses.replace(of, fingerprint=checksum(observed.fields, observed.reading))
    return {"log_likelihood": float(np.sum(value)), "log_likelihood_of": dataclasses.asdict(of)}


def _block_terms(
    block: Block, space: StateSpace, unresolved: float, floor: float
) -> tuple[Array, tuple[Array, ...]]:
    """Paths of a block, and for each of them the terms of its log density; (P,) each.

    Log density in the span of the modes, its change to one of coefficients, numbers inside and
    outside the span, and the misfit outside. Every number but the filter's is a sum over rows.
    """
    r, none = float(space.observation_variance), np.zeros(len(block.paths))
    if r < floor and space.initial.kind == "deterministic":
        block = _without_fixed_start(block, space.initial.mean)
    if r >= floor and unresolved == 0:
        # One variance everywhere: the residual outside the modes needs no separate term.
        return block.paths, (_filter_density(block, space), none, block.n_values, none, none)
    inside, log_gram, is_broken = _row_ranks(block)
    noise = max(r, floor * (1.0 if is_broken else FULL_RANK_SHARE))
    outside = block.n_values - inside
    in_span = _filter_density(block._replace(misfit=none), space.with_noise(noise))
    in_span = in_span - _white_noise_density(outside, 0.0, noise)
    change = 0.5 * (log_gram - block.log_weight)
    return block.paths, (in_span, change, inside, outside, block.misfit)


def _row_ranks(block: Block) -> tuple[Array, Array, bool]:
    """Ranks and logs of eigenvalues but 0, and whether a row determines some modes, not all."""
    values = block.gram
    if not block.is_diagonal:
        values = np.linalg.eigvalsh(np.moveaxis(values, -1, 1)).transpose(0, 2, 1)
    kept = values > RANK_TOLERANCE * values.max(1, keepdims=True)
    ranks, log_gram = kept.sum(1), np.log(np.where(kept, values, 1.0)).sum((0, 1))
    is_broken = not np.isin(ranks, (0, block.gram.shape[1])).all()
    return ranks.sum(0), log_gram, is_broken


def _filter_density(block: Block, space: StateSpace) -> Array:
    """Log density of the values with one observation variance; (P,)."""
    block = block._replace(paths=np.arange(len(block.paths)))
    if isinstance(space.dynamics, Linear):
        alone = Collapsed((block,), len(block.paths), space.n_modes)
        return evaluate_likelihood(alone, space).log_likelihood
    return filter_log_likelihood(block, space)


def _white_noise_density(count: Any, misfit: Any, variance: float) -> Any:
    """Log density of white noise with ``count`` values and a sum of squares; 0 without values."""
    if not np.any(count):
        return np.zeros(np.shape(count))
    return -0.5 * (count * np.log(2 * np.pi * variance) + misfit / variance)


def _without_fixed_start(block: Block, mean: Array) -> Block:
    """Block whose first row is not observed; its misfit to a known start is one of all rows'."""
    gap = block.estimate[0] - mean[:, None]
    gram = block.gram[0]
    pull = gram * gap if block.is_diagonal else np.einsum("ijb,jb->ib", gram, gap)
    gram, vector = block.gram.copy(), block.vector.copy()
    gram[0], vector[0] = 0.0, 0.0
    misfit = block.misfit + (gap * pull).sum(0)
    return block._replace(gram=gram, vector=vector, misfit=misfit)
