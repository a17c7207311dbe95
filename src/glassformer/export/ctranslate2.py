"""An encoder-decoder as a CTranslate2 model: its specification filled with our parameters.

CTranslate2 is imported only here, and only for an export.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.checkpoint import Checkpoint
from glassformer.decoding import Greedy, translate
from glassformer.errors import ExportError, NotInstalledError
from glassformer.export.compatibility import (
    NO,
    agreement,
    decoder_depth,
    plain,
    probe_ids,
    require,
    ungrouped_heads,
)
from glassformer.nn import Block, ModelConfig, MultiHeadAttention, Seq2Seq, Stack
from glassformer.nn.positions import sinusoidal_table
from glassformer.text import Tokenizer

Array = NDArray[np.float32]

_POSITIONS = 1024
"""Sinusoids are unbounded, a table is not: it gets at least this many positions."""


def check(config: ModelConfig) -> None:
    """Refuse a model that CTranslate2 cannot represent."""
    allowed = {
        "architecture": ("seq2seq",),
        "block.norm": ("layer", "rms"),
        # Its norms after the sublayers have none after the last block.
        "block.final_norm": (True, False) if config.block.norm_first else NO,
        "positions.kind": ("sinusoidal", "learned"),
        "embedding.n_types": (0,),
        "output.flattened": NO,
    }
    require("CTranslate2", config, {**allowed, **plain(config), **ungrouped_heads(config)})


def write(checkpoint: Checkpoint, folder: Path) -> None:
    """Write model.bin, config.json and the vocabularies."""
    try:
        from ctranslate2 import specs
    except ImportError:
        raise NotInstalledError(
            "this export needs CTranslate2: pip install 'glassformer[ctranslate2]'"
        ) from None
    model, config = checkpoint.model, checkpoint.config
    check(config)
    assert isinstance(model, Seq2Seq)
    activations = specs.Activation
    spec = specs.TransformerSpec.from_config(
        (config.n_layers, decoder_depth(config)),
        config.attention.n_heads,
        pre_norm=config.block.norm_first,
        no_final_norm=not config.block.final_norm,
        activation={
            "relu": activations.RELU,
            "gelu": activations.GELU,
            "gelu_tanh": activations.GELUTanh,
            "swiglu": activations.SWISH,
        }[config.feed_forward.activation],
        layernorm_embedding=config.embedding.norm,
        ffn_glu=config.feed_forward.activation == "swiglu",
        rms_norm=config.block.norm == "rms",
    )
    _stack(spec.encoder, spec.encoder.embeddings[0], model.encoder, config)
    _stack(spec.decoder, spec.decoder.embeddings, model.decoder, config)
    _linear(spec.decoder.projection, model.to_vocabulary)
    _vocabulary(spec, checkpoint)
    spec.config.layer_norm_epsilon = config.block.norm_eps
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


def _vocabulary(spec: Any, checkpoint: Checkpoint) -> None:
    source = checkpoint.tokenizer
    if source is None:
        raise ExportError("CTranslate2 needs the model's vocabulary; this model has no tokenizer")
    target = checkpoint.target_tokenizer or source
    spec.register_source_vocabulary(_tokens(source))
    spec.register_target_vocabulary(_tokens(target))
    special = target.special
    if special.start is None or special.end is None or source.special.end is None:
        raise ExportError(
            "CTranslate2 needs tokens for start and end; this model's vocabulary lacks one"
        )
    spec.config.bos_token = spec.config.decoder_start_token = target.token(special.start)
    spec.config.eos_token = target.token(special.end)
    spec.config.unk_token = (
        target.token(special.unknown) if special.unknown is not None else target.token(special.end)
    )
    spec.config.add_source_eos = True  # our sources end with it


def _tokens(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token(id_) for id_ in range(tokenizer.vocab_size)]


def _stack(spec: Any, embeddings: Any, stack: Stack, config: ModelConfig) -> None:
    embeddings.weight = _array(stack.get_parameter("embedding.weight"))
    spec.scale_embeddings = float(config.d_model**0.5) if config.embedding.scale else 1.0
    spec.position_encodings.encodings = _array(
        stack.get_parameter("positions.table.weight")
        if config.positions.kind == "learned"
        else sinusoidal_table(
            max(config.max_len, _POSITIONS), config.d_model, config.positions.base
        )
    )
    if stack.embedding_norm is not None:
        _norm(spec.layernorm_embedding, stack.embedding_norm)
    if stack.final_norm is not None:
        _norm(spec.layer_norm, stack.final_norm)
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        assert isinstance(block, Block)
        _block(layer, block)


def _block(layer: Any, block: Block) -> None:
    attention, cross = block.attention, block.cross_attention
    _fuse(
        layer.self_attention.linear[0], attention.to_queries, attention.to_keys, attention.to_values
    )
    _output(layer.self_attention, attention)
    _norm(layer.self_attention.layer_norm, block.attention_norm)
    if cross is not None and block.cross_attention_norm is not None:
        _fuse(layer.attention.linear[0], cross.to_queries)
        _fuse(layer.attention.linear[1], cross.to_keys, cross.to_values)
        _output(layer.attention, cross)
        _norm(layer.attention.layer_norm, block.cross_attention_norm)
    feed_forward = block.feed_forward
    assert feed_forward.contract is not None
    if feed_forward.gate is None:
        _linear(layer.ffn.linear_0, feed_forward.expand)
    else:  # theirs is activation(linear_0) · linear_0_noact
        _linear(layer.ffn.linear_0, feed_forward.gate)
        _linear(layer.ffn.linear_0_noact, feed_forward.expand)
    _linear(layer.ffn.linear_1, feed_forward.contract)
    _norm(layer.ffn.layer_norm, block.feed_forward_norm)


def _output(spec: Any, attention: MultiHeadAttention) -> None:
    assert attention.to_output is not None
    _linear(spec.linear[-1], attention.to_output)


def _fuse(spec: Any, *maps: nn.Linear) -> None:
    """Several maps of one input as one: their rows stacked."""
    spec.weight = np.concatenate([_array(one.weight) for one in maps])
    if maps[0].bias is not None:
        spec.bias = np.concatenate([_array(one.bias) for one in maps])


def _linear(spec: Any, map_: nn.Linear) -> None:
    _fuse(spec, map_)


def _norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma = _array(norm.get_parameter("weight"))
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().float().cpu().contiguous().numpy()
    return array


def verify(checkpoint: Checkpoint, folder: Path) -> str:
    """Score our translations with CTranslate2; returns the result in words, raises if it differs.

    Log-probabilities per token are compared, not texts: rounding can decide between two equally
    good texts, but it hardly changes a score.
    """
    import ctranslate2

    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    assert isinstance(model, Seq2Seq) and tokenizer is not None
    target = checkpoint.target_tokenizer or tokenizer
    start, end = target.special.start, target.special.end
    assert start is not None and end is not None and tokenizer.special.end is not None
    texts = probe_ids(checkpoint)
    sources = [[*ids, tokenizer.special.end] for ids in texts]
    ours = translate(model, sources, start=start, end=end, search=Greedy(), max_new=20)
    scored = [(ids, one.best) for ids, one in zip(texts, ours, strict=True) if one.best.tokens]
    if not scored:
        raise ExportError(
            "CTranslate2 cannot be compared with this model: all its translations are empty"
        )
    translator = ctranslate2.Translator(str(folder), compute_type="float32")
    scores = translator.score_batch(
        [[tokenizer.token(i) for i in ids] for ids, _ in scored],
        [[target.token(i) for i in best.tokens] for _, best in scored],
    )
    differences = []
    for (_, best), score in zip(scored, scores, strict=True):
        theirs = sum(score.log_probs[: best.length])  # without an end we did not write
        differences.append(abs(theirs - best.log_probability) / best.length)
    return agreement("CTranslate2", differences, 1e-3)
