"""The claims of the texts, run: each an experiment whose figures decide the verdict.

    from glassformer.claims import find, outcomes
    for outcome in outcomes(find(["C31"])):
        print(outcome.verdict, outcome.sentence("en"))

Read `claim` (what a claim is), `basic_claims` (the first group of experiments; its words are in
`basic_claims.toml`), `claim_list` (finding and running them) and `claim_report`. The
experiments are built from `specimens`, `properties`, `costs` and `studies`.
"""

from glassformer.claims.claim import Claim, Figures, Outcome, Stored, Verdict, VerdictRule
from glassformer.claims.claim_list import GROUPS, claims, find, outcomes

__all__ = [
    "GROUPS",
    "Claim",
    "Figures",
    "Outcome",
    "Stored",
    "Verdict",
    "VerdictRule",
    "claims",
    "find",
    "outcomes",
]
