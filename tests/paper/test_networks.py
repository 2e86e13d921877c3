"""Forward passes against formulas written down independently, in NumPy and without tricks."""

import numpy as np
import pytest
import torch
from scipy import special
from tests.paper.baseline_cases import ALL, heat_data, small
from torch import nn
from torch.nn import functional

import spdelaw as sl
from spdelaw.paper.baselines import FNO, NSPDE, SVNN, DeepONet, DLRNet
from spdelaw.paper.baselines._fourier import SpectralConvolution
from spdelaw.paper.baselines._grid import Grid
from spdelaw.paper.baselines.dlr_net import implicit_step
from spdelaw.paper.baselines.nspde import Kernel

FLOAT32 = 2e-5


def grid(n_times=21, n_points=17, domain=None):
    domain = sl.Interval(0, np.pi) if domain is None else domain
    return Grid(np.linspace(0, 1, n_times), domain.grid(n_points), domain)


def network_of(cls, seed=0, **settings):
    system = small(cls, **settings)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return system.network(grid()).eval()


def inputs(n=3, seed=0):
    rng = np.random.default_rng(seed)
    initial, drive = rng.standard_normal((n, 17)), rng.standard_normal((n, 21, 17))
    drive[:, 0] = 0.0
    return torch.from_numpy(initial).float(), torch.from_numpy(drive).float()


def array(tensor):
    return tensor.detach().double().numpy()


def dense(layer, v):
    """A linear layer, or a 1 x 1 convolution, on the last axis."""
    w = array(layer.weight)
    return v @ w.reshape(w.shape[:2]).T + array(layer.bias)


def gelu(v):
    return v * special.ndtr(v)


def dft(v, axis, inverse=False):
    """Fourier transform by its definition."""
    n = v.shape[axis]
    sign = 2j if inverse else -2j
    matrix = np.exp(sign * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    out = np.moveaxis(np.tensordot(np.moveaxis(v, axis, -1), matrix, axes=1), -1, axis)
    return out / n if inverse else out


def spectral(layer, v):
    """``K(v)`` of v (B, X, T, C): weights on pairs of frequencies, the real part of the inverse.

    A real inverse transform is the real part of the sum with positive frequencies of t counted
    twice, except those that are their own mirror image.
    """
    (mx, mt), (n_x, n_t) = layer.modes, v.shape[1:3]
    f = dft(dft(v, 1), 2)
    out = np.zeros(f.shape, complex)
    for weight, rows in ((layer.low, range(mx)), (layer.high, range(n_x - mx, n_x))):
        w = weight().detach().to(torch.complex128).numpy()
        for i, row in enumerate(rows):
            for j in range(mt):
                out[:, row, j] = f[:, row, j] @ w[:, :, i, j]
    twice = np.full(n_t, 2.0)
    twice[0] = 1.0
    if n_t % 2 == 0:
        twice[n_t // 2] = 1.0
    return dft(dft(out, 1, True) * twice[:, None], 2, True).real


def stack(layers, v):
    n_t = v.shape[2]
    v = np.concatenate([v, np.zeros((*v.shape[:2], layers.padding, v.shape[3]))], axis=2)
    for i, (kernel, pointwise) in enumerate(zip(layers.kernels, layers.pointwise, strict=True)):
        v = spectral(kernel, v) + dense(pointwise, v)
        if i < len(layers.kernels) - 1:
            v = gelu(v)
    return v[:, :, :n_t]


def readout(layer, v, activation):
    return dense(layer.layers[2], activation(dense(layer.layers[0], v)))[..., 0]


def agree(found, expected):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(array(found), expected, rtol=0, atol=FLOAT32 * scale)


def test_fno_is_its_formula():
    network, (initial, drive) = network_of(FNO), inputs()
    xi = array(drive)
    rows = np.repeat(xi.transpose(0, 2, 1)[:, :, None, :], 21, axis=2)  # xi(x, .) at every t
    x, t = np.meshgrid(np.linspace(0, 1, 17), np.linspace(0, 1, 21), indexing="ij")
    at = np.broadcast_to(np.stack([x, t], -1), (3, 17, 21, 2))
    v = stack(network.layers, dense(network.lift, np.concatenate([rows, at], -1)))
    agree(network(initial, drive), readout(network.readout, v, gelu).transpose(0, 2, 1)[:, 1:])


def test_deeponet_is_its_formula():
    network, (initial, drive) = network_of(DeepONet), inputs()
    rng = np.random.default_rng(1)
    for name in ("drive_mean", "drive_std", "field_mean", "field_std"):
        setattr(network, name, torch.from_numpy(rng.uniform(1, 2, (20, 17))).float())
    mean, std, out_mean, out_std = (
        array(getattr(network, n)) for n in ("drive_mean", "drive_std", "field_mean", "field_std")
    )

    def three(layers, v):
        v = np.maximum(dense(layers[0], v), 0)
        return np.tanh(dense(layers[4], np.maximum(dense(layers[2], v), 0)))

    branch = three(network.branch, ((array(drive)[:, 1:] - mean) / (std + 1e-5)).reshape(3, -1))
    expected = np.empty((3, 20, 17))
    for i, t in enumerate(np.linspace(0, 1, 21)[1:]):
        for j, x in enumerate(np.linspace(0, 1, 17)):
            expected[:, i, j] = branch @ three(network.trunk, np.array([x, t]))
    agree(network(initial, drive), expected * (out_std + 1e-5) + out_mean)


def central(n, modes):
    """Positions in an unshifted transform of the central band of the shifted one."""
    start = n // 2 - modes // 2
    return np.fft.fftshift(np.arange(n))[start : start + modes]


def test_nspde_is_its_formula():
    network, (initial, drive) = network_of(NSPDE), inputs()
    w = network.kernel.weight().detach().to(torch.complex128).numpy()
    rows, columns = central(17, 12), central(21, 12)

    def coefficient(layers, z):
        z, norm = dense(layers[0], z), layers[1]
        z = (z - array(norm.running_mean)) / np.sqrt(array(norm.running_var) + norm.eps)
        return np.tanh(z * array(norm.weight) + array(norm.bias))

    z0 = dense(network.lift, array(initial)[..., None])  # (B, X, C)
    f0 = dft(z0, 1)
    free = np.zeros((3, 17, 21, 8), complex)
    in_time = np.zeros((8, 8, 12, 21), complex)
    in_time[..., :12] = w
    in_time = dft(in_time, 3, inverse=True)
    for i, row in enumerate(rows):
        free[:, row] = np.einsum("bi,iot->bto", f0[:, row], in_time[:, :, i])
    free = dft(free, 1, inverse=True).real
    xi = array(drive).transpose(0, 2, 1)[..., None]
    force = coefficient(network.drift, free) + coefficient(network.diffusion, free) * xi
    f, out = dft(dft(force, 1), 2), np.zeros((3, 17, 21, 8), complex)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            out[:, row, column] = f[:, row, column] @ w[:, :, i, j]
    z = free + dft(dft(out, 1, inverse=True), 2, inverse=True).real
    expected = readout(network.readout, z, lambda v: np.maximum(v, 0)).transpose(0, 2, 1)
    agree(network(initial, drive), expected[:, 1:])


def test_dlr_net_is_its_formula():
    network, (initial, drive) = network_of(DLRNet), inputs()
    M = implicit_step(grid(), "dirichlet")
    dt, powers = 0.05, [np.linalg.matrix_power(M.T, k) for k in range(21)]

    def integral(f):
        """``I[f]_t = dt sum_{s <= t} f_s (M^T)^(t - s + 1)``."""
        out = np.zeros_like(f)
        for t in range(1, 21):
            out[:, t] = dt * sum(f[:, s] @ powers[t - s + 1] for s in range(1, t + 1))
        return out

    u = np.stack([array(initial) @ powers[t] for t in range(21)], 1)
    a = integral(array(drive) / dt)

    def with_(u):
        return [integral(f) for f in (a * u, a * u**2, a**2 * u, u**2, u)]

    features = [u, a, *with_(u), *(integral(f) for f in (a**2, a**3, a))]
    guess = network.guess
    v = dense(guess[2], gelu(dense(guess[0], np.stack(features, -1))))[..., 0]
    x, t = np.meshgrid(np.linspace(0, 1, 17), np.linspace(0, 1, 21))
    channels = [*features, v, *with_(v), np.broadcast_to(x, u.shape), np.broadcast_to(t, u.shape)]
    lifted = dense(network.lift, np.stack(channels, -1)).transpose(0, 2, 1, 3)
    out = readout(network.readout, stack(network.layers, lifted), gelu).transpose(0, 2, 1)
    agree(network(initial, drive), out[:, 1:])


def test_sv_nn_is_its_formula():
    network = network_of(SVNN)
    xi = np.random.default_rng(0).standard_normal((3, 7))
    g, expected = grid(), np.zeros((3, 20, 17))
    weights = {n: array(p) for n, p in network.named_parameters()}
    for a in range(7):
        for j in range(16):
            phase = weights["in_time"][a, j] * g.times[1:, None]
            phase = phase + weights["in_space"][a, j] * g.points - weights["shift"][a, j]
            expected += xi[:, a, None, None] * weights["outer"][a, j] * np.tanh(phase)
    agree(network(torch.zeros(3, 17), torch.from_numpy(xi).float()), expected)


def test_spectral_convolution_agrees_with_neuraloperator():
    neuralop = pytest.importorskip(
        "neuralop.layers.spectral_convolution",
        reason="pip install --no-deps neuraloperator tensorly tensorly-torch opt_einsum",
    )
    ours = SpectralConvolution(4, 5, 6)
    theirs = neuralop.SpectralConv(4, 4, (10, 10), bias=False)
    weight = torch.cat([ours.high(), ours.low()], 2)  # theirs are in the order of fftshift
    with torch.no_grad():
        theirs.weight.tensor = nn.Parameter(weight)
    v = torch.randn(2, 4, 16, 20)  # even: theirs shifts odd sizes back by one too many
    torch.testing.assert_close(ours(v), theirs(v), rtol=0, atol=1e-5)


# ------------------------------------------------------------------ DLR-Net's integration


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "periodic"])
def test_implicit_step_solves_the_heat_equation_of_its_boundary(boundary):
    domain = sl.Interval(0, np.pi, boundary)
    g = Grid(np.linspace(0, 1e-3, 3), domain.grid(161), domain)
    h, lam = domain.eigenfunctions(g.points, 4), domain.eigenvalues(4)
    stepped = implicit_step(g, boundary) @ h
    np.testing.assert_allclose(stepped, h / (1 + g.dt * lam), atol=3e-5)


def test_dirichlet_ends_stay_zero():
    step = implicit_step(grid(), "dirichlet")
    assert not step[[0, -1]].any()
    assert not step[:, [0, -1]].any()


def test_integration_has_the_gradient_of_the_recursion():
    network = network_of(DLRNet).double()
    f = torch.randn(2, 6, 17, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(network.integrate, (f,))


def test_features_of_dlr_net_already_solve_the_heat_equation():
    equation = sl.catalogue.heat(n_modes=50)
    data = sl.simulate(equation, 4, seed=0, scheme="semi_implicit", return_noise=True)
    full = Grid(data.time.values, data.x.values, equation.domain)
    drive = torch.from_numpy(data["noise_field"].values).float()
    initial = torch.from_numpy(data["field"].values[:, 0]).float()
    errors = {}
    for boundary in ("domain", "periodic"):
        network = DLRNet(equation.domain, boundary=boundary).network(full)
        with torch.no_grad():
            solved = sum(network.solve(initial, drive))[:, 1:]
        truth = torch.from_numpy(data["field"].values[:, 1:]).float()
        errors[boundary] = float((solved - truth).norm() / truth.norm())
    assert errors["domain"] < 1e-3
    assert errors["periodic"] > 0.1


# ------------------------------------------------------------------ one forward for a batch


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.name)
def test_one_shared_forward_has_the_loss_and_gradient_of_the_whole_batch(cls):
    data = heat_data(12)
    system = small(cls)
    g = Grid(data.time.values, data.x.values, system.domain)
    shared = system._cases(data, "hidden", g, 0)
    assert shared.shared
    n = len(shared)
    repeated = type(shared)(
        shared.initial.expand(n, -1), shared.drive.expand(n, *shared.drive.shape[1:]),
        shared.target,
    )  # fmt: skip
    gradients, losses = [], []
    for cases in (shared, repeated):
        network = system._new_network(system._kept(g), 0)
        network.prepare(cases)
        network.train()
        error = (network(cases.initial, cases.drive) - cases.target).flatten(1).norm(dim=1)
        loss = (error / cases.target.flatten(1).norm(dim=1)).sum()
        loss.backward()
        losses.append(loss.item())
        gradients.append([p.grad for p in network.parameters() if p.grad is not None])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    largest = max(float(g.abs().max()) for g in gradients[1])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * largest)


def test_gelu_is_the_exact_one():
    v = torch.linspace(-3, 3, 7)
    agree(functional.gelu(v), gelu(array(v)))


def test_central_band_holds_the_lowest_frequencies():
    kernel = Kernel(1, 4, 4)
    with torch.no_grad():
        kernel.weight.pairs.copy_(torch.tensor([1.0, 0.0]).expand_as(kernel.weight.pairs))
    x = torch.linspace(0, 1, 17)[:-1]
    low = torch.cos(2 * np.pi * x)[:, None].expand(-1, 9)[None, None]
    high = torch.cos(2 * np.pi * 6 * x)[:, None].expand(-1, 9)[None, None]
    torch.testing.assert_close(kernel(low), low, rtol=0, atol=1e-5)
    assert kernel(high).abs().max() < 1e-5
