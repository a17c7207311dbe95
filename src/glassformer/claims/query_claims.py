"""Query, key, value: what each role does, which widths are free, and how the maps start."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.claims.claim import Figures, Group
from glassformer.claims.properties import score_spread
from glassformer.claims.specimens import (
    ROUNDING,
    accuracy,
    attention,
    difference,
    fit,
    refuses,
    seeded,
    vectors,
)
from glassformer.errors import ConfigError, ShapeError
from glassformer.nn import AttentionConfig, ModelConfig, attend_written, presets, record_attention
from glassformer.nn.foreign import load_torch_multihead_attention
from glassformer.nn.layers import initialise

query_group = Group("query_claims")


@query_group.claim("C17", lambda f: f["by_query"] == 1 and f["key_in_row"] == f["positions"] - 1)
def roles_of_one_vector() -> Figures:
    """Change x_2 as a query or as a key: which scores w'_ij change?"""
    module, x = attention(8, n_heads=1), vectors(1, 5, 8)
    changed = x.clone()
    changed[0, 1] += 1.0

    def scores(asking: Tensor, found: Tensor) -> Tensor:
        raw: Tensor = module.to_queries(asking) @ module.to_keys(found).mT
        return raw[0]

    with torch.no_grad():
        by_query = scores(changed, x).ne(scores(x, x))
        by_key = scores(x, changed).ne(scores(x, x))
    return {
        "positions": 5,
        "by_query": int(by_query.sum()),
        "row": int(by_query[1].sum()),
        "column": int(by_key[:, 1].sum()),
        "key_in_row": int(by_key[1].sum()) - int(by_key[1, 1]),
    }


@query_group.claim("C18", lambda f: f["as_printed"] < ROUNDING)
def the_printed_formula_gives_the_output() -> Figures:
    """Σ_j w'_ij v_i as printed, and Σ_j w_ij v_j, compared with the library's output."""
    queries, keys, values = (vectors(1, 5, 4, seed=seed) for seed in range(3))
    attended = attend_written(queries, keys, values)
    scores = queries @ keys.mT / 2.0
    return {
        "as_printed": difference(attended.context, scores.sum(dim=-1, keepdim=True) * values),
        "corrected": difference(attended.context, attended.weights @ values),
    }


@query_group.claim("C19", lambda f: f["refused"] == 1 and f["accepted"] == 1)
def queries_and_keys_are_equally_wide() -> Figures:
    """Dot products of equal and of unequal widths."""
    queries, keys, wide = vectors(1, 5, 4), vectors(1, 5, 4), vectors(1, 5, 6)
    errors = (ShapeError, RuntimeError)
    return {
        "accepted": not refuses(lambda: attend_written(queries, keys, wide), errors),
        "refused": refuses(lambda: attend_written(queries, wide, wide), errors),
    }


@query_group.claim("C20", lambda f: f["followed"] == f["tried"])
def values_set_the_output_width() -> Figures:
    """Values of several widths with keys of one."""
    widths = (1, 3, 7, 16)
    outputs = [
        attention(8, n_heads=1, d_head=4, d_value=width, output_map=False)(vectors(1, 5, 8))
        for width in widths
    ]
    followed = sum(out.size(-1) == width for out, width in zip(outputs, widths, strict=True))
    return {"tried": len(widths), "followed": followed}


@query_group.claim("C21", lambda f: f["gap"] < ROUNDING)
@torch.no_grad()
def one_vector_at_a_time_is_the_same() -> Figures:
    """Each query alone, compared with all queries at once."""
    module, x = attention(8, n_heads=2), vectors(2, 6, 8)
    alone = torch.cat([module(x[:, [at]], x) for at in range(6)], dim=1)
    return {"gap": difference(alone, module(x))}


@query_group.claim("C22", lambda f: f["gap"] < ROUNDING)
def the_broadcast_product_is_the_output() -> Figures:
    """The three-axis product of values and transposed weights, summed over its first axis."""
    queries, keys, values = (vectors(1, 3, 3, seed=seed) for seed in range(3))
    attended = attend_written(queries, keys, values)
    weighted = values[0][:, None] * attended.weights[0].T[:, :, None]
    return {"axes": weighted.dim(), "gap": difference(weighted.sum(dim=0), attended.context[0])}


@query_group.claim(
    "C23", lambda f: f["accepted"] == 1 and f["query"] > ROUNDING and f["value"] > ROUNDING
)
@torch.no_grad()
def a_bias_may_be_added() -> Figures:
    """How far a bias of one map changes the output; a zero bias must not."""
    x, plain = vectors(1, 5, 8), attention(8, n_heads=1)
    biased = attention(8, n_heads=1, bias=True)
    biased.load_state_dict(plain.state_dict(), strict=False)
    moved = {}
    for name, part in (
        ("query", biased.to_queries),
        ("key", biased.to_keys),
        ("value", biased.to_values),
    ):
        for other in (biased.to_queries, biased.to_keys, biased.to_values):
            nn.init.constant_(other.bias, 1.0 if other is part else 0.0)
        moved[name] = difference(biased(x), plain(x))
    nn.init.zeros_(biased.to_values.bias)
    return {"accepted": difference(biased(x), plain(x)) < ROUNDING, **moved}


@query_group.claim("C24", lambda f: f["gap"] < ROUNDING < f["without"])
@torch.no_grad()
def torchs_module_ends_with_a_linear_map() -> Figures:
    """nn.MultiheadAttention compared with ours, with and without the output map."""
    with seeded(0):
        theirs = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    ours = attention(8, n_heads=2, bias=True, output_bias=True)
    load_torch_multihead_attention(ours, theirs.state_dict())
    x, source = vectors(2, 5, 8), vectors(2, 7, 8, seed=1)
    expected = theirs(x, source, source, need_weights=False)[0]
    mapped = ours(x, source)
    ours.to_output = None
    return {"gap": difference(mapped, expected), "without": difference(ours(x, source), expected)}


@query_group.claim("C25", lambda f: f["sum_gap"] < ROUNDING < f["apart"])
@torch.no_grad()
def other_scores_work() -> Figures:
    """Weights from plain, scaled and additive scores: rows sum to one, and they differ."""
    x, weights = vectors(1, 6, 8), []
    for divisor, score in (("none", "dot"), ("sqrt_head", "dot"), ("none", "additive")):
        module = attention(8, n_heads=1, divisor=divisor, score=score)
        with record_attention(module) as recorded:
            module(x)
        weights.append(recorded[""][0])
    pairs = ((0, 1), (0, 2), (1, 2))
    return {
        "kinds": len(weights),
        "sum_gap": max(difference(w.sum(dim=-1), torch.ones(1, 1, 6)) for w in weights),
        "apart": min(difference(weights[one], weights[other]) for one, other in pairs),
    }


@query_group.claim(
    "C26",
    lambda f: (
        max(f["normal"], f["xavier"], f["kaiming"]) < 0.2
        and f["mean"] < 0.01
        and f["seeds"] > 0
        and f["moved"] == 0
    ),
)
def parameters_start_small_and_random() -> Figures:
    """Spread of a 256 × 256 map under three schemes; another seed; a pass must not change it."""
    starts = {}
    for scheme in ("normal", "xavier", "kaiming"):
        module = attention(256, n_heads=4)
        with seeded(0):
            initialise(module, scheme)
        starts[scheme] = module.to_queries.weight.detach()
    before = module.to_queries.weight.detach().clone()
    module(vectors(1, 4, 256))
    moved = difference(before, module.to_queries.weight.detach())
    with seeded(1):
        initialise(module, "kaiming")
    return {
        **{scheme: float(start.std()) for scheme, start in starts.items()},
        "mean": max(abs(float(start.mean())) for start in starts.values()),
        "moved": moved,
        "seeds": difference(before, module.to_queries.weight.detach()),
    }


def _copy_the_left_neighbour(*, shared: bool) -> tuple[float, float]:
    """Error of one head that copies its left neighbour, and how asymmetric its scores are."""
    numbers, width = 2 * torch.eye(6), 8
    module = attention(6 + width, n_heads=1, d_head=6, d_value=width, output_map=False)
    if shared:
        module.to_keys.weight = module.to_queries.weight
    generator = torch.Generator().manual_seed(0)

    def loss() -> Tensor:
        x = torch.randn(64, 6, width, generator=generator)
        copied = module(torch.cat([x, numbers.expand(64, -1, -1)], dim=-1))
        return F.mse_loss(copied, x.roll(1, dims=1))

    error = fit(set(module.parameters()), loss, steps=250, learning_rate=0.03)
    places = F.pad(numbers, (width, 0))
    with torch.no_grad():
        scores = module.to_queries(places) @ module.to_keys(places).T
    return error, difference(scores, scores.T)


@query_group.claim(
    "C27",
    lambda f: f["shared_runs"] == 0,
    partly=lambda f: f["own"] < 0.1 < f["shared"],
)
def queries_and_keys_need_their_own_maps() -> Figures:
    """A task with a direction, with separate maps and with one map for queries and keys."""
    own, own_lopsided = _copy_the_left_neighbour(shared=False)
    shared, shared_lopsided = _copy_the_left_neighbour(shared=True)
    return {
        "shared_runs": shared == shared,  # not NaN
        "own": own,
        "shared": shared,
        "own_lopsided": own_lopsided,
        "shared_lopsided": shared_lopsided,
    }


@query_group.claim("C28", lambda f: f["free"] == f["tried"] and f["refused"] == 1)
def a_map_reads_the_width_of_x() -> Figures:
    """Heads of several widths on one x, and an x of the wrong width."""
    widths = (1, 4, 5, 11)
    modules = [attention(6, n_heads=1, d_head=width) for width in widths]
    return {
        "tried": len(widths),
        "free": sum(module(vectors(1, 3, 6)).size(-1) == 6 for module in modules),
        "refused": refuses(lambda: modules[0](vectors(1, 3, 7)), (ShapeError, RuntimeError)),
    }


@query_group.claim("C29", lambda f: f["refused"] == 1 and f["width"] == f["input"])
def the_output_map_brings_the_width_back() -> Figures:
    """A model whose heads are narrower than x, with W_O and without."""

    def model(output_map: bool) -> ModelConfig:
        heads = AttentionConfig(n_heads=2, d_head=2, output_map=output_map)
        return ModelConfig(d_model=8, attention=heads)

    mapped = attention(8, n_heads=2, d_head=2)
    return {
        "input": model(True).d_model,
        "width": mapped(vectors(1, 3, 8)).size(-1),
        "refused": refuses(lambda: model(False), (ConfigError,)),
    }


# --- scaling ---
# how large scores get, what softmax makes of it, and which divisor is right.


scaling_group = Group("scaling_claims")

WIDTHS = (16, 64, 256, 1024)
_ONE_HEAD = AttentionConfig(n_heads=1)


def _about_one(value: float) -> bool:
    return abs(value - 1) < 0.1


@scaling_group.claim(
    "C30",
    lambda f: f["largest_weight"] > 0.95 and f["gradient"] < 0.2 * f["calm"],
    times=(2, 8, 32),
    width=WIDTHS,
)
def large_scores_saturate(times: int = 32, width: int = 64) -> Figures:
    """The same scores at their right scale and many times larger."""
    right = score_spread(width, math.sqrt(width))
    large = score_spread(width, math.sqrt(width) / times)
    return {
        "times": times,
        "width": width,
        "calm": right.gradient_size,
        "gradient": large.gradient_size,
        "calm_weight": right.largest_weight,
        "largest_weight": large.largest_weight,
    }


@scaling_group.claim(
    "C31",
    lambda f: f["mean_wide"] > 2 * max(abs(f["mean_narrow"]), f["error"]),
    partly=lambda f: f["deviation_wide"] > 2 * f["deviation_narrow"],
)
def the_average_product_grows() -> Figures:
    """Products of random vectors with mean 0 and mean 1, at the least and the largest width."""
    narrow, wide = (score_spread(width, 1.0) for width in (WIDTHS[0], WIDTHS[-1]))
    n_scores = 256 * 16
    return {
        "narrow": narrow.width,
        "wide": wide.width,
        "mean_narrow": narrow.mean,
        "mean_wide": wide.mean,
        "error": 3 * wide.deviation / math.sqrt(n_scores),
        "deviation_narrow": narrow.deviation,
        "deviation_wide": wide.deviation,
        "shifted_narrow": score_spread(WIDTHS[0], 1.0, mean=1.0).mean,
        "shifted_wide": score_spread(WIDTHS[-1], 1.0, mean=1.0).mean,
    }


@scaling_group.claim("C32", lambda f: _about_one(f["least"]) and _about_one(f["most"]))
def the_root_keeps_scores_at_one() -> Figures:
    """The spread of scores, scaled as the library does, for each width."""
    spreads = [score_spread(width, _ONE_HEAD.score_divisor(width)).deviation for width in WIDTHS]
    return {"widths": len(WIDTHS), "least": min(spreads), "most": max(spreads)}


@scaling_group.claim("C33", lambda f: f["error"] < ROUNDING)
def length_of_a_constant_vector() -> Figures:
    """‖(c, …, c)‖ compared with √k · c."""
    ratios = [float(torch.full((k,), 2.0).norm()) / (math.sqrt(k) * 2.0) for k in WIDTHS]
    return {"error": max(abs(ratio - 1) for ratio in ratios)}


@scaling_group.claim("C34", lambda f: _about_one(f["spread"]), heads=(2, 4, 8, 32))
def the_root_of_the_whole_width_fits_heads(heads: int = 8) -> Figures:
    """Scores of several heads out of width 512, divided as in the first printed code."""
    config = presets.bloem_2019(d_model=512, n_heads=heads)
    width = config.attention.head_width(config.d_model)
    one = presets.bloem_2019(d_model=512, n_heads=1)
    return {
        "heads": config.attention.n_heads,
        "spread": score_spread(width, config.attention.score_divisor(512)).deviation,
        "one_head": score_spread(512, one.attention.score_divisor(512)).deviation,
    }


@scaling_group.claim("C35", lambda f: _about_one(f["spread"]))
def the_embedding_width_is_the_right_scale() -> Figures:
    """Keys of 4 numbers, divided by the root of the model's 6."""
    config = presets.by_hand_2024()
    width = config.attention.head_width(config.d_model)
    return {
        "width": width,
        "spread": _many(width, config.attention.score_divisor(config.d_model)),
        "right": _many(width, _ONE_HEAD.score_divisor(width)),
    }


def _many(width: int, divisor: float) -> float:
    """The spread over enough scores for a precise figure at a small width."""
    return score_spread(width, divisor, n_queries=4096).deviation


@scaling_group.claim(
    "C36", lambda f: _about_one(f["narrow"]) and _about_one(f["wide"]), width=WIDTHS[1:]
)
def divide_by_the_dimension(width: int = WIDTHS[-1]) -> Figures:
    """Divided by k instead of √k, at the least and at a large width."""
    return {
        "width": width,
        "narrow": score_spread(WIDTHS[0], WIDTHS[0]).deviation,
        "wide": score_spread(width, width).deviation,
        "root": score_spread(width, _ONE_HEAD.score_divisor(width)).deviation,
    }


def look_up(width: int, *, steps: int = 80, seed: int = 0, **settings: Any) -> float:
    """Accuracy after training one head to find the item with a given name and return its answer.

    An item is a random name (of 16) and a random answer (of 8); names and queries become vectors of
    `width` numbers of size 1, as a layer norm would leave them.
    """
    n_names, n_answers, n_items = 16, 8, 6
    module = attention(
        n_names + n_answers, seed, n_heads=1, d_head=width, d_value=n_answers,
        output_map=False, **settings,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    for part in (module.to_queries, module.to_keys):
        torch.nn.init.normal_(part.weight, generator=generator)

    def batch(size: int) -> tuple[Tensor, Tensor]:
        names = torch.rand(size, n_names, generator=generator).argsort(dim=-1)[:, :n_items]
        answers = torch.randint(n_answers, (size, n_items), generator=generator)
        asked = torch.randint(n_items, (size,), generator=generator)
        items = torch.cat([F.one_hot(names, n_names), F.one_hot(answers, n_answers)], dim=-1)
        rows = torch.arange(size)
        query = F.pad(F.one_hot(names[rows, asked], n_names), (0, n_answers)).unsqueeze(1)
        logits = module(query.float(), items.float()).squeeze(1)
        return logits, answers[rows, asked]

    def loss() -> Tensor:
        return F.cross_entropy(*batch(64))

    fit(module.parameters(), loss, steps=steps, learning_rate=0.01)
    with torch.no_grad():
        return accuracy(*batch(2000))


@scaling_group.claim(
    "C37",
    lambda f: f["additive"] > f["unscaled"] + 0.05 and f["scaled"] > f["unscaled"] + 0.05,
    partly=lambda f: f["scaled"] > f["unscaled"] + 0.05,
    command="glassformer claims C37 --slow",
)
def additive_scores_beat_unscaled_products() -> Figures:
    """Accuracy of three scores at a large width, the mean of three seeds, early and later."""

    def mean(steps: int, **settings: Any) -> float:
        return sum(look_up(256, steps=steps, seed=seed, **settings) for seed in range(3)) / 3

    return {
        "width": 256,
        "additive": mean(80, score="additive"),
        "unscaled": mean(80, divisor="none"),
        "scaled": mean(80, divisor="sqrt_head"),
        "additive_later": mean(240, score="additive"),
        "unscaled_later": mean(240, divisor="none"),
        "scaled_later": mean(240, divisor="sqrt_head"),
    }
