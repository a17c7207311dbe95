"""Masked words: a model that fills gaps from both sides, beside one that reads left to right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import product

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.claims.specimens import fit, seeded
from glassformer.documents.parts import Figure
from glassformer.lessons.figures.sheet import FigurePart, Label, ModelBox, TableFigure
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, percent
from glassformer.lessons.lesson_steps import chart, heat_map
from glassformer.nn import LanguageModel, MaskedLanguageModel, presets
from glassformer.nn.attention import set_attention
from glassformer.nn.tensors import Float, Int, Tensor
from glassformer.picture import Canvas, Picture
from glassformer.tracing import Trace, trace

SENTENCE = ("i", "read", "a", "great", "book", "and", "loved", "it")
CHOICES: dict[str, tuple[str, ...]] = {"word": ("great", "book", "loved")}
_KINDS = {"saw": ("film", "play"), "read": ("book", "novel")}
_TASTES = {("great", "lovely"): ("loved", "praised"), ("bad", "dull"): ("hated", "regretted")}
MASK = "<mask>"
_SEED, _STEPS, _RATE, _WIDTH = 1, 200, 2e-2, 16
_NOTICEABLE = 0.02
"""A smaller change of a probability is called none."""


def corpus() -> list[tuple[str, ...]]:
    """All sentences: what was seen or read must fit its verb, and the verdict its adjective."""
    return [
        ("i", verb, "a", adjective, noun, "and", verdict, "it")
        for (verb, nouns), (adjectives, verdicts) in product(_KINDS.items(), _TASTES.items())
        for noun, adjective, verdict in product(nouns, adjectives, verdicts)
    ]


VOCABULARY = (MASK, *dict.fromkeys(word for sentence in corpus() for word in sentence))


def ids(words: Sequence[str]) -> list[int]:
    return [VOCABULARY.index(word) for word in words]


def hide(words: Sequence[str], place: int) -> tuple[str, ...]:
    return tuple(MASK if at == place else word for at, word in enumerate(words))


def counted(words: Sequence[str], place: int, *, right: bool) -> dict[str, float]:
    """How often each word stands there in the corpus, among sentences that agree elsewhere.

    With `right` both sides have to agree, else only what comes before.
    """
    end = len(words) if right else place
    agreeing = [
        sentence[place]
        for sentence in corpus()
        if all(sentence[at] == words[at] for at in range(end) if at != place)
    ]
    return {word: n / len(agreeing) for word, n in Counter(agreeing).items()}


class _Filler(nn.Module):
    """A model with the softmax that makes probabilities of its logits."""

    def __init__(self, model: MaskedLanguageModel | LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        logits = self.model(ids)
        probabilities = torch.softmax(logits, dim=-1)
        return probabilities


@lru_cache(maxsize=1)
def masked_model() -> _Filler:
    """Every sentence with every word that varies hidden in turn; only that word counts."""
    sentences = torch.tensor([ids(sentence) for sentence in corpus()])
    length, varying = sentences.size(1), (sentences != sentences[0]).any(dim=0).nonzero().flatten()
    whole = sentences.repeat_interleave(len(varying), dim=0)
    rows, places = torch.arange(len(whole)), varying.repeat(len(sentences))
    gapped = whole.clone()
    gapped[rows, places] = VOCABULARY.index(MASK)
    config = presets.bert(
        vocab_size=len(VOCABULARY), d_model=_WIDTH, n_heads=1, n_layers=1, d_ff=2 * _WIDTH,
        max_len=length, dropout=0.0,
    ).with_(pad_id=None, embedding__n_types=0, init="xavier")  # fmt: skip
    with seeded(_SEED):
        model = MaskedLanguageModel(config).double()

        def loss() -> Float[Tensor, ""]:
            return F.cross_entropy(model(gapped)[rows, places], whole[rows, places])

        fit(model.parameters(), loss, steps=_STEPS, learning_rate=_RATE)
    return _ready(model)


@lru_cache(maxsize=1)
def left_to_right_model() -> _Filler:
    """The same sentences, each word predicted from those before it."""
    sentences = torch.tensor([ids(sentence) for sentence in corpus()])
    config = presets.gpt2(
        vocab_size=len(VOCABULARY), d_model=_WIDTH, n_heads=1, n_layers=1, d_ff=2 * _WIDTH,
        max_len=sentences.size(1), dropout=0.0,
    ).with_(init="xavier")  # fmt: skip
    with seeded(_SEED):
        model = LanguageModel(config).double()

        def loss() -> Float[Tensor, ""]:
            logits = model(sentences[:, :-1])
            return F.cross_entropy(logits.flatten(0, 1), sentences[:, 1:].flatten())

        fit(model.parameters(), loss, steps=_STEPS, learning_rate=_RATE)
    return _ready(model)


def _ready(model: MaskedLanguageModel | LanguageModel) -> _Filler:
    set_attention(model.float().eval(), "written")
    return _Filler(model)


def guesses(words: Sequence[str], place: int, *, right: bool) -> dict[str, float]:
    """What a model puts into the gap: the masked one, or the one that reads left to right."""
    model = masked_model() if right else left_to_right_model()
    read = hide(words, place) if right else words[:place]
    with torch.no_grad():
        shares = model(torch.tensor([ids(read)]))[0, place if right else -1]
    return {word: float(share) for word, share in zip(VOCABULARY, shares, strict=True)}


def steps(say: Speaker, *, word: str = "great") -> Iterator[LessonStep]:
    place = SENTENCE.index(word)
    gapped = hide(SENTENCE, place)
    run = trace(
        masked_model(), torch.tensor([ids(gapped)]), axis_labels={"ids": list(gapped)}
    )  # fmt: skip
    yield say.step("words", "corpus", _corpus(place, say))
    yield say.step("loss", "loss", _loss(run, place, say))
    yield say.step("prediction", "fill", _fill(place, say))
    yield say.step("prediction", "left", _left(place, say))
    yield say.step("weights", "attention", _attention(run, place, gapped, say))
    yield say.step("prediction", "change", _change(place, say))


def _corpus(place: int, say: Speaker) -> Parts:
    drawing = gap_figure(place, say)
    facts = {"count": len(corpus()), "gap": " ".join(hide(SENTENCE, place))}
    shown = [corpus()[at] for at in (0, 5, 17, 31)]
    yield say("corpus", **facts)
    yield say.table([(" ".join(one),) for one in shown], "some sentences")
    yield say("two ways", **facts)
    yield Figure("gap", drawing)


def _loss(run: Trace, place: int, say: Speaker) -> Parts:
    share = run["probabilities"][0, place, VOCABULARY.index(SENTENCE[place])]
    facts = {
        "word": SENTENCE[place], "percent": percent(share), "steps": _STEPS,
        "loss": -math.log(float(share)), "others": len(SENTENCE) - 1,
        "visible": SENTENCE[(place + 1) % len(SENTENCE)],
    }  # fmt: skip
    yield say("loss", **facts)
    yield formula(share)
    yield say("loss value", **facts)


def _fill(place: int, say: Speaker) -> Parts:
    found, counts = (ask(SENTENCE, place, right=True) for ask in (guesses, counted))
    best = sorted(found, key=found.__getitem__, reverse=True)[:5]
    rows = ((word, percent(found[word]), percent(counts.get(word, 0.0))) for word in best)
    yield say(
        "fill", gap=" ".join(hide(SENTENCE, place)), best=best[0], second=best[1],
        share=percent(found[best[0]]), second_share=percent(found[best[1]]),
        both=percent(sum(found[word] for word in counts)), possible=say.listed(list(counts)),
    )  # fmt: skip
    yield say.table(rows, "word", "masked", "in the corpus")


def _left(place: int, say: Speaker) -> Parts:
    both, left = (guesses(SENTENCE, place, right=right) for right in (True, False))
    exact = counted(SENTENCE, place, right=False)
    shown = sorted(exact, key=lambda word: -both[word])
    kinds = {"masked": both, "left to right": left, "left in the corpus": exact}
    bars = {say(kind): [shares[word] for word in shown] for kind, shares in kinds.items()}
    facts = {
        "before": " ".join(SENTENCE[:place]), "word": SENTENCE[place],
        "left": percent(left[SENTENCE[place]]), "both": percent(both[SENTENCE[place]]),
        "count": len(exact), "known": len(counted(SENTENCE, place, right=True)),
        "words": say.listed(shown),
    }  # fmt: skip
    key = "left blind" if facts["count"] != facts["known"] else "left enough"
    yield say(key, **facts)
    yield chart(
        say, "both", shown, bars, ("word in the gap", "probability"), ("output", "query", "quiet"),
        numbers=percent, write=lambda y: f"{y:.2f}", least=0, most=1,
    )  # fmt: skip


def _attention(run: Trace, place: int, gapped: Sequence[str], say: Speaker) -> Parts:
    weights = run["model.encoder.blocks.0.attention.weights"]
    most = int(weights.value[0, 0, place].argmax())
    chosen = weights[0, 0, place, most]
    key = "attention right" if most > place else "attention left" if most < place else "attention"
    yield say(key, most=gapped[most], weight=percent(chosen), word=SENTENCE[place])
    yield heat_map(weights, say, chosen, head=0)
    yield formula(chosen)


def other_verdict() -> tuple[str, ...]:
    """The sentence with another verdict at its end."""
    return tuple("hated" if word == "loved" else word for word in SENTENCE)


def _change(place: int, say: Speaker) -> Parts:
    """Exchange a word and ask again: the verdict, or the adjective if the verdict is hidden."""
    changed = other_verdict()
    if place == SENTENCE.index("loved"):
        changed = tuple("bad" if word == "great" else word for word in SENTENCE)
    word = SENTENCE[place]
    both, left = (
        [guesses(words, place, right=right)[word] for words in (SENTENCE, changed)]
        for right in (True, False)
    )
    rows = (
        (" ".join(hide(words, place)), percent(both[at]), percent(left[at]))
        for at, words in enumerate((SENTENCE, changed))
    )
    heads = [say("share of", word=word, model=say(kind)) for kind in ("masked", "left to right")]
    blind, moved = left[0] == left[1], abs(both[0] - both[1]) > _NOTICEABLE
    key = "change blind" if blind and moved else "change both" if moved else "change none"
    yield say(key, word=word, before=percent(both[0]), after=percent(both[1]))
    yield say.table(rows, "sentence", more=heads)
    yield say("moral")


# --- a gap, drawn -------------------------------------------------------------------------------


def gap_figure(gap: int, say: Speaker) -> Picture:
    """What may be looked at to fill a gap: both sides, or only what comes before."""
    table = TableFigure(8, 44)
    for row, key in enumerate(("masked", "left to right")):
        table.put(Label(say(key), "ink", 14, bold=True), row, 0, align="start").after = 24
        boxes = []
        for place, word in enumerate(SENTENCE):
            seen = place < gap or (row == 0 and place > gap)
            if place == gap:
                boxes.append(ModelBox("?", "query"))
            else:
                boxes.append(ModelBox(word if seen else "…", "ink", done=seen, bold=False))
            table.put(boxes[-1], row, place + 1, align="fill")
            boxes[-1].above = 36  # for the arcs
            if seen:
                table.mark(partial(_arc, boxes, place, gap))
    return table.drawing(say("gap figure"))


def _arc(boxes: Sequence[FigurePart], place: int, gap: int, canvas: Canvas) -> None:
    start, end = boxes[place].box, boxes[gap].box
    top = start.top - 20 - 0.07 * abs(start.x - end.x)
    path = f"M{start.x:.1f} {start.top - 2:.1f} Q{(start.x + end.x) / 2:.1f} {top:.1f} "
    canvas.path(path + f"{end.x:.1f} {end.top - 3:.1f}", role="score", width=1.4)
