"""Several heads: what one cannot keep apart, what more of them cost, and how they are folded."""

import inspect
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from glassformer.claims.attention_studies import ONE_HEAD_BOUND, learn_neighbours, learn_roles
from glassformer.claims.bloem import FOLDS, attend_einsum, attend_folded
from glassformer.claims.claim import Figures, Group
from glassformer.claims.costs import attention_cost, attention_parameters, time_calls
from glassformer.claims.properties import influence, of_vectors
from glassformer.claims.specimens import (
    LENGTHS,
    ROUNDING,
    attention,
    difference,
    one_thread,
    refuses,
    seeded,
    vectors,
)
from glassformer.errors import ConfigError
from glassformer.nn import AttentionConfig, MultiHeadAttention, attend_written, build, presets
from glassformer.nn.attention import split_heads
from glassformer.nn.description import count_parameters

group = Group("head_claims")


@group.claim(
    "C38",
    lambda f: f["in_scores"] < 0.5 and f["added"] < 0.5,
    partly=lambda f: f["in_scores"] < 0.5,
)
def one_head_mixes_giver_and_receiver() -> Figures:
    """Both roles read from y_gave after training, with positions in the scores only or added."""
    reading = learn_roles(1, "in scores")
    return {
        "in_scores": reading.giver_and_receiver,
        "on_giver": float(reading.weights[0, 0]),
        "on_receiver": float(reading.weights[0, 4]),
        "added": max(learn_roles(1, "added", seed=seed).giver_and_receiver for seed in range(2)),
    }


@group.claim(
    "C39",
    lambda f: f["both"] > 0.95 and f["giver_head"] != f["receiver_head"],
    heads=(1, 2, 4),
    seed=(0, 1, 2),
)
def two_heads_keep_them_apart(heads: int = 2, seed: int = 0) -> Figures:
    """The same with two heads, and where each looks in "mary gave roses to susan"."""
    reading = learn_roles(heads, "in scores", seed=seed)
    return {
        "heads": heads,
        "both": reading.giver_and_receiver,
        "giver_head": int(reading.weights[:, 0].argmax()) + 1,
        "receiver_head": int(reading.weights[:, 4].argmax()) + 1,
        "on_giver": float(reading.weights[:, 0].max()),
        "on_receiver": float(reading.weights[:, 4].max()),
    }


def _kinds(heads: int = 4, width: int = 128) -> tuple[AttentionConfig, ...]:
    """One head, several of the full width, several that share the width."""
    return (
        AttentionConfig(n_heads=1, output_map=False),
        AttentionConfig(n_heads=heads, d_head=width, output_map=False),
        AttentionConfig(n_heads=heads, output_map=False),
    )


# What "R times" and "about as long" mean here. The counts leave room for the softmax, which every
# head computes for itself; seconds need more, because part of a call does not grow with the heads.
_NEAR, _ABOUT = 0.1, 1.25
_LEAST_WIDE, _MOST_NARROW = 2.5, 1.5


@group.claim(
    "C40",
    lambda f: abs(f["wide"] - f["heads"]) < f["near"] and f["narrow"] < f["about"],
    heads=(2, 4, 8),
    length=LENGTHS,
    width=(64, 128, 512),
)
def narrow_heads_cost_as_much_as_one(heads: int = 4, length: int = 64, width: int = 128) -> Figures:
    """Multiply-adds of several full-width and several narrow heads over those of one."""
    kinds = _kinds(heads, width)
    one, wide, narrow = (attention_cost(length, width, kind).multiply_adds for kind in kinds)
    counted = {"heads": heads, "wide": wide / one, "narrow": narrow / one}
    return {**counted, "near": _NEAR, "about": _ABOUT}


@group.seconds("C40", lambda f: min(f["wide_least"] / _LEAST_WIDE, _MOST_NARROW / f["narrow_most"]))
@torch.no_grad()
def seconds_of_narrow_heads() -> Figures:
    """Seconds relative to one head, at each length; one thread."""
    ratios: dict[str, list[float]] = {"wide": [], "narrow": []}
    spread = 0.0
    with seeded(0), one_thread():
        modules = [MultiHeadAttention(128, kind) for kind in _kinds()]
        for length in LENGTHS:
            x = vectors(1, length, 128)
            one, wide, narrow = time_calls([partial(m, x) for m in modules])
            ratios["wide"].append(wide.best / one.best)
            ratios["narrow"].append(narrow.best / one.best)
            spread = max(spread, one.spread, wide.spread, narrow.spread)
    return {
        "shortest": LENGTHS[0],
        "longest": LENGTHS[-1],
        "wide_least": min(ratios["wide"]),
        "wide_most": max(ratios["wide"]),
        "narrow_least": min(ratios["narrow"]),
        "narrow_most": max(ratios["narrow"]),
        "spread": spread,
    }


def _head_by_head(module: MultiHeadAttention, x: Tensor) -> Tensor:
    """The same heads one after another, each with its slice of the maps; joined, not mapped."""
    outputs = []
    for rows in torch.arange(module.n_heads * module.d_head).chunk(module.n_heads):
        queries, keys, values = (
            x @ part.weight[rows].T
            for part in (module.to_queries, module.to_keys, module.to_values)
        )
        outputs.append(attend_written(queries[:, None], keys[:, None], values[:, None]).context)
    return torch.cat(outputs, dim=-1)[:, 0]


@group.claim("C41", lambda f: f["maps"] == 3 and f["gap"] < ROUNDING)
@torch.no_grad()
def three_products_serve_all_heads() -> Figures:
    """The k × k maps of a layer with four heads; its output compared with four single heads."""
    module, x = attention(16, n_heads=4, output_map=False), vectors(2, 5, 16)
    maps = [part for part in module.modules() if isinstance(part, nn.Linear)]
    square = [part for part in maps if part.weight.shape == (16, 16)]
    return {"maps": len(square), "gap": difference(module(x), _head_by_head(module, x))}


@group.claim(
    "C42",
    lambda f: f["one"] == f["narrow"] == 3 * f["k"] ** 2 and f["output"] == f["k"] ** 2,
    k=(64, 256, 512),
    heads=(2, 4, 8),
)
def heads_add_no_parameters(k: int = 256, heads: int = 4) -> Figures:
    """Parameters counted in the modules."""
    one, narrow = (attention(k, n_heads=n, output_map=False) for n in (1, heads))
    return {
        "k": k,
        "heads": heads,
        "one": count_parameters(one),
        "narrow": count_parameters(narrow),
        "output": attention_parameters(k, AttentionConfig(n_heads=heads))["to_output"],
    }


@group.claim(
    "C43",
    lambda f: f["gap"] < ROUNDING and f["folded"] <= f["with_map"],
    partly=lambda f: f["gap"] < ROUNDING,
)
@torch.no_grad()
def the_output_map_may_go() -> Figures:
    """W_O folded into value maps as wide as the model; heads are then added, not joined."""
    module, x = attention(16, n_heads=4), vectors(2, 5, 16)
    assert module.to_output is not None
    folded = attention(16, n_heads=4, d_value=16, output_map=False)
    folded.to_queries, folded.to_keys = module.to_queries, module.to_keys
    pairs = zip(
        module.to_output.weight.chunk(4, dim=1), module.to_values.weight.chunk(4), strict=True
    )
    folded.to_values.weight.copy_(torch.cat([output @ value for output, value in pairs]))
    summed = folded(x).unflatten(-1, (4, 16)).sum(dim=-2)
    return {
        "gap": difference(summed, module(x)),
        "with_map": count_parameters(module),
        "folded": count_parameters(folded),
    }


@group.claim("C44", lambda f: f["copied"] == 1 and f["gap"] > ROUNDING)
def the_transpose_cannot_be_avoided() -> Figures:
    """Whether splitting heads copies data, and einsum, which transposes nothing, in comparison."""
    x = vectors(2, 6, 16)
    return {
        "copied": split_heads(x, 4).data_ptr() != x.data_ptr(),
        "gap": difference(attend_einsum(x, x, x, 4), attend_folded(x, x, x, 4)),
    }


def _lines(*functions: Callable[..., object]) -> int:
    return sum(len(inspect.getsource(function).splitlines()) for function in functions)


@group.claim(
    "C45", lambda f: f["gap"] < ROUNDING and f["refused"] == 1 and f["einsum"] < f["folding"]
)
def reshape_and_einsum_are_shorter() -> Figures:
    """Folds by view and by reshape, `view` without `contiguous`, and lines of code."""
    x = vectors(2, 6, 16)
    moved = x.view(2, 6, 4, 4).transpose(1, 2)
    return {
        "gap": difference(FOLDS["view"](x, 4), FOLDS["reshape"](x, 4)),
        "refused": refuses(lambda: moved.view(8, 6, 4), (RuntimeError,)),
        "einsum": _lines(attend_einsum),
        "folding": _lines(attend_folded, FOLDS["view"]),
    }


@group.claim("C46", lambda f: f["one"] > 0.8 * f["bound"] and f["two"] < 0.05, seed=(0, 1, 2, 3))
def heads_restore_resolution(seed: int = 0) -> Figures:
    """Error in reporting both neighbours, with one head and with two of half the width."""
    return {
        "bound": ONE_HEAD_BOUND,
        "one": learn_neighbours(1, seed=seed).error,
        "two": learn_neighbours(2, seed=seed).error,
    }


@group.claim("C47", lambda f: f["gap"] < ROUNDING < f["unmapped"])
@torch.no_grad()
def multi_head_is_many_single_heads() -> Figures:
    """Single heads with their own maps, joined and mapped, compared with the module."""
    module, x = attention(16, n_heads=4), vectors(2, 5, 16)
    assert module.to_output is not None
    joined = _head_by_head(module, x)
    return {
        "gap": difference(module.to_output(joined), module(x)),
        "unmapped": difference(joined, module(x)),
    }


@group.claim("C48", lambda f: f["head_axes"] == 1 and f["joined_axes"] == 2)
@torch.no_grad()
def vectors_of_heads_make_a_matrix() -> Figures:
    """Axes of one head's output for a sequence, and of the joined heads per position."""
    x = vectors(5, 16)
    contexts = [
        attention(16, seed, n_heads=1, d_head=4, output_map=False)(x[None])[0] for seed in range(4)
    ]
    joined = torch.cat(contexts, dim=-1)
    return {
        "head_axes": contexts[0].dim(),
        "joined_axes": joined[0].dim(),
        "joined_width": joined.size(-1),
    }


@group.claim(
    "C49",
    lambda f: f["narrow"] == f["tried"],
    partly=lambda f: f["divisors"] == f["divisors_run"] and f["with_width"] == f["tried"],
    width=(12, 16, 30),
)
def the_number_of_heads_is_free(width: int = 12) -> Figures:
    """1 to `width` heads: narrow ones, and ones with a given width."""

    def runs(**settings: int) -> bool:
        x = vectors(1, 3, width)
        return not refuses(lambda: attention(width, **settings)(x), (ConfigError,))

    counts = range(1, width + 1)
    fitting = [n for n in counts if width % n == 0]
    return {
        "width": width,
        "tried": len(counts),
        "narrow": sum(runs(n_heads=n) for n in counts),
        "divisors": len(fitting),
        "divisors_run": sum(runs(n_heads=n) for n in fitting),
        "with_width": sum(runs(n_heads=n, d_head=4) for n in counts),
    }


@group.claim("C50", lambda f: f["heads"] == 32 and f["encoders"] > 0)
def llama_has_32_heads_in_an_encoder() -> Figures:
    """Heads of the preset; whether any stack of its model, shrunk, looks ahead like an encoder."""
    small = presets.llama(vocab_size=8, d_model=64, n_layers=1, d_ff=32, max_len=8)
    with seeded(0):
        model = build(small)
    table = model.get_submodule("decoder.embedding")
    seen = influence(of_vectors(model, table, torch.arange(5)[None]), vectors(5, 64))
    return {
        "heads": presets.llama().attention.n_heads,
        "encoders": seen.looks_ahead + hasattr(model, "encoder"),
    }
