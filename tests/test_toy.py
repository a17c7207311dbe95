"""The toy that ships: what its script makes, and what its card promises."""

import json
from pathlib import Path

import pytest
import torch

from examples.make_toy import SHIPPED, make_toy
from glassformer import checkpoint


def test_the_shipped_toy_is_what_its_script_makes(tmp_path: Path) -> None:
    made = checkpoint.save(tmp_path / "toy", make_toy())
    for file in ("model.safetensors", "tokenizer.json"):
        assert (made / file).read_bytes() == (SHIPPED / file).read_bytes()
    configs = [
        json.loads((folder / "config.json").read_text(encoding="utf-8"))
        for folder in (made, SHIPPED)
    ]
    assert configs[0]["model"] == configs[1]["model"]


@pytest.mark.parametrize(
    ("sentence", "label"),
    [
        ("I am happy", "happy"),
        ("I am not happy", "sad"),
        ("You are sad", "sad"),
        ("we are not very sad", "happy"),
    ],
)
def test_the_toy_understands_not(sentence: str, label: str) -> None:
    toy = checkpoint.load(SHIPPED)
    assert toy.tokenizer is not None
    logits = toy.model(torch.tensor([toy.tokenizer.encode(sentence)]))
    assert toy.labels[int(logits.argmax())] == label
