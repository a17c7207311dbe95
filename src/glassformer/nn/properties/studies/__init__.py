"""Claims that only training can decide, as seeded studies of a second or two on one CPU core.

Each function trains one small model and returns its figures; the caller compares. The module
docstrings say what the text claims and, where it can be proved, what must come out.
"""

from glassformer.nn.properties.studies.depth import DepthResult, learn_at_depth
from glassformer.nn.properties.studies.relatedness import (
    NOUNS,
    PLACES,
    SENTENCE,
    VERBS,
    Question,
    Relatedness,
    learn_relatedness,
)
from glassformer.nn.properties.studies.resolution import (
    ONE_HEAD_BOUND,
    Resolution,
    learn_neighbours,
)
from glassformer.nn.properties.studies.roles import (
    ROLE_NAMES,
    ROLE_SENTENCE,
    Positions,
    RoleReading,
    learn_roles,
)
from glassformer.nn.properties.studies.taste import Tastes, content_recovered, learn_tastes
from glassformer.nn.properties.studies.width import PairTask, WidthResult, learn_at_width

__all__ = [
    "NOUNS",
    "ONE_HEAD_BOUND",
    "PLACES",
    "ROLE_NAMES",
    "ROLE_SENTENCE",
    "SENTENCE",
    "VERBS",
    "DepthResult",
    "PairTask",
    "Positions",
    "Question",
    "Relatedness",
    "Resolution",
    "RoleReading",
    "Tastes",
    "WidthResult",
    "content_recovered",
    "learn_at_depth",
    "learn_at_width",
    "learn_neighbours",
    "learn_relatedness",
    "learn_roles",
    "learn_tastes",
]
