"""Query, key, value: what each role does, which widths are free, and how the maps start."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.claims.claim import Figures, Group, VerdictRule
from glassformer.claims.specimens import (
    ROUNDING,
    attention,
    difference,
    fit,
    refuses,
    seeded,
    vectors,
)
from glassformer.errors import ConfigError, ShapeError
from glassformer.nn import AttentionConfig, ModelConfig, attend_written, record_attention
from glassformer.nn.foreign import load_torch_multihead_attention
from glassformer.nn.layers import initialise

group = Group("query_claims")


@group.claim("C17", lambda f: f["by_query"] == 1 and f["key_in_row"] == f["positions"] - 1)
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


@group.claim("C18", lambda f: f["as_printed"] < ROUNDING)
def the_printed_formula_gives_the_output() -> Figures:
    """Σ_j w'_ij v_i as printed, and Σ_j w_ij v_j, compared with the library's output."""
    queries, keys, values = (vectors(1, 5, 4, seed=seed) for seed in range(3))
    attended = attend_written(queries, keys, values)
    scores = queries @ keys.mT / 2.0
    return {
        "as_printed": difference(attended.context, scores.sum(dim=-1, keepdim=True) * values),
        "corrected": difference(attended.context, attended.weights @ values),
    }


@group.claim("C19", lambda f: f["refused"] == 1 and f["accepted"] == 1)
def queries_and_keys_are_equally_wide() -> Figures:
    """Dot products of equal and of unequal widths."""
    queries, keys, wide = vectors(1, 5, 4), vectors(1, 5, 4), vectors(1, 5, 6)
    errors = (ShapeError, RuntimeError)
    return {
        "accepted": not refuses(lambda: attend_written(queries, keys, wide), errors),
        "refused": refuses(lambda: attend_written(queries, wide, wide), errors),
    }


@group.claim("C20", lambda f: f["followed"] == f["tried"])
def values_set_the_output_width() -> Figures:
    """Values of several widths with keys of one."""
    widths = (1, 3, 7, 16)
    outputs = [
        attention(8, n_heads=1, d_head=4, d_value=width, output_map=False)(vectors(1, 5, 8))
        for width in widths
    ]
    followed = sum(out.size(-1) == width for out, width in zip(outputs, widths, strict=True))
    return {"tried": len(widths), "followed": followed}


@group.claim("C21", lambda f: f["gap"] < ROUNDING)
@torch.no_grad()
def one_vector_at_a_time_is_the_same() -> Figures:
    """Each query alone, compared with all queries at once."""
    module, x = attention(8, n_heads=2), vectors(2, 6, 8)
    alone = torch.cat([module(x[:, [at]], x) for at in range(6)], dim=1)
    return {"gap": difference(alone, module(x))}


@group.claim("C22", lambda f: f["gap"] < ROUNDING)
def the_broadcast_product_is_the_output() -> Figures:
    """The three-axis product of values and transposed weights, summed over its first axis."""
    queries, keys, values = (vectors(1, 3, 3, seed=seed) for seed in range(3))
    attended = attend_written(queries, keys, values)
    weighted = values[0][:, None] * attended.weights[0].T[:, :, None]
    return {"axes": weighted.dim(), "gap": difference(weighted.sum(dim=0), attended.context[0])}


@group.claim(
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


@group.claim("C24", lambda f: f["gap"] < ROUNDING < f["without"])
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


@group.claim("C25", lambda f: f["sum_gap"] < ROUNDING < f["apart"])
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


@group.claim(
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


@group.claim(
    "C27",
    VerdictRule(lambda f: f["shared_runs"] == 0, partly=lambda f: f["own"] < 0.1 < f["shared"]),
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


@group.claim("C28", lambda f: f["free"] == f["tried"] and f["refused"] == 1)
def a_map_reads_the_width_of_x() -> Figures:
    """Heads of several widths on one x, and an x of the wrong width."""
    widths = (1, 4, 5, 11)
    modules = [attention(6, n_heads=1, d_head=width) for width in widths]
    return {
        "tried": len(widths),
        "free": sum(module(vectors(1, 3, 6)).size(-1) == 6 for module in modules),
        "refused": refuses(lambda: modules[0](vectors(1, 3, 7)), (ShapeError, RuntimeError)),
    }


@group.claim("C29", lambda f: f["refused"] == 1 and f["width"] == f["input"])
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
