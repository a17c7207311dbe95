"""A step's name is its module's path plus the variable that its source line assigns."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

from glassformer.documents import render_text
from glassformer.tracing import Trace, trace, trace_training_step
from glassformer.tracing.capture.source_lines import from_package
from glassformer.tracing.formula import Symbol, naming, to_tex, to_text
from glassformer.tracing.formula.notation import Fraction, Infix, Leaf, Value
from tests.tracing.foreign_models import FAMILIES


def names(traced: Trace) -> list[str]:
    return [step.name for step in traced.steps]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_queries = nn.Linear(4, 4)
        self.to_keys = nn.Linear(4, 4)
        self.to_output = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        queries = self.to_queries(x)
        keys = self.to_keys(x)
        scores = queries @ keys.mT
        scaled = scores / math.sqrt(4)
        weights = scaled.softmax(-1)
        context = weights @ x
        return self.to_output(context)  # type: ignore[no-any-return]  # modules are untyped


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.norm = nn.LayerNorm(4)
        self.inner = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        attended = self.attention(x)
        x = self.norm(attended + x)
        hidden: Tensor = self.inner(x)
        return x + hidden


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_a_models_steps_are_named_as_its_source_reads() -> None:
    block = [
        "attention.queries",
        "attention.keys",
        "attention.scores",
        "attention.scaled",
        "attention.weights",
        "attention.context",
        "attended",
        "add",
        "x",
        "inner.0",
        "inner.1",
        "hidden",
    ]
    expected = [f"blocks.0.{name}" for name in block] + ["x.2"]
    expected += [f"blocks.1.{name}" for name in block] + ["x.3"]
    traced = trace(Stack(), torch.randn(1, 3, 4))
    assert names(traced) == expected
    assert traced["blocks.1.attention.scores"].module == "blocks.1.attention"


def test_the_source_line_is_kept() -> None:
    line = trace(Stack(), torch.randn(1, 3, 4))["blocks.0.attention.scores"].line
    assert line is not None
    assert line.file == __file__
    assert line.text == "scores = queries @ keys.mT"


def test_the_tree_follows_the_modules() -> None:
    root = trace(Stack(), torch.randn(1, 3, 4)).tree()
    assert [branch.name for branch in root.branches] == ["blocks"]
    first = root.branches[0].branches[0]
    assert first.path == "blocks.0"
    assert "blocks.0.attended" in [step.name for step in first.steps]
    assert [branch.name for branch in first.branches] == ["attention", "inner"]
    assert str(root).startswith("blocks\n    0\n")
    assert any(line.startswith("        attended  1×3×4  ") for line in str(root).splitlines())


def test_only_the_whole_expression_takes_the_name() -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        scores = a @ b.mT * 0.5 + 1
        return scores

    assert names(trace(function, torch.randn(2, 2), torch.randn(2, 2))) == [
        "matmul",
        "mul",
        "scores",
    ]


def test_a_chain_of_layout_methods_leaves_the_name_to_the_product() -> None:
    def function(a: Tensor) -> Tensor:
        context = (a @ a.mT).transpose(0, 1).reshape(-1)
        return context

    assert names(trace(function, torch.randn(3, 3))) == ["context", "reshape"]


def test_every_way_to_assign() -> None:
    class Holder(nn.Module):
        kept: Tensor

        def forward(self, a: Tensor) -> Tensor:
            annotated: Tensor = a + 1
            self.kept = annotated * 2
            if (walrus := self.kept - 1) is not None:
                annotated += walrus
            total = torch.zeros(2)
            total[0] = annotated.sum()
            values, places = annotated.flatten().topk(2)
            first, _ = annotated.flatten().sort()
            return total + values + places + first[:2]

    assert names(trace(Holder(), torch.randn(2, 2))) == [
        "annotated",
        "kept",
        "walrus",
        "annotated.2",
        "total",
        "sum",
        "total.2",
        "values",
        "places",
        "first",
        "_",
        "add",
        "add.2",
        "output",
    ]


def test_a_returned_expression_takes_the_callers_name() -> None:
    def inner(a: Tensor) -> Tensor:
        return a * 2

    def outer(a: Tensor) -> Tensor:
        doubled = inner(a)
        return inner(doubled + 1)

    assert names(trace(outer, torch.ones(2))) == ["doubled", "add", "output"]


def test_lambdas_and_comprehensions_give_no_name() -> None:
    def function(a: Tensor) -> Tensor:
        twice = lambda t: t * 2  # noqa: E731 - a lambda is what is tested
        parts = [row + 1 for row in a]
        joined = torch.stack(parts)
        result: Tensor = twice(joined)  # type: ignore[no-untyped-call]  # a lambda has no types
        return result

    assert names(trace(function, torch.ones(2, 2))) == ["add", "add.2", "joined", "mul"]


def test_a_function_of_torch_that_runs_several_operators_names_its_last() -> None:
    def function(a: Tensor) -> Tensor:
        unit = F.normalize(a, dim=-1)
        for _ in range(2):
            unit = F.normalize(unit, dim=-1)
        return unit

    traced = names(trace(function, torch.randn(2, 3)))
    assert [name for name in traced if name.startswith("unit")] == ["unit", "unit.2", "unit.3"]
    assert traced[-1] == "unit.3"


def test_a_source_file_is_named_without_the_machine_it_lies_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "package/inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").touch()
    assert from_package(str(inner / "model.py")) == "package/inner/model.py"
    assert from_package(str(tmp_path / "script.py")) == "script.py"
    monkeypatch.chdir(inner)
    for nowhere in ("<string>", "<stdin>"):  # as in a package's folder, but no file of it
        assert from_package(nowhere) == nowhere


def test_a_cell_as_data_has_no_path_of_this_machine() -> None:
    cell = trace(Attention(), torch.ones(1, 2, 4))["scores"][0, 0]
    told = cell.to_dict(depth=3)
    assert told["source"]["file"] == "test_names.py"
    assert str(Path(__file__).parent) not in str(told)


def test_code_without_source_is_named_by_operator() -> None:
    space: dict[str, Any] = {}
    exec("def function(a):\n    scores = a @ a\n    return scores + 1", space)
    assert names(trace(space["function"], torch.ones(2, 2))) == ["matmul", "add"]


def test_a_wrapper_does_not_hide_the_callers_name() -> None:
    def decorated(function: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            return result

        return wrapper

    @decorated
    def double(a: Tensor) -> Tensor:
        return a * 2

    def function(a: Tensor) -> Tensor:
        doubled: Tensor = double(a)
        return doubled

    assert names(trace(function, torch.ones(2))) == ["doubled"]


def test_a_shared_module_is_named_where_it_is_used() -> None:
    class Side(nn.Module):
        def __init__(self, table: nn.Embedding) -> None:
            super().__init__()
            self.table = table

        def forward(self, ids: Tensor) -> Any:
            return self.table(ids) + 1

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = nn.Embedding(5, 2)
            self.left, self.right = Side(self.shared), Side(self.shared)

        def forward(self, ids: Tensor) -> Tensor:
            return torch.cat([self.left(ids), self.right(ids)])

    traced = trace(Both(), torch.tensor([1, 2]))
    assert names(traced) == ["left.table", "left.add", "right.table", "right.add", "output"]
    assert traced["left.table.weight"] is traced["shared.weight"]


def test_views_that_are_assigned_can_be_asked_for() -> None:
    def function(a: Tensor) -> Tensor:
        b = a + 1
        heads = b.view(2, 2, 2).transpose(0, 1)
        left, right = heads.chunk(2, dim=-1)
        return left + right

    traced = trace(function, torch.arange(8.0).reshape(2, 4))
    assert traced["heads"].shape == (2, 2, 2)
    assert traced["heads"].is_view
    assert traced["right"][1, 0, 0].name == "b[0, 3]"
    assert traced["right"][1, 0, 0].value == 4
    assert names(traced) == ["b", "output"]


def test_expanded_attention_has_the_five_names() -> None:
    class Fused(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            mixed = F.scaled_dot_product_attention(x, x, x, is_causal=True)
            return mixed

    traced = trace(Fused(), torch.randn(1, 1, 3, 4))
    before, after = ["scores", "scaled", "ones", "causal_mask"], ["masked", "weights", "context"]
    assert names(traced) == before + after
    assert all(traced[name].expanded for name in ("scores", "scaled", "masked", "weights"))
    assert any("expanded" in note for note in traced.notes)


class Recurrent(nn.Module):
    """A recurrent layer inside a module."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.layer(x)
        result: Tensor = y * 2
        return result


LSTM_STEPS = [
    "hidden_gates", "gates", "input_gate", "forget_gate", "candidate", "output_gate", "kept_cell",
    "added_cell", "cell", "squashed_cell", "hidden",
]  # fmt: skip
GRU_STEPS = [
    "hidden_gates", "reset_sum", "reset_gate", "update_sum", "update_gate", "let_in",
    "candidate_sum", "candidate", "difference", "kept_difference", "hidden",
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        (lambda: nn.LSTM(3, 2, batch_first=True), LSTM_STEPS),
        (lambda: nn.LSTM(3, 4, num_layers=2, proj_size=2), [*LSTM_STEPS, "projected_hidden"]),
        (lambda: nn.LSTM(3, 2, num_layers=2, bidirectional=True, bias=False), LSTM_STEPS),
        (lambda: nn.GRU(3, 2, num_layers=2, batch_first=True), GRU_STEPS),
        (lambda: nn.RNN(3, 2, bidirectional=True), ["hidden_gates", "gates", "hidden"]),
        (lambda: nn.RNN(3, 2, nonlinearity="relu"), ["hidden_gates", "gates", "hidden"]),
    ],
)
def test_recurrent_layers_by_gate_and_time(
    make: Callable[[], nn.RNNBase], steps: list[str]
) -> None:
    torch.manual_seed(0)
    layer, x = make(), torch.randn(4, 4, 3)
    traced = trace(Recurrent(layer).eval(), x)
    torch.testing.assert_close(traced.outputs["output"].value, layer(x)[0].detach() * 2)
    prefix = "layer.layer0.t3."
    assert [n.removeprefix(prefix) for n in traced.names if n.startswith(prefix)] == steps
    known = set(traced.names)
    assert (f"layer.layer0.reverse.t0.{steps[0]}" in known) == layer.bidirectional
    assert (f"layer.layer1.t0.{steps[0]}" in known) == (layer.num_layers == 2)
    assert "layer.last_hidden" in known
    report = traced.verify()
    assert report.ok and not report.opaque, str(report)
    assert not traced.notes


def test_recurrent_cells_by_gate() -> None:
    torch.manual_seed(0)
    lstm, gru, x = nn.LSTMCell(3, 2), nn.GRUCell(3, 2), torch.randn(4, 3)
    traced = trace(lstm, x)
    assert [n for n in traced.names if n in LSTM_STEPS] == LSTM_STEPS
    torch.testing.assert_close(traced["cell"].value, lstm(x)[1].detach())
    torch.testing.assert_close(traced["hidden"].value, lstm(x)[0].detach())
    torch.testing.assert_close(trace(gru, x)["hidden"].value, gru(x).detach())


def test_a_recurrent_layer_in_training_drops_between_its_layers() -> None:
    torch.manual_seed(0)
    model = Recurrent(nn.LSTM(3, 4, num_layers=3, dropout=0.5))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    traced = trace_training_step(
        model, torch.randn(5, 2, 3), loss=lambda y: y.square().sum(), optimiser=optimiser
    )
    assert traced["gradients.layer.layer1.t2.forget_gate"].shape == (2, 4)
    report = traced.verify(sample=3_000)
    assert report.ok and not report.opaque, str(report)


FAMILY_FORMULAS = {
    ("mixtral", "model.layers.0.self_attn.key_states", (0, 2, 1)): "K = Σₖ N·W_K",
    ("mixtral", "model.layers.0.self_attn.k_embed", (0, 0, 2, 1)): "K_rot = K_cos + K_sin",
    ("mixtral", "model.layers.0.self_attn.scores", (0, 1, 2, 1)): "S = Σₖ Q_rot·K_rot",
    ("mixtral", "model.layers.0.mlp.gate.router_logits", (3, 1)): "R = Σₖ N·W_router",
    ("gpt_oss", "model.layers.0.self_attn.k_embed", (0, 0, 2, 1)): "K_rot = first_",
    ("gpt_oss", "model.layers.0.self_attn.matmul", (0, 1, 2, 1)): "S = Σₖ Q_rot·K_rot",
    ("gpt_oss", "model.layers.0.self_attn.attn_output", (0, 1, 2, 1)): "C = Σₖ A·V",
    ("gpt_oss", "model.layers.0.self_attn.max.values", (0, 1, 2, 0)): (
        "values = maxₖ(combined_logits)"
    ),
    ("t5", "encoder.block.0.layer.0.SelfAttention.values", (2, 1, 0)): (
        "values = E_relative_attention_bias[relative_buckets, 0]"
    ),
    ("t5", "encoder.block.0.layer.0.SelfAttention.context", (0, 1, 2, 1)): "C = Σₖ A·V",
    ("t5", "encoder.block.0.layer.0.SelfAttention.attn_output.2", (0, 2, 1)): (
        "O = Σₖ C[0, 2, k÷8, k mod 8]·W_O"
    ),
    ("t5", "encoder.block.0.layer.1.DenseReluDense.hidden_states.2", (0, 2, 1)): (
        "H_relu = max(H, 0)"
    ),
    ("t5", "encoder.block.0.layer.1.DenseReluDense.hidden_states.3", (0, 2, 1)): (
        "F = Σₖ H_relu·W_2"
    ),
    ("gemma2", "model.layers.0.mlp.gate_proj", (0, 2, 1)): "G = Σₖ N·W_gate",
    ("gemma2", "model.layers.0.mlp.act_fn.gelu", (0, 2, 1)): (
        "G_gelu = G·(1 + tanh(0.7979·(G + 0.04471·G^3))) / 2"
    ),
    ("mamba", "backbone.layers.0.mixer.projected_states", (0, 2, 1)): (
        "projected_states = Σₖ N·W_in_proj"
    ),
    ("convnext", "convnext.encoder.stages.0.layers.0.features", (0, 1, 1, 1)): (
        "features = Σₖₗ x·W_dwconv + b_dwconv"
    ),
    ("convnext", "convnext.encoder.stages.1.downsampling_layer.0.features", (0, 1, 1, 1)): (
        "N = ((x − μ) / √(σ² + 1e-06))·γ + β"
    ),
    ("convnext", "convnext.mean", (0, 1)): "mean = x",
}


@pytest.mark.parametrize(("family", "step", "index"), FAMILY_FORMULAS)
def test_one_symbol_for_one_tensor(family: str, step: str, index: tuple[int, ...]) -> None:
    """Formulas of Hugging Face models, here without the places of cells."""
    card = traced_family(family)[step][index].card()
    shown = re.sub(r"\[[^\[\]a-z_]*(?:[k-m][^\[\]a-z_]*)*\]", "", f"{card.name} = {card.formula}")
    assert shown == FAMILY_FORMULAS[family, step, index]


@cache
def traced_family(name: str) -> Trace:
    torch.manual_seed(0)
    family = FAMILIES[name]
    return trace(family.make().eval(), compare=False, **family.inputs())


def test_a_factor_that_is_a_quotient_stands_in_brackets() -> None:
    """x / 2·y would read as x / (2·y)."""
    x, y = Leaf(Symbol("x")), Leaf(Symbol("y"))
    half, whole = Fraction(x, Value(2)), Infix("÷", x, Value(2))
    assert to_text(Infix("·", half, y)) == "(x / 2)·y"
    assert to_text(Infix("·", y, half)) == "y·(x / 2)"
    assert to_text(Infix("·", whole, y)) == "(x ÷ 2)·y"
    assert to_text(Fraction(Infix("·", x, y), Value(2))) == "x·y / 2"
    assert to_tex(Infix("·", half, y)) == r"\frac{x}{2} \cdot y"
    long = Fraction(Leaf(Symbol("x" * 200)), Value(2))
    assert to_tex(Infix("·", long, y)) == rf"({{}}\mathrm{{{'x' * 200}}} \mathbin{{/}} 2) \cdot y"


def test_a_comparison_stands_in_brackets_beside_an_equals_sign() -> None:
    given = torch.tensor([1.0, 2.0])
    cell = trace(lambda x: x == 2, given)["eq"][1]
    lines = cell.explain().splitlines()
    assert lines[1:3] == ["  = (x[1] = 2)", "  = (2 = 2)"]
    assert "eq[1] = (x[1] = 2)" in render_text(cell, "terminal")
    assert r"= (x_{1} = 2)" in render_text(cell, "tex")


def test_a_letter_that_runs_over_one_cell_is_not_written() -> None:
    reduced = trace(lambda x: (x.any(), x.argmax()), torch.tensor([[True, False]]).float())
    assert reduced["any"][()].formula == "anyₖ(x[k])"
    assert reduced["argmax"][()].formula == "argmaxₖ(x[k])"


def test_batch_and_group_norm_have_the_parameters_gamma_and_beta() -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.GroupNorm(1, 2)).eval()
    traced = trace(module, torch.randn(1, 1, 2, 2))
    for name in ("1", "2"):
        formula = traced[name][0, 1, 0, 0].formula
        assert formula.endswith("·γ[1] + β[1]"), formula


def test_keys_and_values_in_one_product_are_not_called_queries() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(8, 2, 12, batch_first=True).eval()
    traced = trace(layer, torch.randn(1, 3, 8), torch.randn(1, 4, 8))
    cell = traced["multihead_attn.kv_proj"][3, 0, 15]
    assert cell.card().name == "KV[3, 15]"
    assert traced["self_attn.proj"][2, 0, 23].card().name == "QKV[2, 23]"


def test_a_negated_summand_is_subtracted() -> None:
    """“a + −b” was written for Fourier transforms."""
    traced = trace(lambda x: torch.view_as_real(torch.fft.rfft(x)), torch.randn(1, 4))
    cell = traced["fft_r2c"][0, 2, 0]
    expected = "x[0] − x[1] + x[2] − x[3]"
    assert cell.formula == expected
    assert to_tex(cell.card().tree) == "x_{0} - x_{1} + x_{2} - x_{3}"
    assert cell.reproduced and "+ −" not in cell.numbers


def test_the_mean_that_the_gradient_of_a_norm_reads_has_its_own_symbol() -> None:
    module = nn.LayerNorm(4)
    traced = trace_training_step(
        module,
        torch.randn(3, 4),
        loss=lambda normed: normed.square().sum(),
        optimiser=torch.optim.SGD(module.parameters(), lr=0.1),
    )
    cell = traced["gradients.weight"][3]
    assert cell.formula.endswith("(input[k, 3] − μ[k])·r[k]"), cell.formula
    assert to_tex(Leaf(Symbol("ḡ"))) == r"\bar{g}"


def test_the_result_of_a_written_out_line_has_its_name() -> None:
    """Dropout and the join of two directions take several operators each."""
    recurrent = nn.LSTM(4, 3, num_layers=2, dropout=0.5, bidirectional=True)

    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        return recurrent(x)[0], F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)

    traced = trace(forward, torch.randn(3, 2, 4))
    for name, *parts, result in (
        ("dropped", "empty_like", "bernoulli", "div", "mul"),
        ("LSTM.layer0.dropped", "empty_like", "bernoulli", "div", "mul"),
        ("LSTM.layer0.output", "stack", "stack.2", "cat"),
    ):
        assert traced[name].op == result
        below = [step.name for step in traced.steps if step.name.startswith(f"{name}.")]
        assert below == [f"{name}.{part}" for part in parts]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_equal_results_of_a_written_out_line_are_numbered() -> None:
    given = torch.randn(1, 2, 8, 4)
    traced = trace(flex_attention, given, given, given)
    found = [step.name for step in traced.steps if step.name.startswith("positions")]
    assert found == ["positions", "positions.2", "positions.3", "positions.4"]


def test_an_output_has_the_name_that_the_model_returns_it_by() -> None:
    """Not the first value of the variable, before a scale or a cap."""

    def forward(x: Tensor) -> dict[str, Tensor]:
        logits = x * 2
        logits = logits / 3
        logits = logits.tanh()
        return {"logits": logits, "first": logits[0]}

    traced = trace(forward, torch.randn(2, 3))
    assert names(traced) == ["logits.1", "logits.2", "logits"]
    for name, step in traced.outputs.items():
        assert traced[name] is step

    traced = trace(lambda x: (x + 1, x * 2, x * 3), torch.ones(1))
    for name, step in traced.outputs.items():
        assert traced[name] is step


class GatedRecurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.gru(x)
        return torch.tanh(out)


def test_a_short_name_is_no_number_and_no_path() -> None:
    t = trace(GatedRecurrent(), torch.randn(1, 3, 4))
    assert t.naming.short(t["gru.2"]) == "gru.2"
    t = traced_family("gpt2")
    read = t["transformer.h.0.attn.scores"].operands[0].view
    queries, _ = t.naming.find(read, (0,) * read.ndim)
    assert t.naming.short(queries) == "queries"  # a part of what `attn.c_attn` computed


def test_many_operands_of_one_name_are_told_apart_in_few_tries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forward(x: Tensor) -> Tensor:
        pieces = []
        for row in x:
            h = row * 2
            pieces.append(h)
        return torch.stack(pieces)

    tries = 0

    def counted(symbol: Symbol, **changes: Any) -> Symbol:
        nonlocal tries
        tries += 1
        return replace(symbol, **changes)

    monkeypatch.setattr(naming, "replace", counted)
    traced = trace(forward, torch.randn(100, 2))
    assert [traced.steps[-1][at, 0].formula for at in (0, 1, 4, 99)] == [
        "h[0]", "h′[0]", "h_2[0]", "h_97[0]",
    ]  # fmt: skip
    assert tries < 5 * 4 * 100


def _last_position(x: Tensor) -> dict[str, Tensor]:
    logits = x * 2
    return {"logits": logits[:, -1]}


def _reshaped(x: Tensor) -> dict[str, Tensor]:
    logits = x * 2
    logits = logits.view(-1, 4)
    return {"logits": logits}


def _viewed_at_once(x: Tensor) -> dict[str, Tensor]:
    logits = (x * 2).view(-1, 4)
    tripled = logits * 3
    return {"logits": logits, "tripled": tripled}


@pytest.mark.parametrize("forward", [_last_position, _reshaped, _viewed_at_once])
def test_a_view_that_is_returned_has_that_name_alone(forward: Callable[..., Any]) -> None:
    """`{"logits": logits[:, -1]}` is one position; the step of all of them has another name."""
    traced = trace(forward, torch.randn(2, 3, 4))
    assert [step.name for step in traced.views] == ["logits"]
    assert traced.names.count("logits.1") == 1
    for name, step in traced.outputs.items():
        assert traced[name] is step and step.name == name
