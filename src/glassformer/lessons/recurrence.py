"""What a recurrent network waits for: paths between words, growth with length, real figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.claims.claim import Stored, measured_on, stored_results
from glassformer.claims.properties import influence, layer_cost, make_layer, path_length
from glassformer.claims.specimens import accuracy, fit, seeded, vectors
from glassformer.documents.parts import Figure, Paragraph, with_code
from glassformer.lessons.figures.sheet import numbers_figure
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number, percent
from glassformer.lessons.lesson_steps import chart
from glassformer.nn.attention import set_attention
from glassformer.nn.tensors import Float, Int, Tensor
from glassformer.picture import Canvas, Picture, Role
from glassformer.tracing import Cell, trace

Kind = Literal["recurrence", "attention", "convolution"]
CHOICES: dict[str, tuple[str, ...]] = {"model": ("recurrence", "attention", "convolution")}
WORDS = ("The", "cat", "that", "I", "saw", "sleeps")
_FROM, _TO = 1, 5
"""The verb has to agree with the noun four words before it."""
_WIDTH, _SEED = 4, 0
_DISTANCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_LENGTHS = (64, 256, 1024, 4096)
_COST_WIDTH = 512
RECALL_LENGTHS = (2, 4, 8, 16)
_RECALL_KINDS = ("attention", "lstm", "recurrence", "convolution")
_TOKENS, _RECALL_WIDTH, _STEPS, _RATE = 8, 16, 150, 2e-2
_ROLES: dict[str, Role] = {
    "attention": "output", "recurrence": "query", "convolution": "score", "lstm": "value",
}  # fmt: skip


class FirstToken(nn.Module):
    """Says at the last position which token stood at the first: one layer has to carry it there."""

    def __init__(self, kind: str, length: int) -> None:
        super().__init__()
        width = _RECALL_WIDTH
        self.embedding = nn.Embedding(_TOKENS, width)
        self.positions = nn.Parameter(0.5 * torch.randn(length, width))
        self.layer = (
            nn.LSTM(width, width, batch_first=True)
            if kind == "lstm"
            else make_layer(_kind(kind), length, width)
        )
        self.to_tokens = nn.Linear(width, _TOKENS)

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B V"]:
        mixed = self.layer(self.embedding(ids) + self.positions)
        states = mixed[0] if isinstance(self.layer, nn.LSTM) else mixed
        logits: Tensor = self.to_tokens(states[:, -1])
        return logits


def _kind(name: str) -> Kind:
    return next(kind for kind in get_args(Kind) if kind == name)


@lru_cache(maxsize=32)
def recall(kind: str, length: int, seed: int = _SEED) -> float:
    """How often a trained layer recalls the first token of new random sequences."""
    with seeded(seed):
        model = FirstToken(kind, length)

        def loss() -> Float[Tensor, ""]:
            ids = torch.randint(_TOKENS, (64, length))
            return F.cross_entropy(model(ids), ids[:, 0])

        fit(model.parameters(), loss, steps=_STEPS, learning_rate=_RATE)
        ids = torch.randint(_TOKENS, (1000, length))
        with torch.no_grad():
            return accuracy(model(ids), ids[:, 0])


def steps(say: Speaker, *, model: str = "recurrence") -> Iterator[LessonStep]:
    kind = _kind(model)
    yield say.step("path", f"path {kind}", _path(kind, say))
    yield say.step("influence", "influence", _influence(kind, say))
    yield say.step("path", "distances", _distances(say))
    yield say.step("recall", "recall", _recall(say))
    yield say.step("growth", "growth", _growth(say))
    yield say.step("seconds", "seconds", _seconds(say))
    yield say.step("translators", "translators", _translators(say))


def _layer(kind: Kind) -> nn.Module:
    with seeded(_SEED):
        layer = make_layer(kind, len(WORDS), _WIDTH)
    set_attention(layer, "written")
    return layer


def _cell(kind: Kind) -> Cell:
    """The first number of the vector at the verb, after one layer."""
    run = trace(_layer(kind), vectors(1, len(WORDS), _WIDTH))
    if kind == "recurrence":
        # The first state is zero, so the one after word i is number i + 2.
        return run[f"state.{_TO + 2}"][0, 0]
    return run["context"][0, 0, _TO, 0] if kind == "attention" else run["mixed"][0, 0, _TO]


def _path(kind: Kind, say: Speaker) -> Parts:
    distance = _TO - _FROM
    facts = {
        "start": WORDS[_FROM], "end": WORDS[_TO], "distance": distance,
        "hops": path_length(kind, distance), "sentence": " ".join(WORDS),
        "neighbour": WORDS[_TO - 1],
    }  # fmt: skip
    chosen = _cell(kind)
    yield say("question", **facts)
    yield say(f"path {kind}", **facts)
    yield Figure("path", path_figure(kind, say(f"path {kind} figure")))
    if kind == "recurrence":
        both = chosen.operands[0]
        yield say("state", **facts)
        yield from map(formula, (chosen, both, both.step.trace[f"from_state.{_TO + 1}"][0, 0]))
    else:
        yield say(f"cell {kind}", **facts)
        yield formula(chosen)


def _influence(kind: Kind, say: Speaker) -> Parts:
    found = influence(_layer(kind), vectors(len(WORDS), _WIDTH)).strength.double()
    far, near = float(found[_TO, _FROM]), float(found[_TO, _TO])
    facts = {
        "start": WORDS[_FROM], "end": WORDS[_TO], "far": number(far, 3), "near": number(near, 3),
        "share": percent(far / near), "before": number(float(found[_TO, _TO - 1]), 3),
        "word": WORDS[_TO - 1],
    }  # fmt: skip
    yield say("influence", **facts)
    rows = (
        (word, *(f"{one:.3f}" for one in row))
        for word, row in zip(WORDS, found.tolist(), strict=True)
    )
    drawing = numbers_figure(
        {"": found.numpy()}, WORDS, say("influence figure"), columns=WORDS, cell=(58.0, 28.0)
    )
    yield Figure("influence", drawing, say.table(rows, "", more=WORDS))
    yield say(f"influence {kind}", **facts)


def _distances(say: Speaker) -> Parts:
    kinds: tuple[Kind, ...] = get_args(Kind)
    paths: dict[str, list[int]] = {
        kind: [path_length(kind, far) for far in _DISTANCES] for kind in kinds
    }
    yield say("distances", last=_DISTANCES[-1], **{kind: path[-1] for kind, path in paths.items()})
    yield _lines(
        "distances",
        _DISTANCES,
        paths,
        "distance",
        "path",
        say,
        numbers=number,
        log_up=True,
        dashed=[say("convolution")],
    )  # it lies on the line of the recurrence


def _lines(
    name: str, across: Sequence[float], found: Mapping[str, Sequence[float]], along: str, up: str,
    say: Speaker, **look: Any,
) -> Figure:  # fmt: skip
    """A line per kind of layer, in the colour that it has in the whole lesson."""
    lines = {say(kind): values for kind, values in found.items()}
    roles = [_ROLES[kind] for kind in found]
    return chart(say, name, across, lines, (along, up), roles, log_across=True, **look)


def _recall(say: Speaker) -> Parts:
    found = {kind: [recall(kind, n) for n in RECALL_LENGTHS] for kind in _RECALL_KINDS}
    rows = (
        (str(n), *(percent(found[kind][place]) for kind in _RECALL_KINDS))
        for place, n in enumerate(RECALL_LENGTHS)
    )
    longest = RECALL_LENGTHS[-1]
    facts = {
        "steps": _STEPS, "tokens": _TOKENS, "chance": percent(1 / _TOKENS), "longest": longest,
        **{kind: percent(shares[-1]) for kind, shares in found.items()},
    }  # fmt: skip
    best = all(found["attention"][-1] > found[kind][-1] for kind in _RECALL_KINDS[1:])
    yield say("recall", **facts)
    percents = {kind: [100 * share for share in shares] for kind, shares in found.items()}
    yield _lines("recall", RECALL_LENGTHS, percents, "length", "right", say, least=0, most=100)
    yield say.table(rows, "length", *_RECALL_KINDS)
    yield say("recall attention" if best else "recall others", **facts)


def _growth(say: Speaker) -> Parts:
    kinds: tuple[Kind, ...] = ("recurrence", "attention")
    costs: dict[str, list[int]] = {
        kind: [layer_cost(kind, n, _COST_WIDTH).multiply_adds for n in _LENGTHS] for kind in kinds
    }
    rows = (
        (
            f"{n:,}",
            *(f"{costs[kind][place] / 1e6:,.0f}" for kind in kinds),
            *(f"{layer_cost(kind, n, _COST_WIDTH).sequential_steps:,}" for kind in kinds),
        )
        for place, n in enumerate(_LENGTHS)
    )
    heads = (say(key, model=say(kind)) for key in ("million", "waits") for kind in kinds)
    rates = {
        kind: math.log(costs[kind][-1] / costs[kind][0]) / math.log(_LENGTHS[-1] / _LENGTHS[0])
        for kind in kinds
    }
    yield say(
        "growth", width=_COST_WIDTH, longest=f"{_LENGTHS[-1]:,}",
        ratio=f"{costs['attention'][-1] / costs['recurrence'][-1]:.1f}",
        recurrence=f"{rates['recurrence']:.2f}", attention=f"{rates['attention']:.2f}",
    )  # fmt: skip
    yield _lines("growth", _LENGTHS, costs, "length", "multiplications", say, log_up=True,
                 title=say("growth figure", width=_COST_WIDTH))  # fmt: skip
    yield say.table(rows, "length", more=heads, caption=say("price table"))


def _seconds(say: Speaker) -> Parts:
    """What a clock says: the stored timings of claims C91 and C70."""
    (timed,), (trained,) = stored_results("C91"), stored_results("C70")
    t, r = timed.figures, trained.figures
    rows = (
        (say("milliseconds", length=f"{t['shortest']:,}"), *_two(t, "first")),
        (say("milliseconds", length=f"{t['longest']:,}"), *_two(t, "last")),
        (say("epoch"), f"{r['seconds']:.0f}", f"{r['recurrent_seconds']:.0f}"),
        (say("accuracy"), percent(r["accuracy"]), percent(r["recurrent"])),
    )
    facts = {
        "ratio": f"{r['ratio']:.1f}", "longest": f"{t['longest']:,}",
        "blocks": f"{t['blocks_last']:.0f}", "lstm": f"{t['lstm_last']:.0f}",
    }  # fmt: skip
    slower = float(t["blocks_last"]) > float(t["lstm_last"])
    yield say("seconds slower" if slower else "seconds faster", **facts)
    yield say.table(rows, "", "blocks", "lstm")
    yield say("review", **facts)
    yield from (_origin(stored, say) for stored in (timed, trained))


def _two(figures: Mapping[str, float], which: str) -> list[str]:
    return [f"{figures[f'{kind}_{which}']:.1f}" for kind in ("blocks", "lstm")]


def _translators(say: Speaker) -> Parts:
    names = ("transformer", "attention rnn", "convolutional")
    stored = stored_results("multi30k")
    bleu = [float(one.figures["bleu_2016"]) for one in stored]
    rows = tuple(
        (
            say(name),
            *(f"{one.figures[f'bleu_{part}']:.2f}" for part in ("2016", "2017", "mscoco")),
            f"{one.figures['seconds']:.0f}",
        )
        for name, one in zip(names, stored, strict=True)
    )
    heads = ("BLEU 2016", "BLEU 2017", "BLEU MSCOCO", say("training seconds"))
    facts = {
        name.replace(" ", "_"): f"{score:.2f}" for name, score in zip(names, bleu, strict=True)
    }
    key = "translators" if bleu[0] > max(bleu[1:]) else "translators other"
    yield say(key, **facts)
    yield chart(
        say, "translators", list(map(say, names)), {"BLEU": bleu}, ("translator", "bleu"),
        ["output"], write=lambda y: f"{y:.2f}", least=0,
    )  # fmt: skip
    yield say.table(rows, "translator", more=heads)
    yield from (_origin(one, say) for one in stored)


def _origin(stored: Stored, say: Speaker) -> Paragraph:
    where = measured_on(stored, say.language)
    said = say("origin", command=stored.command, where=where, date=stored.date)
    return Paragraph(with_code(said), "quiet")


# --- the path between two words -----------------------------------------------------------------

_ACROSS, _UP, _DOT = 96.0, 74.0, 9.0


def path_figure(kind: Kind, title: str) -> Picture:
    """How far it is from one word to another: every link that exists, and the shortest path."""
    layers = path_length(kind, _TO - _FROM) if kind == "convolution" else 1
    canvas = Canvas(len(WORDS) * _ACROSS + 30, layers * _UP + 110, title)
    bottom = canvas.height - 52

    def at(place: int, layer: int) -> tuple[float, float]:
        return 15 + (place + 0.5) * _ACROSS, bottom - layer * _UP

    path = _shortest(kind, _FROM, _TO)
    for one, other in _links(kind, len(WORDS), layers):
        if (one, other) not in path:
            canvas.line(at(*one), at(*other), role="quiet", width=0.8)
    for hop, (one, other) in enumerate(path, start=1):
        (x0, y0), (x1, y1) = at(*one), at(*other)
        canvas.line((x0, y0), (x1, y1), role="query", width=3)
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        canvas.dot(x, y, 10, fill="var(--gf-paper)")
        canvas.text(x, y, str(hop), size=13, bold=True, role="query")
    on_path = {place for link in path for place in link}
    for layer in range(layers + 1):
        for place in range(len(WORDS)):
            fill = "var(--gf-query)" if (place, layer) in on_path else "var(--gf-quiet)"
            canvas.dot(*at(place, layer), _DOT, fill=fill)
    for place, word in enumerate(WORDS):
        x, y = at(place, 0)
        canvas.text(x, y + 28, word, size=15, bold=place in (_FROM, _TO))
    return canvas.done()


Node = tuple[int, int]
"""A position and a layer; layer 0 are the words."""


def _links(kind: str, length: int, layers: int) -> list[tuple[Node, Node]]:
    if kind == "recurrence":
        up: list[tuple[Node, Node]] = [((place, 0), (place, 1)) for place in range(length)]
        return up + [((place, 1), (place + 1, 1)) for place in range(length - 1)]
    reach = 1 if kind == "convolution" else length
    return [
        ((one, layer), (other, layer + 1))
        for layer in range(layers)
        for one in range(length)
        for other in range(max(0, one - reach), min(length, one + reach + 1))
    ]


def _shortest(kind: str, start: int, end: int) -> list[tuple[Node, Node]]:
    """The hops between two positions; the step from a word into its own state is none."""
    if kind == "attention":
        return [((start, 0), (end, 1))]
    if kind == "recurrence":
        return [((place, 1), (place + 1, 1)) for place in range(start, end)]
    return [
        ((start + layer, layer), (start + layer + 1, layer + 1)) for layer in range(end - start)
    ]
