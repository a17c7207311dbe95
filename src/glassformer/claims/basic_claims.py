"""Basic self-attention: weighted averages, order, and what the embeddings decide."""

import torch
from torch import Tensor

from glassformer.claims.attention_studies import (
    NOUNS,
    PLACES,
    SENTENCE,
    VERBS,
    Relatedness,
    learn_relatedness,
)
from glassformer.claims.claim import Figures, Group, stored_results
from glassformer.claims.properties import (
    equivariance,
    influence,
    invariance,
    layer_cost,
    repeated_word_spread,
    shuffle_words,
    weighted_sum,
)
from glassformer.claims.specimens import (
    ROUNDING,
    attention,
    block,
    count_operators,
    difference,
    ids,
    permutation,
    seeded,
    vectors,
)
from glassformer.claims.training_studies import learn_tastes
from glassformer.nn import TokenEmbedding, attention_weights, basic_self_attention, presets
from glassformer.nn.attention import basic_self_attention_loop, softmax_over_keys

group = Group("basic_claims")


def _basic_weights(x: Tensor) -> Tensor:
    """The weights of basic self-attention over (T, D): no projection, no scaling."""
    return attention_weights(x[None], x[None], divisor=1.0)[0]


@group.claim("C01", lambda f: f["gap"] < ROUNDING and f["least"] > 0 and f["sum_gap"] < ROUNDING)
def an_output_averages_all_inputs() -> Figures:
    """y compared with Σ_j w_ij x_j, whose weights must be positive and sum to one."""
    x = vectors(6, 8)
    weights = _basic_weights(x)
    return {
        "gap": difference(basic_self_attention(x), weights @ x),
        "least": float(weights.min()),
        "sum_gap": difference(weights.sum(dim=-1), torch.ones(6)),
    }


@group.claim("C02", lambda f: f["least"] >= 0 and f["most"] <= 1 and f["sum_gap"] < ROUNDING)
def softmax_gives_shares() -> Figures:
    """For ordinary and for enormous scores."""
    scores = torch.cat([scale * vectors(32, 10) for scale in (1.0, 100.0, 1e30)])
    weights = softmax_over_keys(scores)
    return {
        "rows": len(scores),
        "least": float(weights.min()),
        "most": float(weights.max()),
        "sum_gap": difference(weights.sum(dim=-1), torch.ones(len(scores))),
    }


def _different(numbers: Tensor) -> int:
    """How many distinct numbers a float64 matrix holds, up to rounding."""
    return 1 + int((numbers.flatten().sort().values.diff() > 1e-12).sum())


@group.claim(
    "C03",
    lambda f: f["scores"] == f["weights"] == f["sentence"] == f["pairs"] and f["moved"] > ROUNDING,
)
def every_place_has_a_weight_of_its_own() -> Figures:
    """Distinct scores and weights, and the weights after the vectors are permuted."""
    x, order = vectors(6, 8).double(), permutation(6)
    words = torch.tensor([sorted(set(SENTENCE)).index(word) for word in SENTENCE])
    weights = _basic_weights(x)
    return {
        "pairs": weights.numel(),
        "scores": _different(x @ x.T),
        "weights": _different(weights),
        "sentence": _different(_basic_weights(vectors(5, 8).double()[words])),
        "moved": difference(_basic_weights(x[order]), weights[order][:, order]),
    }


@group.claim("C04", lambda f: f["gap"] < ROUNDING < f["moved"])
def self_attention_follows_the_order() -> Figures:
    """f(Px) compared with P f(x), and how much the order changes the output."""
    module, x, order = attention(8, n_heads=2), vectors(2, 7, 8), permutation(7)
    return {
        "gap": max(equivariance(f, x, order) for f in (module, basic_self_attention)),
        "moved": invariance(module, x, order),
    }


@group.claim("C05", lambda f: f["invariant"] < ROUNDING)
def the_parts_ignore_the_order() -> Figures:
    """f(Px) compared with f(x), then with P f(x), for attention, norm and feed-forward."""
    made, x, order = block(), vectors(2, 7, 8), permutation(7)
    parts = (made.attention, made.attention_norm, made.feed_forward)
    return {
        "invariant": max(invariance(part, x, order) for part in parts),
        "equivariant": max(equivariance(part, x, order) for part in parts),
    }


@group.claim("C06", lambda f: f["without"] < ROUNDING)
def a_classifier_without_positions_ignores_the_order() -> Figures:
    """Class probabilities of a text and of its shuffled words, with three sets of weights."""
    config = presets.bloem_2024(vocab_size=20, d_model=16, n_heads=2, n_layers=2, max_len=10)
    text, order = ids(4, 10, 20), permutation(10)
    blind = config.with_(positions__kind="none")
    return {
        "seeds": 3,
        "without": max(shuffle_words(blind, text, order, seed) for seed in range(3)),
        "with": shuffle_words(config, text, order),
    }


@group.claim("C07", lambda f: f["leaves"] == 1 and f["change"] > 0.01)
def basic_self_attention_has_no_parameters() -> Figures:
    """The leaves of the gradient graph; how far other embeddings change the weights."""
    x = vectors(6, 8).requires_grad_()
    pending, leaves = [basic_self_attention(x).grad_fn], set()
    while pending:
        node = pending.pop()
        if node is not None and node.name().endswith("AccumulateGrad"):
            leaves.add(node)
        elif node is not None:
            pending += [parent for parent, _ in node.next_functions]
    other = vectors(6, 8, seed=1)
    return {
        "leaves": len(leaves),
        "change": difference(_basic_weights(x.detach()), _basic_weights(other)),
    }


@group.claim("C08", lambda f: f["gap"] < ROUNDING and f["products"] == 2 and f["softmaxes"] == 1)
def two_products_and_a_softmax_are_enough() -> Figures:
    """The operators that run, and the result compared with a loop over vectors."""
    x = vectors(6, 8)
    seen = count_operators(lambda: basic_self_attention(x))
    return {
        "gap": difference(basic_self_attention(x), basic_self_attention_loop(x)),
        "products": sum(seen[name] for name in ("mm", "bmm")),
        "softmaxes": seen["_softmax"],
    }


@group.claim("C09", lambda f: f["attention"] == 1 and f["others"] == 0 and f["silent"] == 0)
def only_attention_joins_positions() -> Figures:
    """Jacobians of each part of a block, and of the block with its attention zeroed."""
    made, x = block(), vectors(2, 5, 8)
    others = (made.attention_norm, made.feed_forward, made.feed_forward_norm)
    joins = influence(made.attention, x).mixes_positions
    parts_join = sum(influence(part, x).mixes_positions for part in others)
    for parameter in made.attention.parameters():
        torch.nn.init.zeros_(parameter)
    return {"attention": joins, "others": parts_join, "silent": influence(made, x).mixes_positions}


@group.claim(
    "C10",
    lambda f: f["unread"] > 0 and f["attention"] < f["convolution"],
    length=(16, 64, 128),
    width=(16, 64, 256),
)
def attention_saves_by_reading_little(length: int = 64, width: int = 64) -> Figures:
    """How many inputs an output ignores, and multiply-adds of attention and other layers."""
    strength = influence(attention(8, n_heads=1), vectors(1, length, 8)).depends
    costs = {
        kind: layer_cost(kind, length, width).multiply_adds
        for kind in ("attention", "convolution", "dense")
    }
    return {"length": length, "width": width, "unread": int((~strength).sum()), **costs}


@group.claim("C11", lambda f: f["first_three"] == 0 and f["last_two"] > 0)
def two_of_five_inputs_matter() -> Figures:
    """The derivative of the fixed weighted sum by each input."""
    weights = torch.tensor([0.0, 0.0, 0.0, 0.5, 0.5])
    values = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0]])
    strength = influence(lambda x: weighted_sum(x, weights), values).strength[0]
    return {
        "sum": float(weighted_sum(values, weights)),
        "first_three": float(strength[:3].max()),
        "last_two": float(strength[3:].min()),
    }


@group.claim("C12", lambda f: f["embedding"] == 0)
def a_repeated_word_has_one_embedding() -> Figures:
    """The two "the" of a sentence: their vectors, and their outputs without positions."""
    words = torch.tensor([sorted(set(SENTENCE)).index(word) for word in SENTENCE])
    with seeded(0):
        table = TokenEmbedding(len(set(SENTENCE)), 8)
        torch.nn.init.normal_(table.weight)
    embedded = table(words[None])[0].detach()
    return {
        "embedding": max(repeated_word_spread(embedded, words).values()),
        "output": max(repeated_word_spread(basic_self_attention(embedded), words).values()),
    }


_SEEDS = range(3)
DECAY, DECAY_STEPS = 1e-3, 300
"""What a square of an embedding costs where products are to say only what was asked for, and how
long that takes."""


@group.claim(
    "C13",
    lambda f: (
        f["noun_verb_least"] > max(f["noun_place_most"], f["the_most"])
        and f["both_noun_verb"] > f["both_noun_place"]
    ),
    partly=lambda f: f["noun_verb"] > 2 and f["above_place"] > 0 and f["above_the"] > 0,
)
def training_relates_cat_and_walks() -> Figures:
    """Products of embeddings, trained on who does what (and where) in 64 sentences."""
    who = [learn_relatedness("who", seed=seed) for seed in _SEEDS]
    both = [learn_relatedness("who and where", seed=seed) for seed in _SEEDS]
    decayed = [
        learn_relatedness("who", decay=DECAY, steps=DECAY_STEPS, seed=seed) for seed in _SEEDS
    ]
    content = (*NOUNS, *VERBS, *PLACES)

    def mean(runs: list[Relatedness], some: tuple[str, ...], others: tuple[str, ...]) -> float:
        return sum(run.mean_product(some, others) for run in runs) / len(runs)

    def most(runs: list[Relatedness], some: tuple[str, ...], others: tuple[str, ...]) -> float:
        return max(max(run.products_between(some, others)) for run in runs)

    def least(runs: list[Relatedness]) -> float:
        return min(min(run.products_between(NOUNS, VERBS)) for run in runs)

    return {
        "seeds": len(who),
        "noun_verb": mean(who, NOUNS, VERBS),
        "noun_place": mean(who, NOUNS, PLACES),
        "noun_the": mean(who, NOUNS, ("the",)),
        "above_place": min(
            run.mean_product(NOUNS, VERBS) - run.mean_product(NOUNS, PLACES) for run in who
        ),
        "above_the": min(
            run.mean_product(NOUNS, VERBS) - run.mean_product(NOUNS, ("the",)) for run in who
        ),
        "noun_verb_least": least(who),
        "noun_place_most": most(who, NOUNS, PLACES),
        "the_most": most(who, ("the",), content),
        "decay": DECAY,
        "decayed_noun_verb_least": least(decayed),
        "decayed_noun_place_most": most(decayed, NOUNS, PLACES),
        "decayed_the_most": most(decayed, ("the",), content),
        "decayed_the": mean(decayed, ("the",), content),
        "both_noun_verb": mean(both, NOUNS, VERBS),
        "both_noun_place": mean(both, NOUNS, PLACES),
    }


@group.claim("C14", lambda f: f["same"] > 0 > f["opposite"] and abs(f["ratio"] - 2) < 0.01)
def signs_and_sizes_make_the_score() -> Figures:
    """Scores recovered from weights: log w_j − log w_0 is the score relative to a zero key."""
    query = torch.tensor([[[1.0, -2.0, 0.5]]])
    zero, match = torch.zeros(3), torch.tensor([0.5, -0.5, 1.0])
    keys = torch.stack([zero, match, -match, 2 * match])[None]
    logs = attention_weights(query, keys, divisor=1.0)[0, 0].log()
    same, opposite, doubled = (logs[1:] - logs[0]).tolist()
    return {"same": same, "opposite": opposite, "ratio": doubled / same}


@group.claim(
    "C15",
    lambda f: f["noisy"] > 0.8 and f["control"] < 0.3 and f["genres"] > 0.95,
    partly=lambda f: (
        f["noisy"] > 0.5 and f["control"] < 0.3 and f["genres"] > f["genres_control"] + 0.1
    ),
)
def likes_reveal_content() -> Figures:
    """Content recovered from film vectors: invented likes now, real ratings as stored."""
    (real,) = stored_results("movielens")
    return {
        "noisy": learn_tastes().explained,
        "sharp": learn_tastes(chance=0.0).explained,
        "control": learn_tastes(shuffled=True).explained,
        "genres": real.figures["mean"],
        "genres_control": real.figures["control"],
    }


@group.claim(
    "C16",
    lambda f: f["basic"] == f["heads"] == f["narrow_values"] == f["input"],
    partly=lambda f: f["basic"] == f["heads"] == f["input"],
)
def outputs_are_as_wide_as_inputs() -> Figures:
    """Output widths: without parameters, with heads and output map, with narrower values."""
    x = vectors(1, 5, 8)
    narrow = attention(8, n_heads=1, d_value=3, output_map=False)
    return {
        "input": x.size(-1),
        "basic": basic_self_attention(x).size(-1),
        "heads": attention(8, n_heads=2)(x).size(-1),
        "narrow_values": narrow(x).size(-1),
    }
