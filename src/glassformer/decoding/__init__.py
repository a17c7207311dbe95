"""From logits to sequences: greedy, beam and sampling over any model, and scores of the results.

    decoded = translate(model, source_ids, start=1, end=2, search=Beam(size=4))
    decoded[0].best.tokens

Read in this order: `stepper` (what a search asks of a model), `beam`, `greedy`, `sampling`,
`generate` (many sequences at once), `metrics`. What makes it fast is in `fast`, each part of which
replaces a plain one and is tested equal to it.
"""

from glassformer.decoding.beam import Beam, beam_search
from glassformer.decoding.fast import release
from glassformer.decoding.generate import Search, extend, stream, translate
from glassformer.decoding.greedy import Greedy
from glassformer.decoding.hypotheses import Candidate, Decoded, Hypothesis, Ledger, LedgerStep, Stop
from glassformer.decoding.sampling import Sampling
from glassformer.decoding.stepper import ModelStepper, Stepper

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
