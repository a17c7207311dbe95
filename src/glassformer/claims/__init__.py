"""The claims of the texts, run: each an experiment whose figures decide the verdict.

    from glassformer.lessons.claims import find, outcomes
    for outcome in outcomes(find(["C31"])):
        print(outcome.verdict, outcome.sentence("en"))

Read in this order: `claim` (what a claim is), `basic` (the first group of experiments, with its
words in `basic.toml`), `group` and `catalogue` (how they are found), `report` and `plots`.
"""

from glassformer.claims.claim import Claim, Figures, Outcome, Rule, Stored, Verdict
from glassformer.claims.claim_list import GROUPS, claims, find, outcomes

__all__ = [
    "GROUPS",
    "Claim",
    "Figures",
    "Outcome",
    "Rule",
    "Stored",
    "Verdict",
    "claims",
    "find",
    "outcomes",
]
