"""The encoder: its count, what a mask hides, and its parts against slow or library versions."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from spdelaw.model.encoder import Encoder, FinalStateGRU, MultiTimeAttention  # noqa: E402
from spdelaw.model.encoder._attention import attend_observed  # noqa: E402

torch.set_num_threads(1)
ROUNDING = 2e-6


def small(seed=0, n_points=5):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Encoder(n_points, n_modes=3, n_time=4, n_hidden=16, n_embedding=8, n_reference=6)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gaps(*shape, share=0.4, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=generator) > share).float()


@pytest.mark.parametrize(("n_points", "total"), [(200, 600_864), (101, 550_077)])
def test_count_is_the_papers(n_points, total):
    encoder = Encoder(n_points, n_modes=8, n_time=16)
    own = sum(p.numel() for p in encoder.parameters())
    assert own + 8 + 8 * 8 + n_points == total
    assert own == 498_264 - 72 + 512 * n_points


def test_shapes():
    posterior = small()(draw(7, 9, 5), None, torch.linspace(0, 1, 9))
    shapes = [tuple(part.shape) for part in posterior]
    assert shapes == [(7, 3), (7, 3), (7, 4, 3), (7, 4, 3)]


def test_a_masked_value_has_no_influence():
    encoder, values, observed = small(), draw(4, 9, 5), gaps(4, 9, 5)
    times = torch.linspace(0, 1, 9)
    other = torch.where(observed > 0, values, 1e3 * draw(4, 9, 5, seed=5))
    for a, b in zip(encoder(values, observed, times), encoder(other, observed, times), strict=True):
        assert torch.equal(a, b)


def test_a_masked_value_has_no_gradient_and_an_observed_one_has():
    encoder, observed = small(), gaps(4, 9, 5)
    values = draw(4, 9, 5).requires_grad_()
    posterior = encoder(values, observed, torch.linspace(0, 1, 9))
    sum(part.sum() for part in posterior).backward()
    assert torch.equal(values.grad[observed == 0], torch.zeros(int((observed == 0).sum())))
    assert (values.grad[observed > 0] != 0).all()


def test_a_path_does_not_see_another():
    encoder, values, observed = small(), draw(4, 9, 5), gaps(4, 9, 5)
    times = torch.linspace(0, 1, 9)
    together = encoder(values, observed, times)
    alone = encoder(values[2:3], observed[2:3], times)
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a[2:3], b, rtol=1e-5, atol=ROUNDING)


@pytest.mark.parametrize("own_clock", [False, True])
def test_attention_is_a_softmax_over_the_observed_times_of_each_channel(own_clock):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        attention = MultiTimeAttention(n_points=3, n_out=4, n_embedding=8, n_reference=5)
    values, observed = draw(2, 7, 3), gaps(2, 7, 3)
    observed[1, :, 2] = 0.0  # a channel nobody saw
    times = torch.rand(2, 7, generator=torch.Generator().manual_seed(2)).sort(-1).values
    times = times if own_clock else times[0]
    found = attention(values, observed, times).detach().numpy()
    scores = attention.scores(times).detach().double().numpy()
    expected = np.zeros((5, 2, 6))
    for p in range(2):
        s = scores[p] if own_clock else scores
        for m in range(3):
            seen = observed[p, :, m].numpy() > 0
            if seen.any():
                weights = np.exp(s[:, seen])
                weights /= weights.sum(1, keepdims=True)
                expected[:, p, m] = weights @ values[p, seen, m].double().numpy()
                expected[:, p, 3 + m] = 1.0
    weight = attention.output.weight.detach().double().numpy()
    expected = expected @ weight.T + attention.output.bias.detach().double().numpy()
    np.testing.assert_allclose(found, expected, atol=ROUNDING)


def test_a_channel_without_observation_gives_zero():
    observed = torch.ones(1, 6, 2)
    observed[:, :, 1] = 0
    seen, any_seen = attend_observed(draw(4, 6), draw(1, 6, 2) * observed, observed)
    assert torch.equal(seen[..., 1], torch.zeros(1, 4))
    assert torch.equal(any_seen, torch.tensor([[[1.0, 0.0]]]))


def test_scores_that_underflow_are_done_safely():
    """The observed times have scores 200 below the largest: e^-200 is zero in float32."""
    scores, values = draw(4, 6), draw(3, 6, 2)
    observed = torch.ones(3, 6, 2)
    observed[1, 0] = 0.0
    shifted = scores.clone()
    shifted[:, 0] += 200.0
    found, _ = attend_observed(shifted, values * observed, observed)
    weights = torch.softmax(scores[:, 1:], -1)
    torch.testing.assert_close(found[1], weights @ values[1, 1:], rtol=1e-5, atol=ROUNDING)
    torch.testing.assert_close(found[0], values[0, :1].expand(4, 2), rtol=1e-5, atol=ROUNDING)


def test_complete_fields_need_no_mask():
    encoder, values, times = small(), draw(4, 9, 5), torch.linspace(0, 1, 9)
    without = encoder(values, None, times)
    full = encoder(values, torch.ones(4, 9, 5), times.expand(4, 9))
    for a, b in zip(without, full, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=ROUNDING)


def test_irregular_times_are_seen():
    encoder, values = small(), draw(4, 9, 5)
    a = encoder(values, None, torch.linspace(0, 1, 9))
    b = encoder(values, None, torch.linspace(0, 1, 9) ** 2)
    assert not torch.allclose(a.chaos_mean, b.chaos_mean, atol=1e-4)


def test_an_unobserved_time_may_be_left_out():
    encoder, values, observed = small(), draw(4, 9, 5), gaps(4, 9, 5)
    observed[:, 4] = 0.0
    times, kept = torch.linspace(0, 1, 9), [0, 1, 2, 3, 5, 6, 7, 8]
    full = encoder(values, observed, times)
    part = encoder(values[:, kept], observed[:, kept], times[kept])
    for a, b in zip(full, part, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=ROUNDING)


def test_gru_equals_torchs():
    own, library = FinalStateGRU(5, 7).double(), torch.nn.GRU(5, 7).double()
    with torch.no_grad():
        for mine, theirs in zip(
            (own.weight_input, own.weight_state, own.bias_input, own.bias_state),
            (library.weight_ih_l0, library.weight_hh_l0, library.bias_ih_l0, library.bias_hh_l0),
            strict=True,
        ):
            theirs.copy_(mine)
    inputs = draw(11, 3, 5).double()
    mine, theirs = own(inputs), library(inputs)[1][0]
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-13)
    weights = draw(3, 7, seed=9).double()
    (mine * weights).sum().backward()
    (theirs * weights).sum().backward()
    for name, other in {
        "weight_input": "weight_ih_l0", "weight_state": "weight_hh_l0",
        "bias_input": "bias_ih_l0", "bias_state": "bias_hh_l0",
    }.items():  # fmt: skip
        torch.testing.assert_close(
            getattr(own, name).grad, getattr(library, other).grad, rtol=0, atol=1e-12
        )


def test_gru_gradients_by_differences():
    gru = FinalStateGRU(3, 4).double()
    inputs = draw(5, 2, 3).double().requires_grad_()
    assert torch.autograd.gradcheck(gru, (inputs,))
