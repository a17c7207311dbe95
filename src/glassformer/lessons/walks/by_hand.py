"""The Transformer by hand: encoder, decoder and prediction with consistent, right numbers."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from glassformer.lessons.example import Bilingual, Digits, Example, Language
from glassformer.lessons.formulas.bounds import Words
from glassformer.lessons.reading import load_example
from glassformer.lessons.walks.attending import AttentionWalk, feed_forward_step, norm_step
from glassformer.lessons.walks.by_hand_model import (
    SEED,
    START,
    WIDTH,
    Names,
    by_hand_trace,
    names_of,
)
from glassformer.lessons.walks.figures.model_figures import (
    Played,
    Stage,
    architecture_figure,
    strip_figure,
)
from glassformer.lessons.walks.lesson import (
    Figure,
    HeatMap,
    Lesson,
    LessonStep,
    Paragraph,
    Part,
    Table,
    formula,
)
from glassformer.lessons.walks.phrases import Phrases, Speaker
from glassformer.lessons.walks.predicting import prediction_steps
from glassformer.lessons.walks.remarks import Remarker
from glassformer.lessons.walks.steps import heat_map, role_step
from glassformer.nn.positions import sinusoids
from glassformer.trace import Cell, Trace, trace

__all__ = ["PHRASES", "TITLE", "by_hand"]

TITLE = Bilingual("A Transformer by hand", "手算一个 Transformer")
PHRASES: Phrases = {
    "summary": Bilingual(
        "Six words through encoder, decoder and prediction, every number consistent, with the "
        "slips of the text beside the right ones.",
        "六个词依次经过编码器、解码器直到预测，所有数值前后一致，并指出原文的笔误。",
    ),
    "words title": Bilingual("Words and their numbers", "单词与编号"),
    "words": Bilingual(
        "The data set has {count} different words, numbered from 1. The input is the sentence "
        "“{sentence}”.",
        "数据集共有 {count} 个不同的单词，从 1 开始编号。输入是句子“{sentence}”。",
    ),
    "six": Bilingual(
        "Vectors are given for six words only, so the lesson goes on with these six.",
        "由于只给出了六个词的向量，下面就用这六个词继续。",
    ),
    "number": Bilingual("number", "编号"),
    "word head": Bilingual("word", "单词"),
    "angle": Bilingual(
        "Dimensions {first} and {second} are pair {pair}, so the exponent is −2·{pair}/{width}. "
        "From it come the frequency, the angle and its cosine.",
        "维度 {first} 和 {second} 是第 {pair} 对（从 0 数起），指数为 −2·{pair}/{width}。由此依次得"
        "到频率、角度和余弦。",
    ),
    "unprinted": Bilingual(
        "The text does not print these parameters. The ones here are numbers between 0 and 1 with "
        "two decimals, drawn at random as its others are (with seed {seed}, the first that leads "
        "to the word the text predicts).",
        "原文没有印出这些参数。这里取 0 到 1 之间、保留两位小数的随机数，与原文其他参数的取法相同（"
        "随机种子 {seed}，是第一个能预测出原文那个词的种子）。",
    ),
    "decoder title": Bilingual("The decoder begins", "解码器的输入"),
    "decoder": Bilingual(
        "The decoder starts with “<start>”. This output layer reads all six positions at once, so "
        "five positions of padding follow; they come later than “<start>”, and it does not see "
        "them.",
        "解码器从“<start>”开始。这个输出层一次读取全部六个位置，所以后面补了五个填充位置；它们都排"
        "在“<start>”之后，“<start>”看不到它们。",
    ),
    "decoder attention title": Bilingual(
        "Masked self-attention of the decoder", "解码器的掩码自注意力"
    ),
    "decoder attention": Bilingual(
        "The same arithmetic as in the encoder, with the future hidden. “<start>” sees nothing but "
        "itself, so its weight on itself is {value}.",
        "计算与编码器相同，只是遮住了后面的位置。“<start>”只能看到自己，所以它对自己的权重是 "
        "{value}。",
    ),
    "cross title": Bilingual(
        "Cross-attention: the decoder reads the encoder", "交叉注意力：解码器读取编码器"
    ),
    "cross": Bilingual(
        "Queries come from the decoder, keys and values from the encoder's output. {row} gives "
        "{column} a weight of {value}, that is {percent}.",
        "查询来自解码器，键和值来自编码器的输出。{row} 给 {column} 的注意力权重是 {value}，即 "
        "{percent}。",
    ),
    "cross roles": Bilingual(
        "The text has it the other way round: it takes queries and keys from the encoder and "
        "values from the decoder. Then every output would have the encoder's length, and what the "
        "decoder is asking would have no part in the weights.",
        "原文说反了：它让查询和键来自编码器，值来自解码器。那样输出的长度就成了编码器的长度，而且解"
        "码器想问什么与权重毫无关系。",
    ),
    "decoder norm": Bilingual("Add and normalise", "残差相加与层归一化"),
    "after cross": Bilingual(
        "Add and normalise after cross-attention", "交叉注意力之后的残差与归一化"
    ),
    "decoder end": Bilingual("Decoder output", "解码器的输出"),
    "first norm": Bilingual("Layer normalisation after attention", "注意力之后的层归一化"),
    "second norm": Bilingual("Layer normalisation: the encoder's output", "层归一化：编码器的输出"),
    "flatten title": Bilingual("All rows as one", "展平成一行"),
    "flatten": Bilingual(
        "This text lays all rows of the decoder's output end to end, {count} numbers, and predicts "
        "one word from them. (The paper predicts one for each position, from its own row.)",
        "这篇文章把解码器输出的各行首尾相接成 {count} 个数，由此预测一个词。（原论文是每个位置用自"
        "己那一行各预测一个词。）",
    ),
}
_ENCODER = "model.encoder.blocks.0"
_DECODER = "model.decoder.blocks.0"
_PLAY, _YOU = 2, 1
_IDS = {"queries": "query", "keys": "key", "values": "value", "scores": "scores",
        "scaled": "scaled", "context": "head", "output": "attention_output"}  # fmt: skip


def by_hand(language: Language) -> Lesson:
    """The lesson."""
    say = Speaker(language, PHRASES)
    return Lesson("by-hand", TITLE.say(language), say("summary"), language, tuple(_steps(say)))


def _steps(say: Speaker) -> Iterator[LessonStep]:
    example, run = load_example("by-hand"), by_hand_trace()
    names, remarker = names_of(example), Remarker("by-hand", say, _IDS)
    yield _word_step(example, names, remarker, say).with_(_progress(run, names, "nothing", say))
    yield from _embedding_steps(run, remarker, say)
    *encoder, encoded = _encoder_steps(run, remarker, say)
    yield from encoder
    yield encoded.with_(_progress(run, names, "encoder", say))
    yield from _decoder_steps(run, say)
    yield _flatten_step(run, say).with_(_progress(run, names, "decoder", say))
    *steps, last = prediction_steps(
        run, say, names.vocabulary, names.vocabulary.index("you"),
        remarks=remarker.verdict("probabilities"),
    )  # fmt: skip
    yield from steps
    played = Played(names.sentence, _PLAY, names.vocabulary[START], names.vocabulary)
    strip = Figure("strip", strip_figure(run, played, say.language))
    yield last.with_(_progress(run, names, "everything", say), strip)


def _progress(run: Trace, names: Names, covered: Stage, say: Speaker) -> Figure:
    """The whole model, with what the lesson has covered so far."""
    predicted = names.vocabulary[int(run["probabilities"].value[0].argmax())]
    drawing = architecture_figure(
        run, names.sentence, names.vocabulary[START], predicted, covered, say.language
    )
    return Figure(f"architecture-{covered}", drawing)


def _word_step(example: Example, names: Names, remarker: Remarker, say: Speaker) -> LessonStep:
    given = example["sentence_text"].printed
    assert isinstance(given, Words)
    count = example["vocab_size"].printed
    assert isinstance(count, Digits)
    sentence = " ".join(str(word) for word in given.items)
    said = say("words", count=int(count.values), sentence=sentence)
    ids = [names.vocabulary.index(word) for word in names.sentence]
    table = Table(
        "", (say("word head"), *names.sentence), ((say("number"), *(str(id_) for id_ in ids)),)
    )
    parts: list[Part] = [Paragraph(said), *remarker.verdict("sentence_words")]
    parts += [Paragraph(say("six")), table]
    return LessonStep("words", say("words title"), tuple(parts))


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
    facts = {
        "row": say.quoted(words[_YOU]), "position": _YOU, "column": dimension + 1,
        "value": formulas[-1].card.value,
    }  # fmt: skip
    parts: list[Part] = [
        Paragraph(say("positions", **facts)),
        Paragraph(say("angle", first=dimension, second=dimension + 1, pair=pair, width=WIDTH)),
        *formulas,
    ]
    parts += [
        heat_map(positions, say, cell, rows=words),
        *remarker.on("position", cell, transposed=True),
    ]
    yield LessonStep("positions", say.title("positions"), tuple(parts))
    summed = run["model.encoder.summed"][_YOU, dimension]
    yield role_step("embedded", summed, say, after=remarker.on("x", summed))


def _encoder_steps(run: Trace, remarker: Remarker, say: Speaker) -> Iterator[LessonStep]:
    walk = AttentionWalk(
        run, f"{_ENCODER}.attention", say, _PLAY, _YOU, entry=1, remarks=remarker.at
    )
    yield from walk.walk()
    added = run[f"{_ENCODER}.attention_sum"][_PLAY, 1]
    yield role_step("sum", added, say, after=remarker.on("add_1", added))
    yield norm_step(
        run, f"{_ENCODER}.attention_norm", say, _PLAY, 1,
        lambda _role, cell: remarker.on("norm_1", cell), say("first norm"),
    )  # fmt: skip
    yield feed_forward_step(
        run, f"{_ENCODER}.feed_forward", say, _PLAY, 1, note=say("unprinted", seed=SEED)
    )
    yield role_step("sum", run[f"{_ENCODER}.feed_sum"][_PLAY, 1], say,
                    phrase="sum after feed-forward")  # fmt: skip
    yield norm_step(
        run, f"{_ENCODER}.feed_forward_norm", say, _PLAY, 1,
        lambda _role, _cell: remarker.verdict("stats_2"), say("second norm"), "norm again",
    )  # fmt: skip


def _decoder_steps(run: Trace, say: Speaker) -> Iterator[LessonStep]:
    summed = run["model.decoder.summed"][0, 0]
    embedded: list[Part] = [
        Paragraph(say("decoder")), Paragraph(say("unprinted", seed=SEED)), formula(summed),
        heat_map(summed.step, say, summed),
    ]  # fmt: skip
    yield LessonStep("embedded", say("decoder title"), tuple(embedded))
    own = run[f"{_DECODER}.attention.weights"][0, 0, 0, 0]
    yield _weights_step("decoder attention", own, say, [f"{_DECODER}.attention.masked"])
    yield norm_step(
        run, f"{_DECODER}.attention_norm", say, 0, 1, title=say("decoder norm"), phrase="norm again"
    )
    cross = run[f"{_DECODER}.cross_attention.weights"][0, 0, 0, _PLAY]
    projected = [f"{_DECODER}.cross_attention.projected_{kind}" for kind in ("queries", "keys")]
    step = _weights_step("cross", cross, say, projected)
    yield LessonStep(step.role, step.title, (*step.parts, Paragraph(say("cross roles"))))
    yield norm_step(
        run,
        f"{_DECODER}.cross_attention_norm",
        say,
        0,
        1,
        title=say("after cross"),
        phrase="norm again",
    )
    yield feed_forward_step(run, f"{_DECODER}.feed_forward", say, 0, 1)
    yield norm_step(
        run,
        f"{_DECODER}.feed_forward_norm",
        say,
        0,
        1,
        title=say("decoder end"),
        phrase="norm again",
    )


def _weights_step(key: str, cell: Cell, say: Speaker, beside: list[str]) -> LessonStep:
    run = cell.step.trace
    maps: list[HeatMap] = [heat_map(run[name], say) for name in beside]
    return role_step("weights", cell, say, phrase=key, title=say(f"{key} title"), beside=maps)


def _flatten_step(run: Trace, say: Speaker) -> LessonStep:
    rows = run[f"{_DECODER}.feed_forward_norm.normed"]
    said = say("flatten", count=rows.shape[-1] * rows.shape[-2])
    return LessonStep("flatten", say("flatten title"), (Paragraph(said), heat_map(rows, say)))
