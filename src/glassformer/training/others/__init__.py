"""Models that are no Transformers: what it is compared with, and the one that recommends films.

They take their sizes from the same ModelConfig, and are trained by the same loop on the same data.
"""

from collections.abc import Callable

from torch import nn

from glassformer.nn import MatrixFactorisation, ModelConfig, build
from glassformer.training.config import Kind
from glassformer.training.others.convolutional import ConvolutionalTranslator
from glassformer.training.others.recurrent import RecurrentClassifier, RecurrentTranslator
from glassformer.training.others.translator import Translator

__all__ = ["KINDS", "Translator"]

KINDS: dict[Kind, Callable[[ModelConfig], nn.Module]] = {
    "transformer": build,
    "lstm": RecurrentClassifier,
    "rnn": RecurrentTranslator,
    "conv": ConvolutionalTranslator,
    "factors": MatrixFactorisation,
}
