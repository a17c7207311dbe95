"""Parameters and multiply-adds by formula: what a layer costs before it is built.

The formulas follow "Transformers from scratch", with k for the width: one head has 3k² parameters,
h narrow heads 3 h k (k/h) = 3k², the map that joins them k² more, and a whole block as coded there
12k² + 10k. Tests hold them equal to the modules.
"""

from dataclasses import dataclass

from torch import nn

from glassformer.nn.config import AttentionConfig, BlockConfig, FeedForwardConfig, ModelConfig
from glassformer.nn.description import count_parameters


def attention_parameters(d_model: int, config: AttentionConfig) -> dict[str, int]:
    """Parameters of each map of an attention layer; narrow heads: k² each, whatever h is."""
    d_head = config.head_width(d_model)
    d_value = config.d_value or d_head
    n_kv_heads = config.n_kv_heads or config.n_heads
    counts = {
        "to_queries": _linear(d_model, config.n_heads * d_head, config.bias),
        "to_keys": _linear(d_model, n_kv_heads * d_head, config.bias),
        "to_values": _linear(d_model, n_kv_heads * d_value, config.bias),
    }
    if config.output_map:
        counts["to_output"] = _linear(config.n_heads * d_value, d_model, config.output_bias)
    if config.score == "additive":
        counts["score_vector"] = config.n_heads * d_head
    return counts


def feed_forward_parameters(d_model: int, config: FeedForwardConfig) -> dict[str, int]:
    """Parameters of each layer of a feed-forward; of width 4k with biases: 8k² + 5k in all."""
    if config.n_layers == 1:
        return {"expand": _linear(d_model, d_model, config.bias)}
    counts = {"expand": _linear(d_model, config.d_ff, config.bias)}
    if config.activation == "swiglu":
        counts["gate"] = _linear(d_model, config.d_ff, config.bias)
    counts["contract"] = _linear(config.d_ff, d_model, config.bias)
    return counts


def block_parameters(config: ModelConfig, *, cross: bool = False) -> dict[str, int]:
    """Parameters of each part of one block; `cross` adds attention to an encoder's output."""
    attention = sum(attention_parameters(config.d_model, config.attention).values())
    feed_forward = sum(feed_forward_parameters(config.d_model, config.feed_forward).values())
    norm = _norm(config.d_model, config.block)
    counts = {"attention": attention, "attention_norm": norm}
    if cross:
        counts |= {"cross_attention": attention, "cross_attention_norm": norm}
    return counts | {"feed_forward": feed_forward, "feed_forward_norm": norm}


def parameters_by_part(module: nn.Module) -> dict[str, int]:
    """Parameters counted in a module: of each part, and of each parameter of its own.

    Parts without any are left out. A parameter that two parts share is counted in both; the total
    of `count_parameters` counts it once.
    """
    own = {name: p.numel() for name, p in module.named_parameters(recurse=False)}
    parts = {name: count_parameters(part) for name, part in module.named_children()}
    return {name: count for name, count in (parts | own).items() if count}


@dataclass(frozen=True)
class AttentionCost:
    """Multiply-adds of one attention layer over one sequence, by step."""

    projections: int
    """Queries, keys and values."""
    scores: int
    """Every query with every key."""
    context: int
    """The weighted sums of values."""
    output: int
    """The map that joins the heads."""
    exponentials: int
    """Entries that softmax goes through: h for each pair of positions, narrow or wide."""

    @property
    def multiply_adds(self) -> int:
        """All four products together; the exponentials are not among them."""
        return self.projections + self.scores + self.context + self.output


def attention_cost(n_positions: int, d_model: int, config: AttentionConfig) -> AttentionCost:
    """What self-attention over n_positions costs; a causal mask saves nothing of it as written.

    h full-width heads cost h times one head. Narrow heads cost as much as one head in
    multiply-adds, but take h times the exponentials.
    """
    d_head = config.head_width(d_model)
    d_value = config.d_value or d_head
    n_kv_heads = config.n_kv_heads or config.n_heads
    pairs = config.n_heads * n_positions**2
    widths = config.n_heads * d_head + n_kv_heads * (d_head + d_value)
    joined = config.n_heads * d_value
    return AttentionCost(
        projections=n_positions * d_model * widths,
        scores=pairs * d_head,
        context=pairs * d_value,
        output=n_positions * joined * d_model if config.output_map else 0,
        exponentials=pairs,
    )


def _linear(n_inputs: int, n_outputs: int, bias: bool) -> int:
    return n_inputs * n_outputs + n_outputs * bias


def _norm(d_model: int, config: BlockConfig) -> int:
    return {"layer": 2 * d_model, "rms": d_model, "plain": 0, "none": 0}[config.norm]
