"""Scaling: how large scores get, what softmax makes of it, and which divisor is right."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.claims.claim import Figures, Group, VerdictRule
from glassformer.claims.properties import score_spread
from glassformer.claims.specimens import ROUNDING, accuracy, attention, fit
from glassformer.nn import AttentionConfig, presets

group = Group("scaling_claims")

WIDTHS = (16, 64, 256, 1024)
_ONE_HEAD = AttentionConfig(n_heads=1)


def _about_one(value: float) -> bool:
    return abs(value - 1) < 0.1


@group.claim(
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


@group.claim(
    "C31",
    VerdictRule(
        lambda f: f["mean_wide"] > 2 * max(abs(f["mean_narrow"]), f["error"]),
        partly=lambda f: f["deviation_wide"] > 2 * f["deviation_narrow"],
    ),
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


@group.claim("C32", lambda f: _about_one(f["least"]) and _about_one(f["most"]))
def the_root_keeps_scores_at_one() -> Figures:
    """The spread of scores, scaled as the library does, for each width."""
    spreads = [score_spread(width, _ONE_HEAD.score_divisor(width)).deviation for width in WIDTHS]
    return {"widths": len(WIDTHS), "least": min(spreads), "most": max(spreads)}


@group.claim("C33", lambda f: f["error"] < ROUNDING)
def length_of_a_constant_vector() -> Figures:
    """‖(c, …, c)‖ compared with √k · c."""
    ratios = [float(torch.full((k,), 2.0).norm()) / (math.sqrt(k) * 2.0) for k in WIDTHS]
    return {"error": max(abs(ratio - 1) for ratio in ratios)}


@group.claim("C34", lambda f: _about_one(f["spread"]), heads=(2, 4, 8, 32))
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


@group.claim("C35", lambda f: _about_one(f["spread"]))
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


@group.claim("C36", lambda f: _about_one(f["narrow"]) and _about_one(f["wide"]), width=WIDTHS[1:])
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


@group.claim(
    "C37",
    VerdictRule(
        lambda f: f["additive"] > f["unscaled"] + 0.05 and f["scaled"] > f["unscaled"] + 0.05,
        partly=lambda f: f["scaled"] > f["unscaled"] + 0.05,
    ),
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
