"""Noise that depends on the state: moments in closed form, gradients, draws, operators."""

import dataclasses

import numpy as np
import pytest
import scipy

import spdelaw as sl
from spdelaw.errors import SpdeLawError
from spdelaw.processes import Reacting
from spdelaw.processes.closure import Moments, advance, pull_back
from spdelaw.processes.state_noise import STATE_NOISES, bind_state_noise

RING = sl.Interval(0, 2 * np.pi, "periodic")
#: Relative error that is rounding here.
EXACT = 1e-8


def dynamics(kind, n=5, offset=0.0, domain=RING, terms=(), coefficients=(), **more):
    n_noises = n if isinstance(kind, str) else len(kind)
    rates = 0.1 + 0.4 * domain.eigenvalues(n)
    q = 0.4 / np.arange(1.0, n_noises + 1.0)
    if isinstance(kind, str) and kind == "square_root":
        q[:] = 0.1
    numbers = np.array(coefficients, float), rates, q
    return Reacting(domain, terms, *numbers, state_noise=kind, noise_offset=offset, **more)


def transport(n=5):
    """Transport by two velocities around the ring, and damping."""
    out = np.zeros((2, n, n))
    for k in range(1, n - 1, 2):
        out[0, k, k + 1], out[0, k + 1, k] = (k + 1) / 2, -(k + 1) / 2
    out[1] = np.diag(np.linspace(0.5, 1.0, n))
    return out


def lifted_moments(d, x, dt):
    """Mean and covariance from the exponential of the generator of ``(1, c, c c')``."""
    operators, constants, q = d.noise_operators
    n = d.n_modes
    a, identity = -np.diag(d.rates), np.eye(n)
    generator = np.zeros((1 + n + n * n,) * 2)
    generator[1 : n + 1, 1 : n + 1] = a
    generator[n + 1 :, n + 1 :] = np.kron(a, identity) + np.kron(identity, a)
    for b, e, size in zip(operators, constants, q, strict=True):
        column = e[:, None]
        generator[n + 1 :, n + 1 :] += size * np.kron(b, b)
        generator[n + 1 :, 1 : n + 1] += size * (np.kron(b, column) + np.kron(column, b))
        generator[n + 1 :, 0] += size * np.kron(e, e)
    z = scipy.linalg.expm(generator * dt) @ np.concatenate([[1.0], x, np.kron(x, x)])
    return z[1 : n + 1], z[n + 1 :].reshape(n, n) - np.outer(z[1 : n + 1], z[1 : n + 1])


LINEAR = {
    "proportional": dynamics("proportional"),
    "affine": dynamics("affine", offset=-0.7),
    "dirichlet": dynamics("proportional", domain=sl.Interval(0, 2.0)),
    "operators": dynamics(transport()),
}


@pytest.mark.parametrize("name", LINEAR)
def test_operators_give_the_rate_of_the_covariance(name):
    d = LINEAR[name]
    rng = np.random.default_rng(0)
    m, root = rng.standard_normal((3, 5)), rng.standard_normal((3, 5, 5))
    p = root @ root.transpose(0, 2, 1)
    operators, constants, q = d.noise_operators
    second = p + m[:, :, None] * m[:, None, :]
    expected = np.zeros((3, 5, 5))
    for b, e, size in zip(operators, constants, q, strict=True):
        mixed = (m @ b.T)[:, :, None] * e
        expected += size * (b @ second @ b.T + mixed + mixed.transpose(0, 2, 1) + np.outer(e, e))
    rate = d.amplitude.rate(q, d.noise_offset, m, p)
    np.testing.assert_allclose(rate, expected, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("kind", ["proportional", "affine", "square_root", "operators"])
def test_pull_back_of_the_rate_is_its_derivative(kind):
    d = dynamics(transport() if kind == "operators" else kind, offset=0.4 * (kind == "affine"))
    rng, step = np.random.default_rng(1), 1e-6
    m, root = rng.standard_normal((2, 5)), rng.standard_normal((2, 5, 5))
    m[:, 0] += 4.0
    p, by = root @ root.transpose(0, 2, 1), rng.standard_normal((2, 5, 5))
    by = by + by.transpose(0, 2, 1)

    def value(q, offset, m, p):
        return (by * d.amplitude.rate(q, offset, m, p)).sum((1, 2))

    at = [d.noise, d.noise_offset, m, p]
    pulled = d.amplitude.pull_back(*at, by)
    gradients = [pulled.noise, pulled.offset, pulled.mean, pulled.covariance]
    for k in range(4):
        change = rng.standard_normal(np.shape(at[k]))
        if k == 3:
            change = change + change.transpose(0, 2, 1)
        ends = [value(*at[:k], at[k] + sign * step * change, *at[k + 1 :]) for sign in (1, -1)]
        axes = tuple(range(1, np.ndim(gradients[k])))
        slope = (gradients[k] * change).sum(axes) if axes else gradients[k] * change
        if k == 1 and kind in ("proportional", "square_root", "operators"):
            continue  # they have no offset
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", LINEAR)
def test_moments_are_the_exponential_of_the_lifted_matrix(name):
    """In a stiff step and one of many e-folding times too."""
    d, x = LINEAR[name], np.array([2.0, 0.5, -0.3, 0.2, 0.1])
    for dt in (1e-3, 0.1, 3.0 / d.rates.max(), 20.0):
        mean, covariance = lifted_moments(d, x, dt)
        step = d.moments(x, np.zeros((5, 5)), 0.0, dt)
        scale = np.abs(covariance).max()
        np.testing.assert_allclose(step.mean, mean, rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(step.covariance, covariance, rtol=0, atol=EXACT * scale)


def with_linear_terms():
    """Affine noise with a drift that has a constant and a term of u."""
    return dynamics("affine", offset=0.4, terms=("1", "u"), coefficients=(0.3, -0.2))


@pytest.mark.parametrize("name", [*LINEAR, "terms"])
def test_exact_moments_and_sub_steps_agree(name):
    """Moments, and gradients by the start and by all numbers; sub-steps converge with order 4."""
    closure = (LINEAR | {"terms": with_linear_terms()})[name].closure
    rng, dt = np.random.default_rng(0), 0.3
    m, root = 1.0 + rng.standard_normal((3, 5)), rng.standard_normal((3, 5, 5))
    by = rng.standard_normal((2, 3, 5, 5))
    by = Moments(rng.standard_normal((3, 5)), by[0] + by[0].swapaxes(1, 2), by[1])
    start = closure, m, root @ root.swapaxes(1, 2)
    exact, tape = advance(*start, dt, cross=True)
    pulled, errors = pull_back(closure, tape, by), []
    for n in (8, 16, 64):
        stepped, tape = advance(*start, np.full(3, dt), n, cross=True)
        errors.append(np.abs(stepped.covariance - exact.covariance).max())
    assert np.log2(errors[0] / errors[1]) > 3.7
    for one, other in zip(
        (*exact, *pulled), (*stepped, *pull_back(closure, tape, by)), strict=True
    ):
        size = np.abs(other).max(initial=1e-300)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * size)


def test_scalar_geometric_brownian_motion():
    """One constant mode: ``Var X = X_0^2 e^(2 mu t) (e^(s t) - 1)``."""
    d = dataclasses.replace(LINEAR["proportional"].leading(1), rates=np.array([0.3]))
    s = d.noise[0] / (2 * np.pi)
    step = d.moments(np.array([2.0]), np.zeros((1, 1)), 0.0, 0.7)
    decay = np.exp(-0.3 * 0.7)
    np.testing.assert_allclose(step.mean, 2.0 * decay, rtol=EXACT)
    variance = (2.0 * decay) ** 2 * np.expm1(s * 0.7)
    np.testing.assert_allclose(step.covariance, [[variance]], rtol=EXACT)


def test_square_root_moments_of_a_feller_diffusion():
    """One constant mode: ``Var X`` of ``dX = -a X dt + sqrt(X) dw`` is linear in ``X_0``."""
    d = dataclasses.replace(dynamics("square_root", n=1), rates=np.array([0.5]), n_steps=4)
    h, q, a, dt = 1 / np.sqrt(2 * np.pi), 0.1, 0.5, 0.8
    step = d.moments(np.array([3.0]), np.zeros((1, 1)), 0.0, dt)
    variance = q * h * 3.0 * np.exp(-a * dt) * -np.expm1(-a * dt) / a
    np.testing.assert_allclose(step.covariance, [[variance]], rtol=1e-6)


def splitting_errors(d, x, dt, n_paths, counts, seed=0):
    """Root mean square distance of coarse steps from the finest, on the same noise."""
    n = counts[-1]
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, n_paths, d.amplitude.n_drivers))
    ends = []
    for k in counts:
        summed = z.reshape(k, n // k, *z.shape[1:]).sum(1) * np.sqrt(k / n)
        ends.append(d.multiplied(np.tile(x, (n_paths, 1)), dt, summed))
    return np.sqrt([((end - ends[-1]) ** 2).mean() for end in ends[:-1]])


@pytest.mark.parametrize(("name", "order"), [("proportional", 1.0), ("affine", 1.0)])
def test_strong_order_of_the_splitting(name, order):
    counts = [4, 8, 16, 256]
    errors = splitting_errors(LINEAR[name], np.array([2.0, 0.5, 0, 0.2, 0]), 1.0, 400, counts)
    slope = -np.polyfit(np.log(counts[:3]), np.log(errors), 1)[0]
    assert order - 0.2 < slope < order + 0.3


def test_strong_order_of_square_root_noise():
    d = dynamics("square_root")
    counts = [4, 8, 16, 1024]
    errors = splitting_errors(d, np.array([5.0, 0.5, 0, 0.2, 0]), 1.0, 300, counts)
    slope = -np.polyfit(np.log(counts[:3]), np.log(errors), 1)[0]
    assert 0.35 < slope < 1.2


def second_moment_of_splitting(d, x, dt, n):
    """Exact second moment of the scheme: its map of ``c c'`` by Gauss-Hermite nodes, n times."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)
    grids = np.meshgrid(*[nodes] * d.amplitude.n_drivers, indexing="ij")
    z = np.stack([g.ravel() for g in grids], axis=1)
    w = np.prod(np.meshgrid(*[weights / weights.sum()] * z.shape[1], indexing="ij"), axis=0).ravel()
    states = np.concatenate([np.zeros((1, len(x))), np.eye(len(x))])
    images = np.stack([d.multiplied(np.tile(s, (len(z), 1)), dt / n, z[None]) for s in states])
    shift, matrices = images[0], images[1:] - images[0]
    mean, second = x, np.outer(x, x)
    for _ in range(n):
        moved = np.einsum("nzi,nm,mzj,z->ij", matrices, second, matrices, w)
        mixed = np.einsum("nzi,n,zj,z->ij", matrices, mean, shift, w)
        second = moved + mixed + mixed.T + np.einsum("zi,zj,z->ij", shift, shift, w)
        mean = np.einsum("nzi,n,z->i", matrices, mean, w) + w @ shift
    return mean, second - np.outer(mean, mean)


@pytest.mark.parametrize("kind", ["proportional", "affine"])
def test_weak_order_of_the_splitting(kind):
    d, x = dynamics(kind, n=3, offset=0.5 * (kind == "affine")), np.array([2.0, 0.5, -0.3])
    mean, covariance = lifted_moments(d, x, 1.0)
    counts, errors = [4, 8, 16], []
    for n in counts:
        scheme = second_moment_of_splitting(d, x, 1.0, n)
        np.testing.assert_allclose(scheme[0], mean, atol=1e-10)
        errors.append(np.abs(scheme[1] - covariance).max())
    slope = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert 1.7 < slope < 2.3


def test_simulated_fields_have_the_moments_of_the_law():
    e = sl.catalogue.geometric_heat(5, times=[0.0, 1.0])
    fields = sl.simulate(e, 4000, seed=0)
    c = fields.values[:, -1] @ np.linalg.pinv(e.domain.eigenfunctions(fields.x.values, 5)).T
    mean, covariance = lifted_moments(e.dynamics, e.linear.initial_mean, 1.0)
    error = np.sqrt(np.diag(covariance) / 4000)
    assert np.abs((c.mean(0) - mean) / error).max() < 4.5
    fourth = ((c - c.mean(0)) ** 4).mean(0) - c.var(0) ** 2
    assert np.abs((c.var(0) - np.diag(covariance)) / np.sqrt(fourth / 4000)).max() < 4.5


def test_stratonovich_is_a_correction_of_the_drift():
    operators, constants, q = LINEAR["affine"].noise_operators
    linear = sl.SpectralSPDE(RING, 5, noise=LINEAR["affine"].noise)
    e = sl.Semilinear(linear, {}, state_noise="affine", noise_offset=-0.7)
    matrix, constant = e.ito_correction
    expected = 0.5 * np.einsum("l,lij,ljk->ik", q, operators, operators)
    np.testing.assert_allclose(matrix, expected, atol=EXACT)
    expected = 0.5 * np.einsum("l,lij,lj->i", q, operators, constants)
    np.testing.assert_allclose(constant, expected, atol=EXACT)
    assert not sl.Semilinear(linear, {"u": 1.0}).ito_correction[0].any()


def test_description_keeps_the_noise():
    linear = sl.SpectralSPDE(RING, 5, noise=sl.White(0.1))
    for kind in (*STATE_NOISES, transport()):
        offset = 0.5 if isinstance(kind, str) and kind == "affine" else 0.0
        e = sl.Semilinear(linear, {"u": -1.0}, state_noise=kind, noise_offset=offset)
        again = sl.Semilinear.from_dict(e.to_dict())
        assert again == e
        d = Reacting.from_dict(e.dynamics.to_dict())
        assert d.state_noise_kind == e.dynamics.state_noise_kind
        state = np.ones(5)
        np.testing.assert_array_equal(
            d.moments(state, np.eye(5), 0.0, 0.1).covariance,
            e.dynamics.moments(state, np.eye(5), 0.0, 0.1).covariance,
        )


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"state_noise": "multiplicative"}, "proportional"),
        ({"state_noise": "square_root"}, "White"),
        ({"state_noise": "proportional", "noise_offset": 1.0}, "affine"),
        ({"state_noise": "affine", "noise_offset": np.nan}, "finite"),
        ({"state_noise": np.zeros((2, 4, 4))}, "stack"),
        ({"state_noise": np.zeros((9, 5, 5))}, "more modes"),
        ({"state_noise": np.full((1, 5, 5), np.nan)}, "finite"),
    ],
)
def test_refusals(options, word):
    linear = sl.SpectralSPDE(RING, 5, noise=sl.PowerLaw(2.0))
    with pytest.raises(SpdeLawError, match=word):
        sl.Semilinear(linear, {}, **options)


def test_refuses_several_fields():
    pair = sl.Fields(RING, ("u", "v"))
    with pytest.raises(SpdeLawError, match="several fields"):
        bind_state_noise("proportional", pair, 6)


def test_semi_implicit_scheme_is_refused():
    with pytest.raises(SpdeLawError, match="leave scheme out"):
        sl.simulate(sl.catalogue.geometric_heat(5), 2, scheme="semi_implicit")
