"""User-defined modules: unusual combinations of operators, and random programs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.errors import TraceError
from glassformer.tracing import replay, trace
from tests.bounded import GIB, run_bounded
from tests.tracing.foreign_models import ids, llama, whisper

pytestmark = pytest.mark.no_cover  # the lines of test_rules.py, for far more cells


class Oddities(nn.Module):
    """Rotary positions, a cache written in place, experts by index, a recurrence, tied output."""

    def __init__(self, width: int = 16, heads: int = 4, vocabulary: int = 40) -> None:
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(vocabulary, width)
        self.mix = nn.MultiheadAttention(width, heads, batch_first=True)
        self.recurrent = nn.GRU(width, width // 2, bidirectional=True, batch_first=True)
        self.patch = nn.Conv1d(width, width, 3, padding=1, groups=2)
        self.experts = nn.ParameterList(torch.randn(width, width) / 4 for _ in range(3))
        self.scale = nn.Parameter(torch.ones(()))
        self.router = nn.Linear(width, 3, bias=False)

    def rotate(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.size(1)).float()
        rates = 100 ** (-torch.arange(0, x.size(-1), 2) / x.size(-1))
        angles = torch.einsum("t,d->td", positions, rates)
        even, odd = x[..., ::2], x[..., 1::2]
        turned = torch.stack(
            [even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()], -1
        )
        return turned.flatten(-2)

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        x = self.table(tokens) * self.scale
        x = x + self.rotate(x)
        mixed, seen = self.mix(x, x, x, average_attn_weights=False)
        x = F.rms_norm(x + mixed, (x.size(-1),))
        x = x + self.patch(x.mT).mT
        recurrent, _ = self.recurrent(x)
        routes = self.router(recurrent).argmax(-1)
        cache = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            chosen = routes == number
            if chosen.any():
                cache[chosen] = F.silu(recurrent[chosen] @ expert)
        cache[:, 0] += 1
        cache.clamp_(-3, 3)
        pooled = torch.logsumexp(cache, 1) - cache.var(1, unbiased=False)
        best = pooled.topk(4).values.cumsum(-1)
        logits = F.linear(cache.roll(1, 1), self.table.weight)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), ignore_index=3)
        return {"logits": logits, "best": best, "seen": seen, "loss": loss}


def test_odd_combinations_are_true_and_replay() -> None:
    torch.manual_seed(0)
    traced = trace(Oddities(), torch.randint(0, 40, (4, 12)))
    report = traced.verify(sample=25_000)
    assert report.opaque == []
    assert report.cells >= 20_000
    assert report.ok, str(report)
    again = replay(traced)
    for step, twin in zip(traced.steps, again.steps, strict=True):
        assert torch.equal(step.value, twin.value), step.name
    for name in ("loss", "logits", "best"):
        step = traced.outputs[name]
        trail = step[(0,) * len(step.shape)].path()
        assert trail[-1].role in ("parameter", "input")


UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "softmax": lambda x: x.softmax(-1),
    "norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "transpose": lambda x: x.transpose(-2, -1),
    "sum": lambda x: x.sum(-1, keepdim=True).expand_as(x),
    "roll": lambda x: x.roll(1, -1),
    "half": lambda x: torch.cat([x[..., 1:], x[..., :1]], -1),
    "flat": lambda x: x.mT.reshape(x.shape),
    "in place": lambda x: x.clone().mul_(0.5),
    "write": lambda x: x.clone().index_fill_(-1, torch.tensor([0]), 0.25),
    "cumsum": lambda x: x.cumsum(-1) / x.size(-1),
    "gelu": F.gelu,
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "mul": torch.mul,
    "matmul": lambda a, b: a @ b / a.size(-1),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "einsum": lambda a, b: torch.einsum("...ij,...kj->...ik", a, b) / a.size(-1),
    "row": lambda a, b: a + b[..., :1, :],
}


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(sorted(UNARY)),
            st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 5)),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 10**6),
    st.sampled_from([(3, 3), (2, 3, 3), (1, 1)]),
)
def test_random_programs(program: list[Any], seed: int, shape: tuple[int, ...]) -> None:
    def run(x: Tensor) -> Tensor:
        made = [x]
        for line in program:
            if isinstance(line, str):
                made.append(UNARY[line](made[-1]))
            else:
                name, back = line
                made.append(BINARY[name](made[-1], made[back % len(made)]))
        return made[-1] * 1

    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    traced = trace(run, x)
    report = traced.verify()
    assert report.opaque == []
    assert report.ok, str(report)
    torch.testing.assert_close(traced.outputs["output"].value, run(x))

    index = tuple(size - 1 for size in shape)
    other = x.clone()
    other[index] = 0.5
    torch.testing.assert_close(
        traced.edit({("x", index): 0.5}).outputs["output"].value, run(other), rtol=0, atol=0
    )


def test_a_key_value_cache() -> None:
    torch.manual_seed(0)
    model, _ = llama()
    model.eval()
    tokens = ids(1, 6)
    with torch.no_grad():
        before = model(input_ids=tokens[:, :5], use_cache=True)
        expected = model(input_ids=tokens, use_cache=False).logits[:, -1:]
    traced = trace(model, input_ids=tokens[:, 5:], past_key_values=before.past_key_values)
    assert traced.verify(sample=4_000).ok
    torch.testing.assert_close(traced.outputs["logits"].value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_written_and_fused_attention_agree(attention: str) -> None:
    torch.manual_seed(0)
    model, inputs = whisper()
    assert isinstance(model, transformers.PreTrainedModel)
    model.eval()
    with torch.no_grad():
        expected = model(**inputs).logits
    model.set_attn_implementation(attention)
    traced = trace(model, **inputs)
    assert traced.verify(sample=3_000).ok
    torch.testing.assert_close(traced.outputs["logits"].value, expected, rtol=0, atol=1e-6)


def test_complex_numbers_are_pairs_of_real_ones() -> None:
    def rotated(x: Tensor, turns: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x)
        turned = pairs * turns
        return torch.view_as_real(turned)

    turns = torch.polar(torch.ones(2), torch.tensor([0.0, 1.0]))
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    traced = trace(rotated, x, turns)
    step = traced["turned"]
    assert step.shape == (2, 2)
    assert step.labels[-1] == ("re", "im")
    assert step[1, 0].formula == "x[1, 0]·turns[1, 0] − x[1, 1]·turns[1, 1]"
    assert step[1, 1].formula == "x[1, 0]·turns[1, 1] + x[1, 1]·turns[1, 0]"
    assert traced.outputs["output"] is step
    assert [d.count for d in traced["x"][1, 0].dependents()] == [2]
    edited = traced.edit({("turns", (1, 1)): 0.0})
    assert edited["turned"][1, 0].value == pytest.approx(3 * float(turns[1].real))
    assert edited.verify().ok
    assert traced.verify().opaque == []


def test_an_operator_without_a_rule_for_complex_numbers_says_so() -> None:
    traced = trace(lambda x: torch.tanh(torch.complex(x, x)).abs(), torch.arange(4.0))
    assert traced.verify().ok
    assert [traced[name].op for name in traced.verify().opaque] == ["tanh"]
    assert "no rule for tanh; made from complex" in traced["tanh"][1, 0].explain()


def test_a_fourier_transform_is_a_sum_with_fixed_weights() -> None:
    traced = trace(lambda x: torch.fft.fft(x), torch.tensor([1.0, 2.0, 4.0, 8.0]))
    assert traced.verify().ok
    assert traced.verify().opaque == []
    imaginary = traced.steps[0][1, 1]
    assert imaginary.value == 6
    assert imaginary.formula == "−x[1] + x[3]"


POSITIONS = torch.tensor([0.5, -1.0])


def causal(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


def alibi(score: Tensor, _batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return score + POSITIONS[head] * (key - query)


def test_a_number_that_vmap_makes_a_tensor_has_a_rule() -> None:
    """To multiply whole numbers by 0.1, vmap converts both factors."""
    t = trace(
        lambda x: torch.vmap(lambda row, i: row - i * 0.1)(x, torch.arange(2)), torch.randn(2, 3)
    )
    report = t.verify()
    assert report.ok and not report.opaque
    assert [step[()].numbers for step in t.steps if step.op == "to" and not step.shape] == ["0.1"]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("shared_keys", [False, True])
def test_flex_attention_is_expanded(shared_keys: bool) -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.manual_seed(0)
    q, k, v = torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4)
    if shared_keys:
        k, v = k[:, :1], v[:, :1]
    mask = create_block_mask(causal, None, None, 5, 5, device="cpu")

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        attended = flex_attention(q, k, v, score_mod=alibi, block_mask=mask, enable_gqa=shared_keys)
        assert isinstance(attended, Tensor)
        return attended

    traced = trace(attend, q, k, v)
    distance = torch.arange(5) - torch.arange(5)[:, None]
    scores = q @ k.mT / 2 + POSITIONS[:, None, None] * distance
    masked = scores.masked_fill(distance > 0, -torch.inf)
    torch.testing.assert_close(traced["masked"].value, masked)
    torch.testing.assert_close(traced["weights"].value, masked.softmax(-1))
    torch.testing.assert_close(traced.outputs["output"].value, masked.softmax(-1) @ v)
    assert traced.outputs["output"] is traced["context"]
    assert {"scores", "scaled", "score_mod", "mask_mod"} <= set(traced.names)
    report = traced.verify()
    assert report.ok and not report.opaque, str(report)
    edited = traced.edit({("q", (0, 0, 0, 0)): 2.0})
    assert edited.verify().ok


def test_other_operators_that_take_functions_are_refused() -> None:
    def branch(x: Tensor) -> Tensor:
        chosen = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        assert isinstance(chosen, Tensor)
        return chosen

    with pytest.raises(TraceError, match="torch's cond takes functions as arguments"):
        trace(branch, torch.ones(3))


def test_jagged_tensors_are_traced_by_their_rows() -> None:
    rows = [torch.randn(2, 3), torch.randn(4, 3)]
    nested = torch.nested.nested_tensor(rows, layout=torch.jagged)
    layer = nn.Linear(3, 2).eval()
    traced = trace(layer, nested)
    expected = torch.cat(rows) @ layer.weight.mT + layer.bias
    torch.testing.assert_close(traced.outputs["output.values"].value, expected.detach())
    assert traced["input.offsets"].value.tolist() == [0, 2, 6]
    assert traced.verify().ok
    with pytest.raises(TraceError, match=r"nested tensor .* layout=torch.jagged, or pad it"):
        trace(lambda x: torch.nested.nested_tensor([x, x]) * 2, torch.ones(3))


def cubes(x: Tensor) -> Tensor:
    return x.pow(3).sum()


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # by torch itself
def test_derivatives_by_torch_func() -> None:
    x = torch.tensor([1.0, -2.0])
    cases = {
        torch.func.hessian(cubes): torch.diag(6 * x),
        torch.func.jacrev(torch.sin): torch.diag(x.cos()),
        torch.func.jacfwd(torch.sin): torch.diag(x.cos()),
        torch.func.grad(cubes): 3 * x.square(),
    }
    for function, expected in cases.items():
        traced = trace(lambda x, function=function: function(x), x)
        torch.testing.assert_close(traced.outputs["output"].value, expected)
        report = traced.verify()
        assert report.ok and not report.opaque, str(report)


def test_tensors_of_the_users_that_share_a_storage() -> None:
    packed = torch.randn(3, 6)
    keys, values = packed[:, :2], packed[:, 2:4]  # a cache may keep parts of one projection

    def attend(queries: Tensor) -> Tensor:
        return (queries @ keys.mT).softmax(-1) @ values

    traced = trace(attend, packed[:, 4:])
    torch.testing.assert_close(traced.outputs["output"].value, attend(packed[:, 4:]))
    report = traced.verify()
    assert report.ok and not report.opaque, str(report)
    assert [operand.step for operand in traced["matmul"].operands] == [
        traced["queries"],
        traced["constant"],
    ]
    edited = traced.edit({("constant.2", (0, 1)): 5.0})
    assert edited["constant"].value.equal(keys)
    assert not edited.outputs["output"].value.equal(traced.outputs["output"].value)


def test_a_part_of_a_large_tensor_takes_no_more_memory_than_it_shows() -> None:
    program = """
import torch
from glassformer import trace

data = torch.empty(2**18, 2**10)  # 1 GiB that nothing has written
data[:2] = 1.0
print(trace(torch.nn.Linear(2**10, 2), data[:2]).verify().ok)
"""
    ran = run_bounded(program)
    assert ran.printed.startswith("True")
    assert ran.peak < GIB


def test_windows_that_overlap() -> None:
    windows = torch.arange(6.0).unfold(0, 3, 1)
    traced = trace(lambda windows: windows * 2, windows)
    assert traced.verify().ok
    assert traced["windows"][3, 2].value == 5
    assert traced["windows"][0, 1].dependents()[0].mask.nonzero().tolist() == [[0, 1], [1, 0]]
    sums = trace(lambda x: x.unfold(0, 3, 1).sum(-1), torch.arange(6.0))
    assert sums["x"][2].dependents()[0].mask.tolist() == [True, True, True, False]
    wide = torch.arange(11.0).as_strided((3, 3), (3, 2))  # cell 4 is not in the second window
    spread = trace(lambda wide: wide * 2, wide)
    assert spread["wide"][0, 2].dependents()[0].mask.nonzero().tolist() == [[0, 2]]
    inside = trace(lambda x: x.as_strided((3, 3), (3, 2)) * 2, torch.arange(11.0))
    assert inside["x"][4].dependents()[0].mask.nonzero().tolist() == [[0, 2]]
    assert inside["mul"][0, 2].operands[0].name == "x[4]"


def test_bits_read_as_another_type_are_not_called_the_number_itself() -> None:
    x = torch.randn(2, 3)
    traced = trace(lambda x: (x.view(torch.int16) + 1, x.view(torch.int32) + 1), x)
    assert traced.verify().ok
    assert traced["add"][0, 3].formula == "view(x)[0, 3] + 1"
    assert traced["add"][0, 3].operands[0].name == "x[0, 1]"
    assert [found.step.name for found in traced["x"][0, 1].dependents()] == ["add", "add.2"]


def test_a_conjugate_is_compared_with_the_plain_run() -> None:
    class Conjugate(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.complex(x, x * 2).conj()

    traced = trace(Conjugate().eval(), torch.ones(3))
    assert traced.outputs["output"].value.tolist() == [[1, -2]] * 3
    assert traced.notes == []


def test_a_sparse_parameter_is_refused() -> None:
    model = nn.Linear(3, 3)
    model.weight = nn.Parameter(torch.eye(3).to_sparse(), requires_grad=False)
    with pytest.raises(TraceError, match=r"layout torch\.sparse_coo has no dense storage"):
        trace(model, torch.ones(2, 3))


def test_a_layer_named_by_a_number_is_not_written_as_that_number() -> None:
    traced = trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(2))
    assert traced["1"][0].formula == "max(linear[0], 0)"
