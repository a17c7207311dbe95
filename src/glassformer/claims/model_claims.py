"""The whole model: layers, sizes, the printed tree, and what it replaces."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.audit.example_file import load_example
from glassformer.audit.formulas.bounds import WordList
from glassformer.claims.claim import Figures, Group
from glassformer.claims.costs import growth, time_calls
from glassformer.claims.properties import RecurrentLayer, layer_cost, make_layer, path_lengths
from glassformer.claims.specimens import (
    LENGTHS,
    ROUNDING,
    accuracy,
    attention,
    difference,
    fit,
    one_thread,
    seeded,
    translator,
    vectors,
)
from glassformer.nn import (
    Block,
    FeedForward,
    MultiHeadAttention,
    Seq2Seq,
    attend_written,
    build,
    presets,
)
from glassformer.nn.blocks import Stack
from glassformer.nn.description import count_parameters
from glassformer.tasks import load
from glassformer.text import CharacterTokenizer, WordTokenizer, split_words, tokens_per_word
from glassformer.training import RECIPES

model_group = Group("model_claims")


def _sublayers(made: nn.Module) -> int:
    kinds = (MultiHeadAttention, FeedForward)
    return sum(isinstance(part, kinds) for part in made.children())


@model_group.claim(
    "C88",
    lambda f: (f["encoder"], f["encoder_parts"], f["decoder"], f["decoder_parts"]) == (6, 2, 6, 3),
)
def six_layers_of_two_and_three() -> Figures:
    """Blocks of the base model and the sublayers of each, counted in the modules."""
    with torch.device("meta"):
        model = Seq2Seq(presets.vaswani_2017_base())
    parts = {
        name: {_sublayers(made) for made in stack.blocks}
        for name, stack in (("encoder", model.encoder), ("decoder", model.decoder))
    }
    return {
        "encoder": len(model.encoder.blocks),
        "encoder_parts": max(parts["encoder"]),
        "decoder": len(model.decoder.blocks),
        "decoder_parts": max(parts["decoder"]),
    }


def _weights_of(stack: Stack) -> int:
    """Parameters of a stack without its embedding table."""
    return sum(p.numel() for name, p in stack.named_parameters() if "embedding" not in name)


@model_group.claim(
    "C89", lambda f: f["torch"] == f["ours"] == 44_140_544 and f["layers"] == f["norms"] == 12
)
def the_printed_tree() -> Figures:
    """Parts and parameters of nn.Transformer, and of ours in its conventions."""
    with torch.device("meta"):
        theirs = nn.Transformer(512, 8, 6, 6, 2048, 0.1, batch_first=True)
        ours = Seq2Seq(presets.torch_nn_transformer(vocab_size=10))
    kinds = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    return {
        "torch": count_parameters(theirs),
        "ours": _weights_of(ours.encoder) + _weights_of(ours.decoder),
        "layers": sum(isinstance(part, kinds) for part in theirs.modules()),
        "norms": sum(isinstance(part, Block) for part in ours.modules()),
    }


@model_group.claim(
    "C90",
    lambda f: (
        (f["d_model"], f["layers"], f["heads"], f["d_ff"]) == (512, 6, 8, 2048)
        and math.isclose(f["dropout"], 0.1)
    ),
)
def the_base_sizes() -> Figures:
    """The sizes of the paper's base model, as its preset builds it."""
    config = presets.vaswani_2017_base()
    with torch.device("meta"):
        first = Seq2Seq(config).encoder.blocks[0]
    assert isinstance(first, Block)
    return {
        "d_model": first.attention.d_model,
        "layers": config.n_layers,
        "heads": first.attention.n_heads,
        "d_ff": first.feed_forward.expand.out_features,
        "dropout": first.dropout.p,
    }


@model_group.claim(
    "C91", lambda f: f["attention"] == 1 and f["recurrence"] == f["steps"] == f["positions"] - 1
)
def recurrence_waits_and_attention_does_not() -> Figures:
    """How many layers, or time steps, lie between the first and the last of eight positions."""
    n = 8
    with seeded(0):
        joined, recurrent = make_layer("attention", n, 4), make_layer("recurrence", n, 4)
    assert isinstance(recurrent, RecurrentLayer)
    x = vectors(n, 4)
    return {
        "positions": n,
        "attention": float(path_lengths(joined, x, n).max()),
        "recurrence": float(path_lengths(recurrent.step, x, n)[-1, 0]),
        "steps": layer_cost("recurrence", n, 4).sequential_steps - 1,
    }


@model_group.seconds("C91", lambda f: f["lstm_last"] / f["blocks_last"])
def seconds_of_blocks_and_recurrence() -> Figures:
    """Forward and backward pass, on the GPU if there is one, else on one core."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with seeded(0):
        config = presets.bloem_2024(d_model=64, n_heads=4)
        blocks = nn.Sequential(*(Block(config) for _ in range(2))).to(device)
        recurrent = nn.LSTM(64, 64, num_layers=2, batch_first=True).to(device)

    def step(output: Callable[[Tensor], Tensor], x: Tensor) -> None:
        output(x).square().mean().backward()

    ours, theirs = {}, {}
    with one_thread():
        for length in LENGTHS:
            x = vectors(1, length, 64).to(device)
            steps = [partial(step, blocks, x), partial(step, lambda x: recurrent(x)[0], x)]
            ours[length], theirs[length] = time_calls(steps)
    first, last = LENGTHS[0], LENGTHS[-1]
    return {
        "shortest": first,
        "longest": last,
        "blocks_first": 1000 * ours[first].best,
        "blocks_last": 1000 * ours[last].best,
        "blocks_growth": growth({length: timing.best for length, timing in ours.items()}),
        "lstm_first": 1000 * theirs[first].best,
        "lstm_last": 1000 * theirs[last].best,
        "lstm_growth": growth({length: timing.best for length, timing in theirs.items()}),
        "spread": max(timing.spread for timing in (*ours.values(), *theirs.values())),
    }


@model_group.claim("C92", lambda f: f["recurrent"] > 0 or f["order_gap"] > ROUNDING)
@torch.no_grad()
def the_transformer_uses_recurrent_attention() -> Figures:
    """Recurrent parts of the base model; whether one output depends on another."""
    with torch.device("meta"):
        model = Seq2Seq(presets.vaswani_2017_base())
    kinds = (nn.RNNBase, nn.RNNCellBase, RecurrentLayer)
    module, x = attention(8, n_heads=2), vectors(1, 6, 8)
    backwards = torch.cat([module(x[:, [at]], x) for at in reversed(range(6))], dim=1).flip(1)
    return {
        "recurrent": sum(isinstance(part, kinds) for part in model.modules()),
        "order_gap": difference(backwards, module(x)),
    }


@model_group.claim("C93", lambda f: f["weights_move"] > ROUNDING and f["columns"] == f["keys"])
def the_product_with_v_relates() -> Figures:
    """Change V alone: do the attention weights change, or the outputs?"""
    queries, keys = vectors(1, 5, 4), vectors(1, 6, 4, seed=1)
    one, other = (attend_written(queries, keys, vectors(1, 6, 3, seed=seed)) for seed in (2, 3))
    return {
        "keys": keys.size(1),
        "columns": one.context.size(-1),
        "weights_move": difference(one.weights, other.weights),
        "outputs_move": difference(one.context, other.context),
    }


@model_group.claim(
    "C94",
    lambda f: f["accuracy"] > 0.95,
    partly=lambda f: f["loss"] < 0.5 * f["start"],
)
def adam_trains_it() -> Figures:
    """A small encoder-decoder learns to copy five tokens."""
    model = translator().train()
    generator = torch.Generator().manual_seed(0)

    def read(size: int) -> tuple[Tensor, Tensor]:
        text = torch.randint(1, 12, (size, 5), generator=generator)
        return model(text, F.pad(text, (1, -1))).flatten(0, 1), text.flatten()

    with torch.no_grad():
        start = float(F.cross_entropy(*read(64)))
    loss = fit(
        model.parameters(), lambda: F.cross_entropy(*read(32)), steps=200, learning_rate=0.005
    )
    with torch.no_grad():
        return {"start": start, "loss": loss, "accuracy": accuracy(*read(200))}


# --- tokens and data ---
# vocabularies, words in a token, and what BERT and its relatives share.


token_group = Group("token_claims")


def three_sentences() -> list[str]:
    """The three sentences of the by-hand text, as its worked example has them."""
    printed = load_example("thrones")["corpus"].printed
    assert isinstance(printed, WordList)
    return [text for text in printed.items if text is not None]


@token_group.claim("C95", lambda f: f["kept"] == 23, partly=lambda f: f["ignored"] == 23)
def the_vocabulary_has_23_words() -> Figures:
    """Distinct words of the corpus, case-sensitive and not."""
    corpus = three_sentences()
    return {
        "words": sum(len(split_words(text, "drop")) for text in corpus),
        "kept": len(WordTokenizer.build(corpus, case="keep").words),
        "ignored": len(WordTokenizer.build(corpus, case="ignore").words),
    }


_EVERYDAY = (
    "A man in a blue shirt is standing on a ladder, cleaning a window.",
    "Two children are playing with a dog in the park.",
)
_LEARNED = (
    "The committee postponed its decision because nobody had read the appendix.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
)


@token_group.claim(
    "C96",
    lambda f: all(0.7 <= f[kind] <= 0.8 for kind in ("everyday", "learned", "letters")),
    partly=lambda f: f["letters"] < f["learned"] < 0.75 < f["everyday"],
)
def a_token_is_three_quarters_of_a_word() -> Figures:
    """Words per token: everyday and learned English in subwords, and in letters."""
    shipped = load("en-de").reader
    letters = CharacterTokenizer.build(_EVERYDAY)
    return {
        "vocabulary": shipped.vocab_size,
        "everyday": 1 / tokens_per_word(shipped, _EVERYDAY),
        "learned": 1 / tokens_per_word(shipped, _LEARNED),
        "letters": 1 / tokens_per_word(letters, _EVERYDAY),
    }


@token_group.claim("C97", lambda f: f["gigabytes"] == 570, decidable=lambda f: f["copies"] > 0)
def the_data_set_has_570_gigabytes() -> Figures:
    """Recipes that read such a data set, and what 570 GB would be in tokens."""
    shipped = load("en-de").reader
    n_bytes = sum(len(text.encode()) for text in _EVERYDAY)
    n_tokens = sum(map(len, shipped.encode_batch(_EVERYDAY)))
    copies = [name for name in RECIPES if "chatgpt" in name]
    return {"copies": len(copies), "billions": 570 * n_tokens / n_bytes}


@token_group.claim("C98", lambda f: f["attending"] == f["blocks"] > 0)
def relatives_share_self_attention() -> Figures:
    """Blocks of five models, shrunk, that have self-attention."""
    sizes = {"vocab_size": 8, "d_model": 8, "n_heads": 2, "n_layers": 2, "max_len": 8}
    names = ("bert", "gpt2", "llama", "bloem_2024", "vaswani_2017_base")
    with torch.device("meta"):
        models = [build(presets.preset(name, **sizes)) for name in names]
    blocks = [part for model in models for part in model.modules() if isinstance(part, Block)]
    return {
        "models": len(models),
        "blocks": len(blocks),
        "attending": sum(isinstance(part.attention, MultiHeadAttention) for part in blocks),
    }
