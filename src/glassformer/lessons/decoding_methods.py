"""Greedy, beam search and sampling by hand, on a table of next words; then on a translator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import nn

from glassformer.decoding import Beam, Decoded, Greedy, Ledger, Sampling, Stop, beam_search
from glassformer.decoding.greedy import MostProbable, collect
from glassformer.decoding.greedy import steps as decoding_steps
from glassformer.decoding.hypotheses import Candidate
from glassformer.decoding.sampling import RandomChooser
from glassformer.documents.parts import Figure
from glassformer.lessons.figures.sheet import cell_number
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number, percent
from glassformer.lessons.lesson_steps import chart, heat_map
from glassformer.nn.tensors import Float, Int, Tensor
from glassformer.picture import Box, Canvas, Picture, Role, text_width
from glassformer.tasks import Translated, load
from glassformer.tracing import Trace, trace

CHOICES: dict[str, tuple[str, ...]] = {
    "method": ("beam", "greedy", "sampling"),
    "temperature": ("1", "0.5", "2"),
}
NEXT: dict[str, dict[str, float]] = {
    "<start>": {"the": 0.56, "a": 0.44},
    "the": {"dog": 0.4, "cat": 0.35, "bird": 0.25},
    "a": {"dog": 0.06, "cat": 0.04, "bird": 0.9},
    "dog": {"barks": 0.6, "sleeps": 0.4},
    "cat": {"barks": 0.05, "sleeps": 0.95},
    "bird": {"sleeps": 0.1, "sings": 0.9},
    "barks": {"<end>": 1.0},
    "sleeps": {"<end>": 1.0},
    "sings": {"<end>": 1.0},
}
"""The model: how probable each word is after each other one."""
WORDS = (*NEXT, "<end>")
_START, _END = WORDS.index("<start>"), WORDS.index("<end>")
_LONGEST, _BEAM, _DRAWS = 4, 2, 1000
_ASKED = "the"
"""The word after which distributions are shown."""
_SOURCE = "A ballet class of five girls jumping in sequence."
_TOP_K, _TOP_P = 2, 0.8
_SURE = "a"
"""A word after which the table is surer."""


def next_word_table() -> Float[Tensor, "V V"]:
    """One row per word: the probabilities of the words after it."""
    rows = [[NEXT.get(word, {}).get(after, 0.0) for after in WORDS] for word in WORDS]
    return torch.tensor(rows, dtype=torch.float64)


class SentenceScore(nn.Module):
    """The log-probability of a sentence: a look-up for each word, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(next_word_table(), requires_grad=False)

    def forward(self, ids: Int[Tensor, " T"]) -> Float[Tensor, ""]:
        probabilities = self.table[ids[:-1], ids[1:]]
        logs = probabilities.log()
        total = logs.sum()
        return total


class Distribution(nn.Module):
    """What is drawn from after one word: logits, a temperature, a softmax."""

    def __init__(self, word: str, temperature: float) -> None:
        super().__init__()
        likely = [WORDS.index(after) for after in NEXT[word]]
        row = next_word_table()[WORDS.index(word), likely].log()
        self.logits = nn.Parameter(row, requires_grad=False)
        self.temperature = temperature

    def forward(self) -> Float[Tensor, " V"]:
        scaled = self.logits / self.temperature
        probabilities = torch.softmax(scaled, dim=-1)
        return probabilities


class TableStepper:
    """The table as a model that a search can ask: only the last word matters."""

    def __init__(self) -> None:
        self._logits = next_word_table().log()

    def start(self) -> Float[Tensor, "B 1 V"]:
        return self._logits[_START].view(1, 1, -1)

    def step(
        self,
        tokens: Int[Tensor, "B R"],
        parents: Int[Tensor, "B R"] | None = None,  # noqa: ARG002 the last word is all that counts
    ) -> Float[Tensor, "B R V"]:
        return self._logits[tokens]

    def worth_leaving(self, n_left: int) -> bool:  # noqa: ARG002 there is one sequence
        return False

    def keep(self, sequences: Int[Tensor, " M"]) -> None:
        """Nothing to do: there is one sequence, and the table has no state."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of the table with its probability."""

    words: tuple[str, ...]
    probability: float

    @property
    def text(self) -> str:
        return " ".join(self.words)


def all_sentences(temperature: float = 1.0) -> list[Sentence]:
    """Every sentence that the table can say, most probable first."""
    found = [Sentence(("<start>",), 1.0)]
    for _ in range(_LONGEST):
        found = [
            Sentence((*known.words, after), known.probability * share)
            for known in found
            for after, share in _tempered(known.words[-1], temperature).items()
        ]
    said = [Sentence(known.words[1:-1], known.probability) for known in found]
    return sorted(said, key=lambda one: -one.probability)


def _tempered(word: str, temperature: float) -> dict[str, float]:
    """The probabilities after a word at a temperature, by hand: powers, divided by their sum."""
    powers = {after: share ** (1 / temperature) for after, share in NEXT[word].items()}
    return {after: power / sum(powers.values()) for after, power in powers.items()}


def search(method: str, temperature: float = 1.0, *, n_samples: int = 1) -> Decoded:
    """Decode from the table, with the ledger of every step if one sentence is asked for."""
    stop = Stop(_END, (_LONGEST,))
    if method == "beam":
        return beam_search(
            TableStepper(), Beam(size=_BEAM, length_penalty=0.0, stop="exact"), stop, ledger=True
        )[0]
    if method == "greedy":
        run = decoding_steps(TableStepper(), MostProbable(), stop)
        return collect(run, stop, ledger=True)[0]
    chooser = RandomChooser(Sampling(temperature=temperature, n_samples=n_samples), [[_START]])
    run = decoding_steps(TableStepper(), chooser, stop, n_samples)
    return collect(run, stop, n_samples, ledger=n_samples == 1)[0]


def said(tokens: Sequence[int]) -> str:
    return " ".join(WORDS[token] for token in tokens)


def steps(say: Speaker, *, method: str = "beam", temperature: str = "1") -> Iterator[LessonStep]:
    heat = float(temperature)
    greedy, beam = search("greedy"), search("beam")
    run = trace(SentenceScore(), torch.tensor([_START, *greedy.best.tokens, _END]))
    yield say.step("probabilities", "table", _table(run, say))
    yield say.step("scores", "score", _score(run, said(greedy.best.tokens), say))
    yield say.step("search", f"tree {method}", _tree(method, heat, say))
    yield say.step("search", "compare", _compare(greedy, beam, say))
    yield say.step("temperature", "temperature", _temperature(heat, say))
    yield say.step("filters", "filters", _filters(say))
    yield say.step("draws", "draws", _draws(heat, say))
    yield say.step("translation", "translation", _translation(say))


def _table(run: Trace, say: Speaker) -> Parts:
    first = max(NEXT["<start>"], key=NEXT["<start>"].__getitem__)
    yield say("table", first=first, percent=percent(NEXT["<start>"][first]))
    yield heat_map(run["table"], say, rows=WORDS, columns=WORDS, title=say("table caption"))


def _score(run: Trace, text: str, say: Speaker) -> Parts:
    shares = [float(share) for share in run["probabilities"].value]
    product = " × ".join(f"{share:g}" for share in shares)
    total = run["total"][()]
    yield say("score", sentence=text, product=product, value=math.prod(shares), total=total)
    yield formula(run["logs"][0])
    yield formula(total)
    yield say("score why")


def _tree(method: str, temperature: float, say: Speaker) -> Parts:
    found = search(method, temperature)
    assert found.ledger is not None
    sentence = found.best
    text = said(sentence.tokens)
    known = next(one.probability for one in all_sentences() if one.text == text)
    yield say(
        f"tree {method}", sentence=text, total=math.log(known), percent=percent(known),
        size=_BEAM, temperature=f"{temperature:g}",
    )  # fmt: skip
    considered = tree_steps(found.ledger)
    rows = (
        (text, number(one.total), say(f"legend {'dropped' if one.fate == 'dropped' else 'kept'}"))
        for text, one in beginnings(considered)
    )
    drawing = search_tree(considered, say(f"tree {method} figure"), say)
    yield Figure("tree", drawing, say.table(rows, "beginning", "log-probability", "fate"))


def tree_steps(ledger: Ledger) -> list[list[Candidate]]:
    """What a search considered at each step; what the table never says is left out."""
    return [[one for one in step.candidates if math.isfinite(one.total)] for step in ledger.steps]


def beginnings(considered: list[list[Candidate]]) -> Iterator[tuple[str, Candidate]]:
    """Every candidate of a search with the words from the start to it."""
    known = [""]
    for step in considered:
        texts = [f"{known[one.parent]} {WORDS[one.token]}".strip() for one in step]
        yield from zip(texts, step, strict=True)
        known = [text for text, one in zip(texts, step, strict=True) if one.fate == "kept"]


def _compare(greedy: Decoded, beam: Decoded, say: Speaker) -> Parts:
    known = all_sentences()
    found = {said(greedy.best.tokens): [say("greedy")]}
    found.setdefault(said(beam.best.tokens), []).append(say("beam", size=_BEAM))
    rows = (
        (
            one.text, number(math.log(one.probability)), percent(one.probability),
            say.listed(found.get(one.text, [])),
        )
        for one in known
    )  # fmt: skip
    texts = [one.text for one in known]
    place = texts.index(said(greedy.best.tokens))
    facts = {
        "count": len(known), "best": known[0].text, "percent": percent(known[0].probability),
        "greedy": texts[place], "greedy_percent": percent(known[place].probability),
        "place": place + 1, "ratio": f"{known[0].probability / known[place].probability:.1f}",
        "size": _BEAM,
    }  # fmt: skip
    phrase = "compare misses" if place else "compare finds"
    phrase_beam = "beam finds" if said(beam.best.tokens) == texts[0] else "beam misses"
    yield say(phrase, **facts)
    yield say(phrase_beam, **facts)
    yield say.table(rows, "sentence", "log-probability", "probability", "found by")


def _temperature(temperature: float, say: Speaker) -> Parts:
    run = trace(Distribution(_ASKED, temperature))
    share = run["probabilities"][0]
    words = tuple(NEXT[_ASKED])
    bars = {
        say("at temperature", temperature=f"{heat:g}"): chances(_ASKED, Sampling(temperature=heat))
        for heat in sorted(map(float, CHOICES["temperature"]))
    }
    facts = {
        "word": _ASKED, "next": words[0], "temperature": f"{temperature:g}",
        "plain": percent(NEXT[_ASKED][words[0]]), "percent": percent(share),
    }  # fmt: skip
    phrase = "temperature one" if temperature == 1 else "temperature"
    yield say("temperature idea", **facts)
    yield chart(
        say, "temperature", words, bars, ("next word", "probability"), ("score", "output", "query"),
        numbers=percent, title=say("temperature figure", word=_ASKED),
        write=lambda y: f"{y:.2f}", least=0,
    )  # fmt: skip
    yield say(phrase, **facts)
    yield formula(run["scaled"][0])
    yield formula(share)


def chances(word: str, settings: Sampling) -> list[float]:
    """What `Sampling` draws from after a word."""
    found = settings.probabilities(next_word_table().log()[WORDS.index(word)])
    return [float(found[WORDS.index(after)]) for after in NEXT[word]]


def _filters(say: Speaker) -> Parts:
    kinds = {
        "plain": Sampling(),
        "top-k": Sampling(top_k=_TOP_K),
        "top-p": Sampling(top_p=_TOP_P),
    }
    rows, left = [], {}
    for word in (_ASKED, _SURE):
        found = {kind: chances(word, settings) for kind, settings in kinds.items()}
        for place, after in enumerate(NEXT[word]):
            rows.append((f"{word} {after}", *(f"{found[kind][place]:.3f}" for kind in kinds)))
        left[word] = [after for after, x in zip(NEXT[word], found["top-p"], strict=True) if x]
    first = next(iter(NEXT[_ASKED]))
    heads = [say(kind, k=_TOP_K, p=f"{_TOP_P:g}") for kind in kinds]
    yield say(
        "filters", k=_TOP_K, p=f"{_TOP_P:g}", word=_ASKED, sure=_SURE,
        many=say.listed(left[_ASKED]), few=say.listed(left[_SURE]), first=first,
        before=f"{NEXT[_ASKED][first]:g}", after=number(chances(_ASKED, kinds["top-k"])[0], 3),
    )  # fmt: skip
    yield say.table(rows, "next word", more=heads)


@lru_cache(maxsize=4)
def drawn(temperature: float) -> Counter[str]:
    """How often each sentence came in many draws."""
    samples = search("sampling", temperature, n_samples=_DRAWS).hypotheses
    return Counter(said(one.tokens) for one in samples)


def _draws(temperature: float, say: Speaker) -> Parts:
    known, counts = all_sentences(temperature), drawn(temperature)
    rows = ((one.text, f"{_DRAWS * one.probability:.1f}", str(counts[one.text])) for one in known)
    best = known[0]
    yield say(
        "draws", count=_DRAWS, temperature=f"{temperature:g}", best=best.text,
        expected=f"{_DRAWS * best.probability:.0f}", drawn=counts[best.text],
        kinds=len(counts), all=len(known),
    )  # fmt: skip
    yield say.table(rows, "sentence", "expected", "drawn")


@lru_cache(maxsize=1)
def _translated() -> tuple[Translated, ...]:
    """The sentence by greedy decoding, and by beam search."""
    model, beam = load("en-de"), Beam(size=4, length_penalty=0.0, stop="exact")
    return tuple(model.translate([_SOURCE], search=search)[0] for search in (Greedy(), beam))


def _translation(say: Speaker) -> Parts:
    found = _translated()
    totals = [one.alternatives[0].log_probability for one in found]
    rows = (
        (name, one.text, number(total), f"{math.exp(total):.1e}".replace("-", "−"))
        for name, one, total in zip(
            (say("greedy"), say("beam", size=4)), found, totals, strict=True
        )
    )
    phrase = "translation differs" if totals[1] > totals[0] else "translation same"
    yield say(phrase, source=_SOURCE, ratio=f"{math.exp(totals[1] - totals[0]):.0f}")
    yield say.table(rows, "method", "translation", "log-probability", "probability")
    yield say("which")


# --- the tree of a search -----------------------------------------------------------------------

_NODE, _DOWN = (96.0, 40.0), 56.0


def search_tree(columns: Sequence[Sequence[Candidate]], title: str, say: Speaker) -> Picture:
    """Words from left to right with their sums; on each line, what the word adds to the sum."""
    across, top, left = _NODE[0] + 92, 58.0, 24.0
    most = max(len(column) for column in columns)
    canvas = Canvas(
        2 * left + len(columns) * across + 8, max(top + most * _DOWN + 8, 200), title
    )  # fmt: skip
    _legend(canvas, left, say("legend kept"), say("legend dropped"))
    middle = top + (canvas.height - top) / 2
    parents = [Box(left - 8, middle - 4, 16, 8)]
    canvas.dot(left, middle, 6)
    for depth, column in enumerate(columns):
        # In the order of their parents, so that lines do not cross; then the best on top.
        order = sorted((parents[step.parent].y, -step.total, at) for at, step in enumerate(column))
        boxes: dict[int, Box] = {}
        for place, (_, _, at) in enumerate(order):
            y = middle + (place - (len(column) - 1) / 2) * _DOWN
            x = left + 76 + depth * across
            boxes[at] = Box(x, y - _NODE[1] / 2, *_NODE)
        for at, box in boxes.items():
            _branch(canvas, column[at], parents[column[at].parent], box)
        parents = [boxes[at] for at, step in enumerate(column) if step.fate == "kept"]
    return canvas.done()


def _branch(canvas: Canvas, step: Candidate, start: Box, box: Box) -> None:
    kept = step.fate != "dropped"
    role: Role = "output" if kept else "quiet"
    ends = (start.right + 2, start.y), (box.left - 2, box.y)
    canvas.line(*ends, role=role, width=2.2 if kept else 1.2, dashed=not kept)
    x = ends[0][0] + 0.62 * (ends[1][0] - ends[0][0])
    y = ends[0][1] + 0.62 * (ends[1][1] - ends[0][1])
    said = cell_number(step.log_probability)
    wide = text_width(said, 12) + 6
    canvas.add(f'<rect class="paper" x="{x - wide / 2:.1f}" y="{y - 9:.1f}" '
               f'width="{wide:.1f}" height="18"/>')  # fmt: skip
    canvas.text(x, y, said, size=12, role="quiet")
    canvas.box(box, "part" if kept else "empty", role, corner=8, dashed=not kept)
    canvas.text(box.x, box.y - 9, WORDS[step.token], size=14, bold=kept, role=role)
    canvas.text(box.x, box.y + 10, f"Σ {cell_number(step.total)}", size=12)


def _legend(canvas: Canvas, left: float, kept: str, dropped: str) -> None:
    canvas.box(Box(left, 14, 26, 16), "part", "output")
    canvas.text(left + 34, 22, kept, size=13, anchor="start", role="quiet")
    x = left + 34 + text_width(kept, 13) + 28
    canvas.box(Box(x, 14, 26, 16), "empty", "quiet", dashed=True)
    canvas.text(x + 34, 22, dropped, size=13, anchor="start", role="quiet")
