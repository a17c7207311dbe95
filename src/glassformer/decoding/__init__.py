"""From logits to texts: greedy, beam and sampling over any model, and the scores of what they say.

    decoded = translate(model, source_ids, start=1, end=2, search=Beam(size=4))
    decoded[0].best.tokens

Read in this order: `stepper` (what a search asks of a model), `beam`, `walk` with `greedy` and
`sampling`, `models` (our models as steppers), `generate` (many texts at once), `metrics`.
"""

from glassformer.decoding.beam import Beam, beam_search
from glassformer.decoding.generate import Search, extend, stream, translate
from glassformer.decoding.greedy import Greedy
from glassformer.decoding.ledger import Candidate, Ledger, LedgerStep
from glassformer.decoding.models import ModelStepper
from glassformer.decoding.results import Decoded, Hypothesis, Stop
from glassformer.decoding.sampling import Sampling
from glassformer.decoding.stepper import Stepper
from glassformer.decoding.workspace import release

__all__ = [
    "Beam",
    "Candidate",
    "Decoded",
    "Greedy",
    "Hypothesis",
    "Ledger",
    "LedgerStep",
    "ModelStepper",
    "Sampling",
    "Search",
    "Stepper",
    "Stop",
    "beam_search",
    "extend",
    "release",
    "stream",
    "translate",
]
