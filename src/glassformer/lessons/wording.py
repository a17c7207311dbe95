"""What the reports say, in both languages: wording.toml beside this file."""

from glassformer.documents.parts import Look
from glassformer.language import words
from glassformer.lessons.auditing.verdicts import Verdict

MARKS: dict[Verdict, str] = {
    "agrees": "✓", "wrong": "✗", "follows": "↳", "unchecked": "?", "given": "·"
}  # fmt: skip

LOOKS: dict[Verdict, Look] = {
    "agrees": "good", "wrong": "bad", "follows": "caution", "unchecked": "quiet", "given": "quiet"
}  # fmt: skip

WORDS = words(__name__)
VERDICT_NAMES = {verdict: WORDS[f"verdict name {verdict}"] for verdict in MARKS}
VERDICT_MEANINGS = {verdict: WORDS[f"verdict meaning {verdict}"] for verdict in MARKS}
