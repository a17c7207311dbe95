"""An audit as a document: the table of verdicts, then every wrong step, printed → right."""

from __future__ import annotations

import numpy as np

from glassformer.audit.example import Example, PrintedDigits
from glassformer.audit.formulas.bounds import BoundedNumbers, WordList
from glassformer.audit.verdicts import Audit, StepResult, Verdict, printed_cells
from glassformer.documents import parts as p
from glassformer.documents.parts import Look
from glassformer.language import Language, words

MARKS: dict[Verdict, str] = {
    "agrees": "✓", "wrong": "✗", "follows": "↳", "unchecked": "?", "given": "·"
}  # fmt: skip

LOOKS: dict[Verdict, Look] = {
    "agrees": "good", "wrong": "bad", "follows": "caution", "unchecked": "quiet", "given": "quiet"
}  # fmt: skip

WORDS = words(__name__)
say = words("glassformer.audit.audit")
VERDICT_NAMES = {verdict: WORDS[f"verdict name {verdict}"] for verdict in MARKS}
VERDICT_MEANINGS = {verdict: WORDS[f"verdict meaning {verdict}"] for verdict in MARKS}


_COLUMNS = ("step", "title", "verdict", "finding")


def audit_document(audit: Audit, language: Language) -> p.Document:
    heads = tuple(WORDS[name].say(language) for name in _COLUMNS)
    rows = tuple(
        (
            p.Span(result.step.id, "code"),
            result.step.title.say(language),
            p.Span(_verdict(result.verdict, language), LOOKS[result.verdict]),
            finding_text(result, audit.example, language),
        )
        for result in audit.results
    )
    meanings = tuple(
        (_verdict(verdict, language), meaning.say(language))
        for verdict, meaning in VERDICT_MEANINGS.items()
        if audit.counts[verdict]
    )
    wrong = tuple(
        _wrong_step(result, audit.example, language)
        for result in audit.results
        if result.verdict == "wrong"
    )
    heading = WORDS["wrong_numbers" if wrong else "nothing_wrong"].say(language)
    return p.Document(
        audit.example.title.say(language),
        (
            p.Paragraph(counted_steps(audit, language), "strong"),
            p.Facts(meanings),
            p.Table("", heads, rows),
            p.Section(heading, wrong) if wrong else p.Paragraph(heading),
        ),
        language,
        WORDS["audit"].say(language),
        lambda: audit.to_dict(language),
    )


def _verdict(verdict: Verdict, language: Language) -> str:
    return f"{MARKS[verdict]} {VERDICT_NAMES[verdict].say(language)}"


def counted_steps(audit: Audit, language: Language) -> str:
    """How many steps got each verdict: `9 agrees · 13 wrong · …`."""
    return " · ".join(
        f"{count} {VERDICT_NAMES[verdict].say(language)}"
        for verdict, count in audit.counts.items()
        if count
    )


def finding_text(result: StepResult, example: Example, language: Language) -> str:
    """What was found about a step, in words; empty if there is nothing to say."""
    if result.reason is not None and result.verdict == "unchecked":
        return result.reason.say(language)
    parts = [_slip(result, language), result.note.say(language) if result.note else None]
    if result.causes:
        causes = example.called(result.causes)
        parts.append(WORDS["because"].say(language, causes=causes))
    found = result.comparison
    if result.verdict == "wrong" and found is not None:
        if not found.same_shape:
            parts.append(WORDS["shape"].say(language))
        elif isinstance(result.step.printed, PrintedDigits):
            shown = int(result.step.printed.shown.sum())
            wrong = int(found.wrong.sum())
            if wrong and shown > 1:
                parts.append(WORDS["cells"].say(language).format(wrong=wrong, shown=shown))
            off = np.max(result.off) if result.off is not None else np.nan
            if np.isfinite(off) and off > 0:
                said = WORDS["off" if wrong > 1 else "off_one"]
                parts.append(said.say(language, off=f"{off:.3g}"))
    if result.verdict in ("agrees", "follows"):
        parts.append(_approximated(result, language))
    if found is not None and found.open.any():
        parts.append(WORDS["open"].say(language).format(open=int(found.open.sum())))
    return say["; "].say(language).join(part for part in parts if part)


def _slip(result: StepResult, language: Language) -> str | None:
    """The likely slip, preceded by why a printed formula or code cannot be right."""
    reason = result.reason
    if result.step.quoted is None or reason is None:
        return result.slip(language)
    said = reason.say(language)
    if not result.explanations:
        return said
    return f"{said}{say['; '].say(language)}{result.slip(language)}"


def _approximated(result: StepResult, language: Language) -> str | None:
    """How many numbers that the article calls approximate are not correctly rounded."""
    digits, value = result.step.printed, result.from_print
    if (
        not isinstance(digits, PrintedDigits)
        or not digits.approximate
        or not isinstance(value, BoundedNumbers)
    ):
        return None
    off = np.abs(digits.values - value.mid) * 10.0**digits.decimals > 0.5 + 1e-6
    said = WORDS["approximate"].say(language)
    return said.format(off=int(off.sum()), shown=int(digits.shown.sum()))


def _wrong_step(result: StepResult, example: Example, language: Language) -> p.Section:
    """The step with its formula, the finding, and printed and right numbers."""
    step = result.step
    formula = (" = ", p.Span(step.formula, "code")) if step.formula else ()
    title = (p.Span(step.id, "code"), *formula)
    finding = p.Paragraph(finding_text(result, example, language))
    return p.Section(title, (finding, _printed(result, language)))


def _printed(result: StepResult, language: Language) -> p.Part:
    """Printed and right: as lines for a formula or code, otherwise as a table."""
    step, value, found = result.step, result.from_print, result.comparison
    printed_word, right_word = WORDS["printed"].say(language), WORDS["right"].say(language)
    if step.quoted is not None:
        text = step.quoted.text.replace("\t", "⇥   ").splitlines()  # a tab may be the mistake
        shown = [(printed_word if at == 0 else "", line) for at, line in enumerate(text)]
        shown += [(right_word, step.formula)] if step.formula is not None else []
        return p.Code("\n".join(f"{label:>8}  {line}" for label, line in shown))
    assert found is not None
    if (
        isinstance(step.printed, PrintedDigits)
        and isinstance(value, BoundedNumbers)
        and found.same_shape
    ):
        lines = _cells(result)
        labels = step.rows or [str(at) if len(lines) > 1 else "" for at in range(len(lines))]
        # Columns in which nothing is printed are left out.
        kept = [at for at in range(len(lines[0])) if any(line[at] != "…" for line in lines)]
        heads = [step.columns[at] for at in kept] if step.columns else [""] * len(kept)
        rows = zip(labels, ([line[at] for at in kept] for line in lines), strict=False)
        return p.Table("", ("", *heads), tuple((label, *row) for label, row in rows))
    right = listed_values(value if isinstance(value, BoundedNumbers | WordList) else None)
    return p.Table("", ("", ""), ((printed_word, listed_values(step.printed)), (right_word, right)))


def _cells(result: StepResult) -> list[list[p.Inline]]:
    """The printed numbers by row; next to a wrong one stands the right one."""
    shown: list[p.Inline] = [
        cell.text
        if cell.right is None
        else (p.Span(cell.text, "deleted"), " ", p.Span(cell.right, "inserted"))
        for cell in printed_cells(result)
    ]
    assert isinstance(result.step.printed, PrintedDigits)
    width = (result.step.printed.values.shape or (1,))[-1]
    return [shown[i : i + width] for i in range(0, len(shown), width)]


def listed_values(value: PrintedDigits | BoundedNumbers | WordList | None) -> str:
    """All numbers or words of a value in one line."""
    match value:
        case WordList(items=items):
            return " ".join(item or "…" for item in items)
        case PrintedDigits(values=numbers) | BoundedNumbers(mid=numbers):
            return "  ".join(f"{number:.6g}" for number in np.ravel(numbers))
        case None:
            return ""
