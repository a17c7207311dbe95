"""F: the classifier, and G: sequence to sequence."""

from __future__ import annotations

import torch

from benchmarks.systems.checked_rows import Measured, check, figures, gap, percent, small
from glassformer.claims.bloem import Transformer
from glassformer.claims.claim import stored_results
from glassformer.data import corpora
from glassformer.data.imdb import read_reviews
from glassformer.lessons import several_tasks, thrones
from glassformer.lessons.by_hand import by_hand_trace
from glassformer.nn import build, presets
from glassformer.nn.models import pool
from glassformer.tasks import load


@check("F01")
def _imdb() -> Measured:
    found = corpora.find("imdb")
    counts = {
        split: [int(review.label == 1) for review in read_reviews(found, split)]
        for split in ("train", "test")
    }
    said = ", ".join(
        f"{split} {len(x):,} ({percent(sum(x) / len(x))} positive)" for split, x in counts.items()
    )
    return said, all(len(x) == 25_000 and 2 * sum(x) == len(x) for x in counts.values())


@check("F02")
def _classifier() -> Measured:
    model = Transformer(k=16, heads=4, depth=2, seq_length=12, num_tokens=30, num_classes=3).eval()
    with torch.no_grad():
        logs = model(torch.arange(24).view(2, 12))
    off = gap(logs.exp().sum(dim=-1), torch.ones(2))
    return f"{tuple(logs.shape)}; sums off {small(off)}", logs.shape == (2, 3) and off < 1e-6


@check("F03")
def _pooling() -> Measured:
    x = torch.arange(12.0).view(1, 4, 3)
    is_token = torch.tensor([[True, True, False, False]])
    found, f = pool(x, "mean", is_token), figures("C68")
    said = f"of two words and two padding: {found[0].tolist()}; all: difference {small(f['gap'])}"
    return said, gap(found, x[:, :2].mean(dim=1)) == 0 and f["gap"] < 1e-6


@check("F04")
def _eighty_five() -> Measured:
    f = figures("C69")
    said = (
        f"{percent(f['accuracy'])}, depth {f['depth']}, length {f['length']}, {f['seconds']:.0f} s"
    )
    return said, f["accuracy"] >= 0.85 and (f["depth"], f["length"]) == (6, 512)


@check("F05")
def _recurrent() -> Measured:
    f = figures("C70")
    said = (
        f"Transformer {percent(f['accuracy'])}, LSTM {percent(f['recurrent'])}; "
        f"an epoch takes {f['ratio']:.1f} times as long"
    )
    return said, abs(f["accuracy"] - f["recurrent"]) < 0.03 and f["ratio"] > 1


@check("F06")
def _more() -> Measured:
    f = figures("C71")
    said = f"{percent(f['plain'])} → {percent(f['more'])} with {f['depth']} layers"
    return said, f["more"] > f["plain"] + 0.02


@check("F07")
def _reviews() -> Measured:
    texts = ["A wonderful film, I loved every minute.", "Boring and badly acted, a waste of time."]
    found = load("imdb").classify(texts)
    said = "; ".join(
        f"“{text}” {one.label}, {percent(one.probability)}"
        for text, one in zip(texts, found, strict=True)
    )
    return said, [one.label for one in found] == ["positive", "negative"]


# --- G ---


@check("G01")
def _encoder_decoder() -> Measured:
    model = build(
        presets.vaswani_2017_base(vocab_size=30, d_model=16, n_layers=2, n_heads=2)
    ).eval()
    target = torch.tensor([[1, 6, 7]])
    with torch.no_grad():
        one, other = (model(torch.tensor([[3, 4, 5, last]]), target) for last in (8, 9))
    changed = gap(one, other)
    said = (
        f"4 source, 3 target tokens: {tuple(one.shape)}; another word changes them by {changed:.2f}"
    )
    return said, one.shape == (1, 3, 30) and changed > 0.01


@check("G02")
def _ends() -> Measured:
    found = thrones.learn()
    ids = [found.words.id_of(token) for token in ("<start>", "<end>")]
    said = thrones.say_answer(found.model, found.words, found.source)
    return f"ids {ids[0]} and {ids[1]}; “{said}”", said.endswith("<end>") and len(set(ids)) == 2


@check("G03")
def _teacher() -> Measured:
    f = figures("C76")
    said = f"{f['predictions']} predictions in one pass; one by one: difference {small(f['gap'])}"
    return said, f["predictions"] > 1 and f["gap"] < 1e-5


@check("G04")
def _generation() -> Measured:
    f, found = figures("C85"), thrones.learn()
    said = thrones.say_answer(found.model, found.words, found.source)
    return f"“{said}”; {f['ended']} of {f['texts']} texts end", f["ended"] == f[
        "texts"
    ] and said.split()[-1] == "<end>"


@check("G05")
def _same() -> Measured:
    f = figures("C75")
    return f"difference {small(f['gap'])}", f["gap"] < 1e-5


@check("G06")
def _output_layer() -> Measured:
    f = figures("C84")
    weight = by_hand_trace()["model.to_vocabulary.weight"]
    said = f"argmax agrees in {f['same']} of {f['rows']} rows; flattened: {weight.shape[1]} numbers"
    return said, f["same"] == f["rows"] and weight.shape[1] == 36


@check("G07")
def _thrones() -> Measured:
    found = thrones.learn()
    said = thrones.say_answer(found.model, found.words, found.source)
    return (
        f"after {found.n_steps} steps “{said}”",
        said == f"{thrones.ANSWER} <end>" and said.split()[0] == "you",
    )


@check("G08")
def _adam() -> Measured:
    f = figures("C94")
    said = f"{f['start']:.2f} → {f['loss']:.2f}, {percent(f['accuracy'])} right"
    return said, f["loss"] < f["start"] / 5 and f["accuracy"] > 0.9


@check("G09")
def _baselines() -> Measured:
    bleu = [one.figures["bleu_2016"] for one in stored_results("multi30k")]
    said = "BLEU: Transformer {:.1f}, recurrent with attention {:.1f}, convolutional {:.1f}"
    return said.format(*bleu), bleu[0] > max(bleu[1:]) and min(bleu) > 25


@check("G10")
def _translation() -> Measured:
    (found,) = load("en-de").translate(["A dog runs."])
    return f"“A dog runs.” → “{found.text}”", found.text == "Ein Hund rennt."


@check("G11")
def _leak() -> Measured:
    f = figures("C74")
    said = (
        f"with and without: loss on noise {f['masked']:.2f} and {f['unmasked']:.2f} (chance "
        f"{f['chance']:.2f}); counting, text given {percent(f['forced_masked'])} and "
        f"{percent(f['forced_unmasked'])}, on its own {percent(f['free_masked'])} and "
        f"{percent(f['free_unmasked'])}"
    )
    leaks = f["unmasked"] < f["chance"] / 2 < f["masked"] and f["forced_unmasked"] > 0.99
    return said, leaks and f["free_masked"] > 0.95 and f["free_unmasked"] < 0.7


@check("G12")
def _tasks() -> Measured:
    right = several_tasks.learn_all().right
    said = ", ".join(f"{task} {percent(share)}" for task, share in right.items())
    return said, len(right) == 3 and min(right.values()) > 0.9
