"""D: text to vectors, and E: blocks and stacks."""

from __future__ import annotations

import math

import torch

from benchmarks.systems.checked_rows import Measured, check, figures, gap, numbers, percent, small
from glassformer.claims.model_claims import three_sentences
from glassformer.claims.specimens import seeded
from glassformer.errors import InputError
from glassformer.lessons import image_patches, masked_words
from glassformer.nn import Block, Classifier, ModelConfig, Seq2Seq, build, presets
from glassformer.nn.config import FeedForwardConfig
from glassformer.nn.layers import FeedForward, TokenEmbedding
from glassformer.nn.positions import LearnedPositions, SinusoidalPositions
from glassformer.tasks import load
from glassformer.text import WordTokenizer, split_words


def _listed() -> list[str]:
    return [word for sentence in three_sentences() for word in split_words(sentence, "drop")]


@check("D01")
def _cleaned() -> Measured:
    marks = sum(not word.replace("'", "").isalnum() for word in _listed())
    return f"{len(three_sentences())} sentences, {marks} marks left", len(
        three_sentences()
    ) == 3 and marks == 0


@check("D02")
def _split() -> Measured:
    return f"{len(_listed())} words", len(_listed()) == 30


@check("D03")
def _vocabulary() -> Measured:
    f = figures("C95")
    return f"{f['ignored']} and {f['kept']}", (f["ignored"], f["kept"]) == (23, 24)


@check("D04")
def _ids() -> Measured:
    known = list(dict.fromkeys(word.casefold() for word in _listed()))
    words = WordTokenizer.from_ids({w: n for n, w in enumerate(known, 1)}, case="ignore")
    ids = words.encode("you win or you die")
    again = words.decode(ids)
    said = f"{ids} → “{again}”; <start> {words.id_of('<start>')}, <end> {words.id_of('<end>')}"
    special = {words.id_of(token) for token in ("<start>", "<end>", "<pad>")}
    return said, again == "you win or you die" and not special & set(range(1, 24))


@check("D05")
def _subwords() -> Measured:
    tokenizer = load("en-de").tokenizer
    assert tokenizer is not None
    rare, common = tokenizer.encode("unbelievable"), tokenizer.encode("A man runs")
    said = " and ".join(" ".join(tokenizer.display_tokens(ids)) for ids in (rare, common))
    return said, len(rare) > len(common) == 3 and tokenizer.decode(rare) == "unbelievable"


@check("D06")
def _embedding() -> Measured:
    table = TokenEmbedding(23, 6)
    found = gap(table(torch.tensor([[4]]))[0, 0], table.weight[4])
    widths = presets.by_hand_2024().d_model, presets.vaswani_2017_base().d_model
    return f"row 4: difference {found:g}; widths {widths[0]} and {widths[1]}", (found, *widths) == (
        0,
        6,
        512,
    )


@check("D07")
def _learned_positions() -> Measured:
    positions = LearnedPositions(25, 8)
    rows = positions(torch.tensor([12, 24]), 25)
    same = gap(rows, positions.table.weight[[12, 24]]) == 0
    try:
        positions(torch.tensor([25]), 26)
        message = ""
    except InputError as error:
        message = str(error).partition(";")[0]
    return (
        f"rows 12 and 24 of the table: {same}; {message}",
        same and "26" in message and "25" in message,
    )


@check("D08")
def _sinusoids() -> Measured:
    positions = SinusoidalPositions(10, 6)
    found = []
    for place in (3, 5000):
        row = positions(torch.tensor([place]), place + 1)[0].double()
        angles = [place / 10_000 ** (2 * pair / 6) for pair in range(3)]
        wanted = [part(angle) for angle in angles for part in (math.sin, math.cos)]
        found.append(gap(row, torch.tensor(wanted, dtype=torch.float64)))
    return f"difference at 3 and at 5000: {small(max(found))}", max(found) < 1e-6


@check("D09")
def _compared() -> Measured:
    longer, reads, needs = figures("C63"), figures("C62"), figures("C64")
    said = (
        f"parameters of sinusoids {needs['parameters']}; trained on 8 tokens, right at 8/16/32: "
        + ", ".join(
            f"{kind} " + "/".join(percent(longer[f"{kind}_{n}"]) for n in (8, 16, 32))
            for kind in ("sinusoidal", "rotary")
        )
        + "; learned ones cannot read 16"
    )
    return said, needs["parameters"] == 0 and reads["sinusoidal"] and not reads["learned"]


@check("D10")
def _added() -> Measured:
    f = figures("C65")
    return f"difference {small(f['gap'])}", f["gap"] < 1e-4


@check("D11")
def _longest() -> Measured:
    most = presets.bloem_2024().max_len
    words = WordTokenizer.build(["good bad"])
    kept = len(words.encode("good bad " * 400, max_len=most))
    return f"800 words: {kept} read", most == kept == 512


# --- E ---


@check("E01")
def _block() -> Measured:
    f = figures("C51")
    said = f"difference {small(f['gap'])}; without the sums {f['without_residuals']:.1f}"
    return said, f["gap"] < 1e-6 and f["without_residuals"] > 0.1


@check("E02")
def _orders() -> Measured:
    f = figures("C55")
    said = f"right after training: post-norm {percent(f['post'])}, pre-norm {percent(f['pre'])}"
    return said, min(f["post"], f["pre"]) > 0.95


@check("E03")
def _layer_norm() -> Measured:
    f, eps = figures("C52"), figures("C57")
    said = (
        f"mean {small(f['mean'])}, variance off {small(f['variance'])}; a constant row is finite "
        f"with epsilon: {eps['with_epsilon']}, without: {eps['without']}"
    )
    right = not f["joins"] and f["mean"] < 1e-5 and f["variance"] < 1e-4
    return said, right and eps["with_epsilon"] and not eps["without"]


@check("E04")
def _residuals() -> Measured:
    block = Block(
        ModelConfig(d_model=8, max_len=8).with_(attention__n_heads=2, block__norm="none")
    ).eval()
    for parameter in block.parameters():
        torch.nn.init.zeros_(parameter)
    x = numbers(1, 5, 8).float()
    found = gap(block(x), x)
    return f"difference {found:g}", found == 0


@check("E05")
def _two_layers() -> Measured:
    module, x = FeedForward(6, FeedForwardConfig(d_ff=24)).double().eval(), numbers(1, 5, 6)
    assert module.contract is not None
    hidden = (x @ module.expand.weight.T + module.expand.bias).clamp(min=0)
    found = gap(module(x), hidden @ module.contract.weight.T + module.contract.bias)
    return f"6 → 24 → 6: difference {small(found)}", found < 1e-12


@check("E06")
def _one_layer() -> Measured:
    module, x = FeedForward(6, FeedForwardConfig(n_layers=1)).double().eval(), numbers(1, 5, 6)
    found = gap(module(x), (x @ module.expand.weight.T + module.expand.bias).clamp(min=0))
    return f"6 → 6: difference {small(found)}", found < 1e-12


@check("E07")
def _stacked() -> Measured:
    f = figures("C88")
    deep = Classifier(presets.bloem_2024(n_layers=12, d_model=16, vocab_size=9)).encoder.blocks
    depths = (f["encoder"], f["decoder"], len(deep))
    return "{} and {}; a stack of {}".format(*depths), depths == (6, 6, 12)


@check("E08")
def _dropout() -> Measured:
    model = Seq2Seq(presets.vaswani_2017_base(d_model=16, n_layers=1, vocab_size=9))
    dropout = next(part for part in model.modules() if isinstance(part, torch.nn.Dropout))
    ones = torch.ones(100_000)
    with seeded(0):
        dropped = float((dropout.train()(ones) == 0).double().mean())
    kept = gap(dropout.eval()(ones), ones)
    return f"{percent(dropped)} in training, {kept:g} in evaluation", abs(
        dropped - 0.1
    ) < 0.005 and kept == 0


@check("E09")
def _encoder() -> Measured:
    f = figures("C88")
    return f"{f['encoder']} layers of {f['encoder_parts']}", (f["encoder"], f["encoder_parts"]) == (
        6,
        2,
    )


@check("E10")
def _decoder() -> Measured:
    f = figures("C88")
    return f"{f['decoder']} layers of {f['decoder_parts']}", (f["decoder"], f["decoder_parts"]) == (
        6,
        3,
    )


@check("E11")
def _base() -> Measured:
    f = figures("C90")
    model = build(presets.vaswani_2017_base(vocab_size=50))
    logits = model(torch.tensor([[3, 4, 5]]), torch.tensor([[1, 6]]))
    logits.square().mean().backward()
    reached = sum(p.grad is not None for p in model.parameters())
    total = len(list(model.parameters()))
    sizes = tuple(f[name] for name in ("d_model", "layers", "heads", "d_ff", "dropout"))
    said = f"{sizes}; logits {tuple(logits.shape)}; {reached} of {total} tensors have a gradient"
    return said, sizes == (512, 6, 8, 2048, 0.1) and reached == total


@check("E12")
def _tree() -> Measured:
    f = figures("C89")
    return f"{f['torch']:,} and {f['ours']:,}", f["torch"] == f["ours"] == 44_140_544


@check("E13")
def _images() -> Measured:
    right = sum(
        int(image_patches.shares(image_patches.image(str(d))).argmax()) == d for d in range(10)
    )
    three = image_patches.image("3")
    before, after = (
        float(image_patches.shares(x)[0, 3]) for x in (three, image_patches.shuffled(three))
    )
    test = image_patches.stored_scores()["test"]["accuracy"]
    said = (
        f"{right} of 10 test images; “3” {percent(before)}, patches shuffled {percent(after)}; "
        f"all test images {percent(test)} (stored: `glassformer train digits`)"
    )
    return said, right >= 9 and before > 0.5 > after and test > 0.95


@check("E14")
def _masked_words() -> Measured:
    shares, model = {}, masked_words.masked_model()
    for verdict in ("loved", "hated"):
        sentence = ["i", "read", "a", "<mask>", "book", "and", verdict, "it"]
        with torch.no_grad():
            found = model(torch.tensor([masked_words.ids(sentence)]))[0, 3]
        shares[verdict] = float(sum(found[masked_words.ids([w])[0]] for w in ("great", "lovely")))
    said = "great or lovely: “a <mask> book and loved it” {loved}, “… and hated it” {hated}".format(
        **{verdict: percent(share) for verdict, share in shares.items()}
    )
    return said, shares["loved"] > 0.95 and shares["hated"] < 0.05
