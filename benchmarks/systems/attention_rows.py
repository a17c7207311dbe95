"""A: the attention core."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.systems.checked_rows import Measured, check, figures, gap, numbers, percent, small
from glassformer.claims.bloem import FOLDS, SelfAttention, attend_einsum, attend_folded
from glassformer.errors import ConfigError
from glassformer.nn.attention import (
    MultiHeadAttention,
    attend_written,
    basic_self_attention,
    basic_self_attention_loop,
    causal_mask,
    padding_mask,
)
from glassformer.text import WordTokenizer

_EXACT = 1e-12
"""Float64 identities of a few dozen operations."""


@check("A01")
def _weighted_sum() -> Measured:
    f = figures("C11")
    said = f"{f['sum']:g}; derivatives {f['first_three']:g} and {f['last_two']:g}"
    return said, (f["sum"], f["first_three"], f["last_two"]) == (4.5, 0, 0.5)


def _numpy_self_attention(x: torch.Tensor) -> torch.Tensor:
    scores = x.numpy() @ x.numpy().T
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return torch.from_numpy(powers / powers.sum(axis=1, keepdims=True) @ x.numpy())


@check("A02")
def _loop() -> Measured:
    x = numbers(6, 4)
    found = gap(basic_self_attention_loop(x), _numpy_self_attention(x))
    return f"6 vectors: difference {small(found)}", found < _EXACT


@check("A03")
def _batched() -> Measured:
    x, f = numbers(3, 6, 4), figures("C08")
    found = gap(basic_self_attention(x), torch.stack([basic_self_attention_loop(s) for s in x]))
    said = f"{f['products']} products, {f['softmaxes']} softmax; difference {small(found)}"
    return said, found < _EXACT and (f["products"], f["softmaxes"]) == (2, 1)


@check("A04")
def _softmax() -> Measured:
    f = figures("C02")
    said = f"{f['rows']} rows from {f['least']:g} to {f['most']:g}; sums off {small(f['sum_gap'])}"
    return said, 0 <= f["least"] <= f["most"] <= 1 and f["sum_gap"] < 1e-6


@check("A05")
def _roles() -> Measured:
    module, x = MultiHeadAttention(6, n_heads=1).double(), numbers(1, 5, 6)
    with torch.no_grad():
        q, k = module.to_queries(x)[0], module.to_keys(x)[0]
        weights = module.weights(x)[0, 0]
    right = gap(torch.softmax(q @ k.T / 6**0.5, dim=-1), weights)
    swapped = gap(torch.softmax(k @ q.T / 6**0.5, dim=-1), weights)
    said = f"difference {small(right)}, with the roles exchanged {swapped:.2f}"
    return said, right < _EXACT and swapped > 0.01


@check("A06")
def _three_roles() -> Measured:
    f = figures("C17")
    said = (
        f"of {f['positions']} × {f['positions']} scores: as query the {f['row']} of its row, "
        f"as key the {f['column']} of its column, {f['key_in_row']} others of its row"
    )
    return said, f["by_query"] == f["row"] == f["column"] == f["positions"] and not f["key_in_row"]


@check("A07")
def _scaled() -> Measured:
    q, k, v = (numbers(1, 2, 5, 8, seed=seed) for seed in range(3))
    found = gap(attend_written(q, k, v).context, F.scaled_dot_product_attention(q, k, v))
    return f"difference {small(found)}", found < _EXACT


@check("A08")
def _why_scaled() -> Measured:
    spread, soft, raw = figures("C32"), figures("C30"), figures("C31")
    said = (
        f"deviation {spread['least']:.2f} to {spread['most']:.2f} over {spread['widths']} widths; "
        f"undivided {raw['deviation_wide']:.0f} at k = {raw['wide']}, gradient of softmax "
        f"{soft['gradient']:.3f} instead of {soft['calm']:.3f}"
    )
    right = 0.95 < spread["least"] <= spread["most"] < 1.05
    return said, right and soft["gradient"] < soft["calm"] / 5 and raw["deviation_wide"] > 30


@check("A09")
def _additive() -> Measured:
    kinds, learned = figures("C25"), figures("C37")
    shares = [learned[f"{kind}_later"] for kind in ("additive", "unscaled", "scaled")]
    said = (
        f"{kinds['kinds']} kinds of score differ by {kinds['apart']:.2f} or more; after 240 steps "
        f"right: additive {percent(shares[0])}, plain {percent(shares[1])}, "
        f"scaled {percent(shares[2])}"
    )
    return said, kinds["sum_gap"] < 1e-6 and min(shares) > 0.9


@check("A10")
def _plain_score() -> Measured:
    module, x = MultiHeadAttention(6, n_heads=1, divisor="none").double(), numbers(1, 5, 6)
    with torch.no_grad():
        plain = torch.softmax(module.to_queries(x)[0] @ module.to_keys(x)[0].T, dim=-1)
    found = gap(plain, module.weights(x)[0, 0])
    return f"divisor {module.divisor:g}; difference {small(found)}", found < _EXACT


@check("A11")
def _value_width() -> Measured:
    f = figures("C20")
    return f"{f['followed']} of {f['tried']} value widths", f["followed"] == f["tried"] == 4


@check("A12")
def _bias() -> Measured:
    f = figures("C23")
    said = (
        f"change by the query's {f['query']:.2f}, the key's {small(f['key'])}, "
        f"the value's {f['value']:.2f}"
    )
    return said, f["accepted"] and f["key"] < 1e-5 < min(f["query"], f["value"])


@check("A13")
def _initialisation() -> Measured:
    f = figures("C26")
    said = f"{f['normal']:.3f}, {f['xavier']:.3f}, {f['kaiming']:.3f} (256 × 256)"
    wanted = {"normal": 0.02, "xavier": (2 / 512) ** 0.5, "kaiming": (2 / 256) ** 0.5}
    return said, all(abs(f[kind] / value - 1) < 0.03 for kind, value in wanted.items())


@check("A14")
def _self_and_cross() -> Measured:
    module, x = MultiHeadAttention(8, n_heads=2).double(), numbers(1, 5, 8)
    found = gap(module(x), module(x, x))
    return f"difference {small(found)}", found < _EXACT


@check("A15")
def _cross() -> Measured:
    f = figures("C78")
    module = MultiHeadAttention(8, n_heads=2)
    target, source = numbers(1, 4, 8).float(), numbers(1, 7, 8).float()
    shape = tuple(module.weights(target, source).shape)
    said = f"{f['target']} target and {f['source']} source positions: weights {shape}"
    return said, shape == (1, 2, f["target"], f["source"]) and f["rows"] == f["target"]


@check("A16")
def _wide_heads() -> Measured:
    module, x = MultiHeadAttention(6, n_heads=3, d_head=6, d_value=6).double(), numbers(1, 5, 6)
    maps = (module.to_queries, module.to_keys, module.to_values)
    outputs = []
    for head in range(3):
        rows = slice(6 * head, 6 * head + 6)
        q, k, v = (x[0] @ part.weight[rows].T for part in maps)
        outputs.append(torch.softmax(q @ k.T / 6**0.5, dim=-1) @ v)
    assert module.to_output is not None
    found = gap(module(x)[0], module.to_output(torch.cat(outputs, dim=-1)))
    return f"3 heads of 6, 18 → 6: difference {small(found)}", found < _EXACT


@check("A17")
def _narrow_heads() -> Measured:
    module, f = MultiHeadAttention(256, n_heads=4), figures("C41")
    said = f"width of a head {module.d_head}, {f['maps']} maps; difference {small(f['gap'])}"
    return said, module.d_head == 64 and f["maps"] == 3 and f["gap"] < 1e-5


@check("A18")
def _module() -> Measured:
    module, masked = SelfAttention(256), SelfAttention(8, mask=True)
    try:
        SelfAttention(10, heads=3)
        refused = False
    except ConfigError:
        refused = True
    x = numbers(1, 5, 8).float()
    changed = torch.cat([x[:, :-1], x[:, -1:] + 1], dim=1)
    leak = gap(masked(x)[:, :-1], masked(changed)[:, :-1])
    parts = all(hasattr(module, name) for name in ("tokeys", "toqueries", "tovalues", "unifyheads"))
    divisor = module.attention.divisor
    said = (
        f"{module.heads} heads, divisor {divisor:g}; a changed future changes the past by {leak:g}"
    )
    return said, parts and refused and (module.heads, divisor, leak) == (4, 8, 0)


@check("A19")
def _folds() -> Measured:
    x = numbers(2, 5, 8)
    folded = [fold(x, 4) for fold in FOLDS.values()]
    found = max(gap(folded[0], other) for other in folded[1:])
    return f"{len(folded)} ways, {tuple(folded[0].shape)}: difference {found:g}", found == 0


@check("A20")
def _einsum() -> Measured:
    q, k, v = (numbers(2, 5, 8, seed=seed) for seed in range(3))
    found = gap(attend_einsum(q, k, v, 4), attend_folded(q, k, v, 4))
    return f"difference {small(found)}", found < _EXACT


@check("A21")
def _output_map() -> Measured:
    f = figures("C43")
    without = MultiHeadAttention(8, n_heads=2, output_map=False)
    said = f"folded: difference {small(f['gap'])}, {f['with_map']} → {f['folded']} parameters"
    return said, f["gap"] < 1e-5 and without.to_output is None


@check("A22")
def _torch() -> Measured:
    f = figures("C24")
    said = f"difference {small(f['gap'])}; without its output map {f['without']:.2f}"
    return said, f["gap"] < 1e-5 < f["without"]


@check("A23")
def _many_heads() -> Measured:
    f, x = figures("C49"), numbers(1, 5, 256).float()
    shape = tuple(MultiHeadAttention(256, n_heads=32).weights(x).shape)
    said = f"weights {shape}; {f['divisors_run']} of {f['divisors']} divisors of the width run"
    return said, shape == (1, 32, 5, 5) and f["divisors_run"] == f["divisors"]


@check("A24")
def _masks() -> Measured:
    module, x = MultiHeadAttention(8, n_heads=2), numbers(1, 5, 8).float()
    ahead = module.weights(x, causal=True).detach()[..., ~causal_mask(5)]
    padding = padding_mask(torch.tensor([[True, True, True, False, False]]))
    padded = module.weights(x, mask=padding).detach()[..., 3:]
    said = f"largest weight ahead {float(ahead.max()):g}, on padding {float(padded.max()):g}"
    return said, float(ahead.abs().max()) == float(padded.abs().max()) == 0


@check("A25")
def _truncated() -> Measured:
    words = WordTokenizer.build(["when you play the game of thrones"])
    ids = words.encode("when you play the game of thrones", start=True, end=True, max_len=5)
    tokens = [words.token(id_) for id_ in ids]
    return " ".join(tokens), tokens == ["<start>", "when", "you", "play", "<end>"]
