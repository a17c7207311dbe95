"""Every printed number of a worked example, checked.

    from glassformer.lessons import audit, load_example
    result = audit(load_example("by-hand"))
    result.counts, result.ok, result["position"].verdict
    result["position"].right, result["position"].slip("zh")

In reading order: `verdicts` (what "right to the printed digits" means, and what is handed back),
`recomputation` (from print and end to end), `slip` and the slips of `slip_catalogue`, `search`
(which slip it was), `possibility` and `quotation` (what else can be said), `judgement`.
"""

from glassformer.lessons.auditing.judgement import audit
from glassformer.lessons.auditing.slip import Change, Scene, Slip, anywhere
from glassformer.lessons.auditing.slip_catalogue import CATALOGUE
from glassformer.lessons.auditing.verdicts import (
    VERDICTS,
    Audit,
    Committed,
    Explanation,
    StepResult,
    Verdict,
)

__all__ = [
    "CATALOGUE",
    "VERDICTS",
    "Audit",
    "Change",
    "Committed",
    "Explanation",
    "Scene",
    "Slip",
    "StepResult",
    "Verdict",
    "anywhere",
    "audit",
]
