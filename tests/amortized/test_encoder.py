"""The encoder: its count, what a mask hides, and its parts against slow or library versions."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from spdelaw.amortized.encoder import (  # noqa: E402
    Encoder,
    FinalStateGRU,
    MultiTimeAttention,
    OdeRnnEncoder,
    attend_observed,
)

torch.set_num_threads(1)
TIMES = torch.linspace(0, 1, 9)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gaps(*shape):
    return (torch.rand(*shape, generator=torch.Generator().manual_seed(1)) > 0.4).float()


@pytest.fixture
def example():
    """An encoder of five points, values of four paths at nine times, and what is observed."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = Encoder(5, n_modes=3, n_time=4, n_hidden=16, n_embedding=8, n_reference=6)
    return encoder, draw(4, 9, 5), gaps(4, 9, 5)


def close(one, other):
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("n_points", "total"), [(200, 600_864), (101, 550_077)])
def test_count_is_the_papers(n_points, total):
    encoder = Encoder(n_points, n_modes=8, n_time=16)
    count = sum(p.numel() for p in encoder.parameters())
    assert count + 8 + 8 * 8 + n_points == total
    assert count == 498_264 - 72 + 512 * n_points


def test_a_masked_value_has_no_influence_and_an_observed_one_has(example):
    encoder, values, observed = example
    other = torch.where(observed > 0, values, 1e3 * draw(4, 9, 5, seed=5))
    values.requires_grad_()
    posterior = encoder(values, observed, TIMES)
    assert [tuple(part.shape) for part in posterior] == [(4, 3), (4, 3), (4, 4, 3), (4, 4, 3)]
    for a, b in zip(posterior, encoder(other, observed, TIMES), strict=True):
        assert torch.equal(a, b)
    sum(part.sum() for part in posterior).backward()
    assert (values.grad[observed == 0] == 0).all()
    assert (values.grad[observed > 0] != 0).all()


def test_complete_fields_need_no_mask_and_an_unobserved_time_may_be_left_out(example):
    encoder, values, observed = example
    full = encoder(values, torch.ones(4, 9, 5), TIMES.expand(4, 9))
    close(encoder(values, None, TIMES), full)
    alone = encoder(values[2:3], None, TIMES)
    close(alone, [part[2:3] for part in full])  # a path does not see another
    observed[:, 4] = 0.0
    kept = [0, 1, 2, 3, 5, 6, 7, 8]
    part = encoder(values[:, kept], observed[:, kept], TIMES[kept])
    close(encoder(values, observed, TIMES), part)


@pytest.mark.parametrize("clock_per_path", [False, True])
def test_attention_is_a_softmax_over_the_observed_times_of_each_channel(clock_per_path):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        attention = MultiTimeAttention(n_points=3, n_out=4, n_embedding=8, n_reference=5)
    values, observed = draw(2, 7, 3), gaps(2, 7, 3)
    observed[1, :, 2] = 0.0  # a channel without observation
    times = torch.rand(2, 7, generator=torch.Generator().manual_seed(2)).sort(-1).values
    times = times if clock_per_path else times[0]
    got = attention(values, observed, times).detach().numpy()
    scores = attention.scores(times).detach().double().numpy()
    expected = np.zeros((5, 2, 6))
    for p, m in np.ndindex(2, 3):
        there = observed[p, :, m].numpy() > 0
        if there.any():
            weights = np.exp((scores[p] if clock_per_path else scores)[:, there])
            weights /= weights.sum(1, keepdims=True)
            expected[:, p, m] = weights @ values[p, there, m].double().numpy()
            expected[:, p, 3 + m] = 1.0
    weight, bias = (x.detach().double().numpy() for x in attention.output.parameters())
    np.testing.assert_allclose(got, expected @ weight.T + bias, atol=2e-6)


def test_scores_that_underflow_are_done_safely():
    """The observed times have scores 200 below the largest: e^-200 is zero in float32."""
    scores, values, observed = draw(4, 6), draw(3, 6, 2), torch.ones(3, 6, 2)
    observed[1, 0] = 0.0
    shifted = scores.clone()
    shifted[:, 0] += 200.0
    got, _ = attend_observed(shifted, values * observed, observed)
    weights = torch.softmax(scores[:, 1:], -1)
    close(got[:2], (values[0, :1].expand(4, 2), weights @ values[1, 1:]))


def test_gru_equals_torchs():
    gru, library = FinalStateGRU(5, 7).double(), torch.nn.GRU(5, 7).double()
    names = {
        "weight_input": "weight_ih_l0", "weight_state": "weight_hh_l0",
        "bias_input": "bias_ih_l0", "bias_state": "bias_hh_l0",
    }  # fmt: skip
    pairs = [(getattr(gru, a), getattr(library, b)) for a, b in names.items()]
    with torch.no_grad():
        for ours, theirs in pairs:
            theirs.copy_(ours)
    inputs, weights = draw(11, 3, 5).double(), draw(3, 7, seed=9).double()
    results = gru(inputs), library(inputs)[1][0]
    torch.testing.assert_close(*results, rtol=0, atol=1e-13)
    for result in results:
        (result * weights).sum().backward()
    for ours, theirs in pairs:
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)
    short = draw(5, 2, 5).double().requires_grad_()
    assert torch.autograd.gradcheck(gru, (short,))


# -- ODE-RNN --------------------------------------------------------------------------------------


@pytest.fixture
def ode_rnn():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return OdeRnnEncoder(5, n_modes=3, n_time=4)


def test_ode_rnn_has_the_published_sizes():
    parts = OdeRnnEncoder(101, n_modes=8, n_time=16)
    count = [sum(p.numel() for p in part.parameters()) for part in (parts.recurrent, parts.hidden)]
    assert count == [80_980 + 14_220, 40 * 100 + 100]
    assert parts.head.out_features == 2 * (8 + 16 * 8)


def test_ode_rnn_is_its_recursion(ode_rnn):
    """Path by path in NumPy, at times of its own, rows without a value skipped."""
    values, observed = draw(3, 7, 5), gaps(3, 7, 5)
    observed[1, 2] = 0.0
    times = torch.sort(torch.rand(3, 7, generator=torch.Generator().manual_seed(2)), 1).values

    def dense(layers, v):
        weights = [(w.weight.detach().double().numpy(), w.bias.detach().double().numpy())
                   for w in layers.children() if hasattr(w, "weight")]  # fmt: skip
        for i, (weight, bias) in enumerate(weights):
            v = (np.tanh(v) if i else v) @ weight.T + bias
        return v

    net, gap = ode_rnn.recurrent, torch.diff(times).double().numpy()
    n_steps = [max(1, int(np.ceil(50 * gap[:, i].max() - 1e-6))) for i in range(6)]
    for p in range(3):
        h, s = np.zeros(20), np.zeros(20)
        for i in range(6, -1, -1):
            for _ in range(n_steps[i] if i < 6 else 0):
                h = h - gap[p, i] / n_steps[i] * dense(net.drift, h)
            o = observed[p, i].double().numpy()
            if not o.any():
                continue
            x = np.r_[values[p, i].double().numpy() * o, o]
            u, r = (
                1 / (1 + np.exp(-dense(gate, np.r_[h, s, x]))) for gate in (net.update, net.reset)
            )
            new = dense(net.candidate, np.r_[r * h, r * s, x])
            h, s = (1 - u) * new[:20] + u * h, (1 - u) * np.abs(new[20:]) + u * s
        state = net(values, observed, times)[p].detach().numpy()
        np.testing.assert_allclose(state, np.r_[h, s], atol=2e-6)


def test_ode_rnn_ignores_masked_values_and_takes_a_shared_clock(ode_rnn):
    values, observed = draw(4, 9, 5), gaps(4, 9, 5)
    other = torch.where(observed > 0, values, 1e3 * draw(4, 9, 5, seed=5))
    close(ode_rnn(values, observed, TIMES), ode_rnn(other, observed, TIMES))
    close(ode_rnn(values, None, TIMES), ode_rnn(values, None, TIMES.expand(4, -1)))
    close(ode_rnn(values, None, TIMES), ode_rnn(values, torch.ones(4, 9, 5), TIMES))
