"""Every printed number of a worked example, checked.

    from glassformer.lessons import audit, load_example
    result = audit(load_example("by-hand"))
    result.counts, result.ok, result["position"].verdict
    result["position"].right, result["position"].slip("zh")

In reading order: `compare` (what "right to the printed digits" means), `recompute` (from print and
end to end), `slips/` (the catalogue), `search` (which slip it was), `diagnosis` and `rounding`
(what else can be said), `run` (the verdicts), `results` (what is handed back).
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
