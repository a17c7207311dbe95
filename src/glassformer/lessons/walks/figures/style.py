"""How figures look: two themes, and motion only for those who have not asked for none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

__all__ = ["BEAT_SECONDS", "STYLE", "Mode", "Role", "keyframes", "motion_name"]

Role: TypeAlias = Literal[
    "ink", "quiet", "input", "query", "key", "value", "score", "weighted", "output"
]
"""What a shape stands for; its colour. Inputs are green, queries red, and so on, in all figures."""

Mode: TypeAlias = Literal["in", "only"]
"""`in`: appears at its beat and stays. `only`: shows during its beat alone."""

BEAT_SECONDS = 1.4
_REST = 2.0
"""How many beats the finished figure stands before it starts again."""
_FADE = 0.25
"""How much of a beat a change takes."""

STYLE = """\
.gf { --gf-ink: #1d2430; --gf-quiet: #5f6878; --gf-paper: #fcfcfa; --gf-line: #c9ced8;
  --gf-soft: #eef1f6; --gf-input: #17692f; --gf-query: #b0331b; --gf-key: #925600;
  --gf-value: #6b3fa0; --gf-score: #1f5fa8; --gf-weighted: #6f5b00; --gf-output: #0b6b57;
  font-family: system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif;
  font-variant-numeric: tabular-nums; max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  .gf { --gf-ink: #e7e9ee; --gf-quiet: #a2abba; --gf-paper: #15181e; --gf-line: #434a58;
    --gf-soft: #1e232c; --gf-input: #7fd497; --gf-query: #ff9b87; --gf-key: #f0b45c;
    --gf-value: #c9a7f2; --gf-score: #8ab8f0; --gf-weighted: #e0d06a; --gf-output: #5fd3bd; }
}
.gf text { fill: var(--c, var(--gf-ink)); }
.gf .paper { fill: var(--gf-paper); }
.gf .panel { fill: var(--gf-soft); stroke: var(--gf-line); }
.gf .part { fill: var(--gf-soft); stroke: var(--c, var(--gf-line)); stroke-width: 1.5; }
.gf .frame { fill: none; stroke: var(--c, var(--gf-ink)); stroke-width: 2; }
.gf .line { fill: none; stroke: var(--c, var(--gf-quiet)); stroke-width: 1.5; }
.gf .head { fill: var(--c, var(--gf-quiet)); stroke: none; }
.gf .dot { fill: var(--c, var(--gf-ink)); stroke: var(--gf-paper); stroke-width: 1.5; }
.gf .empty { fill: none; stroke: var(--gf-line); }
.gf .only { opacity: 0; }
@media (prefers-reduced-motion: reduce) { .gf g { animation: none !important; } }
@media print { .gf g { animation: none !important; } .gf rect { print-color-adjust: exact; } }
"""


def motion_name(mode: Mode, beat: int, beats: int) -> str:
    """The name of a motion; figures of one page share those that are alike."""
    return f"gf-{mode}-{beat}-{beats}"


def keyframes(used: Iterable[tuple[Mode, int]], beats: int) -> str:
    """The motions of a figure with this many beats, counted from 1."""
    whole = beats + _REST

    def at(beat: float) -> str:
        return f"{max(0.0, 100 * beat / whole):.2f}%"

    lines = []
    for mode, beat in sorted(set(used)):
        start, end = beat - 1, beat
        if mode == "in":
            stops = f"0%, {at(start)} {{ opacity: 0 }} {at(start + _FADE)}, 100% {{ opacity: 1 }}"
        else:
            stops = (
                f"0%, {at(start)} {{ opacity: 0 }} {at(start + _FADE)}, {at(end - _FADE)} "
                f"{{ opacity: 1 }} {at(end)}, 100% {{ opacity: 0 }}"
            )
        lines.append(f"@keyframes {motion_name(mode, beat, beats)} {{ {stops} }}")
    seconds = whole * BEAT_SECONDS
    lines.append(f".gf-{beats} g[class] {{ animation: {seconds:.1f}s linear infinite }}")
    return "\n".join(lines) + "\n"
