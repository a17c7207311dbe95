"""The Transformer by hand: encoder, decoder and prediction with consistent, correct numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from glassformer.audit.example import Example, PrintedDigits
from glassformer.audit.example_file import load_example
from glassformer.audit.formulas.bounds import WordList
from glassformer.documents.parts import Figure, HeatMap, Paragraph
from glassformer.language import Language
from glassformer.lessons.figures.model_figures import (
    Stage,
    architecture_figure,
    feed_forward_figure,
    network_layers,
)
from glassformer.lessons.figures.sheet import (
    BarColumn,
    FigurePart,
    Length,
    MatrixFigure,
    TableFigure,
    numbers_of,
    speaker,
)
from glassformer.lessons.illustrated import printed_matrix, set_maps
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula
from glassformer.lessons.lesson_steps import (
    AttentionWalk,
    Predictor,
    Remarker,
    draw_short,
    feed_forward_step,
    heat_map,
    norm_step,
    prediction_steps,
    role_step,
)
from glassformer.lessons.row_questions import with_question
from glassformer.nn import Seq2Seq, build, presets
from glassformer.nn.blocks import Block
from glassformer.nn.config import FeedForwardConfig
from glassformer.nn.layers import FeedForward, TokenEmbedding
from glassformer.nn.positions import sinusoids
from glassformer.picture import Box, Canvas, Picture, Role, text_width
from glassformer.tracing import Cell, Trace, trace

# The Transformer of the by-hand text, built from our modules. Embedding, attention matrices and
# epsilon are the text's. It prints neither its feed-forward parameters nor the decoder's; those are
# random numbers between 0 and 1 with two decimals, like its others. Where the text departs from its
# own formulas, the formulas win.

SEED = 5
"""The first seed with which the prediction is the text's word, “you”."""
_PAD, START = 0, 25
WIDTH, _D_FF = 6, 10
_MAPS = {"to_queries": "w_query", "to_keys": "w_key", "to_values": "w_value",
         "to_output": "w_output"}  # fmt: skip


def by_hand_model(example: Example, seed: int = SEED) -> Seq2Seq:
    """The text's Transformer with its printed numbers; scores are divided by √d_k, as it says."""
    config = presets.by_hand_2024().with_(attention__divisor="sqrt_head")
    model = build(config, attention="written").eval()
    assert isinstance(model, Seq2Seq)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randint(0, 100, parameter.shape, generator=generator)
            parameter.copy_(drawn / 100)
        ids = printed_matrix(example, "sentence").long()
        embedding = model.encoder.embedding
        assert isinstance(embedding, TokenEmbedding)
        embedding.weight[ids] = printed_matrix(example, "embedding").T
        _set_vocabulary(model.to_vocabulary, example)
    block = model.encoder.blocks[0]
    assert isinstance(block, Block)
    set_maps(block.attention, example, _MAPS)
    return model


def _set_vocabulary(layer: nn.Linear, example: Example) -> None:
    """Set the entries of the output layer that the text prints; its words have ids 1 to 23."""
    printed = printed_matrix(example, "w_vocabulary").T
    words = layer.weight[1 : 1 + printed.size(0)]
    words.copy_(torch.where(printed.isnan(), words, printed))


@dataclass(frozen=True)
class WordNames:
    """The vocabulary by id, and the words of the sentence."""

    vocabulary: tuple[str, ...]
    sentence: tuple[str, ...]


def names_of(example: Example) -> WordNames:
    listed = example["word_list"].printed
    assert isinstance(listed, WordList)
    words = tuple(str(word) for word in listed.items)
    vocabulary = ("<pad>", *words, "<unknown>", "<start>", "<end>")
    return WordNames(vocabulary, example["sentence"].columns)


def by_hand_trace() -> Trace:
    """One pass over the six words and “<start>”."""
    example = load_example("by-hand")
    names = names_of(example)
    source = printed_matrix(example, "sentence").long().unsqueeze(0)
    target = torch.tensor([[START] + [_PAD] * (WIDTH - 1)])
    labels = {
        "source": list(names.sentence),
        "target": [names.vocabulary[id_] for id_ in target[0].tolist()],
    }
    return trace(Predictor(by_hand_model(example)), source, target, axis_labels=labels)


_ENCODER = "model.encoder.blocks.0"
_DECODER = "model.decoder.blocks.0"
_PLAY, _YOU = 2, 1
_IDS = {"queries": "query", "keys": "key", "values": "value", "scores": "scores",
        "scaled": "scaled", "context": "head", "output": "attention_output"}  # fmt: skip


def steps(say: Speaker) -> Iterator[LessonStep]:
    example, run = load_example("by-hand"), by_hand_trace()
    names, remarker = names_of(example), Remarker("by-hand", say, _IDS)
    words = _words(example, names, remarker, say)
    yield say.step("words", "words", [*words, _progress(run, names, "nothing", say)])
    yield from _embedding_steps(run, remarker, say)
    *encoder, encoded = _encoder_steps(run, remarker, say)
    yield from encoder
    yield encoded.with_(_progress(run, names, "encoder", say))
    yield from _decoder_steps(run, say)
    flattened = [*_flattened(run, say), _progress(run, names, "decoder", say)]
    yield say.step("flatten", "flatten", flattened)
    *steps, last = prediction_steps(
        run, say, names.vocabulary, remarks=remarker.on("probabilities")
    )
    yield from steps
    strip = Figure("strip", strip_figure(run, names, say.language))
    yield last.with_(_progress(run, names, "everything", say), strip)


def _progress(run: Trace, names: WordNames, covered: Stage, say: Speaker) -> Figure:
    """The whole model, with the parts covered so far."""
    predicted = names.vocabulary[int(run["probabilities"].value[0].argmax())]
    drawing = architecture_figure(
        run, names.sentence, names.vocabulary[START], predicted, covered, say.language
    )
    return Figure(f"architecture-{covered}", drawing)


def _words(example: Example, names: WordNames, remarker: Remarker, say: Speaker) -> Parts:
    given = example["sentence_text"].printed
    assert isinstance(given, WordList)
    count = example["vocab_size"].printed
    assert isinstance(count, PrintedDigits)
    sentence = " ".join(str(word) for word in given.items)
    yield remarker.overview()
    yield say("words", count=int(count.values), sentence=sentence)
    yield from remarker.on("sentence_words")
    yield say("six")
    ids = (str(names.vocabulary.index(word)) for word in names.sentence)
    yield say.table([(say("number"), *ids)], "word head", more=names.sentence)


def _embedding_steps(run: Trace, remarker: Remarker, say: Speaker) -> Iterator[LessonStep]:
    looked_up = run["model.encoder.embedding.looked_up"]
    yield role_step("embedding", looked_up[_PLAY, 1], say)
    positions = run["model.encoder.position_vectors"]
    made = trace(sinusoids, torch.arange(WIDTH), WIDTH)
    pair, dimension = 1, 3
    formulas = [
        formula(made["frequencies"][pair]),
        formula(made["angles"][_YOU, pair]),
        formula(made["cos"][_YOU, pair]),
    ]
    cell = positions[_YOU, dimension]
    words = run["source"].labels[1]
    assert words is not None
    yield say.step("positions", "positions", [
        say("positions", row=say.quoted(words[_YOU]), position=_YOU, column=dimension + 1,
            value=formulas[-1].card.value),
        say("angle", first=dimension, second=dimension + 1, pair=pair, width=WIDTH),
        *formulas, heat_map(positions, say, cell, rows=words),
        *remarker.on("position", cell, transposed=True),
    ])  # fmt: skip
    summed = run["model.encoder.summed"][_YOU, dimension]
    yield role_step("embedded", summed, say, after=remarker.on("x", summed))


def _encoder_steps(run: Trace, remarker: Remarker, say: Speaker) -> Iterator[LessonStep]:
    walk = AttentionWalk(
        run, f"{_ENCODER}.attention", say, _PLAY, _YOU, entry=1, remarks=remarker.at
    )
    yield from _asked(walk, run, say)
    added = run[f"{_ENCODER}.attention_sum"][_PLAY, 1]
    yield role_step("sum", added, say, after=remarker.on("add_1", added))
    normed = run[f"{_ENCODER}.attention_norm.normed"][_PLAY, 1]
    yield norm_step(
        run, f"{_ENCODER}.attention_norm", say, _PLAY, 1, title=say("first norm"),
        after=remarker.on("norm_1", normed),
    )  # fmt: skip
    yield feed_forward_step(
        run, f"{_ENCODER}.feed_forward", say, _PLAY, 1, note=say("unprinted", seed=SEED)
    ).with_(Paragraph(say("two layers", width=_D_FF)), _feed_forward(run, say))
    yield role_step("sum", run[f"{_ENCODER}.feed_sum"][_PLAY, 1], say,
                    phrase="sum after feed-forward")  # fmt: skip
    yield norm_step(
        run, f"{_ENCODER}.feed_forward_norm", say, _PLAY, 1, title=say("second norm"),
        phrase="norm again", after=remarker.on("stats_2"),
    )  # fmt: skip


def _feed_forward(run: Trace, say: Speaker) -> Figure:
    """The text's one layer beside the two of most Transformers, on the vector of one word."""
    x = run[f"{_ENCODER}.attention_norm.normed"].value[0, _PLAY]
    network = FeedForward(WIDTH, FeedForwardConfig(d_ff=_D_FF))
    draw_short(network, SEED, decimals=2)
    wide = trace(network.eval(), x.view(1, 1, -1))
    vector, language = x.double().numpy(), say.language
    one = network_layers(run, f"{_ENCODER}.feed_forward.", vector, _PLAY, language)
    two = network_layers(wide, "", vector, 0, language)
    return Figure("feed-forward", feed_forward_figure(one, two, language))


def _asked(walk: AttentionWalk, run: Trace, say: Speaker) -> Iterator[LessonStep]:
    """The steps of the encoder's attention; the reader computes a row here and there."""
    keys, scores, masked = (
        heat_map(walk.step(name), say) for name in ("projected_keys", "scores", "masked")
    )
    given = {"S": scores, "K": keys, "x": heat_map(run["model.encoder.summed"], say)}
    asked = {
        "scaled": (0, "S / sqrt(columns(K))", given),
        "weights": (_YOU, "softmax(S_masked)", {"S_masked": masked}),
    }
    for step in walk.walk():
        if step.role in asked:
            yield with_question(step, walk.step(step.role), *asked[step.role], say)
        else:
            yield step


def _decoder_steps(run: Trace, say: Speaker) -> Iterator[LessonStep]:
    summed = run["model.decoder.summed"][0, 0]
    yield say.step("embedded", "decoder", [
        say("decoder"), say("unprinted", seed=SEED), formula(summed),
        heat_map(summed.step, say, summed),
    ])  # fmt: skip
    own = run[f"{_DECODER}.attention.weights"][0, 0, 0, 0]
    yield _weights_step("decoder attention", own, say, [f"{_DECODER}.attention.masked"])
    yield _norm_again("attention", say("decoder norm"), run, say)
    cross = run[f"{_DECODER}.cross_attention.weights"][0, 0, 0, _PLAY]
    projected = [f"{_DECODER}.cross_attention.projected_{kind}" for kind in ("queries", "keys")]
    yield _weights_step("cross", cross, say, projected).with_(Paragraph(say("cross roles")))
    yield _norm_again("cross_attention", say("after cross"), run, say)
    yield feed_forward_step(run, f"{_DECODER}.feed_forward", say, 0, 1)
    yield _norm_again("feed_forward", say("decoder end"), run, say)


def _norm_again(part: str, title: str, run: Trace, say: Speaker) -> LessonStep:
    """The norm after a part of the decoder."""
    return norm_step(run, f"{_DECODER}.{part}_norm", say, 0, 1, title=title, phrase="norm again")


def _weights_step(key: str, cell: Cell, say: Speaker, beside: list[str]) -> LessonStep:
    run = cell.step.trace
    maps: list[HeatMap] = [heat_map(run[name], say) for name in beside]
    return role_step("weights", cell, say, phrase=key, title=say(f"{key} title"), beside=maps)


def _flattened(run: Trace, say: Speaker) -> Parts:
    rows = run[f"{_DECODER}.feed_forward_norm.normed"]
    yield say("flatten", count=rows.shape[-1] * rows.shape[-2])
    yield heat_map(rows, say)


# --- the whole example as a comic strip ---------------------------------------------------------


def strip_figure(run: Trace, names: WordNames, language: Language) -> Picture:
    """Nine pictures that look hand-drawn, with the real numbers."""
    say, attention, words = speaker(language), f"{_ENCODER}.attention", names.sentence

    def matrix(name: str, role: Role) -> MatrixFigure:
        return MatrixFigure(run[name], role, rows=words, cell=(34.0, 24.0))

    def bars(name: str, row: int, role: Role) -> BarColumn:
        return _bars(words, numbers_of(run[name]).values[row].tolist(), role)

    shares = run["probabilities"].value[0]
    likeliest = shares.argsort(descending=True, stable=True)[:5].tolist()
    predicted = [names.vocabulary[id_] for id_ in likeliest]
    pictures: list[tuple[str, FigurePart, int | None]] = [
        (say("strip words"), matrix("model.encoder.embedding.looked_up", "input"), None),
        (say("strip positions"), matrix("model.encoder.summed", "input"), None),
        (say("strip queries", word=words[_PLAY]),
         matrix(f"{attention}.projected_queries", "query"), _PLAY),
        (say("strip scores"), bars(f"{attention}.scaled", _PLAY, "score"), None),
        (say("strip weights"), bars(f"{attention}.weights", _PLAY, "output"), None),
        (say("strip context"), matrix(f"{attention}.context", "output"), _PLAY),
        (say("strip norm"), matrix(f"{_ENCODER}.feed_forward_norm.normed", "value"), None),
        (say("strip decoder", word=names.vocabulary[START]),
         bars(f"{_DECODER}.cross_attention.weights", 0, "output"), None),
        (say("strip prediction", word=predicted[0]),
         _bars(predicted, shares[likeliest].tolist(), "output"), None),
    ]  # fmt: skip
    table = TableFigure(14, 14)
    for place, (said, piece, framed) in enumerate(pictures):
        picture = _Picture(said, place + 1, piece, framed)
        table.put(picture, place // 3, place % 3, beat=place + 1)
    return table.drawing(say("strip figure"), margin=14)


def _bars(words: Sequence[str], values: Sequence[float], role: Role) -> BarColumn:
    lengths = [
        Length(value, word, f"{value:.2f}") for word, value in zip(words, values, strict=True)
    ]
    return BarColumn(lengths, role)


class _Picture(FigurePart):
    """A picture of the strip: a slightly crooked frame, a speech bubble, and one piece."""

    def __init__(self, said: str, number: int, piece: FigurePart, framed: int | None) -> None:
        super().__init__(300, 270)
        self._said, self._number, self._piece, self._framed = said, number, piece, framed

    def draw(self, canvas: Canvas) -> None:
        box, piece = self.box, self._piece
        canvas.path(_by_hand(box, self._number), role="ink", width=2.2)
        bubble = Box(box.left + 16, box.top + 14, min(text_width(self._said, 14) + 52, 268), 34)
        canvas.box(bubble, "panel", corner=17)
        canvas.dot(bubble.left + 18, bubble.y, 11, fill="var(--gf-ink)")
        number = str(self._number)
        canvas.text(bubble.left + 18, bubble.y, number, size=13, bold=True, fill="var(--gf-paper)")
        canvas.text(bubble.left + 36, bubble.y, self._said, size=14, anchor="start")
        piece.place(box.x + (piece.before - piece.after) / 2, box.top + 60 + (box.height - 60) / 2)
        piece.draw(canvas)
        if self._framed is not None and isinstance(piece, MatrixFigure):
            canvas.box(piece.row(self._framed).box.grown(5), role="query", corner=7)


def _by_hand(box: Box, seed: int) -> str:
    """A frame whose sides are slightly bent, the same every time."""

    def shift(place: int) -> float:
        return 2.6 * math.sin(1.7 * place + 2.3 * seed)

    corners = [
        (box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom),
    ]  # fmt: skip
    path = f"M{corners[0][0]:.1f} {corners[0][1]:.1f}"
    for place in range(4):
        (x0, y0), (x1, y1) = corners[place], corners[(place + 1) % 4]
        bend = (x0 + x1) / 2 + shift(2 * place), (y0 + y1) / 2 + shift(2 * place + 1)
        path += f" Q{bend[0]:.1f} {bend[1]:.1f} {x1:.1f} {y1:.1f}"
    return path + " Z"
