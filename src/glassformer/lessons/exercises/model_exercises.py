"""Exercises on models: the parts of a block, a whole model, its loss, and how it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.decoding.beam import best_continuations
from glassformer.decoding.greedy import MostProbable, collect, steps
from glassformer.decoding.hypotheses import Stop
from glassformer.language import words
from glassformer.lessons.exercises.attention_exercises import load_attention
from glassformer.lessons.exercises.exercise_check import Draw, Exercise, ExerciseCases
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
from glassformer.training.learner import cross_entropy

Parameters = dict[str, Any]
Layers = list[Parameters]

# --- references: parts of a block --------------------------------------------------------------


@torch.no_grad()
def _load_feed_forward(module: FeedForward, parameters: dict[str, Tensor]) -> None:
    assert module.contract is not None
    for linear, which in ((module.expand, "1"), (module.contract, "2")):
        linear.weight.copy_(parameters[f"W_{which}"].mT)
        linear.bias.copy_(parameters[f"b_{which}"])


def _feed_forward(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> Tensor:
    module = FeedForward(x.size(-1), FeedForwardConfig(d_ff=W_1.size(1))).double()
    _load_feed_forward(module, {"W_1": W_1, "b_1": b_1, "W_2": W_2, "b_2": b_2})
    return module(x)  # type: ignore[no-any-return]


def _embed(ids: Tensor, table: Tensor) -> Tensor:
    module = TokenEmbedding(table.size(0), table.size(1), scale=True).double()
    with torch.no_grad():
        module.weight.copy_(table)
    return module(ids) + sinusoidal_table(ids.size(1), table.size(1))  # type: ignore[no-any-return]


# --- references: layers and the model ----------------------------------------------------------


def _config(d_model: int, n_heads: int, d_ff: int) -> ModelConfig:
    config = presets.vaswani_2017_base(d_model=d_model, n_heads=n_heads, d_ff=d_ff)
    return config.with_(
        attention__bias=False, attention__output_bias=False, block__dropout=0.0, max_len=64
    )


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


def _decoder_layer(
    x: Tensor, memory: Tensor, parameters: Parameters, n_heads: int,
    memory_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    block = _block(parameters, n_heads, decoder=True)
    return block(x, memory=memory, memory_mask=memory_mask)  # type: ignore[no-any-return]


def _transformer(
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


# --- references: what a model is trained for, and how it writes --------------------------------


def _loss(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    targets = ids[:, 1:]
    is_token = targets != pad_id
    total = cross_entropy(logits[:, :-1][is_token], targets[is_token]).objective
    return total / is_token.sum()


class PrefixModel:
    """A made-up model: logits that depend on all ids so far, and on nothing else."""

    def __init__(self, seed: int, vocab_size: int) -> None:
        self.seed = seed
        self.vocab_size = vocab_size

    def __call__(self, ids: Sequence[int]) -> Tensor:
        seed = self.seed
        for token in ids:
            seed = (seed * 31 + int(token) + 1) % 2**31
        return torch.rand(self.vocab_size, generator=torch.Generator().manual_seed(seed))


NextLogits = Callable[[list[int]], Tensor]


class _OneByOne:
    """The made-up model as our search asks for it: a `Stepper` of one sequence."""

    def __init__(self, next_logits: NextLogits, start: int) -> None:
        self.next_logits = next_logits
        self.ids = [start]

    def start(self) -> Tensor:
        return self.next_logits(self.ids)[None, None]

    def step(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        del parents
        self.ids.append(int(tokens))
        return self.start()

    def worth_leaving(self, n_left: int) -> bool:
        del n_left
        return False

    def keep(self, sequences: Tensor) -> None:
        raise AssertionError(f"one sequence never leaves, got {sequences}")


def _greedy(next_logits: NextLogits, start: int, end: int, max_new: int) -> list[int]:
    stop = Stop(end, (max_new,))
    run = steps(_OneByOne(next_logits, start), MostProbable(), stop)
    (decoded,) = collect(run, stop)
    return list(decoded.hypotheses[0].tokens)


def _beam_step(logits: Tensor, totals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    found = best_continuations(logits[None], totals[None], len(totals))
    return found.totals[0], found.parents[0], found.tokens[0]


# --- cases -------------------------------------------------------------------------------------


def _norm_cases(draw: Draw) -> ExerciseCases:
    return [
        (draw(4, 4), draw(4), draw(4)),
        (draw(2, 3, 4), draw(4), draw(4)),
        (draw(3, 5) * 0.01 + 1, draw(5), draw(5)),  # little variance: here eps counts
        (draw(2, 2, 6) + 4, draw(6), draw(6), 1e-2),
    ]


def _feed_forward_cases(draw: Draw) -> ExerciseCases:
    shapes = ((2, 3, 4, 8), (1, 5, 3, 3), (2, 2, 6, 4))
    return [(draw(b, t, d), draw(d, f), draw(f), draw(f, d), draw(d)) for b, t, d, f in shapes]


def _bent(x: Tensor) -> Tensor:
    return torch.tanh(x.flip(-1)) * 2 + 0.3


def _spread(x: Tensor) -> Tensor:
    return layer_norm(x) * 1.5 + 0.1


def layer_parameters(draw: Draw, d_model: int, d_ff: int, *, decoder: bool = False) -> Parameters:
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


def _encoder_cases(draw: Draw) -> ExerciseCases:
    padded = padding_mask(torch.tensor([[True, False, True], [True, True, False]]))
    return [
        (draw(2, 3, 4), layer_parameters(draw, 4, 8), 2),
        (draw(2, 3, 6), layer_parameters(draw, 6, 5), 3, padded),
    ]


def _decoder_cases(draw: Draw) -> ExerciseCases:
    hidden = padding_mask(torch.tensor([[True, True, True], [True, False, True]]))
    return [
        (draw(2, 3, 4), draw(2, 3, 4), layer_parameters(draw, 4, 8, decoder=True), 2, hidden),
        (draw(1, 4, 6), draw(1, 2, 6), layer_parameters(draw, 6, 4, decoder=True), 3),
        (draw(2, 4, 4), draw(2, 4, 4), layer_parameters(draw, 4, 6, decoder=True), 2),
    ]


def _transformer_cases(draw: Draw) -> ExerciseCases:
    def model(d_model: int, d_ff: int) -> tuple[Any, ...]:
        encoder = [layer_parameters(draw, d_model, d_ff) for _ in range(2)]
        decoder = [layer_parameters(draw, d_model, d_ff, decoder=True) for _ in range(2)]
        return draw(7, d_model), encoder, decoder

    return [
        (torch.tensor([[3, 4, 5, 0], [6, 2, 0, 0]]), torch.tensor([[1, 5, 2], [1, 3, 4]]),
         *model(4, 6), 2, 0),
        (torch.tensor([[2, 6, 6]]), torch.tensor([[1, 2, 3, 5]]), *model(6, 4), 3, 6),
    ]  # fmt: skip


def _loss_cases(draw: Draw) -> ExerciseCases:
    return [
        (2 * draw(2, 4, 5), torch.tensor([[1, 3, 4, 2], [1, 4, 2, 0]]), 0),
        (2 * draw(3, 5, 6), torch.tensor([[1, 2, 3, 4, 0], [1, 5, 5, 5, 5], [1, 0, 4, 2, 3]]), 5),
        (2 * draw(1, 3, 4), torch.tensor([[1, 2, 3]]), 0),
    ]


# --- exercises ---------------------------------------------------------------------------------

_exercise = partial(Exercise, words(__name__))
TASKS = (
    _exercise("layer-norm", layer_norm, _norm_cases, seed=10),
    _exercise("feed-forward", _feed_forward, _feed_forward_cases, seed=11),
    _exercise("residual", lambda x, sublayer, norm, first: (
        x + sublayer(norm(x)) if first else norm(x + sublayer(x))
    ), lambda draw: [
        (draw(2, 3, 4) * 2, _bent, _spread, first) for first in (False, True, False)
    ], seed=12),
    _exercise("positions", sinusoidal_table, lambda _: [(4, 6), (7, 4), (3, 8)]),
    _exercise("embedding", _embed, lambda draw: [
        (torch.tensor([[1, 4, 0], [2, 2, 5]]), draw(6, 4)),
        (torch.tensor([[3, 1, 2, 0, 3]]), draw(5, 6)),
    ], seed=13),
    _exercise("encoder-layer", lambda x, parameters, n_heads, mask=None: (
        _block(parameters, n_heads)(x, mask=mask)
    ), _encoder_cases, seed=14),
    _exercise("decoder-layer", _decoder_layer, _decoder_cases, seed=15),
    _exercise("transformer", _transformer, _transformer_cases, seed=16),
    _exercise("loss", _loss, _loss_cases, seed=20),
    _exercise("greedy", _greedy, lambda _: [
        (PrefixModel(seed, 6), 0, 5, max_new) for seed, max_new in ((3, 8), (4, 5), (5, 6), (9, 8))
    ]),
    _exercise("beam-step", _beam_step, lambda draw: [
        (2 * draw(3, 5), torch.tensor([-1.0, -1.2, -4.0])),
        (2 * draw(2, 6), torch.tensor([-2.5, -0.3])),
        (2 * draw(4, 4), torch.tensor([-1.0, -1.1, -0.9, -6.0])),
    ], seed=23),
)  # fmt: skip
