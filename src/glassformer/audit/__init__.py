"""Every printed number of a worked example, checked.

    from glassformer.audit import audit, load_example
    result = audit(load_example("by-hand"))
    result.counts, result.ok, result["position"].verdict
    result["position"].right, result["position"].slip("zh")

Read `example` and `example_file` (what is audited), `formulas` (their language), `recomputation`
(from print and end to end), `verdicts` (what "right to the printed digits" means, and the result),
`slip`, `slip_catalogue` and `slip_search` (which slip it was), `possibility` and `quotation` (what
else can be said), `judgement` (the audit itself).
"""

from glassformer.audit.example import Example, PrintedDigits, PrintedStep
from glassformer.audit.example_file import example_names, load_example, read_example
from glassformer.audit.judgement import audit
from glassformer.audit.slip import Change, Scene, Slip, anywhere, rewriting
from glassformer.audit.slip_catalogue import CATALOGUE
from glassformer.audit.verdicts import (
    VERDICTS,
    Audit,
    Committed,
    SlipExplanation,
    StepResult,
    Verdict,
)
from glassformer.language import Bilingual

__all__ = [
    "CATALOGUE",
    "VERDICTS",
    "Audit",
    "Bilingual",
    "Change",
    "Committed",
    "Example",
    "PrintedDigits",
    "PrintedStep",
    "Scene",
    "Slip",
    "SlipExplanation",
    "StepResult",
    "Verdict",
    "anywhere",
    "audit",
    "example_names",
    "load_example",
    "read_example",
    "rewriting",
]
