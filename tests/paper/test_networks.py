"""Sizes as published, and forward passes against formulas written independently in NumPy."""

import numpy as np
import pytest
import torch
from scipy import special
from tests.paper.cases import by_system, heat_data, small

import spdelaw as sl
from paper import baselines
from paper.baselines import FNO, NSPDE, SVNN, DeepONet, DLRNet, Grid
from paper.baselines.dlr_net import implicit_step
from paper.baselines.fourier import count_parameters
from paper.baselines.inputs import Cases
from paper.baselines.training import batch_loss

#: Weights of the published configuration, a complex one counted once and twice.
PUBLISHED = {
    DeepONet: (11_292_672, 11_292_672),
    FNO: (4_929_249, 9_844_449),
    NSPDE: (3_283_457, 6_560_257),
    DLRNet: (133_178, 264_250),
    SVNN: (1_408, 1_408),
}


@by_system
def test_published_configuration_has_the_published_number_of_weights(cls):
    equation = sl.catalogue.ornstein_uhlenbeck(8) if cls is SVNN else sl.catalogue.heat(8)
    system = cls(equation.domain)
    grid = Grid(equation.times, equation.default_grid(), equation.domain)
    network = system.network(system._kept(grid))
    assert (count_parameters(network), count_parameters(network, complex_as=2)) == PUBLISHED[cls]
    assert baselines.SYSTEMS[cls.name] is cls


def test_only_a_point_on_a_dirichlet_end_is_left_out():
    others = [sl.Interval(0, np.pi, "neumann"), sl.Interval(0, np.pi, "periodic"), sl.Line()]
    for domain, kept in [(sl.Interval(0, np.pi), 100), *((domain, 101) for domain in others)]:
        grid = Grid(np.linspace(0, 1, 5), domain.grid(101), domain)
        inner = grid._replace(points=grid.points[1:-1])
        assert [g.without_dirichlet_end().shape[1] for g in (grid, inner)] == [kept, 99]


# ------------------------------------------------------------------ formulas


def grid():
    domain = sl.Interval(0, np.pi)
    return Grid(np.linspace(0, 1, 21), domain.grid(17), domain)


def network_of(cls):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return small(cls).network(grid()).eval()


def inputs():
    rng = np.random.default_rng(0)
    initial, drive = rng.standard_normal((3, 17)), rng.standard_normal((3, 21, 17))
    drive[:, 0] = 0.0
    return torch.from_numpy(initial).float(), torch.from_numpy(drive).float()


def array(tensor):
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.double).numpy()


def dense(layer, v):
    """A linear layer, or a 1 x 1 convolution, on the last axis."""
    w = array(layer.weight)
    return v @ w.reshape(w.shape[:2]).T + array(layer.bias)


def gelu(v):
    return v * special.ndtr(v)


def spectral(layer, v):
    """``K(v)`` of v (B, X, T, C): one product of channels for each pair of low frequencies."""
    (mx, mt), (n_x, n_t) = layer.modes, v.shape[1:3]
    f = np.fft.rfft2(v, axes=(1, 2))
    out = np.zeros_like(f)
    for weight, rows in ((layer.low, slice(mx)), (layer.high, slice(n_x - mx, n_x))):
        low = f[:, rows, :mt]
        out[:, rows, :mt] = np.einsum("bxti,ioxt->bxto", low, array(weight()))
    return np.fft.irfft2(out, s=(n_x, n_t), axes=(1, 2))


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


def agree(output, expected):
    float32 = 2e-5 * np.abs(expected).max()
    np.testing.assert_allclose(array(output), expected, rtol=0, atol=float32)


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
    names = ("drive_mean", "drive_std", "field_mean", "field_std")
    mean, std, out_mean, out_std = np.random.default_rng(1).uniform(1, 2, (4, 20, 17))
    for name, values in zip(names, (mean, std, out_mean, out_std), strict=True):
        setattr(network, name, torch.from_numpy(values).float())

    def three(layers, v):
        v = np.maximum(dense(layers[0], v), 0)
        return np.tanh(dense(layers[4], np.maximum(dense(layers[2], v), 0)))

    branch = three(network.branch, ((array(drive)[:, 1:] - mean) / (std + 1e-5)).reshape(3, -1))
    x, t = np.meshgrid(np.linspace(0, 1, 17), np.linspace(0, 1, 21)[1:])
    expected = np.einsum("bc,txc->btx", branch, three(network.trunk, np.stack([x, t], -1)))
    agree(network(initial, drive), expected * (out_std + 1e-5) + out_mean)


def central(n, modes):
    """Positions in an unshifted transform of the central band of the shifted one."""
    start = n // 2 - modes // 2
    return np.fft.fftshift(np.arange(n))[start : start + modes]


def test_nspde_is_its_formula():
    network, (initial, drive) = network_of(NSPDE), inputs()
    w = array(network.kernel.weight())
    rows, columns = central(17, 12), central(21, 12)

    def coefficient(layers, z):
        z, norm = dense(layers[0], z), layers[1]
        z = (z - array(norm.running_mean)) / np.sqrt(array(norm.running_var) + norm.eps)
        return np.tanh(z * array(norm.weight) + array(norm.bias))

    z0 = dense(network.lift, array(initial)[..., None])  # (B, X, C)
    f0, free = np.fft.fft(z0, axis=1), np.zeros((3, 17, 21, 8), complex)
    in_time = np.fft.ifft(w, n=21)  # padded with zeros at its end
    free[:, rows] = np.einsum("bxi,ioxt->bxto", f0[:, rows], in_time)
    free = np.fft.ifft(free, axis=1).real
    xi = array(drive).transpose(0, 2, 1)[..., None]
    force = coefficient(network.drift, free) + coefficient(network.diffusion, free) * xi
    f = np.fft.fft2(force, axes=(1, 2))
    out = np.zeros_like(f)
    band = np.ix_(range(3), rows, columns)
    out[band] = np.einsum("bxti,ioxt->bxto", f[band], w)
    z = free + np.fft.ifft2(out, axes=(1, 2)).real
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
    Y, A0, A1, B = (array(getattr(network, n)) for n in ("outer", "in_time", "in_space", "shift"))
    t, x = grid().times[1:, None, None, None], grid().points[:, None, None]
    expected = np.einsum("pa,aj,txaj->ptx", xi, Y, np.tanh(A0 * t + A1 * x - B))
    agree(network(torch.zeros(3, 17), torch.from_numpy(xi).float()), expected)


# ------------------------------------------------------------------ DLR-Net's integration


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "periodic"])
def test_implicit_step_solves_the_heat_equation_of_its_boundary(boundary):
    domain = sl.Interval(0, np.pi, boundary)
    g = Grid(np.linspace(0, 1e-3, 3), domain.grid(161), domain)
    h, lam = domain.eigenfunctions(g.points, 4), domain.eigenvalues(4)
    step = implicit_step(g, boundary)
    np.testing.assert_allclose(step @ h, h / (1 + g.dt * lam), atol=3e-5)
    ends = step[[0, -1]].any() or step[:, [0, -1]].any()
    assert ends == (boundary != "dirichlet")  # Dirichlet ends stay zero


def test_integration_has_the_gradient_of_the_recursion():
    network = network_of(DLRNet).double()
    f = torch.randn(2, 6, 17, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(network.integrate, (f,))


# ------------------------------------------------------------------ one forward for a batch


@by_system
def test_one_shared_forward_has_the_loss_and_gradient_of_the_whole_batch(cls):
    data, system = heat_data(12), small(cls)
    g = Grid(data.time.values, data.x.values, system.domain)
    shared = system._cases(data, "hidden", g, 0)
    assert shared.shared
    rows = torch.zeros(12, dtype=int)
    losses, gradients = [], []
    for cases in (shared, Cases(shared.initial[rows], shared.drive[rows], shared.target)):
        network = system._new_network(system._kept(g), 0)
        network.prepare(cases)
        loss = batch_loss(network.train()(cases.initial, cases.drive), cases.target, "relative_l2")
        loss.backward()
        losses.append(loss.item())
        weights = (w.grad for w in network.parameters() if w.grad is not None)
        gradients.append(torch.cat([w.flatten() for w in weights]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    largest = float(gradients[1].abs().max())
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-4 * largest)
