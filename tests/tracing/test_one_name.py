"""A cell has one name and one formula, in whatever form it is shown.

The forms are read back by parsers of this test: what stands in text, TeX, MathML, JSON, on the
explorer's card, in Markdown and in the workbook has to be the same list of symbols and places.
"""

from __future__ import annotations

import random
import re
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor, nn

from glassformer.documents import render_text
from glassformer.explorer.cell_cards import card_info
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.overview import describe
from glassformer.explorer.panels import equation
from glassformer.lessons.by_hand import by_hand_trace
from glassformer.nn.attention import basic_self_attention
from glassformer.tracing import Cell, Trace, trace, trace_training_step
from glassformer.tracing.formula import equals, to_json, to_mathml, to_tex, to_text
from tests.tracing.render.xlsx import write_workbook

CELLS_OF_EACH = 9
IDS = torch.tensor([[5, 6, 7]])
SIZES = {"hidden_size": 8, "intermediate_size": 16, "vocab_size": 20, "num_hidden_layers": 1}
ENDS = {"bos_token_id": 1, "eos_token_id": 1}

Written = list[tuple[str, str]]
"""Symbols with their places, in the order of the formula."""


class Plain(nn.Module):
    """A user's own module."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm, self.to_classes = nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.fc1(x))
        pooled = self.norm(hidden).mean(0)
        return torch.softmax(self.to_classes(pooled), -1)


def gpt2() -> Trace:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 8, "vocab_size": 20, "n_positions": 8}
    return trace(GPT2LMHeadModel(GPT2Config(**sizes, **ENDS)).eval(), IDS)


def bert() -> Trace:
    from transformers import BertConfig, BertModel

    config = BertConfig(**SIZES, num_attention_heads=2, max_position_embeddings=8)
    return trace(BertModel(config).eval(), IDS)


def llama() -> Trace:
    from transformers import LlamaConfig, LlamaForCausalLM

    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    return trace(LlamaForCausalLM(LlamaConfig(**SIZES, **heads, **ENDS)).eval(), IDS)


def mixtral() -> Trace:
    from transformers import MixtralConfig, MixtralForCausalLM

    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 2}
    return trace(MixtralForCausalLM(MixtralConfig(**SIZES, **heads, **ENDS)).eval(), IDS)


def gpt_neox() -> Trace:
    """Rotates the first quarter of each head."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(**SIZES | {"hidden_size": 16}, num_attention_heads=2, **ENDS)
    return trace(GPTNeoXForCausalLM(config).eval(), IDS)


def torch_encoder() -> Trace:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return trace(nn.TransformerEncoder(layer, 1).eval(), torch.randn(1, 3, 8))


def torch_attention() -> Trace:
    x, memory = torch.randn(1, 3, 8), torch.randn(1, 4, 8)
    return trace(nn.MultiheadAttention(8, 2, batch_first=True).eval(), x, memory, memory)


MODELS: dict[str, Callable[[], Trace]] = {
    "by hand": by_hand_trace,
    "basic": lambda: trace(basic_self_attention, torch.randn(3, 4)),
    "torch.nn encoder": torch_encoder,
    "torch.nn attention": torch_attention,
    "GPT-2": gpt2,
    "BERT": bert,
    "Llama": llama,
    "Mixtral": mixtral,
    "GPT-NeoX": gpt_neox,
    "a user's": lambda: trace(Plain(), torch.randn(3, 4)),
}


@cache
def traced(name: str) -> Trace:
    torch.manual_seed(0)
    return MODELS[name]()


def cells_of(t: Trace) -> list[Cell]:
    chosen = random.Random(1)
    steps = [s for s in t.steps if s.view.numel and s.dtype.is_floating_point and not s.is_opaque]
    picked = chosen.sample(steps, min(CELLS_OF_EACH, len(steps)))
    cells = [step[tuple(chosen.randrange(size) for size in step.shape)] for step in picked]
    return [cell for cell in cells if cell.expression is not None]


# --- reading the forms back ---


def in_text(text: str) -> Written:
    return re.findall(r"([^\s\[\](),·×/+−^|√]+)\[([^\[\]]*)\]", text)


def in_tex(tex: str) -> Written:
    name = r"\\mathrm\{[^}]*\}|\\(?:gamma|beta)(?![A-Za-z])|[A-Za-z]"
    simple = rf"(?:{name})(?:_(?:[A-Za-z0-9]|\{{[^{{}}]*\}}|\{{\\mathrm\{{[^{{}}]*\}}\}}))?'*"
    pattern = rf"(?<![\\A-Za-z])(?:\(({simple})\)|((?:{name})'*))_\{{([^{{}}]*)\}}"
    return [
        (plain_tex(whole or bare), plain_places(places))
        for whole, bare, places in re.findall(pattern, tex)
    ]


def plain_places(tex: str) -> str:
    for command, sign in ((",", ", "), ("-", "−"), (r"\div ", "÷"), (r"\bmod", "mod")):
        tex = tex.replace(command, sign)
    return tex


def plain_tex(tex: str) -> str:
    tex = re.sub(r"\\mathrm\{([^}]*)\}", r"\1", tex).replace("\\_", "_").replace("'", "′")
    return re.sub(r"[{}]", "", tex.replace(r"\gamma", "γ").replace(r"\beta", "β"))


def in_mathml(mathml: str) -> Written:
    found: Written = []
    for node in ElementTree.fromstring(f"<mrow>{mathml}</mrow>").iter("msub"):
        base, below = node
        if below.tag == "mrow" and {child.tag for child in below} <= {"mtext", "mi"}:
            found.append((plain_mathml(base), "".join(below.itertext()).replace(",", ", ")))
    return found


def plain_mathml(node: ElementTree.Element) -> str:
    parts = [plain_mathml(child) for child in node]
    if node.tag == "msub":
        return "_".join(parts)
    return ((node.text or "").strip("()") + "".join(parts)).strip()


def in_json(data: Any) -> Written:
    if isinstance(data, list):
        return [found for part in data for found in in_json(part)]
    if not isinstance(data, dict):
        return []
    places = data.get("places", [])
    if data["kind"] == "leaf" and places and all(isinstance(place, str) for place in places):
        return [(data["symbol"], ", ".join(places))]
    return [found for part in data.values() for found in in_json(part)]


def texts_of(book: Path) -> list[str]:
    with zipfile.ZipFile(book) as archive:
        strings = archive.read("xl/sharedStrings.xml").decode()
    return [unescape(text) for text in re.findall(r"<t[^>]*>([^<]*)</t>", strings)]


def all_cells() -> Iterator[tuple[Trace, Cell]]:
    for name in MODELS:
        for cell in cells_of(traced(name)):
            yield traced(name), cell


def test_sixty_cells_have_the_same_symbols_and_places_in_every_form() -> None:
    compared = 0
    for t, cell in all_cells():
        card = cell.card()
        whole = equals(card.name_tree, card.tree)
        text = f"{card.name} = {card.formula}"
        wanted = in_text(text)
        assert in_text(to_text(whole)) == wanted, text
        # Of two branches, mathematics has the condition last, text first.
        order: Callable[[Written], Written] = sorted if card.formula.startswith("if ") else list
        assert order(in_tex(to_tex(whole))) == order(wanted), to_tex(whole)
        assert order(in_mathml(to_mathml(whole))) == order(wanted), text
        assert in_json(to_json(whole)) == wanted, text
        shown = card_info(OpenTrace(t, "m", "module", text=""), cell)
        assert (shown.cell.name, shown.formula) == (card.name, card.formula)
        assert order(in_tex(shown.tex)) == order(wanted)
        operands = {operand.name.partition("[")[0] for operand in shown.operands}
        if order is list:  # of two branches, only the one that was taken is read
            assert {symbol for symbol, _ in wanted[1:]} <= operands, text
        read = to_text(card.tree, card.digits, within="equation", minus=True)
        assert f"{card.name} = {read}" in render_text(cell, "md")
        assert to_tex(whole) in render_text(cell, "md", tex=True)
        assert f"{card.name} " in cell.explain() or card.formula in cell.explain()
        compared += 1
    assert compared >= 60


@pytest.mark.parametrize("name", MODELS)
def test_the_workbook_has_the_same_symbols(name: str, tmp_path: Path) -> None:
    t = traced(name)
    said = texts_of(write_workbook(t, tmp_path / "book.xlsx"))
    for cell in cells_of(t):
        first = cell.step[(0,) * len(cell.step.shape)].card()
        assert cell.step.name in said
        formula = to_text(first.tree, minus=True)
        assert any(text.startswith(f"{first.name} = {formula} · ") for text in said), cell


def test_no_two_steps_of_a_formula_share_a_symbol() -> None:
    for name in MODELS:
        for step in traced(name).steps:
            if step.view.numel and not step.is_opaque:
                sight = step.trace.naming.sight(step)
                owners = {
                    id(owner): owner
                    for operand in step.operands
                    if operand.view.numel
                    for owner in [sight.names.find(operand.view, (0,) * operand.view.ndim)[0]]
                }
                symbols = [sight.symbol(owner) for owner in {**owners, id(step): step}.values()]
                assert len(set(symbols)) == len(symbols), (step, symbols)


def test_the_equation_of_matrices_has_the_symbols_of_the_card() -> None:
    for name in ("by hand", "GPT-2", "BERT"):
        opened = OpenTrace(traced(name), "m", "module", text="")
        info = describe(opened)
        for step in traced(name).steps:
            if step.op in ("linear", "matmul") and step.view.numel:
                shown = equation(info, step, ())
                symbols = {str(s) for s in step[(0,) * len(step.shape)].card().legend}
                wanted = {symbol for symbol in symbols if len(symbol) < 4}
                assert wanted <= set(re.findall(r"\w+", shown.tex)), (shown.tex, symbols)
                assert r"\, " in shown.tex


FORMULAS = {
    ("by hand", "model.encoder.blocks.0.attention.projected_queries", (2, 1)):
        "Q[2, 1] = Σₖ x[2, k]·W_Q[1, k]",
    ("by hand", "model.encoder.blocks.0.attention.scores", (2, 1)):
        "S[2, 1] = Σₖ Q[2, k]·K[1, k]",
    ("by hand", "model.encoder.blocks.0.attention_sum", (2, 1)): "x_mid[2, 1] = x[2, 1] + O[2, 1]",
    ("GPT-2", "transformer.h.1.attn.scores", (1, 2, 0)): "S[1, 2, 0] = Σₖ Q[1, 2, k]·K[1, 0, k]",
    ("GPT-2", "transformer.h.0.attn.c_attn.x", (2, 9)):
        "K[0, 2, 1] = Σₖ N[2, k]·W_QKV[k, 9] + b_QKV[9]",
    ("GPT-2", "transformer.h.1.hidden_states.4", (2, 1)): "x[2, 1] = x_mid[2, 1] + F[2, 1]",
    ("GPT-2", "logits", (2, 1)): "z[2, 1] = Σₖ N[2, k]·E[1, k]",
    ("BERT", "encoder.layer.0.attention.self.query_layer", (2, 1)):
        "Q[2, 1] = Σₖ x[2, k]·W_Q[1, k] + b_Q[1]",
    ("BERT", "encoder.layer.0.intermediate.hidden_states", (2, 1)):
        "H[2, 1] = Σₖ N[2, k]·W_1[1, k] + b_1[1]",
    ("Llama", "model.layers.0.self_attn.q_embed", (1, 2, 3)):
        "Q_rot[1, 2, 3] = Q_cos[1, 2, 3] + Q_sin[1, 2, 3]",
    ("Llama", "model.layers.0.self_attn.key_states", (2, 3)):
        "K[2, 3] = Σₖ N[2, k]·W_K[3, k]",
    ("Llama", "model.layers.0.self_attn.keys", (0, 2, 3)): "K_rot′[2, 3] = K_rot[2, 3]",
    ("Mixtral", "model.layers.0.self_attn.scores", (1, 2, 0)):
        "S[1, 2, 0] = Σₖ Q_rot[1, 2, k]·K_rot[0, k]",
    ("GPT-NeoX", "gpt_neox.layers.0.attention.scores", (1, 2, 0)):
        "S[1, 2, 0] = Σₖ Q_rot[1, 2, k]·K_rot[1, 0, k]",
    ("Llama", "model.layers.0.mlp.gate_proj", (2, 1)): "G[2, 1] = Σₖ N[2, k]·W_gate[1, k]",
    ("torch.nn encoder", "layers.0.linear1", (2, 1)):
        "H[2, 1] = Σₖ N[2, k]·W_1[1, k] + b_1[1]",
    ("basic", "scores", (2, 1)): "S[2, 1] = Σₖ x[2, k]·x[1, k]",
    ("a user's", "pooled", (1,)): "pooled[1] = (Σₖ N[k, 1]) / 3",
}  # fmt: skip


@pytest.mark.parametrize(("model", "step", "index"), FORMULAS)
def test_the_structure_tells_the_symbols(model: str, step: str, index: tuple[int, ...]) -> None:
    card = traced(model)[step][index].card()
    assert f"{card.name} = {card.formula}" == FORMULAS[model, step, index]


@pytest.mark.parametrize("model", ["Llama", "Mixtral", "GPT-NeoX"])
def test_what_is_rotated_is_not_called_as_before(model: str) -> None:
    t = traced(model)
    attention = t.found_stages.attentions[0].stages
    for side, letter in (("queries", "Q"), ("keys", "K")):
        rotation = attention[f"{side}_rotated"]
        after = list(t.steps)[list(t.steps).index(rotation) :]
        assert letter not in {str(t.naming.symbol(step)) for step in after if step.is_main}
        assert str(t.naming.symbol(attention[side])) == f"{letter}_rot"


def test_a_copied_part_of_a_packed_projection_keeps_its_symbol() -> None:
    """Queries that the backward pass copies are queries, not QKV."""

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(8, 24)

        def forward(self, x: Tensor) -> Tensor:
            parts = self.qkv(x).chunk(3, -1)
            queries, keys, values = (part.view(2, 5, 2, 4).transpose(1, 2) for part in parts)
            weights = torch.softmax(torch.einsum("bhid,bhjd->bhij", queries, keys), -1)
            return torch.einsum("bhij,bhjd->bhid", weights, values)

    torch.manual_seed(0)
    model = Packed()
    t = trace_training_step(
        model,
        torch.randn(2, 5, 8),
        loss=lambda y: y.square().mean(),
        optimiser=torch.optim.SGD(model.parameters(), lr=0.1),
    )
    copies = [s for s in t.steps if s.name.startswith("gradients.") and s.op == "clone"]
    symbols = {str(t.naming.symbol(step)) for step in copies}
    assert {"Q", "K", "V"} <= symbols
    assert "QKV" not in symbols
