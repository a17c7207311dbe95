"""What models are for: `load` one, then ask it, or look at every number of its pass over a text.

    import glassformer as gf

    gf.load("imdb").classify(["A wonderful film."])[0].label
    gf.load("en-de").translate(["A dog runs."], beam=5)[0].text
    gf.load("shakespeare").generate("KING:").text
    gf.load("path/to/bert").fill(["a [MASK] film"])          # a folder that save_pretrained wrote
    gf.load(module, tokenizer=tokenizer).trace("a text")      # a module in memory

`model` is the interface; `glassformer_model` and `hugging_face_model` are its two kinds, and
`model_sources` finds out which one a folder holds.
"""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from glassformer.errors import InputError
from glassformer.tasks.answers import (
    Alternative,
    Attention,
    Classified,
    Embedded,
    Filled,
    Generated,
    LabelledToken,
    Recommendation,
    Recommended,
    Scored,
    Tagged,
    Task,
    Translated,
    Word,
)
from glassformer.tasks.glassformer_model import GlassformerModel
from glassformer.tasks.hugging_face_model import HuggingFaceModel
from glassformer.tasks.model import Model
from glassformer.tasks.model_sources import load
from glassformer.tasks.quantisation import Weights

if TYPE_CHECKING:
    from glassformer.tracing import Trace

__all__ = [
    "Alternative",
    "Attention",
    "Classified",
    "Embedded",
    "Filled",
    "Generated",
    "GlassformerModel",
    "HuggingFaceModel",
    "LabelledToken",
    "Model",
    "Recommendation",
    "Recommended",
    "Scored",
    "Tagged",
    "Task",
    "Translated",
    "Weights",
    "Word",
    "load",
    "trace",
]


def trace(model_or_module: Any, /, *inputs: Any, **keywords: Any) -> "Trace":
    """Every number of one run: of a `Model` over a text, or of any module or function.

    `trace(load("toy"), "I am not happy")` is `load("toy").trace("I am not happy")`; anything but a
    `Model` goes to `glassformer.tracing.trace`, with its keywords.
    """
    if isinstance(model_or_module, Model):
        if not inputs and "text" not in keywords:
            raise InputError(
                "{name} is traced over a text: trace(model, 'a text')", name=model_or_module.name
            )
        if any(isinstance(given, Tensor) for given in inputs):
            raise InputError(
                "{name} reads a text; a tensor is for its module: trace(model.module, tensor)",
                name=model_or_module.name,
            )
        return model_or_module.trace(*inputs, **keywords)
    from glassformer.tracing import trace as trace_module

    try:
        return trace_module(model_or_module, *inputs, **keywords)
    except TypeError as error:
        if not any(isinstance(given, str) for given in inputs):
            raise
        raise InputError(
            "this module does not read text: with a tokenizer it does, as in "
            "load(module, tokenizer=tokenizer).trace('a text')"
        ) from error
