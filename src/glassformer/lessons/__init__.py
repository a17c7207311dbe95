"""The worked examples of the texts, as data, and what runs them.

    from glassformer.lessons import audit, example_names, load_example
    example = load_example("illustrated")          # or a file of your own: docs/audit.md
    print(audit(example).counts)

`examples/` holds the data, `example` and `reading` say what an example is and how it is written,
`formulas/` is the language of its formulas, `auditing/` checks every printed number.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.lessons.auditing import Audit, StepResult, audit
    from glassformer.lessons.example import Bilingual, Digits, Example, Language, Step
    from glassformer.lessons.reading import example_names, load_example, read_example

__all__ = [
    "Audit",
    "Bilingual",
    "Digits",
    "Example",
    "Language",
    "Step",
    "StepResult",
    "audit",
    "example_names",
    "load_example",
    "read_example",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__)
