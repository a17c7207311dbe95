"""The block: residuals, norms and feed-forward, and what each of them is for."""

import torch
from torch import Tensor

from glassformer.claims.claim import Figures, Group, VerdictRule
from glassformer.claims.properties import influence
from glassformer.claims.specimens import (
    ROUNDING,
    accuracy,
    block,
    difference,
    ids,
    memorise,
    seeded,
    vectors,
)
from glassformer.claims.studies import learn_at_depth, learn_at_width
from glassformer.nn import (
    Classifier,
    FeedForward,
    FeedForwardConfig,
    ImageClassifier,
    ImageConfig,
    ModelConfig,
    MultiHeadAttention,
    presets,
)
from glassformer.nn.blocks import Stack
from glassformer.nn.layers import PlainNorm, layer_norm

group = Group("block_claims")


@group.claim("C51", lambda f: f["gap"] < ROUNDING < f["without_residuals"])
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


@group.claim("C52", lambda f: f["joins"] == 0 and f["mean"] < ROUNDING and f["variance"] < 1e-3)
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


@group.claim(
    "C53",
    lambda f: f["both"] > max(f["no_norm"], f["no_residual"]) + 0.1 and f["both"] > 0.9,
    depth=(1, 2, 4, 6),
    steps=(50, 100, 200),
)
def residuals_and_norms_help_deep_nets(depth: int = 4, steps: int = 100) -> Figures:
    """A stack after some steps: with everything, without norms, without residuals."""
    both, no_norm, no_residual = (
        learn_at_depth(depth, residual=residual, norm=norm, steps=steps, learning_rate=0.003)
        for residual, norm in ((True, True), (True, False), (False, True))
    )
    return {
        "depth": depth,
        "steps": steps,
        "both": both.accuracy,
        "no_norm": no_norm.accuracy,
        "no_residual": no_residual.accuracy,
        "similarity": no_residual.similarity,
    }


@group.claim(
    "C54",
    VerdictRule(
        lambda f: f["k_hard"] > f["less_hard"] + 0.05 and f["less_easy"] < 0.95,
        partly=lambda f: f["wide_hard"] > f["less_hard"] + 0.05 and f["less_easy"] > 0.95,
    ),
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


@group.claim("C55", lambda f: min(f["post"], f["pre"]) > 0.95)
def the_order_may_vary() -> Figures:
    """Norm after each sum, or before each sublayer, trained the same way."""
    return {
        "post": _second_word(block__norm_first=False),
        "pre": _second_word(block__norm_first=True, block__final_norm=True),
    }


@group.claim("C56", lambda f: f["gap"] < ROUNDING and f["joins"] == 0)
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


@group.claim("C57", lambda f: f["with_epsilon"] == 1 and f["without"] == 0)
def epsilon_prevents_division_by_zero() -> Figures:
    """A vector whose numbers are all equal, with epsilon and without."""
    constant = torch.full((1, 6), 3.0)
    with_epsilon = (layer_norm(constant), PlainNorm(1e-4)(constant))
    without = (layer_norm(constant, eps=0.0), PlainNorm(0.0)(constant))
    return {
        "with_epsilon": all(bool(normed.isfinite().all()) for normed in with_epsilon),
        "without": all(bool(normed.isfinite().all()) for normed in without),
    }


@group.claim(
    "C58",
    VerdictRule(
        lambda f: max(f["ordinary"], f["small"]) < 1e-3, partly=lambda f: f["ordinary"] < 1e-3
    ),
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


@group.claim(
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
