"""The Transformer of the by-hand text as a model of ours, and its pass.

Embedding, attention matrices and epsilon are the text's. It prints neither its feed-forward
parameters nor the decoder's; those are numbers between 0 and 1 with two decimals, as it uses, from
a seed that leads to the word it predicts. Where it departs from its own formulas, the formulas win.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from glassformer.lessons.example import Example
from glassformer.lessons.formulas.bounds import Words
from glassformer.lessons.reading import load_example
from glassformer.lessons.walks.illustrated import printed_matrix, set_maps
from glassformer.lessons.walks.predicting import Predictor
from glassformer.nn import Seq2Seq, build, presets
from glassformer.nn.blocks import Block
from glassformer.nn.layers import TokenEmbedding
from glassformer.trace import Trace, trace

__all__ = ["SEED", "START", "WIDTH", "Names", "by_hand_model", "by_hand_trace", "names_of"]

SEED = 5
"""The first with which the prediction is the text's word, “you”."""
_PAD, START = 0, 25
WIDTH = 6
_MAPS = {"to_queries": "w_query", "to_keys": "w_key", "to_values": "w_value",
         "to_output": "w_output"}  # fmt: skip


def by_hand_model(example: Example, seed: int = SEED) -> Seq2Seq:
    """The text's Transformer with its printed numbers, scores divided by √d_k as it says."""
    config = presets.by_hand_2024().with_(attention__divisor="sqrt_head")
    model = build(config, attention="written").eval()
    assert isinstance(model, Seq2Seq)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randint(0, 100, parameter.shape, generator=generator)
            parameter.copy_(drawn / 100)
        ids = printed_matrix(example, "sentence").long()
        embedding = model.encoder.embedding
        assert isinstance(embedding, TokenEmbedding)
        embedding.weight[ids] = printed_matrix(example, "embedding").T
        _set_vocabulary(model.to_vocabulary, example)
    block = model.encoder.blocks[0]
    assert isinstance(block, Block)
    set_maps(block.attention, example, _MAPS)
    return model


def _set_vocabulary(layer: nn.Linear, example: Example) -> None:
    """The entries of the output layer that the text prints; the words have the ids 1 to 23."""
    printed = printed_matrix(example, "w_vocabulary").T
    words = layer.weight[1 : 1 + printed.size(0)]
    words.copy_(torch.where(printed.isnan(), words, printed))


@dataclass(frozen=True)
class Names:
    """The words by id, and those of the sentence."""

    vocabulary: tuple[str, ...]
    sentence: tuple[str, ...]


def names_of(example: Example) -> Names:
    """The names that an example of this kind prints."""
    listed = example["word_list"].printed
    assert isinstance(listed, Words)
    words = tuple(str(word) for word in listed.items)
    vocabulary = ("<pad>", *words, "<unknown>", "<start>", "<end>")
    return Names(vocabulary, example["sentence"].columns)


def by_hand_trace(seed: int = SEED) -> Trace:
    """One pass: the six words, and “<start>”."""
    example = load_example("by-hand")
    names = names_of(example)
    source = printed_matrix(example, "sentence").long().unsqueeze(0)
    target = torch.tensor([[START] + [_PAD] * (WIDTH - 1)])
    labels = {
        "source": list(names.sentence),
        "target": [names.vocabulary[id_] for id_ in target[0].tolist()],
    }
    return trace(Predictor(by_hand_model(example, seed)), source, target, axis_labels=labels)
