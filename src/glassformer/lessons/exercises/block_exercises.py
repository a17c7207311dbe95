"""Exercises on blocks and models: norm, feed-forward, residuals, positions, layers, all of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.language import words
from glassformer.lessons.exercises import solutions
from glassformer.lessons.exercises.attention_exercises import Cases, load_attention, numbers
from glassformer.lessons.exercises.exercise_check import Exercise
from glassformer.nn import (
    Block,
    FeedForward,
    FeedForwardConfig,
    ModelConfig,
    Seq2Seq,
    TokenEmbedding,
    padding_mask,
    presets,
)
from glassformer.nn.layers import layer_norm
from glassformer.nn.positions import sinusoidal_table

say = words(__name__)

Parameters = dict[str, Any]

# --- parts of a block --------------------------------------------------------------------------


def _norm(
    x: Tensor,
    gain: Tensor,
    bias: Tensor,
    eps: float = 1e-5,
    *,
    variance: str = "population",
    epsilon: str = "inside",
    axis: str = "last",
    keep: bool = True,
    centre: bool = True,
    root: bool = True,
    ends: str = "gain, bias",
) -> Tensor:
    named: dict[str, tuple[int, ...]] = {"last": (-1,), "positions": (-2,), "two": (-2, -1)}
    axes = named[axis]
    mean = x.mean(dim=axes, keepdim=keep)
    centred = x - mean if centre else x
    squares = (x - x.mean(dim=axes, keepdim=True)).square() if centre else x.square()
    found = squares.mean(dim=axes, keepdim=keep)
    if variance == "sample":
        count = squares.numel() / found.numel()
        found = found * count / (count - 1)
    if not root:
        normed = centred / (found + eps)
    else:
        normed = centred / {
            "inside": (found + eps).sqrt(), "outside": found.sqrt() + eps, "none": found.sqrt()
        }[epsilon]  # fmt: skip
    return {
        "gain, bias": normed * gain + bias,
        "bias, gain": (normed + bias) * gain,
        "gain": normed * gain,
        "bias": normed + bias,
        "none": normed,
    }[ends]


def _norm_cases() -> Cases:
    draw = numbers(10)
    return [
        (draw(4, 4), draw(4), draw(4)),
        (draw(2, 3, 4), draw(4), draw(4)),
        (draw(3, 5) * 0.01 + 1, draw(5), draw(5)),  # little variance: here eps counts
        (draw(2, 2, 6) + 4, draw(6), draw(6), 1e-2),
    ]


LAYER_NORM = Exercise(
    "layer-norm", "layer_norm", say, _norm_cases, layer_norm, _norm,
    {
        "sample variance": {"variance": "sample"},
        "eps outside": {"epsilon": "outside"},
        "no eps": {"epsilon": "none"},
        "over positions": {"axis": "positions"},
        "over all": {"axis": "two"},
        "no keepdim": {"keep": False},
        "not centred": {"centre": False},
        "no root": {"root": False},
        "bias first": {"ends": "bias, gain"},
        "no bias": {"ends": "gain"},
        "no gain": {"ends": "bias"},
        "no gain, no bias": {"ends": "none"},
    },
)  # fmt: skip


def _feed_forward(
    x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor, *,
    activation: str = "relu", where: str = "between", biases: str = "both",
) -> Tensor:  # fmt: skip
    act = {
        "relu": torch.relu, "gelu": nn.functional.gelu, "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
    }[activation]  # fmt: skip
    expanded = x @ W_1 + (b_1 if biases in ("both", "first") else 0)
    hidden = act(expanded) if where in ("between", "twice") else expanded
    contracted = hidden @ W_2 + (b_2 if biases in ("both", "second") else 0)
    return act(contracted) if where in ("twice", "at the end") else contracted


def _feed_forward_reference(
    x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor
) -> Tensor:
    module = FeedForward(x.size(-1), FeedForwardConfig(d_ff=W_1.size(1))).double()
    _load_feed_forward(module, {"W_1": W_1, "b_1": b_1, "W_2": W_2, "b_2": b_2})
    return module(x)  # type: ignore[no-any-return]


def _feed_forward_cases() -> Cases:
    draw = numbers(11)
    shapes = ((2, 3, 4, 8), (1, 5, 3, 3), (2, 2, 6, 4))
    return [(draw(b, t, d), draw(d, f), draw(f), draw(f, d), draw(d)) for b, t, d, f in shapes]


FEED_FORWARD = Exercise(
    "feed-forward", "feed_forward", say, _feed_forward_cases, _feed_forward_reference,
    _feed_forward,
    {
        "no activation": {"where": "nowhere"},
        "twice": {"where": "twice"},
        "at the end": {"where": "at the end"},
        "gelu": {"activation": "gelu"},
        "tanh": {"activation": "tanh"},
        "sigmoid": {"activation": "sigmoid"},
        "no first bias": {"biases": "second"},
        "no second bias": {"biases": "first"},
        "no biases": {"biases": "none"},
    },
)  # fmt: skip

Map = Callable[[Tensor], Tensor]


def _residual(
    x: Tensor, sublayer: Map, norm: Map, norm_first: bool, *,
    flag: str = "used", pre: str = "right", post: str = "right",
) -> Tensor:  # fmt: skip
    first = {"used": norm_first, "turned": not norm_first, "pre": True, "post": False}[flag]
    if first:
        return {
            "right": lambda: x + sublayer(norm(x)),
            "stream normed": lambda: norm(x) + sublayer(norm(x)),
            "no residual": lambda: sublayer(norm(x)),
            "sublayer normed": lambda: x + norm(sublayer(x)),
            "normed again": lambda: norm(x + sublayer(norm(x))),
        }[pre]()
    return {
        "right": lambda: norm(x + sublayer(x)),
        "no residual": lambda: norm(sublayer(x)),
        "sublayer normed": lambda: x + norm(sublayer(x)),
        "no norm": lambda: x + sublayer(x),
    }[post]()


def _bent(x: Tensor) -> Tensor:
    return torch.tanh(x.flip(-1)) * 2 + 0.3


def _spread(x: Tensor) -> Tensor:
    return layer_norm(x) * 1.5 + 0.1


def _residual_cases() -> Cases:
    draw = numbers(12)
    return [(draw(2, 3, 4) * 2, _bent, _spread, first) for first in (False, True, False)]


RESIDUAL = Exercise(
    "residual", "residual", say, _residual_cases,
    lambda x, sublayer, norm, first: x + sublayer(norm(x)) if first else norm(x + sublayer(x)),
    _residual,
    {
        "always post": {"flag": "post"},
        "always pre": {"flag": "pre"},
        "turned": {"flag": "turned"},
        "no residual": {"pre": "no residual", "post": "no residual"},
        "no residual in pre-norm": {"pre": "no residual"},
        "no residual in post-norm": {"post": "no residual"},
        "stream normed": {"pre": "stream normed"},
        "normed again": {"pre": "normed again"},
        "pre-norm after the sublayer": {"pre": "sublayer normed"},
        "post-norm before the sum": {"post": "sublayer normed"},
        "no norm": {"post": "no norm"},
    },
)  # fmt: skip

# --- from ids to vectors -----------------------------------------------------------------------


def _sinusoids(
    n_positions: int, d_model: int, *, order: str = "sine first", exponent: str = "2i",
    start: int = 0, base: float = 10_000.0, sign: int = 1,
) -> Tensor:  # fmt: skip
    pairs = torch.arange(d_model // 2, dtype=torch.float64)
    positions = torch.arange(start, start + n_positions, dtype=torch.float64)[:, None]
    power = {"2i": 2 * pairs, "i": pairs, "4i": 4 * pairs, "each": 2 * pairs}[exponent] / d_model
    of_cosine = (2 * pairs + 1) / d_model if exponent == "each" else power
    sines = torch.sin(positions * base ** (-sign * power))
    cosines = torch.cos(positions * base ** (-sign * of_cosine))
    return {
        "sine first": lambda: torch.stack([sines, cosines], dim=-1).flatten(-2),
        "cosine first": lambda: torch.stack([cosines, sines], dim=-1).flatten(-2),
        "halves": lambda: torch.cat([sines, cosines], dim=-1),
        "sines alone": lambda: torch.stack([sines, sines], dim=-1).flatten(-2),
    }[order]()


POSITIONS = Exercise(
    "positions", "sinusoids", say, lambda: [(4, 6), (7, 4), (3, 8)], sinusoidal_table, _sinusoids,
    {
        "cosine first": {"order": "cosine first"},
        "halves": {"order": "halves"},
        "sines alone": {"order": "sines alone"},
        "exponent i": {"exponent": "i"},
        "exponent 4i": {"exponent": "4i"},
        "exponent of the cosine": {"exponent": "each"},
        "from one": {"start": 1},
        "base": {"base": 1_000.0},
        "sign": {"sign": -1},
    },
)  # fmt: skip


def _embed(ids: Tensor, table: Tensor, *, scale: str = "root", positions: str = "added") -> Tensor:
    d_model = table.size(1)
    factor = {"root": math.sqrt(d_model), "none": 1.0, "width": d_model, "all": math.sqrt(d_model),
              "divided": 1 / math.sqrt(d_model)}[scale]  # fmt: skip
    tokens = table[ids]
    where = sinusoidal_table(ids.size(1), d_model).double()
    if scale == "all":
        return (tokens + where) * factor
    scaled = tokens * factor
    return {
        "added": lambda: scaled + where,
        "none": lambda: scaled,
        "multiplied": lambda: scaled * where,
        "by batch": lambda: scaled + sinusoidal_table(len(ids), d_model).double()[:, None],
        "by id": lambda: scaled + sinusoidal_table(len(table), d_model).double()[ids],
    }[positions]()


def _embed_reference(ids: Tensor, table: Tensor) -> Tensor:
    module = TokenEmbedding(table.size(0), table.size(1), scale=True).double()
    with torch.no_grad():
        module.weight.copy_(table)
    return module(ids) + sinusoidal_table(ids.size(1), table.size(1))  # type: ignore[no-any-return]


def _embed_cases() -> Cases:
    draw = numbers(13)
    return [
        (torch.tensor([[1, 4, 0], [2, 2, 5]]), draw(6, 4)),
        (torch.tensor([[3, 1, 2, 0, 3]]), draw(5, 6)),
    ]


EMBEDDING = Exercise(
    "embedding", "embed", say, _embed_cases, _embed_reference, _embed,
    {
        "not scaled": {"scale": "none"},
        "times D": {"scale": "width"},
        "divided": {"scale": "divided"},
        "positions scaled": {"scale": "all"},
        "no positions": {"positions": "none"},
        "multiplied": {"positions": "multiplied"},
        "by batch": {"positions": "by batch"},
        "by id": {"positions": "by id"},
    },
)  # fmt: skip

# --- layers and the model ----------------------------------------------------------------------


def _config(d_model: int, n_heads: int, d_ff: int) -> ModelConfig:
    config = presets.vaswani_2017_base(d_model=d_model, n_heads=n_heads, d_ff=d_ff)
    return config.with_(
        attention__bias=False, attention__output_bias=False, block__dropout=0.0, max_len=64
    )


@torch.no_grad()
def _load_feed_forward(module: FeedForward, parameters: dict[str, Tensor]) -> None:
    assert module.contract is not None
    for linear, which in ((module.expand, "1"), (module.contract, "2")):
        linear.weight.copy_(parameters[f"W_{which}"].mT)
        linear.bias.copy_(parameters[f"b_{which}"])


@torch.no_grad()
def load_block(block: Block, parameters: Parameters) -> None:
    """Put the parameters of a layer, named as in the exercises, into our block."""
    load_attention(block.attention, parameters["attention"])
    norms = [block.attention_norm, block.feed_forward_norm]
    if block.cross_attention is not None and block.cross_attention_norm is not None:
        load_attention(block.cross_attention, parameters["cross"])
        norms.insert(1, block.cross_attention_norm)
    for number, norm in enumerate(norms, start=1):
        assert isinstance(norm, nn.LayerNorm)
        norm.weight.copy_(parameters[f"norm_{number}"]["gain"])
        norm.bias.copy_(parameters[f"norm_{number}"]["bias"])
    _load_feed_forward(block.feed_forward, parameters["feed_forward"])


def _block(parameters: Parameters, n_heads: int, *, decoder: bool = False) -> Block:
    d_model, d_ff = parameters["feed_forward"]["W_1"].shape
    block = Block(_config(d_model, n_heads, d_ff), causal=decoder, cross=decoder).double().eval()
    load_block(block, parameters)
    return block


def layer_parameters(
    draw: Callable[..., Tensor], d_model: int, d_ff: int, *, decoder: bool = False
) -> Parameters:
    """Random parameters of a layer, as the exercises name them."""

    def attention() -> dict[str, Tensor]:
        return {name: draw(d_model, d_model) for name in ("W_Q", "W_K", "W_V", "W_O")}

    norms = {
        f"norm_{number}": {"gain": 1 + 0.3 * draw(d_model), "bias": 0.3 * draw(d_model)}
        for number in range(1, 4 if decoder else 3)
    }
    feed_forward = {
        "W_1": draw(d_model, d_ff), "b_1": draw(d_ff), "W_2": draw(d_ff, d_model),
        "b_2": draw(d_model),
    }  # fmt: skip
    cross = {"cross": attention()} if decoder else {}
    return {"attention": attention(), **cross, **norms, "feed_forward": feed_forward}


def _encoder_layer(
    x: Tensor, parameters: Parameters, n_heads: int, mask: Tensor | None = None, *,
    around: str = "both", norms: str = "post", masked: str = "yes", stream: str = "middle",
) -> Tensor:  # fmt: skip
    first, second = parameters["norm_1"], parameters["norm_2"]
    if norms == "swapped":
        first, second = second, first
    if norms == "one":
        second = first
    norm = solutions.layer_norm
    seen = {"yes": mask, "no": None, "inverted": mask if mask is None else ~mask}[masked]
    attention_in = norm(x, **first) if norms == "pre" else x
    attended = solutions.multi_head(
        attention_in, attention_in, **parameters["attention"], n_heads=n_heads, mask=seen
    )
    summed = attended if around in ("feed-forward", "none") else x + attended
    middle = summed if norms in ("pre", "last only") else norm(summed, **first)
    feed_in = norm(middle, **second) if norms == "pre" else middle
    fed = solutions.feed_forward(feed_in, **parameters["feed_forward"])
    carried = {"middle": middle, "input": x}[stream]
    total = fed if around in ("attention", "none") else carried + fed
    return total if norms in ("pre", "first only") else norm(total, **second)


def _layer_cases() -> Cases:
    draw = numbers(14)
    padded = padding_mask(torch.tensor([[True, False, True], [True, True, False]]))
    return [
        (draw(2, 3, 4), layer_parameters(draw, 4, 8), 2),
        (draw(2, 3, 6), layer_parameters(draw, 6, 5), 3, padded),
    ]


ENCODER_LAYER = Exercise(
    "encoder-layer", "encoder_layer", say, _layer_cases,
    lambda x, parameters, n_heads, mask=None: _block(parameters, n_heads)(x, mask=mask),
    _encoder_layer,
    {
        "no residual": {"around": "none"},
        "no residual around attention": {"around": "feed-forward"},
        "no residual around feed-forward": {"around": "attention"},
        "input added twice": {"stream": "input"},
        "pre-norm": {"norms": "pre"},
        "norms swapped": {"norms": "swapped"},
        "one norm": {"norms": "one"},
        "no first norm": {"norms": "last only"},
        "no second norm": {"norms": "first only"},
        "mask unused": {"masked": "no"},
        "mask inverted": {"masked": "inverted"},
    },
)  # fmt: skip


def _decoder_layer(
    x: Tensor, memory: Tensor, parameters: Parameters, n_heads: int,
    memory_mask: Tensor | None = None, *,
    causal: str = "yes", reads: str = "memory", cross: str = "cross", hidden: str = "yes",
    around: str = "all", order: str = "self first",
) -> Tensor:  # fmt: skip
    norm = solutions.layer_norm
    length = x.size(1)
    ones = torch.ones(length, length, dtype=torch.bool)
    before = {"yes": ones.tril(), "no": None, "inverted": ones.triu(), "negated": ones.triu(1)}
    seen = {"yes": memory_mask, "no": None, "causal": ones.tril()}[hidden]

    def itself(y: Tensor) -> Tensor:
        return solutions.multi_head(
            y, y, **parameters["attention"], n_heads=n_heads, mask=before[causal]
        )

    def across(y: Tensor) -> Tensor:
        asking, asked = {"memory": (y, memory), "itself": (y, y), "turned": (memory, y)}[reads]
        return solutions.multi_head(asking, asked, **parameters[cross], n_heads=n_heads, mask=seen)

    one, other = (itself, across) if order == "self first" else (across, itself)
    first = norm(x + one(x) if around != "none" else one(x), **parameters["norm_1"])
    gathered = other(first)
    kept = around in ("all", "no feed-forward")
    second = norm(first + gathered if kept else gathered, **parameters["norm_2"])
    if order == "no cross":
        second = first
    fed = solutions.feed_forward(second, **parameters["feed_forward"])
    total = fed if around in ("none", "no feed-forward") else second + fed
    return norm(total, **parameters["norm_3"])


def _decoder_cases() -> Cases:
    draw = numbers(15)
    hidden = padding_mask(torch.tensor([[True, True, True], [True, False, True]]))
    return [
        (draw(2, 3, 4), draw(2, 3, 4), layer_parameters(draw, 4, 8, decoder=True), 2, hidden),
        (draw(1, 4, 6), draw(1, 2, 6), layer_parameters(draw, 6, 4, decoder=True), 3),
        (draw(2, 4, 4), draw(2, 4, 4), layer_parameters(draw, 4, 6, decoder=True), 2),
    ]


def _decoder_reference(
    x: Tensor, memory: Tensor, parameters: Parameters, n_heads: int,
    memory_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    block = _block(parameters, n_heads, decoder=True)
    return block(x, memory=memory, memory_mask=memory_mask)  # type: ignore[no-any-return]


DECODER_LAYER = Exercise(
    "decoder-layer", "decoder_layer", say, _decoder_cases, _decoder_reference, _decoder_layer,
    {
        "not causal": {"causal": "no"},
        "causal inverted": {"causal": "inverted"},
        "causal negated": {"causal": "negated"},
        "memory unread": {"reads": "itself"},
        "queries from memory": {"reads": "turned"},
        "same parameters": {"cross": "attention"},
        "memory mask unused": {"hidden": "no"},
        "causal across": {"hidden": "causal"},
        "no residual": {"around": "none"},
        "no residual around cross": {"around": "no cross"},
        "no residual around feed-forward": {"around": "no feed-forward"},
        "cross first": {"order": "cross first"},
    },
)  # fmt: skip

Layers = list[Parameters]


def _transformer(
    source: Tensor, target: Tensor, table: Tensor, encoder: Layers, decoder: Layers, n_heads: int,
    pad_id: int, *,
    reads: str = "encoded", mask: str = "padding", layers: str = "each", embedded: str = "both",
    output: str = "logits",
) -> Tensor:  # fmt: skip
    seen = {"padding": source != pad_id, "inverted": source == pad_id, "none": None}
    hidden = seen[mask if mask in seen else "padding"]
    visible = None if hidden is None else hidden[:, None, None, :]
    if layers == "first":
        encoder, decoder = [encoder[0]] * len(encoder), [decoder[0]] * len(decoder)
    if layers == "one":
        encoder, decoder = encoder[:1], decoder[:1]
    memory = solutions.embed(source, table)
    for parameters in encoder if reads == "encoded" else []:
        memory = solutions.encoder_layer(memory, parameters, n_heads, visible)
    scale = math.sqrt(table.size(1))
    x = solutions.embed(target, table) if embedded == "both" else table[target] * scale
    across = None if mask == "encoder only" else visible
    for parameters in decoder:
        x = solutions.decoder_layer(x, memory, parameters, n_heads, across)
    logits = x @ table.mT
    return {
        "logits": lambda: logits,
        "probabilities": lambda: torch.softmax(logits, dim=-1),
        "vectors": lambda: x,
        "scaled": lambda: logits * scale,
    }[output]()


def _transformer_reference(
    source: Tensor, target: Tensor, table: Tensor, encoder: Layers, decoder: Layers, n_heads: int,
    pad_id: int,
) -> Tensor:  # fmt: skip
    d_ff = encoder[0]["feed_forward"]["W_1"].size(1)
    config = _config(table.size(1), n_heads, d_ff).with_(
        vocab_size=len(table), n_layers=len(encoder), n_decoder_layers=len(decoder), pad_id=pad_id,
        output__bias=False,
    )  # fmt: skip
    model = Seq2Seq(config).double().eval()
    with torch.no_grad():
        model.to_vocabulary.weight.copy_(table)
    for stack, layers in ((model.encoder, encoder), (model.decoder, decoder)):
        for block, parameters in zip(stack.blocks, layers, strict=True):
            assert isinstance(block, Block)
            load_block(block, parameters)
    return model(source, target)  # type: ignore[no-any-return]


def _transformer_cases() -> Cases:
    draw = numbers(16)

    def model(d_model: int, d_ff: int) -> tuple[Any, ...]:
        encoder = [layer_parameters(draw, d_model, d_ff) for _ in range(2)]
        decoder = [layer_parameters(draw, d_model, d_ff, decoder=True) for _ in range(2)]
        return draw(7, d_model), encoder, decoder

    return [
        (torch.tensor([[3, 4, 5, 0], [6, 2, 0, 0]]), torch.tensor([[1, 5, 2], [1, 3, 4]]),
         *model(4, 6), 2, 0),
        (torch.tensor([[2, 6, 6]]), torch.tensor([[1, 2, 3, 5]]), *model(6, 4), 3, 6),
    ]  # fmt: skip


TRANSFORMER = Exercise(
    "transformer", "transformer", say, _transformer_cases, _transformer_reference, _transformer,
    {
        "encoder unused": {"reads": "embedded"},
        "padding seen": {"mask": "none"},
        "padding seen by the decoder": {"mask": "encoder only"},
        "mask inverted": {"mask": "inverted"},
        "first layer again": {"layers": "first"},
        "one layer": {"layers": "one"},
        "target without positions": {"embedded": "source"},
        "probabilities": {"output": "probabilities"},
        "vectors": {"output": "vectors"},
        "scaled output": {"output": "scaled"},
    },
)  # fmt: skip
