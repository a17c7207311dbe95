"""The Game of Thrones pair: trained from scratch until it answers, then decoded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
import torch.nn.functional as F

from glassformer.claims.specimens import one_thread, seeded
from glassformer.colours import hex_colour
from glassformer.documents.parts import Figure, Paragraph, Part
from glassformer.language import Language
from glassformer.lessons.figures.sheet import (
    ColouredNumbers,
    FigurePart,
    Label,
    ModelBox,
    Point,
    TableFigure,
    heading,
    numbers_of,
    speaker,
)
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number, percent
from glassformer.lessons.lesson_steps import (
    AttentionWalk,
    Predictor,
    Remarker,
    heat_map,
    likeliest,
    prediction_steps,
    role_step,
)
from glassformer.nn import Seq2Seq, build, presets
from glassformer.nn.attention import set_attention
from glassformer.nn.description import count_parameters
from glassformer.picture import Box, Canvas, Picture, Role
from glassformer.text import WordTokenizer
from glassformer.tracing import Trace, trace

QUESTION, ANSWER = "When you play the game of thrones", "you win or you die"
_SEED = 0
_EVERY = 10
_MOST_STEPS = 400
_SURE = 0.9
_LONGEST = 8  # words of an answer
_D_MODEL, _N_HEADS, _N_LAYERS, _D_FF = 8, 2, 1, 16


@dataclass(frozen=True)
class TrainedTranslator:
    """The trained model, its tokenizer, and how training went."""

    model: Seq2Seq
    words: WordTokenizer
    source: torch.Tensor
    target: torch.Tensor
    history: tuple[tuple[int, float, str], ...]
    """Step, loss, and the model's answer at that step."""
    n_steps: int
    seconds: float

    @property
    def source_tokens(self) -> list[str]:
        return [self.words.token(id_) for id_ in self.source[0].tolist()]

    @property
    def target_tokens(self) -> list[str]:
        """With `<start>` and `<end>`."""
        return [self.words.token(id_) for id_ in self.target[0].tolist()]


@lru_cache(maxsize=1)
def learn(seed: int = _SEED) -> TrainedTranslator:
    """Train until the answer is right and each of its words is likely; deterministic."""
    words = WordTokenizer.build([QUESTION, ANSWER])
    source = torch.tensor([words.encode(QUESTION)])
    target = torch.tensor([words.encode(ANSWER, start=True, end=True)])
    config = presets.vaswani_2017_base(
        vocab_size=words.vocab_size, d_model=_D_MODEL, n_heads=_N_HEADS, n_layers=_N_LAYERS,
        d_ff=_D_FF, dropout=0.0, max_len=16,
    )  # fmt: skip
    with seeded(seed):
        model = build(config)
    assert isinstance(model, Seq2Seq)
    began = time.perf_counter()
    with one_thread():
        history, n_steps = _train(model, words, source, target)
    seconds = time.perf_counter() - began
    set_attention(model.eval(), "written")
    return TrainedTranslator(model, words, source, target, history, n_steps, seconds)


def _train(
    model: Seq2Seq, words: WordTokenizer, source: torch.Tensor, target: torch.Tensor
) -> tuple[tuple[tuple[int, float, str], ...], int]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    history = []
    for step in range(_MOST_STEPS + 1):
        logits = model(source, target[:, :-1])  # the answer to position t is token t + 1
        loss = F.cross_entropy(logits[0], target[0, 1:])
        shares = F.softmax(logits[0].detach(), dim=-1).gather(-1, target[0, 1:, None])
        sure = bool((shares > _SURE).all())
        if step % _EVERY == 0 or sure:  # decoding at every step would take most of the time
            said = say_answer(model, words, source)
            history.append((step, loss.item(), said))
            if sure and said == f"{ANSWER} {words.token(_end(words))}":
                return tuple(history), step
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    raise AssertionError(f"the pair was not learned in {_MOST_STEPS} steps")


def _end(words: WordTokenizer) -> int:
    assert words.special.end is not None
    return words.special.end


@torch.no_grad()
def say_answer(model: Seq2Seq, words: WordTokenizer, source: torch.Tensor) -> str:
    """The model's answer, one word at a time until `<end>`."""
    start, end = words.special.start, _end(words)
    assert start is not None
    memory, cache, said = model.encode(source), model.start_cache(), [start]
    while said[-1] != end and len(said) <= _LONGEST:
        logits = model.decode(torch.tensor([[said[-1]]]), memory, cache=cache)
        said.append(int(logits[0, -1].argmax()))
    return " ".join(words.token(id_) for id_ in said[1:])


def steps(say: Speaker) -> Iterator[LessonStep]:
    learned = learn()
    labels = {"source": learned.source_tokens, "target": learned.target_tokens[:-1]}
    run = trace(
        Predictor(learned.model), learned.source, learned.target[:, :-1], axis_labels=labels
    )
    yield say.step("words", "words", _word_step(learned, say))
    yield say.step("training", "untrained", [say(
        "untrained", parameters=f"{count_parameters(learned.model):,}", layers=_N_LAYERS,
        width=_D_MODEL, heads=_N_HEADS, said=learned.history[0][2],
    )])  # fmt: skip
    yield say.step("training", "training", _training_step(learned, run, say))
    yield role_step("embedding", run["model.encoder.embedding.looked_up"][2, 1], say)
    factor = formula(run["model.encoder.embedding.scaled"][2, 1])
    scaled: list[Part] = [Paragraph(say("factor")), factor]
    yield role_step("embedded", run["model.encoder.summed"][2, 1], say, before=scaled)
    walk = AttentionWalk(run, "model.encoder.blocks.0.attention", say, query=2, key=1)
    yield from walk.walk()
    yield say.step("decoder", "decoder", _decoder_step(run, say))
    yield from prediction_steps(run, say, _vocabulary(learned), at=(0,), phrase="tied logits")
    for place in range(1, len(learned.target_tokens) - 1):
        given = say.quoted(learned.target_tokens[place])
        parts = _decoded(learned, run, place, say)
        yield say.step("prediction", "decode", parts, number=place + 1, given=given)
    yield say.step("prediction", "done", _done_step(learned, run, say))


def _vocabulary(learned: TrainedTranslator) -> list[str]:
    return [learned.words.token(id_) for id_ in range(learned.words.vocab_size)]


def _word_step(learned: TrainedTranslator, say: Speaker) -> Parts:
    tokens = [*learned.source_tokens, *learned.target_tokens]
    ids = [*learned.source[0].tolist(), *learned.target[0].tolist()]
    numbers = {token: str(id_) for token, id_ in zip(tokens, ids, strict=True)}
    yield say("words", question=QUESTION, answer=ANSWER)
    yield from Remarker("thrones", say).on("sentence_words")
    yield say.table([(say("number"), *numbers.values())], "word head", more=numbers)


def _training_step(learned: TrainedTranslator, run: Trace, say: Speaker) -> Parts:
    probabilities = run["probabilities"].value[0]
    least = probabilities.gather(-1, learned.target[0, 1:, None]).min()
    yield say(
        "training", steps=learned.n_steps, seconds=f"{learned.seconds:.1f}",
        least=percent(least),
    )  # fmt: skip
    rows = ((str(step), number(loss), text) for step, loss, text in learned.history)
    yield say.table(rows, "step head", "loss head", "says")


def _decoder_step(run: Trace, say: Speaker) -> Parts:
    """What the steps left out lead to: the vectors from which words are predicted."""
    output = run["model.logits"][0, 0, 0].operands[0].step
    yield say("decoder")
    yield heat_map(output, say)


def _decoded(learned: TrainedTranslator, run: Trace, place: int, say: Speaker) -> Parts:
    """One word: what is given, what is predicted, what the decoder attends to."""
    tokens, words = learned.target_tokens, _vocabulary(learned)
    weights = run["model.decoder.blocks.0.cross_attention.weights"]
    best = int(weights.value[0, 0, place].argmax())
    word = words[int(run["probabilities"].value[0, place].argmax())]
    cell = weights[0, 0, place, best]
    yield say(
        "decode", so_far=say.quoted(" ".join(tokens[: place + 1])), word=say.quoted(word),
        percent=percent(run["probabilities"].value[0, place].max()),
        best=say.quoted(learned.source_tokens[best]),
    )  # fmt: skip
    yield likeliest(run, words, say, (place,), most=3)
    yield heat_map(weights, say, cell, head=0, title=say("cross"))


def _done_step(learned: TrainedTranslator, run: Trace, say: Speaker) -> Parts:
    yield say("done", said=learned.history[-1][2])
    yield heat_map(
        run["probabilities"], say, rows=_vocabulary(learned), turned=True, title=say("next words")
    )
    yield Figure("translation", translation_figure(learned, run, say.language))


# --- the translation, drawn ---------------------------------------------------------------------

_CROSS = "model.decoder.blocks.0.cross_attention.weights"


def translation_figure(learned: TrainedTranslator, run: Trace, language: Language) -> Picture:
    """The source through the encoder once; then one row per word that the decoder adds.

    Lines are cross-attention, the mean over heads. Each answer is given to the next step.
    """
    say, table = speaker(language), TableFigure(30, 14)
    weights = run[_CROSS].value[0].double().mean(0).tolist()
    memory = numbers_of(run["model.encoder.blocks.0.resid_post"])
    titles = {0: "source words", 2: "memory words", 4: "given words", 6: "answer words"}
    for column, key in titles.items():
        table.put(heading(say(key), "quiet"), 0, column)
    read, kept = [], []
    for row, word in enumerate(learned.source_tokens, start=1):
        read.append(table.put(ModelBox(word, "input", bold=False), row, 0, align="fill"))
        table.put(FigurePart(60, 0), row, 1)
        kept.append(table.put(_Strip(memory.rows(row - 1)), row, 2, beat=1))
        table.put(FigurePart(190, 0), row, 3)
        table.join(read[-1], kept[-1], sideways=True, beat=1)
    given, answers = [], []
    found = run["probabilities"].value[0].max(dim=-1)
    spoken = zip(learned.target_tokens, found.indices.tolist(), found.values.tolist(), strict=False)
    for row, (word, answer, share) in enumerate(spoken, start=1):
        beat = row + 1
        token = ModelBox(word, "query", bold=False)
        given.append(table.put(token, row, 4, align="fill", beat=beat))
        table.put(FigurePart(60, 0), row, 5)
        shown = ModelBox(f"{learned.words.token(answer)}  {share:.0%}", "output")
        answers.append(table.put(shown, row, 6, align="fill", beat=beat))
        table.join(given[-1], answers[-1], sideways=True, beat=beat)
        seen: tuple[tuple[Role, int], ...] = (("quiet", beat), ("query", -beat))
        for strip, weight in zip(kept, weights[row - 1], strict=True):
            for role, when in seen:
                table.join(strip, given[-1], role, sideways=True, gaps=(3, 3), beat=when,
                           arrow=False, width=max(0.4, 9 * weight))  # fmt: skip
    for answer_box, following in zip(answers, given[1:], strict=False):
        beat = answers.index(answer_box) + 3
        table.line(_fed_back, answer_box, following, role="output", beat=beat, dashed=True)
    table.mark(partial(_upright_box, read, kept, say("encoder"), "score"))
    table.mark(partial(_upright_box, given, answers, say("decoder"), "query"))
    table.put(Label(say("translation legend")), len(read) + 1, 0, span=7)
    return table.drawing(say("translation figure"))


def _fed_back(answer: Box, following: Box) -> list[Point]:
    """From an answer, between two rows, to the next word that is given."""
    y = (answer.bottom + following.top) / 2
    return [(answer.x, answer.bottom + 1), (answer.x, y), (following.x, y),
            (following.x, following.top - 1)]  # fmt: skip


def _upright_box(
    left: Sequence[FigurePart], right: Sequence[FigurePart], said: str, role: Role, canvas: Canvas
) -> None:
    """A part of the model as a tall box between two columns."""
    x = (left[0].box.right + right[0].box.left) / 2
    top, bottom = left[0].box.top - 4, left[-1].box.bottom + 4
    box = Box(x - 24, top, 48, bottom - top)
    canvas.box(box, "part", role, corner=8)
    canvas.turned(x + 5, box.y, said, size=15)


class _Strip(FigurePart):
    """A vector as a strip of colours."""

    def __init__(self, numbers: ColouredNumbers) -> None:
        super().__init__(12.0 * numbers.values.shape[1] + 4, 22)
        self._numbers = numbers

    def draw(self, canvas: Canvas) -> None:
        for place, value in enumerate(self._numbers.values[0]):
            colour = self._numbers.scale.colour(float(value)) if self._numbers.scale else None
            left = self.box.left + 2 + 12 * place
            if colour is not None:
                canvas.fill(Box(left, self.box.top + 2, 11, 18), hex_colour(colour), corner=1)
        canvas.box(self.box, "frame", "value", corner=3)
