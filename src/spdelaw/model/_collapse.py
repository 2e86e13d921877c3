"""Observations collapsed onto the modes, once, before any likelihood is computed.

At one time of one path, ``y = Phi c + e`` with ``e ~ N(0, r W^-1)``. The likelihood of ``c``
needs only

    G = Phi' W Phi,   b = Phi' W y,   c_hat = G^+ b,   RSS = (y - Phi c_hat)' W (y - Phi c_hat),

because ``(y - Phi c)' W (y - Phi c) = RSS + (c - c_hat)' G (c - c_hat)``. After this the cost
does not depend on the number of points. Writing the misfit around ``c_hat`` keeps all digits
where the noise is small; ``y'y - 2 b'c + c'G c`` would lose them.

Paths with gaps of their own have a G each, and all of them may not fit into memory. Then each
mode keeps its marginal ``c_hat_n ~ N(c_n, r (G^-1)_nn)``: a likelihood in its own right, without
the correlation of errors between modes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.model._blocks import invert

Array = np.ndarray

#: Off-diagonal entries of G below this share of the diagonal count as zero.
DIAGONAL_TOLERANCE = 1e-10
#: Patterns are worked off one by one while each serves at least this many paths.
PATHS_PER_PATTERN = 4
#: Relative eigenvalue of G from which on a plain inverse is trusted.
SMALLEST_EIGENVALUE = 1e-6
#: Paths whose fields are worked on together; they should stay in cache.
PATHS_AT_ONCE = 16
#: Bytes of G in one block of paths with patterns of their own: at one time, so that a step
#: stays in cache whatever the number of times, and in all, so that memory stays bounded.
STEP_BYTES, BLOCK_BYTES = 60e3, 160e6
#: Fewer paths than this at once and calls cost more than arithmetic.
FEWEST_PATHS = 64
#: Bytes of all G together from which on modes are decoupled.
MOST_BYTES = 1.5e9
#: Bytes of the table of products of modes; beyond, each G is a product of its own.
PAIR_BYTES = 100e6


class Block(NamedTuple):
    """Paths that are worked on together.

    Attributes:
        paths: their indices, (P,).
        times: (T, 1) where shared, else (T, P).
        gram: ``G``, (T, N, N, B), or its diagonal (T, N, B); B is 1 where shared.
        vector: ``b``, (T, N, P).
        estimate: ``c_hat``, (T, N, P).
        misfit: ``RSS`` summed over times, (P,).
        n_values: observed values, (P,).
        log_weight: sum of ``log w`` over the observed values, (P,).
        log_gram: sum over times of ``log |G|`` where G is regular, (B,).
        unit: one, (1, 1); after `rotate` what stands for it in each column, (N, columns), when
            ``vector`` and ``estimate`` have fewer columns than there are paths.
    """

    paths: Array
    times: Array
    gram: Array
    vector: Array
    estimate: Array
    misfit: Array
    n_values: Array
    log_weight: Array
    log_gram: Array
    unit: Array = np.ones((1, 1))

    @property
    def is_diagonal(self) -> bool:
        """Whether the observations leave the modes uncoupled."""
        return self.gram.ndim == 3


class Collapsed(NamedTuple):
    """All paths of a data set in blocks.

    Attributes:
        decoupled: whether each mode stands for itself, to save memory.
    """

    blocks: tuple[Block, ...]
    n_paths: int
    n_modes: int
    decoupled: bool = False

    @property
    def n_values(self) -> float:
        """Observed values in all."""
        return float(sum(block.n_values.sum() for block in self.blocks))

    @property
    def misfit(self) -> float:
        """Residual sum of squares in all."""
        return float(sum(block.misfit.sum() for block in self.blocks))

    @property
    def is_diagonal(self) -> bool:
        """Whether no block couples its modes."""
        return all(block.is_diagonal for block in self.blocks)


def collapse(
    values: Array, times: Array, eigenfunctions: Array, weights: Array | None = None
) -> Collapsed:
    """Collapse fields (P, T, M) with NaN for missing onto the columns of ``Phi`` (M, N).

    Args:
        values: fields; NaN where nothing was observed.
        times: (T,), or (P, T) where each path has its own.
        eigenfunctions: ``Phi``, (M, N).
        weights: relative precision of each point, (M,).
    """
    n_paths, n_modes = len(values), eigenfunctions.shape[1]
    w = np.ones(len(eigenfunctions)) if weights is None else np.asarray(weights, float)
    groups = list(_groups(values, times, n_modes))
    own = sum(len(paths) for paths, shared in groups if not shared)
    if 8.0 * own * values.shape[1] * n_modes**2 > MOST_BYTES:
        parts = [np.arange(n_paths)[part] for part in _parts(n_paths)]
        blocks = [decoupled_block(values, times, eigenfunctions, w, paths) for paths in parts]
        return Collapsed(tuple(blocks), n_paths, n_modes, True)
    blocks = [_block(values, times, eigenfunctions, w, *group) for group in groups]
    return Collapsed(tuple(blocks), n_paths, n_modes)


def _groups(values: Array, times: Array, n_modes: int) -> Iterator[tuple[Array, bool]]:
    """Index sets of paths to be worked on together, and whether they share one pattern."""
    everything = np.arange(len(values))
    seen = ~np.isnan(values)
    if times.ndim == 1 and seen.all():
        yield everything, True
        return
    keys = np.packbits(seen.reshape(len(seen), -1), axis=1)
    if times.ndim == 2:
        own = np.ascontiguousarray(times, float)
        keys = np.hstack([keys, own.view(np.uint8).reshape(len(own), -1)])
    patterns: dict[bytes, list[int]] = {}
    for path, key in enumerate(keys):
        patterns.setdefault(key.tobytes(), []).append(path)
    if len(values) >= PATHS_PER_PATTERN * len(patterns) or len(values) == 1:
        for paths in patterns.values():
            yield np.array(paths), True
        return
    one = 8 * n_modes**2
    most = max(FEWEST_PATHS, round(STEP_BYTES / one))
    most = max(1, min(most, int(BLOCK_BYTES / (one * values.shape[1]))))
    step = -(-len(values) // -(-len(values) // most))  # blocks of equal size share threads well
    for start in range(0, len(values), step):
        yield everything[start : start + step], False


def _block(values: Array, times: Array, phi: Array, w: Array, paths: Array, shared: bool) -> Block:
    y = _rows(values, paths)
    seen = ~np.isnan(y)
    t = times[:, None] if times.ndim == 1 else times[paths[:1] if shared else paths].T
    vector = _vector(y, seen, w[:, None] * phi)
    gram = _gram(seen[:1] if shared else seen, phi, w)
    if _nearly_diagonal(gram):
        gram = np.einsum("tiib->tib", gram).copy()
        estimate = np.divide(vector, gram, out=np.zeros_like(vector), where=gram > 0)
        log_gram = np.log(np.where(gram > 0, gram, 1.0)).sum((0, 1))
    else:
        estimate, log_gram = _least_squares(gram, vector)
    per_point = seen.sum(1).astype(float)
    return Block(
        paths, t, gram, vector, estimate, _misfit(y, seen, estimate, phi, w),
        per_point.sum(1), per_point @ np.log(w), log_gram,
    )  # fmt: skip


def _rows(values: Array, paths: Array) -> Array:
    """``values[paths]``, a view where the paths follow one another."""
    first, last = int(paths[0]), int(paths[-1])
    return values[first : last + 1] if last - first + 1 == len(paths) else values[paths]


def _parts(n_paths: int) -> Iterator[slice]:
    """A few paths at a time: what is computed of them on the way stays in cache."""
    for start in range(0, n_paths, PATHS_AT_ONCE):
        yield slice(start, start + PATHS_AT_ONCE)


def _vector(y: Array, seen: Array, weighted: Array) -> Array:
    """``b = Phi' W y`` (T, N, P), contiguous along the paths as every later step needs it."""
    out = np.empty((y.shape[1], weighted.shape[1], len(y)))
    for part in _parts(len(y)):
        known = np.where(seen[part], y[part], 0.0)
        out[..., part] = (known @ weighted).transpose(1, 2, 0)
    return out


def _misfit(y: Array, seen: Array, estimate: Array, phi: Array, w: Array) -> Array:
    """``RSS`` of each path; (P,)."""
    out = np.empty(len(y))
    for part in _parts(len(y)):
        residual = np.ascontiguousarray(estimate[..., part].transpose(2, 0, 1)) @ phi.T
        np.subtract(y[part], residual, out=residual)
        residual[~seen[part]] = 0.0
        out[part] = np.einsum("ptm,ptm->pm", residual, residual) @ w
    return out


def _gram(seen: Array, phi: Array, w: Array) -> Array:
    """``Phi' W Phi`` over the observed points: (T, N, N, B), by one product over pairs."""
    n = phi.shape[1]
    if 4.0 * len(phi) * n * (n + 1) > PAIR_BYTES:
        return np.stack([_each_gram(rows, phi, w) for rows in seen], axis=-1)
    i, j = np.tril_indices(n)
    pairs = (w[:, None] * phi[:, i]) * phi[:, j]
    packed = np.empty((seen.shape[1], len(i), len(seen)))
    for part in _parts(len(seen)):
        packed[..., part] = (seen[part].astype(float) @ pairs).transpose(1, 2, 0)
    gram = np.empty((packed.shape[0], n, n, packed.shape[2]))
    gram[:, i, j] = packed
    gram[:, j, i] = packed
    return gram


def _each_gram(seen: Array, phi: Array, w: Array) -> Array:
    """The same for the rows of one path, (T, N, N), one product a pattern."""
    out = np.empty((len(seen), phi.shape[1], phi.shape[1]))
    for t, row in enumerate(seen):
        if t and np.array_equal(row, seen[t - 1]):
            out[t] = out[t - 1]
        else:
            some = np.sqrt(w[row])[:, None] * phi[row]
            out[t] = some.T @ some
    return out


def decoupled_block(values: Array, times: Array, phi: Array, w: Array, paths: Array) -> Block:
    """Block in which each mode has its marginal estimate: ``gram`` is ``1 / (G^-1)_nn``.

    A row whose G is too ill conditioned to invert counts as unobserved.
    """
    y = values[paths].copy()
    n_times, n = y.shape[1], phi.shape[1]
    root = np.sqrt(w)[:, None] * phi
    whole = root.T @ root
    gram, estimate = np.zeros((n_times, n, len(y))), np.zeros((n_times, n, len(y)))
    for p, t in np.ndindex(len(y), n_times):
        found = _marginal(y[p, t], root, whole, w)
        if found is None:
            y[p, t] = np.nan
        else:
            estimate[t, :, p], gram[t, :, p] = found
    seen = ~np.isnan(y)
    per_point = seen.sum(1).astype(float)
    return Block(
        paths, times[:, None] if times.ndim == 1 else times[paths].T, gram, gram * estimate,
        estimate, _misfit(y, seen, estimate, phi, w), per_point.sum(1), per_point @ np.log(w),
        np.log(np.where(gram > 0, gram, 1.0)).sum((0, 1)),
    )  # fmt: skip


def _marginal(y: Array, root: Array, whole: Array, w: Array) -> tuple[Array, Array] | None:
    """``c_hat`` and ``1 / diag(G^-1)`` of one row; None where G has no good inverse."""
    missing = np.isnan(y)
    if len(y) - missing.sum() < len(whole):
        return None
    # The fewer of the points, those seen or those missing, make the product.
    some = root[missing] if 2 * missing.sum() < len(y) else root[~missing]
    g = whole - some.T @ some if 2 * missing.sum() < len(y) else some.T @ some
    scale = np.sqrt(np.diag(g))
    factor, failed = scipy.linalg.lapack.dpotrf(g / np.outer(scale, scale), lower=1)
    if failed:
        return None
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
    spread = np.diag(inverse)
    if not spread.sum() < 1.0 / SMALLEST_EIGENVALUE:
        return None
    b = root.T @ np.where(missing, 0.0, np.sqrt(w) * y)
    solution, _ = scipy.linalg.lapack.dpotrs(factor, b / scale, lower=1)
    return solution / scale, scale**2 / spread


def _nearly_diagonal(gram: Array) -> bool:
    diagonal = np.einsum("tiib->tib", gram)
    off = np.abs(gram).sum() - np.abs(diagonal).sum()
    return bool(off <= DIAGONAL_TOLERANCE * diagonal.sum())


def _least_squares(gram: Array, vector: Array) -> tuple[Array, Array]:
    """``c_hat = G^+ b`` and ``sum_t log|G|``, by the inverse or else by eigenvectors."""
    n_times, _, _, batch = gram.shape
    out, logs = np.empty(vector.shape), np.zeros(batch)
    for t in range(n_times):
        regular = np.zeros(batch, bool)
        if batch > 1:
            out[t], log, regular = _regular_solution(gram[t], vector[t])
            logs += np.where(regular, log, 0.0)
        if regular.all():
            continue
        rest = np.flatnonzero(~regular)
        # One pattern for all paths is mostly one for all times too: no second decomposition.
        if batch > 1 or t == 0 or not np.array_equal(gram[t], gram[t - 1]):
            pseudo, log = _pseudo_inverse(np.moveaxis(gram[t][..., rest], -1, 0))
        logs[rest] += log
        if batch == 1:
            out[t] = pseudo[0] @ vector[t]
        else:
            out[t][:, rest] = np.einsum("bij,jb->ib", pseudo, vector[t][:, rest])
    return out, logs


def _pseudo_inverse(matrices: Array) -> tuple[Array, Array]:
    """``G^+`` (B, N, N), and ``log|G|`` where it is finite, else 0."""
    sign, log = np.linalg.slogdet(matrices)
    pseudo = np.linalg.pinv(matrices, rcond=1e-13, hermitian=True)
    return pseudo, np.where(sign > 0, log, 0.0)


def _regular_solution(gram: Array, vector: Array) -> tuple[Array, Array, Array]:
    """``G^-1 b`` (N, B), ``log|G|`` (B,), and where they can be trusted (B,).

    Scaled to a unit diagonal, the smallest eigenvalue is at least one over the trace of the
    inverse; from 1e-6 on an inverse without pivoting is good. A singular matrix gives infinite,
    undefined or huge entries.
    """
    scale = np.sqrt(np.einsum("iib->ib", gram))
    with np.errstate(all="ignore"):
        try:
            inverse, log = invert(gram / (scale[:, None] * scale))
        except np.linalg.LinAlgError:  # LAPACK refuses all of them where one is singular
            return np.zeros(vector.shape), np.zeros(len(scale[0])), np.zeros(len(scale[0]), bool)
        solution = np.einsum("ijb,jb->ib", inverse, vector / scale) / scale
        trace = np.abs(np.einsum("iib->ib", inverse)).sum(0)
        return solution, log + 2.0 * np.log(scale).sum(0), trace < 1.0 / SMALLEST_EIGENVALUE
