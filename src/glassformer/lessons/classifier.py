"""Is a review positive? A classifier of one block, trained on the spot, with all its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F

from glassformer.claims.specimens import fit, seeded
from glassformer.documents.parts import Figure
from glassformer.lessons.figures.model_figures import block_figure, classifier_figure
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula
from glassformer.lessons.lesson_steps import heat_map, role_step
from glassformer.lessons.row_questions import with_question
from glassformer.nn import Classifier, ModelConfig, presets
from glassformer.nn.attention import set_attention
from glassformer.nn.description import count_parameters
from glassformer.nn.tensors import Bool, Float, Int, Tensor
from glassformer.text import WordTokenizer
from glassformer.tracing import Trace, trace

REVIEWS: tuple[tuple[str, int], ...] = (
    ("good not bad", 1), ("bad not good", 0), ("a good film", 1), ("a bad film", 0),
    ("not a bad film", 1), ("not a good film", 0), ("a film not bad", 1), ("a film not good", 0),
    ("not bad", 1), ("not good", 0), ("a really good film", 1), ("a really bad film", 0),
)  # fmt: skip
_STEPS, _RATE, _SEED = 120, 2e-2, 0
_FOLLOWED = 0


class _Predictor(Classifier):
    """The classifier with the softmax that turns its scores into probabilities."""

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        is_token: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B C"]:
        logits = super().forward(ids, is_token, types)
        probabilities = torch.softmax(logits, dim=-1)
        return probabilities


@dataclass(frozen=True)
class TrainedClassifier:
    """A trained classifier and its words."""

    model: Classifier
    words: WordTokenizer
    right: int
    """How many reviews it classifies correctly."""


@lru_cache(maxsize=2)
def learn(*, positions: bool = True) -> TrainedClassifier:
    """Train on all reviews at once; deterministic."""
    words = WordTokenizer.build([review for review, _ in REVIEWS])
    pad = words.special.pad
    assert pad is not None
    encoded = [words.encode(review) for review, _ in REVIEWS]
    longest = max(map(len, encoded))
    ids = torch.tensor([row + [pad] * (longest - len(row)) for row in encoded])
    labels = torch.tensor([label for _, label in REVIEWS])
    with seeded(_SEED):
        model = _Predictor(_config(words, longest, pad, positions=positions))

    def loss() -> Tensor:
        shares = model(ids)
        return F.nll_loss(shares.log(), labels)

    fit(model.double().parameters(), loss, steps=_STEPS, learning_rate=_RATE)
    set_attention(model.float().eval(), "written")
    with torch.no_grad():
        right = int((model(ids).argmax(dim=-1) == labels).sum())
    return TrainedClassifier(model, words, right)


def _config(words: WordTokenizer, longest: int, pad: int, *, positions: bool) -> ModelConfig:
    config = presets.bloem_2024(
        vocab_size=words.vocab_size, d_model=4, n_heads=1, n_layers=1, max_len=longest, pad_id=pad
    )
    return config if positions else config.with_(positions__kind="none")


def steps(say: Speaker) -> Iterator[LessonStep]:
    learned = learn()
    yield say.step("words", "reviews", _reviews(say))
    yield say.step("training", "training", _training(learned, say))
    review, _ = REVIEWS[_FOLLOWED]
    words = review.split()
    ids = torch.tensor([learned.words.encode(review)])
    run = trace(learned.model, ids, axis_labels={"ids": words})
    summed = run["encoder.summed"][0, 0]
    yield role_step("embedded", summed, say, facts={"review": review})
    yield say.step("block", "block", _block(run, words, say))
    yield from _answer(run, review, say)


def _reviews(say: Speaker) -> Parts:
    names = (say("negative"), say("positive"))
    yield say("reviews", count=len(REVIEWS), one=REVIEWS[0][0], other=REVIEWS[1][0])
    yield say.table(((review, names[label]) for review, label in REVIEWS), "review", "label")


def _training(learned: TrainedClassifier, say: Speaker) -> Parts:
    yield say(
        "training", parameters=count_parameters(learned.model), steps=_STEPS, count=len(REVIEWS),
        right=learned.right, blind=learn(positions=False).right, one=REVIEWS[0][0],
        other=REVIEWS[1][0],
    )  # fmt: skip


def _block(run: Trace, words: list[str], say: Speaker) -> Parts:
    weights = run["encoder.blocks.0.attention.weights"]
    chosen = weights[0, 0, 0, len(words) - 1]
    yield say("block")
    yield Figure("block", block_figure(run, words, say.language))
    yield formula(chosen)
    yield heat_map(weights, say, chosen, rows=words, columns=words)
    yield heat_map(run["encoder.blocks.0.resid_post"], say, rows=words)


def _answer(run: Trace, review: str, say: Speaker) -> Iterator[LessonStep]:
    """From the mean over the words to class probabilities."""
    pooled = run["pooled"][0]
    step = role_step("pooled", pooled, say, title=say("pooled title"), facts={"column": 1})
    given = {"x": heat_map(run["encoder.blocks.0.resid_post"], say)}
    yield with_question(step, pooled.step, 0, "mean(x, axis=0, keep=1)", given, say,
                        called=say("mean vector"))  # fmt: skip
    names = (say("negative"), say("positive"))
    best = int(run["probabilities"].value[0].argmax())
    logit, share = run["logits"][best], run["probabilities"][best]
    given = {
        name: heat_map(run[step], say)
        for name, step in (
            ("pooled", "pooled"), ("W_classes", "to_classes.weight"),
            ("b_classes", "to_classes.bias"),
        )
    }  # fmt: skip
    step = role_step(
        "logits", logit, say, title=say("classes"), facts={"column": names[best]}, columns=names,
        beside=list(given.values()),
    )  # fmt: skip
    yield with_question(step, logit.step, 0, "pooled @ W_classes + b_classes", given, say)
    figure = Figure("classifier", classifier_figure(run, review.split(), names, say.language))
    yield role_step(
        "probabilities", share, say, title=say("answer"), columns=names, after=[figure],
        facts={"column": names[best], "review": review},
    )  # fmt: skip
