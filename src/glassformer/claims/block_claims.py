"""The block: residuals, norms and feed-forward, and what each of them is for."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.claims.claim import Figures, Group
from glassformer.claims.costs import (
    DERIVED_CONSTANT,
    PRINTED_CONSTANT,
    least_embedding_size,
    pair_entropy,
)
from glassformer.claims.properties import influence, shuffle_words
from glassformer.claims.specimens import (
    ROUNDING,
    accuracy,
    block,
    difference,
    fit,
    ids,
    memorise,
    permutation,
    refuses,
    seeded,
    vectors,
)
from glassformer.claims.training_studies import learn_at_depth, learn_at_width
from glassformer.errors import InputError
from glassformer.nn import (
    Classifier,
    FeedForward,
    FeedForwardConfig,
    ImageClassifier,
    ImageConfig,
    ModelConfig,
    MultiHeadAttention,
    TextEncoder,
    presets,
)
from glassformer.nn.blocks import Stack
from glassformer.nn.description import count_parameters
from glassformer.nn.layers import PlainNorm, layer_norm
from glassformer.nn.positions import LearnedPositions, SinusoidalPositions, sinusoidal_table

block_group = Group("block_claims")


@block_group.claim("C51", lambda f: f["gap"] < ROUNDING < f["without_residuals"])
@torch.no_grad()
def the_order_of_a_block() -> Figures:
    """A block compared with its parts called one by one; then without the residual sums."""
    made, x = block(), vectors(2, 5, 8)
    middle = made.attention_norm(x + made.attention(x))
    by_hand = made.feed_forward_norm(middle + made.feed_forward(middle))
    bare = made.attention_norm(made.attention(x))
    return {
        "gap": difference(made(x), by_hand),
        "without_residuals": difference(made(x), made.feed_forward_norm(made.feed_forward(bare))),
    }


@block_group.claim(
    "C52", lambda f: f["joins"] == 0 and f["mean"] < ROUNDING and f["variance"] < 1e-3
)
def layer_norm_acts_on_each_vector() -> Figures:
    """Whether the norm mixes positions; mean and variance of each vector after it."""
    norm, x = block().attention_norm, 3 * vectors(1, 5, 8) + 1
    with torch.no_grad():
        normed = norm(x)
    return {
        "joins": influence(norm, x).mixes_positions,
        "mean": float(normed.mean(dim=-1).abs().max()),
        "variance": float((normed.var(dim=-1, correction=0) - 1).abs().max()),
    }


@block_group.claim(
    "C53",
    lambda f: f["both"] > max(f["no_norm"], f["no_residual"]) + 0.1 and f["both"] > 0.9,
    depth=(1, 2, 4, 6),
    steps=(50, 100, 200),
)
def residuals_and_norms_help_deep_nets(depth: int = 4, steps: int = 100) -> Figures:
    """A stack after some steps: with everything, without norms, without residuals."""
    learn = partial(learn_at_depth, depth, steps=steps, learning_rate=0.003)
    both, no_norm, no_residual = learn(), learn(norm="none"), learn(residual=False)
    return {
        "depth": depth,
        "steps": steps,
        "both": both.accuracy,
        "no_norm": no_norm.accuracy,
        "no_residual": no_residual.accuracy,
        "similarity": no_residual.similarity,
    }


@block_group.claim(
    "C54",
    lambda f: f["k_hard"] > f["less_hard"] + 0.05 and f["less_easy"] < 0.95,
    partly=lambda f: f["wide_hard"] > f["less_hard"] + 0.05 and f["less_easy"] > 0.95,
)
def a_feed_forward_is_at_least_as_wide_as_k() -> Figures:
    """Accuracy at widths k/4, k and 4k on memorised pairs; k/4 on an easy task."""
    less, same, wide = (learn_at_width(d_ff, steps=150) for d_ff in (2, 8, 32))
    easy = learn_at_width(2, "second word", steps=100)
    return {
        "k": same.d_model,
        "less_hard": less.accuracy,
        "k_hard": same.accuracy,
        "wide_hard": wide.accuracy,
        "less_easy": easy.accuracy,
    }


def _second_word(**settings: bool) -> float:
    """Accuracy of a small classifier that learns the class of the second of two words."""
    config = presets.bloem_2024(
        vocab_size=20, d_model=8, n_heads=2, n_layers=2, max_len=2, n_classes=8
    )
    with seeded(0):
        model = Classifier(config.with_(**settings))
    pairs = torch.cartesian_prod(torch.arange(20), torch.arange(20))
    answers = pairs[:, 1] % 8
    memorise(model, pairs, answers, steps=80)
    with torch.no_grad():
        return accuracy(model(pairs), answers)


@block_group.claim("C55", lambda f: min(f["post"], f["pre"]) > 0.95)
def the_order_may_vary() -> Figures:
    """Norm after each sum, or before each sublayer, trained the same way."""
    return {
        "post": _second_word(block__norm_first=False),
        "pre": _second_word(block__norm_first=True, block__final_norm=True),
    }


@block_group.claim("C56", lambda f: f["gap"] < ROUNDING and f["joins"] == 0)
def feed_forward_is_two_maps_and_a_relu() -> Figures:
    """Linear, max(0, ·), linear, written out; whether positions mix."""
    with seeded(0):
        network = FeedForward(8, FeedForwardConfig(d_ff=32))
    x = vectors(2, 5, 8)
    assert network.contract is not None
    with torch.no_grad():
        by_hand = network.contract(network.expand(x).clamp(min=0.0))
        gap = difference(network(x), by_hand)
    return {"gap": gap, "joins": influence(network, x).mixes_positions}


@block_group.claim("C57", lambda f: f["with_epsilon"] == 1 and f["without"] == 0)
def epsilon_prevents_division_by_zero() -> Figures:
    """A vector whose numbers are all equal, with epsilon and without."""
    constant = torch.full((1, 6), 3.0)
    with_epsilon = (layer_norm(constant), PlainNorm(1e-4)(constant))
    without = (layer_norm(constant, eps=0.0), PlainNorm(0.0)(constant))
    return {
        "with_epsilon": all(bool(normed.isfinite().all()) for normed in with_epsilon),
        "without": all(bool(normed.isfinite().all()) for normed in without),
    }


@block_group.claim(
    "C58",
    lambda f: max(f["ordinary"], f["small"]) < 1e-3,
    partly=lambda f: f["ordinary"] < 1e-3,
    times=(10, 100, 1000),
)
def epsilon_beside_the_deviation(times: int = 1000) -> Figures:
    """(x − mean)/(std + eps) compared with LayerNorm, on ordinary and nearly constant vectors."""
    x = vectors(16, 8)
    plain = PlainNorm(1e-5)
    return {
        "times": times,
        "ordinary": difference(plain(x), layer_norm(x)),
        "small": difference(plain(x / times), layer_norm(x / times)),
    }


def _silence(model: torch.nn.Module) -> None:
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            for parameter in part.parameters():
                torch.nn.init.zeros_(parameter)


def _joins(stack: Stack, x: Tensor) -> bool:
    return influence(stack.transform, x).mixes_positions


@block_group.claim(
    "C59", lambda f: f["words"] == f["patches"] == 1 and f["silent"] == 0 and f["classes"] == 2
)
def tokens_or_pixels() -> Figures:
    """Words and image patches through the same blocks; then with attention zeroed."""
    image = ModelConfig(
        architecture="image_classifier",
        d_model=8,
        n_layers=1,
        attention=presets.bloem_2024(n_heads=2).attention,
        image=ImageConfig(size=8, patch=4),
    )
    with seeded(0):
        reader = Classifier(presets.bloem_2024(vocab_size=9, d_model=8, n_heads=2, n_layers=1))
        seer = ImageClassifier(image).eval()
    x = vectors(2, 4, 8)
    joined = [_joins(model.encoder, x) for model in (reader, seer)]
    classes = {reader(ids(1, 4, 9)).size(-1), seer(vectors(1, 3, 8, 8)).size(-1)}
    for model in (reader, seer):
        _silence(model)
    return {
        "words": joined[0],
        "patches": joined[1],
        "silent": sum(_joins(model.encoder, x) for model in (reader, seer)),
        "classes": max(classes),
    }


# --- positions ---
# order made visible, lengths seen and unseen, sinusoids, embedding size.


position_group = Group("position_claims")

_KINDS = ("learned", "sinusoidal", "rotary")


def _classifier(kind: str, max_len: int = 10) -> ModelConfig:
    config = presets.bloem_2024(vocab_size=20, d_model=16, n_heads=2, n_layers=1, max_len=max_len)
    return config.with_(positions__kind=kind)


@position_group.claim(
    "C60",
    lambda f: f["without"] < ROUNDING and min(f["learned"], f["sinusoidal"]) > 1e-3,
    length=(2, 5, 10),
)
def positions_make_order_matter(length: int = 10) -> Figures:
    """How far shuffling the words changes a class probability."""
    text, order = ids(4, length, 20), permutation(length)
    moved = {kind: shuffle_words(_classifier(kind), text, order) for kind in ("none", *_KINDS)}
    return {"without": moved.pop("none"), **moved}


def _trained_rows(lengths: tuple[int, ...]) -> int:
    """How many of 8 position vectors get a gradient from texts of these lengths."""
    with seeded(0):
        model = Classifier(_classifier("learned", max_len=8))
    positions = model.encoder.positions
    assert isinstance(positions, LearnedPositions)
    answers = torch.cat([model(ids(4, length, 20)) for length in lengths])
    (gradient,) = torch.autograd.grad(answers.square().sum(), positions.table.weight)
    return int(gradient.abs().sum(dim=1).ne(0).sum())


@position_group.claim(
    "C61",
    lambda f: f["longest"] < f["every"],
    partly=lambda f: f["short"] < f["every"],
)
def every_length_is_needed() -> Figures:
    """Position vectors trained by texts of every length, of the longest, and by short ones."""
    return {
        "every": _trained_rows(tuple(range(1, 9))),
        "longest": _trained_rows((8,)),
        "short": _trained_rows((1, 2, 3, 4)),
    }


@position_group.claim(
    "C62",
    lambda f: f["learned"] == 0 and f["sinusoidal"] == f["rotary"] == 1,
    length=(10, 12, 100),
)
def encodings_go_beyond_the_trained_length(length: int = 12) -> Figures:
    """Longer texts in models made for ten tokens."""
    with seeded(0):
        models = {kind: Classifier(_classifier(kind)).eval() for kind in _KINDS}
    text = ids(1, length, 20)
    accepted = {
        kind: not refuses(partial(model, text), (InputError, IndexError))
        for kind, model in models.items()
    }
    return {"length": length, **accepted}


def learn_left_neighbour(kind: str, lengths: tuple[int, ...], *, steps: int = 400) -> list[float]:
    """Train on texts of eight tokens to name each token's left neighbour; accuracy by length."""
    config = presets.bert(
        vocab_size=10, d_model=32, n_heads=2, n_layers=2, d_ff=64, max_len=8, dropout=0.0
    ).with_(
        architecture="encoder", positions__kind=kind, embedding__n_types=0, pad_id=None,
        init="xavier",
    )  # fmt: skip
    with seeded(0):
        model = TextEncoder(config)
        to_words = nn.Linear(config.d_model, config.vocab_size)

    def read(length: int, size: int) -> tuple[Tensor, Tensor]:
        text = torch.randint(config.vocab_size, (size, length))
        return to_words(model(text))[:, 1:].flatten(0, 1), text[:, :-1].flatten()

    def loss() -> Tensor:
        return F.cross_entropy(*read(8, 32))

    with seeded(1):
        fit([*model.parameters(), *to_words.parameters()], loss, steps=steps, learning_rate=0.003)
        with torch.no_grad():
            return [accuracy(*read(length, 200)) for length in lengths]


@position_group.claim(
    "C63",
    lambda f: max(f["sinusoidal_32"], f["rotary_32"]) < 0.8,
    partly=lambda f: min(f["sinusoidal_32"], f["rotary_32"]) < 0.8,
    command="glassformer claims C63 --slow",
)
def longer_texts_fare_worse() -> Figures:
    """Accuracy at the trained length, twice and four times that."""
    figures = {}
    for kind in ("sinusoidal", "rotary"):
        for length, right in zip((8, 16, 32), learn_left_neighbour(kind, (8, 16, 32)), strict=True):
            figures[f"{kind}_{length}"] = right
    return figures


@position_group.claim(
    "C64",
    lambda f: f["parameters"] == 0 and f["closest"] > 0.1 and f["shift"] < 1e-3,
    by=(1, 5, 20),
    width=(4, 16, 32),
)
def encodings_need_no_learning(by: int = 5, width: int = 16) -> Figures:
    """Parameters; the closest two positions; whether a shift is one linear map for all."""
    module = SinusoidalPositions(64, width)
    table = module.table.double()
    apart = torch.cdist(table, table) + torch.eye(64) * 1e9
    shift = torch.linalg.lstsq(table[:40], table[by : by + 40]).solution
    return {
        "by": by,
        "parameters": count_parameters(module),
        "closest": float(apart.min()),
        "shift": difference(table[:-by] @ shift, table[by:]),
    }


@position_group.claim("C65", lambda f: f["gap"] > ROUNDING, decidable=lambda f: f["gap"] > ROUNDING)
def adding_is_a_kind_of_joining() -> Figures:
    """W (x + p) compared with [W W] [x; p]: a sum is a concatenation with equal maps."""
    words, places = vectors(5, 16), sinusoidal_table(5, 16)
    matrix = vectors(16, 8, seed=1)
    joined = torch.cat([words, places], dim=-1) @ torch.cat([matrix, matrix])
    return {"gap": difference((words + places) @ matrix, joined)}


def _sinusoid(position: int, column: int, width: int, *, by_pair: bool) -> float:
    index = column // 2 if by_pair else column
    angle = position / 10_000 ** (2 * index / width)
    return math.cos(angle) if column % 2 else math.sin(angle)


@position_group.claim("C66", lambda f: f["by_pair"] < ROUNDING < f["by_column"])
def sines_and_cosines_in_pairs() -> Figures:
    """The table, number by number: i counting pairs, and i counting single dimensions."""
    table = sinusoidal_table(6, 6)
    grids = [
        [
            [_sinusoid(place, column, 6, by_pair=by_pair) for column in range(6)]
            for place in range(6)
        ]
        for by_pair in (True, False)
    ]
    by_pair, by_column = (difference(table, torch.tensor(grid)) for grid in grids)
    return {"by_pair": by_pair, "by_column": by_column}


def _least_width(vocab_size: int) -> int:
    """The least width at which the entropy of a pair of words is negative, computed exactly."""
    return next(width for width in range(2, 1000) if pair_entropy(vocab_size, width) < 0)


@position_group.claim(
    "C67",
    lambda f: abs(f["rule"] / f["exact"] - 1) < 0.02 and f["text_width"] > f["rule"],
    partly=lambda f: abs(f["rule"] / f["exact"] - 1) < 0.2,
    words=(23, 1000, 30000),
)
def the_rule_for_the_embedding_size(words: int = 23) -> Figures:
    """The bound for the text's 23 words, the exact one, the derived constant, the width used."""
    return {
        "words": words,
        "printed": PRINTED_CONSTANT,
        "derived": DERIVED_CONSTANT,
        "rule": least_embedding_size(words),
        "exact": _least_width(words),
        "text_width": presets.by_hand_2024().d_model,
    }
