"""One model, several tasks: translation, reversal and classification by the same parameters."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product

import torch
import torch.nn.functional as F

from glassformer.claims.specimens import fit, seeded
from glassformer.decoding import Greedy, translate
from glassformer.documents.parts import Figure
from glassformer.lessons.figures.sheet import FigurePart, FigureSection, ModelBox, TableFigure
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, percent
from glassformer.lessons.lesson_steps import Predictor, chart, heat_map, likeliest
from glassformer.nn import Seq2Seq, count_parameters, presets
from glassformer.nn.attention import set_attention
from glassformer.nn.tensors import Float, Tensor
from glassformer.picture import Box, Canvas, Picture, Role, text_width
from glassformer.tracing import Trace, trace

TASKS = ("translate", "reverse", "classify")
CHOICES: dict[str, tuple[str, ...]] = {"task": TASKS}
ENGLISH = ("one", "two", "red", "blue", "dog", "cat", "runs", "sits", "here", "there")
GERMAN = ("eins", "zwei", "rot", "blau", "Hund", "Katze", "rennt", "sitzt", "hier", "dort")
LETTERS = tuple("abcdefgh")
_LATE = "e"
"""Letters from here on are late ones."""
_PAD, _START, _END = range(3)
_LENGTH, _LONGEST, _HELD_OUT = 3, 4, 5
_SEED = 2
_TRAINING = ((600, 5e-3), (200, 1e-3))
"""Steps and learning rate, one after the other."""
EXAMPLES = {
    "translate": ("red", "dog", "runs"),
    "reverse": ("b", "g", "d"),
    "classify": ("b", "g", "d"),
}
"""What the lesson asks; none of it is trained on."""


@dataclass(frozen=True)
class TaskPair:
    """A task, what is read and what is to be written."""

    task: str
    source: tuple[str, ...]
    target: tuple[str, ...]

    @property
    def read(self) -> tuple[str, ...]:
        """The source with the name of the task before it."""
        return (self.task, *self.source)


def answer(task: str, words: Sequence[str]) -> tuple[str, ...]:
    """The right answer, by rule."""
    if task == "translate":
        return tuple(GERMAN[ENGLISH.index(word)] for word in words)
    if task == "reverse":
        return tuple(reversed(words))
    return ("late",) if sorted(words)[1] >= _LATE else ("early",)


def all_pairs(task: str) -> list[TaskPair]:
    known = ENGLISH if task == "translate" else LETTERS
    return [TaskPair(task, words, answer(task, words)) for words in product(known, repeat=_LENGTH)]


def split(task: str) -> tuple[list[TaskPair], list[TaskPair]]:
    """Pairs to train on, and pairs that are held out: a fifth, and the lesson's example."""
    pairs = all_pairs(task)
    random.Random(0).shuffle(pairs)  # noqa: S311 not for secrets
    held_out = [
        pair
        for place, pair in enumerate(pairs)
        if place % _HELD_OUT == 0 or pair.source == EXAMPLES[task]
    ]
    return [pair for pair in pairs if pair not in held_out], held_out


VOCABULARY = (
    "<pad>", "<start>", "<end>", *TASKS, *ENGLISH, *GERMAN, *LETTERS, "early", "late"
)  # fmt: skip


def ids(words: Sequence[str]) -> list[int]:
    return [VOCABULARY.index(word) for word in words]


@dataclass(frozen=True)
class TrainedOnAll:
    """One model after training on all tasks, and how often it is right on held-out pairs."""

    model: Seq2Seq
    right: dict[str, float]
    n_trained: int

    def answers(self, sources: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        found = translate(
            self.model, [ids(source) for source in sources], start=_START, end=_END,
            search=Greedy(), max_new=_LONGEST, batch_size=256,
        )  # fmt: skip
        return [tuple(VOCABULARY[id_] for id_ in one.best.tokens) for one in found]


@lru_cache(maxsize=1)
def learn_all() -> TrainedOnAll:
    """Train on the three tasks at once; deterministic."""
    parts = {task: split(task) for task in TASKS}
    pairs = [pair for task in TASKS for pair in parts[task][0]]
    source = torch.tensor([ids(pair.read) for pair in pairs])
    target = torch.tensor([_target(pair) for pair in pairs])
    config = presets.vaswani_2017_base(
        vocab_size=len(VOCABULARY), d_model=32, n_heads=1, n_layers=1, d_ff=64, max_len=16,
        dropout=0.0,
    )  # fmt: skip
    with seeded(_SEED):
        model = Seq2Seq(config).double()  # the same digits on every processor

        def loss() -> Float[Tensor, ""]:
            chosen = torch.randint(len(pairs), (64,))
            logits = model(source[chosen], target[chosen, :-1])
            return F.cross_entropy(
                logits.flatten(0, 1), target[chosen, 1:].flatten(), ignore_index=_PAD
            )

        for n_steps, rate in _TRAINING:
            fit(model.parameters(), loss, steps=n_steps, learning_rate=rate)
    learned = TrainedOnAll(model.float().eval(), {}, len(pairs))
    for task in TASKS:
        held_out = parts[task][1]
        said = learned.answers([pair.read for pair in held_out])
        hits = sum(one == pair.target for one, pair in zip(said, held_out, strict=True))
        learned.right[task] = hits / len(held_out)
    set_attention(model, "written")
    return learned


def _target(pair: TaskPair) -> list[int]:
    """The target between its start and end tokens, padded."""
    whole = [_START, *ids(pair.target), _END]
    return whole + [_PAD] * (_LENGTH + 2 - len(whole))


def steps(say: Speaker, *, task: str = "translate") -> Iterator[LessonStep]:
    learned = learn_all()
    yield say.step("tasks", "pairs", _pairs(say))
    yield say.step("training", "training", _training(learned, say))
    run, said = _traced(learned, task)
    yield say.step("weights", "attention", _attention(run, task, said, say))
    yield say.step("prediction", "prediction", _prediction(run, task, said, say))
    yield say.step("tasks", "other", _other_task(learned, say))


def _pairs(say: Speaker) -> Parts:
    shown = [TaskPair(task, EXAMPLES[task], answer(task, EXAMPLES[task])) for task in TASKS]
    yield say("pairs", late=_LATE)
    yield Figure("pairs", pairs_figure(shown, say))
    yield say("one token")


def _training(learned: TrainedOnAll, say: Speaker) -> Parts:
    shares = [learned.right[task] for task in TASKS]
    rows = ((say(task), str(len(split(task)[1])), percent(learned.right[task])) for task in TASKS)
    facts = {
        "parameters": f"{count_parameters(learned.model):,}", "pairs": f"{learned.n_trained:,}",
        "steps": sum(n_steps for n_steps, _ in _TRAINING), "least": percent(min(shares)),
    }  # fmt: skip
    key = "training perfect" if min(shares) == 1 else "training good"
    yield say("training", **facts)
    yield chart(
        say, "accuracy", list(map(say, TASKS)), {say("right"): [100 * one for one in shares]},
        ("task", "right axis"), ["output"], least=0, most=100,
    )  # fmt: skip
    yield say.table(rows, "task", "held out", "right")
    yield say(key, **facts)


def _traced(learned: TrainedOnAll, task: str) -> tuple[Trace, tuple[str, ...]]:
    """The model over the example, with its own answer as the target."""
    source = (task, *EXAMPLES[task])
    (said,) = learned.answers([source])
    target = ("<start>", *said)
    run = trace(
        Predictor(learned.model),
        torch.tensor([ids(source)]),
        torch.tensor([ids(target)]),
        axis_labels={"source": list(source), "target": list(target)},
    )
    return run, said


def looks(weights: Float[Tensor, "T S"]) -> list[int]:
    """Where each step of the decoder looks most."""
    return [int(place) for place in weights.argmax(dim=-1)]


def _attention(run: Trace, task: str, said: tuple[str, ...], say: Speaker) -> Parts:
    weights = run["model.decoder.blocks.0.cross_attention.weights"]
    source = (task, *EXAMPLES[task])
    written = (*said, "<end>")
    places = looks(weights.value[0, 0, : len(said)])
    chosen = weights[0, 0, 0, places[0]]
    follows = [
        say("looks at", word=written[at], place=source[place]) for at, place in enumerate(places)
    ]
    facts = {
        "source": " ".join(source), "answer": " ".join(said),
        "looks": say("semicolon").join(follows),
        "right": " ".join(answer(task, EXAMPLES[task])),
    }  # fmt: skip
    correct = said == answer(task, EXAMPLES[task])
    yield say("answer right" if correct else "answer wrong", **facts)
    yield heat_map(weights, say, chosen, head=0, rows=written, columns=source)
    yield formula(chosen)
    yield say(f"attention {task}" if _as_expected(task, places) else "attention", **facts)


def _as_expected(task: str, places: Sequence[int]) -> bool:
    """Whether the decoder looks along the source, backwards, or (for a class) anywhere in it."""
    along = list(range(1, _LENGTH + 1))
    expected = {"translate": [along], "reverse": [along[::-1]], "classify": [[at] for at in along]}
    return list(places) in expected[task]


def _prediction(run: Trace, task: str, said: tuple[str, ...], say: Speaker) -> Parts:
    first = run["probabilities"][0, 0, VOCABULARY.index(said[0])]
    yield say(
        "prediction class" if task == "classify" else "prediction", word=said[0],
        percent=percent(first), count=len(VOCABULARY), tokens=len(said) + 1,
    )  # fmt: skip
    yield likeliest(run, VOCABULARY, say, (0,), most=4)
    yield formula(first)


def _other_task(learned: TrainedOnAll, say: Speaker) -> Parts:
    """The same letters with another first word."""
    letters = EXAMPLES["reverse"]
    sources = [(task, *letters) for task in TASKS]
    said = learned.answers(sources)
    rows = (tuple(map(" ".join, pair)) for pair in zip(sources, said, strict=True))
    changes = said[1] != said[2]
    yield say("other changes" if changes else "other same", letters=" ".join(letters))
    yield say.table(rows, "read", "written")
    yield say("never", letters=" ".join(letters), said=" ".join(said[0]))
    yield say("own")


# --- the tasks, drawn ---------------------------------------------------------------------------


def pairs_figure(pairs: Sequence[TaskPair], say: Speaker) -> Picture:
    """What is read, one model, and what is written, for several tasks."""
    table = TableFigure(70, 22)
    middle = table.put(ModelBox(say("model box"), "score"), len(pairs) // 2, 1)
    for row, pair in enumerate(pairs):
        read = table.put(_Words(pair.read, "input"), row, 0, align="end")
        written = table.put(_Words(pair.target, "output"), row, 2, align="start")
        place = FigureSection(partial(_share, middle, row, len(pairs)))
        table.join(read, place, "input", sideways=True)
        table.join(place, written, "output", sideways=True)
    return table.drawing(say("pairs figure"))


def _share(model: FigurePart, row: int, rows: int) -> Box:
    """The height of a box at which a row's lines end."""
    box = model.box
    return Box(box.left, box.top + box.height * (row + 1) / (rows + 1), box.width, 0)


class _Words(FigurePart):
    """Words in small boxes beside one another; the first of a source names the task."""

    def __init__(self, words: Sequence[str], role: Role) -> None:
        self._words, self._role = words, role
        self._widths = [text_width(word, 14) + 16 for word in words]
        super().__init__(sum(self._widths) + 6 * (len(words) - 1), 30)

    def draw(self, canvas: Canvas) -> None:
        x = self.box.left
        for place, (word, width) in enumerate(zip(self._words, self._widths, strict=True)):
            named = place == 0 and self._role == "input"
            box = Box(x, self.box.top, width, self.box.height)
            canvas.box(box, "part" if named else "empty", self._role if named else None, corner=6)
            canvas.text(box.x, box.y, word, size=14, bold=named)
            x += width + 6
