"""What can be said about attention and measured: properties as functions that return figures.

influence       which inputs each output depends on; path lengths; the fixed weighted sum
order           permutation equivariance and invariance, shuffled words, repeated words
counting        parameters and multiply-adds by formula
timing          seconds of a call, and whether the machine was quiet enough to believe them
connectivity    dense layer, convolution, recurrence and attention side by side
scaling         spread of scores, saturation of softmax, size of its gradient
embedding_size  n > 8.33 ln N, derived
studies         small trainings: relatedness, roles, heads, depth, width

Nothing here prints or plots, and no model needs this part: lessons and claims are made of it.
"""

from glassformer.nn.properties.connectivity import (
    ConvolutionLayer,
    DenseLayer,
    LayerCost,
    LayerKind,
    RecurrentLayer,
    layer_cost,
    make_layer,
    path_length,
)
from glassformer.nn.properties.counting import (
    AttentionCost,
    attention_cost,
    attention_parameters,
    block_parameters,
    feed_forward_parameters,
    parameters_by_part,
)
from glassformer.nn.properties.embedding_size import (
    DERIVED_CONSTANT,
    PRINTED_CONSTANT,
    entropy_lost_by_angle,
    least_embedding_size,
    pair_entropy,
)
from glassformer.nn.properties.influence import (
    Influence,
    influence,
    of_vectors,
    path_lengths,
    weighted_sum,
)
from glassformer.nn.properties.order import (
    OrderCheck,
    ShuffledWords,
    equivariance,
    invariance,
    repeated_word_spread,
    shuffle_words,
)
from glassformer.nn.properties.scaling import (
    ScoreSpread,
    score_spread,
    softmax_gradient_size,
    spread_by_width,
)
from glassformer.nn.properties.timing import DISTURBED, Timing, growth, time_calls

__all__ = [
    "DERIVED_CONSTANT",
    "DISTURBED",
    "PRINTED_CONSTANT",
    "AttentionCost",
    "ConvolutionLayer",
    "DenseLayer",
    "Influence",
    "LayerCost",
    "LayerKind",
    "OrderCheck",
    "RecurrentLayer",
    "ScoreSpread",
    "ShuffledWords",
    "Timing",
    "attention_cost",
    "attention_parameters",
    "block_parameters",
    "entropy_lost_by_angle",
    "equivariance",
    "feed_forward_parameters",
    "growth",
    "influence",
    "invariance",
    "layer_cost",
    "least_embedding_size",
    "make_layer",
    "of_vectors",
    "pair_entropy",
    "parameters_by_part",
    "path_length",
    "path_lengths",
    "repeated_word_spread",
    "score_spread",
    "shuffle_words",
    "softmax_gradient_size",
    "spread_by_width",
    "time_calls",
    "weighted_sum",
]
