"""The learner against the paper's model written out plainly: bound and gradients, both regimes."""

import numpy as np
import pytest
import torch

import spdelaw as sl
from paper.plain_model import PlainModel
from paper.regimes import EQUATIONS
from spdelaw.amortized.neural import new_model
from spdelaw.amortized.structured import make_config
from spdelaw.amortized.vae import as_paths, elbo
from spdelaw.data.observed import observe

#: Names of the learner's parameters and of the plain model's.
NAMES = {
    "encoder.attention.embedding.linear.": "line.",
    "encoder.attention.embedding.periodic.": "waves.",
    "encoder.attention.": "",
    "encoder.recurrent.weight_input": "gru.weight_ih_l0",
    "encoder.recurrent.weight_state": "gru.weight_hh_l0",
    "encoder.recurrent.bias_input": "gru.bias_ih_l0",
    "encoder.recurrent.bias_state": "gru.bias_hh_l0",
    "encoder.": "",
    "dynamics.log_eigenvalues": "log_lambda",
    "dynamics.log_factor": "log_sqrt_q",
    "root_std": "sqrt_sigma",
}
#: Relative errors of single precision inside the learner's network.
BOUND, GRADIENT = 2e-7, 3e-6


def plain_name(name):
    start = next(start for start in NAMES if name.startswith(start))
    return NAMES[start] + name.removeprefix(start)


@pytest.mark.parametrize(("regime", "count"), [("a", 600_864), ("b", 550_077)])
def test_bound_and_gradients_are_those_of_the_plain_model(regime, count):
    equation = EQUATIONS[regime](12)
    data = sl.simulate(equation, 6, seed=1, scheme="semi_implicit")
    config = make_config()
    basis = equation.domain.eigenfunctions(data["x"].values, 8)
    ours = new_model(basis, config, 3)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # away from the start, at which modes and points are alike
        for p in (*ours.dynamics.parameters(), ours.root_std):
            p.add_(0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    plain = PlainModel(torch.from_numpy(basis)).double()
    plain.load_state_dict({plain_name(k): v.double() for k, v in ours.state_dict().items()})
    assert sum(p.numel() for p in plain.parameters()) == ours.n_parameters == count

    noise = torch.randn(6, 8 + 16 * 8, generator=generator)
    paths = as_paths(observe(data, equation.domain), 0.0, 1.0)
    bound = elbo(ours, paths, (noise[:, :8], noise[:, 8:].reshape(6, 16, 8)))
    loss = -bound.objective(config)
    t = torch.tensor(equation.times)
    expected = plain.loss(torch.from_numpy(data.values), t, noise.double())
    torch.testing.assert_close(loss, expected, rtol=BOUND, atol=0)
    loss.mean().backward()
    expected.mean().backward()
    reference = dict(plain.named_parameters())
    gradients = {n: (p.grad, reference[plain_name(n)].grad) for n, p in ours.named_parameters()}
    for group in ("encoder", "dynamics", "root_std"):  # single ones can be zero: that of key.bias
        pairs = [pair for name, pair in gradients.items() if name.startswith(group)]
        one, exact = (
            torch.cat([g.double().flatten() for g in side]) for side in zip(*pairs, strict=True)
        )
        assert float((one - exact).norm() / exact.norm()) < GRADIENT, group


def test_mask_of_the_noise_factor_is_its_diagonal():
    model = PlainModel(torch.from_numpy(np.eye(5)[:, :3]), K=2, R=4, width=8, d=4).double()
    X, t = torch.randn(2, 6, 5).double(), torch.linspace(0, 1, 6).double()
    model.loss(X, t, torch.randn(2, 9).double()).sum().backward()
    grad = model.log_sqrt_q.grad
    assert (grad.diagonal() != 0).all()
    assert (grad - torch.diag(grad.diagonal()) == 0).all()
