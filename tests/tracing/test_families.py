"""Architectures of Hugging Face, forward and in training: every sampled cell is verified.

    python -m tests.tracing.test_families [family …]      # a table; all families without a name

A handful is quick enough for every run; `make check-slow` takes them all and prints the table.
"""

import sys
from dataclasses import dataclass

import pytest
import torch

from glassformer.tracing import Report, Trace, trace, trace_training_step
from glassformer.tracing.notes import Note
from tests.tracing.foreign_models import FAMILIES

QUICK = ["llama", "bloom", "mixtral", "bert", "bart", "rwkv"]
UNLIKE = {"other numbers", "other shape", "fails alone"}


@dataclass
class Checked:
    """A trace of a family, and the result of its verification."""

    report: Report
    notes: list[str]

    @classmethod
    def of(cls, traced: Trace, sample: int) -> "Checked":
        with traced:
            return cls(traced.verify(sample=sample), list(traced.notes))

    @property
    def ok(self) -> bool:
        """Every cell by its rule, and the outputs those of the model itself."""
        kinds = {note.kind for note in self.notes if isinstance(note, Note)}
        return self.report.ok and not self.report.opaque and not kinds & UNLIKE

    def __str__(self) -> str:
        verdict = "verified" if self.ok else f"WRONG ({len(self.report.opaque)} opaque)"
        return f"{verdict:10s} {self.report.cells:6,d} cells  {self.report.worst:.1e}"


def forward(name: str) -> Checked:
    torch.manual_seed(len(name))
    family = FAMILIES[name]
    return Checked.of(trace(family.make().eval(), **family.inputs()), sample=4_000)


def training(name: str) -> Checked:
    """One step of AdamW in training mode, dropout included, on the model's own loss."""
    torch.manual_seed(len(name))
    family = FAMILIES[name]
    model, inputs = family.make().train(), family.inputs()
    traced = trace_training_step(
        model,
        **inputs,
        **family.targets(inputs),
        loss=lambda output: output.loss,
        optimiser=torch.optim.AdamW(model.parameters(), lr=1e-3),
    )
    return Checked.of(traced, sample=6_000)


@pytest.mark.parametrize("name", QUICK)
def test_a_family_is_verified_forward_and_in_training(name: str) -> None:
    for checked in (forward(name), training(name)):
        assert checked.ok, f"{checked.report}\n{checked.notes}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # DeBERTa of transformers
def test_all_families(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        wrong = table(list(FAMILIES))
    assert wrong == []
    assert len(FAMILIES) >= 50
    experts = {"mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss", "olmoe", "deepseek_v3"}
    assert experts <= FAMILIES.keys()
    assert sum(family.task == "Seq2SeqLM" for family in FAMILIES.values()) >= 8


def table(names: list[str]) -> list[str]:
    """Print a line per family; the families that are not verified."""
    wrong = []
    sys.stdout.write("\n")
    for name in names:
        row = [forward(name), training(name)]
        sys.stdout.write(f"{name:20s} forward {row[0]}   training {row[1]}\n")
        sys.stdout.flush()
        if not all(checked.ok for checked in row):
            wrong.append(name)
    sys.stdout.write(f"{len(names)} families, {len(names) - len(wrong)} verified\n")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(table(sys.argv[1:] or list(FAMILIES))))
