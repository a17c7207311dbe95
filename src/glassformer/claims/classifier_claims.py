"""The classifier: pooled log-probabilities, the printed code, and training on reviews."""

from __future__ import annotations

import os
import re
import tempfile
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.claims.bloem import SelfAttention, Transformer, attend_folded
from glassformer.claims.claim import Figures, Group
from glassformer.claims.properties import influence
from glassformer.claims.specimens import (
    ROUNDING,
    accuracy,
    causal,
    difference,
    ids,
    memorise,
    seeded,
    vectors,
)
from glassformer.errors import DataError
from glassformer.nn import Classifier, presets
from glassformer.training import RunConfig, RunResult, recipe, train
from glassformer.training.problems import TokenisedData

group = Group("classifier_claims")


def _classifier() -> Transformer:
    with seeded(0):
        return Transformer(
            k=16, heads=2, depth=2, seq_length=10, num_tokens=20, num_classes=3
        ).eval()


@group.claim("C68", lambda f: f["gap"] < ROUNDING and f["sum_gap"] < ROUNDING and f["most"] <= 0)
@torch.no_grad()
def pooled_log_probabilities() -> Figures:
    """Mean over positions, linear map, log-softmax, written out, beside the model."""
    model, text = _classifier(), ids(4, 10, 20)
    logs = model(text)
    inner = model.classifier
    by_hand = F.log_softmax(inner.to_classes(inner.encode(text).mean(dim=1)), dim=-1)
    return {
        "gap": difference(logs, by_hand),
        "sum_gap": difference(logs.exp().sum(dim=-1), torch.ones(4)),
        "most": float(logs.max()),
    }


def _train(config: RunConfig) -> RunResult:
    """Train in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        return train(config, Path(folder) / "run")


def _with_recurrent_twin() -> tuple[RunConfig, RunConfig]:
    """The classifier and an LSTM of its size, as large as this machine can train in minutes."""
    if torch.cuda.is_available():
        return recipe("imdb"), recipe("imdb-lstm")
    small = recipe("imdb-small")
    return small, replace(small, recipe="imdb-small-lstm", kind="lstm")


@group.claim("C69", lambda f: f["accuracy"] >= 0.85, command="glassformer claims C69 --slow")
def depth_6_and_length_512_reach_85_percent() -> Figures:
    """Test accuracy of the recipe."""
    config = recipe("imdb")
    assert isinstance(config.data, TokenisedData)
    result = _train(config)
    return {
        "depth": config.model.n_layers,
        "length": config.data.max_len,
        "accuracy": result.scores["test"]["accuracy"],
        "seconds": result.train_seconds,
    }


@group.claim(
    "C70",
    lambda f: f["accuracy"] > f["recurrent"] - 0.01 and f["ratio"] > 2,
    partly=lambda f: f["accuracy"] > f["recurrent"] - 0.01 or f["ratio"] > 2,
    command="glassformer claims C70 --slow",
)
def as_good_as_an_rnn_and_faster() -> Figures:
    """Test accuracy and seconds per epoch of the recipe and of its recurrent twin."""
    ours, theirs = _with_recurrent_twin()
    assert isinstance(ours.data, TokenisedData)
    plain, recurrent = _train(ours), _train(theirs)
    seconds = plain.train_seconds / ours.loop.epochs
    recurrent_seconds = recurrent.train_seconds / theirs.loop.epochs
    return {
        "depth": ours.model.n_layers,
        "length": ours.data.max_len,
        "accuracy": plain.scores["test"]["accuracy"],
        "recurrent": recurrent.scores["test"]["accuracy"],
        "seconds": seconds,
        "recurrent_seconds": recurrent_seconds,
        "ratio": recurrent_seconds / seconds,
    }


@group.claim(
    "C71",
    lambda f: f["more"] >= 0.95,
    partly=lambda f: f["more"] > f["plain"] + 0.01,
    command="glassformer claims C71 --slow",
)
def more_data_and_depth_help() -> Figures:
    """The plain recipe, and the deeper one that is pretrained on 75,000 reviews."""
    deeper = recipe("imdb-pretrain")
    return {
        "depth": deeper.model.n_layers,
        "plain": _train(recipe("imdb")).scores["test"]["accuracy"],
        "more": _train(deeper).scores["test"]["accuracy"],
    }


# --- printed code ----------------------------------------------------------------------------
# The code that a text prints, compiled as it stands. The texts are not shipped: GLASSFORMER_TEXTS
# names a folder in which each file begins with the number of its text (`000_….txt`). Without it,
# these claims show stored results.

_FENCED = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
_CLASS = re.compile(r"^class \w+", flags=re.MULTILINE)


@dataclass(frozen=True)
class PrintedCode:
    """The fenced code blocks of a text, in order, dedented."""

    blocks: tuple[str, ...]

    @property
    def compiled(self) -> int:
        """How many blocks compile; one that continues a method is compiled inside a function."""
        return sum(
            _compiles(block) or _compiles(f"def method():\n{textwrap.indent(block, '    ')}")
            for block in self.blocks
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """Each class with the blocks that continue it, up to the next class.

        A text may print a class in pieces; a piece is indented like a method, or like a line inside
        one, and appended to the class before it.
        """
        found: list[list[str]] = []
        for block in self.blocks:
            if _CLASS.search(block):
                found.append([block])
            elif found:
                depth = 4 if block.lstrip().startswith("def ") else 8
                found[-1].append(textwrap.indent(block, " " * depth))
        return tuple("\n".join(pieces) for pieces in found)

    @property
    def compiled_classes(self) -> int:
        """How many classes compile, assembled from their pieces in the order of the text."""
        return sum(map(_compiles, self.classes))

    @property
    def lines(self) -> list[str]:
        """Every line of code, without comments."""
        return [line.partition("#")[0] for block in self.blocks for line in block.splitlines()]

    def mentions(self, name: str) -> int:
        return sum(len(re.findall(rf"\b{name}\b", line)) for line in self.lines)

    def parameters(self, name: str) -> int:
        """How often the name is a parameter of a function."""
        heads = [line for line in self.lines if line.lstrip().startswith("def ")]
        return sum(len(re.findall(rf"\b{name}\b", head)) for head in heads)


def printed_code(text: str) -> PrintedCode:
    return PrintedCode(tuple(map(textwrap.dedent, _FENCED.findall(text))))


def read_text(number: str) -> str:
    """A text by its number, from the folder in GLASSFORMER_TEXTS."""
    folder = os.environ.get("GLASSFORMER_TEXTS")
    if not folder:
        raise DataError("expected the folder of the texts in GLASSFORMER_TEXTS; it is not set")
    found = sorted(Path(folder).glob(f"{number}*"))
    if not found:
        raise DataError(
            "{folder}: expected a file that begins with {number}, found none",
            folder=folder,
            number=number,
        )
    return found[0].read_text(encoding="utf-8", errors="replace")


def _compiles(source: str) -> bool:
    try:
        compile(source, "printed", "exec")
    except SyntaxError:
        return False
    return True


_READ_TEXTS = "GLASSFORMER_TEXTS=… glassformer claims {} --slow"


@group.claim(
    "C72",
    lambda f: f["compiled"] == f["blocks"] and f["compiled_classes"] == f["classes"],
    partly=lambda f: f["compiled_classes"] == f["classes"],
    command=_READ_TEXTS.format("C72"),
)
def the_printed_code_runs() -> Figures:
    """Every block and every class that the two texts print, compiled as it stands."""
    texts = [printed_code(read_text(number)) for number in ("000", "003")]
    return {
        "blocks": sum(len(text.blocks) for text in texts),
        "compiled": sum(text.compiled for text in texts),
        "classes": sum(len(text.classes) for text in texts),
        "compiled_classes": sum(text.compiled_classes for text in texts),
    }


@group.claim(
    "C73", lambda f: f["read"] > 0 and f["printed"] == 0, command=_READ_TEXTS.format("C73")
)
def the_mask_option_masks() -> Figures:
    """How often the printed code reads `mask`; whether it, and our class, look ahead."""
    with seeded(0):
        ours = SelfAttention(8, heads=2, mask=True)
    code, x = printed_code(read_text("000")), vectors(1, 5, 8)
    return {
        "named": code.mentions("mask"),
        "read": code.mentions("mask") - code.parameters("mask"),
        "printed": influence(lambda v: attend_folded(v, v, v, 2), x).looks_ahead,
        "ours": influence(ours, x).looks_ahead,
    }


# --- overfitting -----------------------------------------------------------------------------
# Does a mask reduce overfitting? A small classifier learns a few texts and is tested on others.

_N_WORDS, _LENGTH = 12, 8


def held_out_accuracy(*, masked: bool, n_texts: int = 64, seed: int = 0) -> float:
    """Accuracy on new texts: has it more words of the vocabulary's first half than of its second?

    The classifier memorises its few training texts; `masked` hides later words in every block.
    """
    config = presets.bloem_2024(
        vocab_size=_N_WORDS, d_model=16, n_heads=2, n_layers=1, max_len=_LENGTH
    )
    with seeded(seed):
        model = Classifier(config)
        texts, answers = _draw(n_texts)
        fresh, fresh_answers = _draw(1000)
    causal(model, masked)
    memorise(model, texts, answers, steps=100)
    with torch.no_grad():
        return accuracy(model(fresh), fresh_answers)


def _draw(n_texts: int) -> tuple[Tensor, Tensor]:
    texts = torch.randint(_N_WORDS, (n_texts, _LENGTH))
    return texts, ((texts < _N_WORDS // 2).sum(dim=1) > _LENGTH // 2).long()
