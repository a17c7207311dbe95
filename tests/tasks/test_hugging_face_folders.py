"""Folders of Hugging Face through every door: load, run, trace, explain --words, explorer API.

    python -m tests.tasks.test_hugging_face_folders [name …]      # a table; all without a name

One of each kind is quick enough for every run; `make check-slow` takes them all and prints the
table.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient

import glassformer as gf
from glassformer.cli import run
from glassformer.explorer.api import create_api
from glassformer.explorer.state import State
from glassformer.tasks import HuggingFaceModel
from glassformer.tracing import Trace
from tests.tasks.foreign_folders import CLASSES, FOLDERS, TEXT, Folder, picture

QUICK = ["gpt2", "bert_masked", "bert", "bert_tokens", "bart", "bert_vectors", "vit", "clip"]
_WRITES = ("generate", "translate")


def through(name: str, folder: Path, said: list[str]) -> list[str]:
    """What goes wrong with a folder on its way; empty where nothing does."""
    made = FOLDERS[name]
    path = made.write(folder / name)
    text = str(picture(path / "picture.png")) if made.tokenizer is None else TEXT
    model = gf.load(path)
    assert isinstance(model, HuggingFaceModel)
    wrong = [] if model.task == made.task else [f"task {model.task}"]
    if made.task == "fill":
        text = f"the {model.reader.token(model.reader.special.mask or 0)} sat on the mat"
    target = ["--target", "the moon"] if made.task == "translate" else []
    written = ["--max-new", "4"] if made.task in _WRITES else []
    for command in (
        ["run", str(path), text, "--json", *written],
        ["trace", str(path), text, *target],
        *([["explain", str(path), text, "--words", "--json", *target]] if made.tokenizer else []),
    ):
        if code := run(command):
            wrong.append(f"{command[0]} ended with {code}")
    with model.trace(text, target=target[1] if target else None) as traced:
        wrong += _unlike(model, made, traced, text)
    state = State(str(path))
    with TestClient(create_api(state), base_url="http://localhost") as client:
        request = {"model": name, "text": text} | ({"target": target[1]} if target else {})
        answer = client.post("/api/traces", json=request)
        if answer.status_code != 201:
            wrong.append(f"explorer: {answer.text[:200]}")
        elif made.tokenizer and not answer.json()["labels"]:
            wrong.append("explorer: no labels")
        elif made.task in ("classify", "fill", "tag"):
            there = answer.json()["answer"]["text"].strip("␣")
            if there not in model.answer([text])[0].to_text():
                wrong.append(f"explorer answers {there}")
    said.append(f"{name:18s} {model.kind:38s} {'; '.join(wrong) or 'all doors'}")
    return wrong


def _unlike(model: HuggingFaceModel, made: Folder, traced: Trace, text: str) -> list[str]:
    """Whether the trace is the module's own numbers, verified, with words on its axes."""
    wrong = []
    if not traced.verify(sample=400).ok:
        wrong.append("cells are not what their operands give")
    output = next(iter(traced.outputs.values()))
    if made.task == "translate":
        reading = model.forward_pass(text, "the moon")
    else:
        reading = model.forward_pass(text)
    with torch.no_grad():
        plain = reading.module(**reading.keywords)
    own = next(value for value in plain.values() if isinstance(value, torch.Tensor))
    # Attention is written out in the trace: other orders of summing, so rounding of float32.
    if not torch.allclose(output.value, own, rtol=1e-4, atol=1e-5):
        wrong.append(f"other numbers: {(output.value - own).abs().max():.1e}")
    tokens, last = output.labels[-2] if output.value.dim() > 2 else None, output.labels[-1]
    if made.tokenizer is not None and output.value.dim() > 2 and tokens is None:
        wrong.append("no tokens on the positions")
    if made.family == "vit" and ["[CLS]", "y0x0", "y0x1", "y1x0", "y1x1"] not in [
        list(texts or ()) for step in traced.steps for texts in step.labels
    ]:
        wrong.append("no patches on the positions")
    if made.task in ("classify", "tag") and last != CLASSES:
        wrong.append(f"classes are labelled {last}")
    if made.task in ("fill", *_WRITES) and (last is None or len(last) != output.shape[-1]):
        wrong.append("no words on the logits")
    return wrong


@pytest.mark.parametrize("name", QUICK)
def test_a_folder_goes_through_every_door(name: str, tmp_path: Path) -> None:
    assert through(name, tmp_path, []) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script`")  # DeBERTa's module, when imported
def test_all_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    wrong = {name: found for name in FOLDERS if (found := through(name, tmp_path, said))}
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(said) + "\n")
    assert wrong == {}
    assert len(FOLDERS) >= 30


def test_quick_ones_are_of_every_kind() -> None:
    assert {FOLDERS[name].task for name in QUICK} == {folder.task for folder in FOLDERS.values()}


if __name__ == "__main__":
    for chosen in sys.argv[1:] or FOLDERS:
        with tempfile.TemporaryDirectory() as made_in:
            begun, table = time.monotonic(), [""]
            try:
                through(chosen, Path(made_in), table)
            except Exception as error:
                table.append(f"{chosen:18s} {type(error).__name__}: {error}")
            sys.stderr.write(f"{table[-1]}  {time.monotonic() - begun:.1f} s\n")
