"""The classifier: pooled log-probabilities, the printed code, and training on reviews."""

import tempfile
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

from glassformer.lessons.claims.claim import Figures, Rule
from glassformer.lessons.claims.group import Group
from glassformer.lessons.claims.made import ROUNDING, difference, ids, refuses, vectors
from glassformer.nn.bloem import SelfAttention, Transformer, attend_folded
from glassformer.nn.properties import influence
from glassformer.nn.properties.studies.training import seeded
from glassformer.training import Result, RunConfig, recipe, train

__all__ = ["group"]

group = Group("classifier")


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


def _train(config: RunConfig) -> Result:
    """A run in a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        return train(config, Path(folder) / "run")


def _with_recurrent_twin() -> tuple[RunConfig, RunConfig]:
    """The classifier and an LSTM of its size, as large as this machine trains in minutes."""
    if torch.cuda.is_available():
        return recipe("imdb"), recipe("imdb-lstm")
    small = recipe("imdb-small")
    return small, replace(small, recipe="imdb-small-lstm", kind="lstm")


@group.claim("C69", lambda f: f["accuracy"] >= 0.85, command="glassformer claims C69 --slow")
def depth_6_and_length_512_reach_85_percent() -> Figures:
    """Test accuracy of the recipe."""
    config = recipe("imdb")
    result = _train(config)
    return {
        "depth": config.model.n_layers,
        "length": config.data.max_len,
        "accuracy": result.scores["test"]["accuracy"],
        "seconds": result.train_seconds,
    }


@group.claim(
    "C70",
    Rule(
        lambda f: f["accuracy"] > f["recurrent"] - 0.01 and f["ratio"] > 2,
        partly=lambda f: f["accuracy"] > f["recurrent"] - 0.01 or f["ratio"] > 2,
    ),
    command="glassformer claims C70 --slow",
)
def as_good_as_an_rnn_and_faster() -> Figures:
    """Test accuracy and seconds an epoch: the recipe beside its recurrent twin."""
    ours, theirs = _with_recurrent_twin()
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
    Rule(
        lambda f: f["more"] >= 0.95,
        partly=lambda f: f["more"] > f["plain"] + 0.01,
    ),
    command="glassformer claims C71 --slow",
)
def more_data_and_depth_help() -> Figures:
    """The plain recipe beside the deeper one that reads 75,000 reviews first."""
    deeper = recipe("imdb-pretrain")
    return {
        "depth": deeper.model.n_layers,
        "plain": _train(recipe("imdb")).scores["test"]["accuracy"],
        "more": _train(deeper).scores["test"]["accuracy"],
    }


# The two slips of the printed code that keep Python from reading it, cut down to themselves: a
# body that is not indented below its `def`, and two arguments without a comma between them.
_SLIPS = ("def __init__(self):\nself.k = 1\n", "layers(\n    linear(1, 4)\n    relu(),\n)\n")


def _reads(source: str) -> bool:
    return not refuses(lambda: compile(source, "printed", "exec"), (SyntaxError,))


@group.claim(
    "C72",
    Rule(
        lambda f: f["read"] == f["slips"] and f["classes"] == 3,
        partly=lambda f: f["classes"] == 3,
    ),
)
def the_printed_code_runs() -> Figures:
    """Whether Python reads its two slips; and the classes called as printed, with them mended."""
    with torch.no_grad():
        logs = _classifier()(ids(2, 10, 20))
    return {
        "slips": len(_SLIPS),
        "read": sum(_reads(slip) for slip in _SLIPS),
        "classes": logs.size(-1),
    }


@group.claim(
    "C73",
    Rule(
        lambda f: f["ours"] == 0 and f["printed"] == 0,
        partly=lambda f: f["ours"] == 0 and f["unmasked"] == 1,
    ),
)
def the_mask_option_masks() -> Figures:
    """Whether outputs look ahead: our class with and without the option, the printed arithmetic."""
    with seeded(0):
        masked, plain = (SelfAttention(8, heads=2, mask=mask) for mask in (True, False))
    x = vectors(1, 5, 8)
    return {
        "ours": influence(masked, x).looks_ahead,
        "unmasked": influence(plain, x).looks_ahead,
        "printed": influence(lambda v: attend_folded(v, v, v, 2), x).looks_ahead,
    }
