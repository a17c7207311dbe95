"""Encoder, decoder, masks: what may be seen, in training and in generation."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.audit.example import PrintedDigits
from glassformer.audit.example_file import load_example
from glassformer.audit.formulas.bounds import WordList
from glassformer.claims.claim import Figures, Group
from glassformer.claims.classifier_claims import held_out_accuracy
from glassformer.claims.properties import influence
from glassformer.claims.specimens import (
    ROUNDING,
    attention,
    difference,
    fit,
    ids,
    refuses,
    seeded,
    translator,
    vectors,
)
from glassformer.claims.training_studies import N_TOKENS, learn_next_token
from glassformer.errors import InputError, ShapeError
from glassformer.nn import Seq2Seq, TextEncoder, attend_written, causal_mask, presets
from glassformer.nn.attention import weigh_values
from glassformer.tasks import load

group = Group("decoder_claims")


@group.claim(
    "C74",
    lambda f: (
        f["unmasked"] < 0.5 * f["chance"]
        and f["masked"] > 0.9 * f["chance"]
        and f["forced_unmasked"] > f["forced_masked"]
        and f["free_unmasked"] < f["free_masked"] - 0.2
    ),
    steps=(20, 100, 200),
    seed=(0, 1, 2),
)
def without_a_mask_the_answers_are_seen(steps: int = 200, seed: int = 0) -> Figures:
    """Random tokens, predicted with the mask and without it; counting, also generated."""
    learn = partial(learn_next_token, steps=steps, seed=seed)
    masked, unmasked = (learn("counting", masked=masked) for masked in (True, False))
    return {
        "chance": math.log(N_TOKENS),
        "masked": learn("noise", masked=True).loss,
        "unmasked": learn("noise", masked=False).loss,
        "forced_masked": masked.teacher_forced,
        "forced_unmasked": unmasked.teacher_forced,
        "free_masked": masked.free_running,
        "free_unmasked": unmasked.free_running,
    }


def _prefix_by_prefix(model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor:
    """The last logits of each prefix: what step-by-step decoding sees."""
    prefixes = (target[:, : n + 1] for n in range(target.size(1)))
    return torch.cat([model(source, prefix)[:, -1:] for prefix in prefixes], dim=1)


@group.claim("C75", lambda f: f["gap"] < ROUNDING)
@torch.no_grad()
def parallel_equals_step_by_step() -> Figures:
    """All positions in one masked pass, compared with one prefix after another."""
    model, source, target = translator(), ids(2, 7, 12), ids(2, 6, 12, seed=1)
    return {"gap": difference(model(source, target), _prefix_by_prefix(model, source, target))}


@group.claim("C76", lambda f: f["gap"] > ROUNDING or f["predictions"] == 1)
@torch.no_grad()
def one_token_at_a_time_in_training() -> Figures:
    """How many predictions one pass gives, and whether they equal those of one token at a time."""
    model, source, target = translator(), ids(1, 7, 12), ids(1, 6, 12, seed=1)
    parallel = model(source, target)
    return {
        "predictions": parallel.size(1),
        "gap": difference(parallel, _prefix_by_prefix(model, source, target)),
    }


@group.claim("C77", lambda f: f["own"] < ROUNDING)
@torch.no_grad()
def training_feeds_the_models_own_outputs() -> Figures:
    """The training pass compared with decoding from the right answers and from its own outputs."""
    model, source, target = translator(), ids(1, 7, 12), ids(1, 6, 12, seed=1)
    trained = model(source, target)
    own = target[:, :1]
    for _ in range(target.size(1) - 1):
        own = torch.cat([own, model(source, own)[:, -1:].argmax(dim=-1)], dim=1)
    return {
        "answers": difference(trained, _prefix_by_prefix(model, source, target)),
        "own": difference(trained, _prefix_by_prefix(model, source, own)),
    }


@group.claim("C78", lambda f: f["rows"] == f["source"] and f["refused"] == 0)
def the_encoder_asks() -> Figures:
    """Whose length the outputs have; the wiring as stated, with values from the decoder."""
    module, decoded, memory = attention(8, n_heads=2), vectors(1, 4, 8), vectors(1, 7, 8, seed=1)
    queries, values = memory[:, None], decoded[:, None]
    return {
        "target": 4,
        "source": 7,
        "rows": module(decoded, memory).size(1),
        "refused": refuses(
            lambda: attend_written(queries, queries, values), (ShapeError, RuntimeError)
        ),
    }


@group.claim("C79", lambda f: f["leak"] < ROUNDING, length=(2, 6, 24), times=(1, 4, 16))
def hidden_scores_become_zero(length: int = 6, times: int = 1) -> Figures:
    """Weight left on hidden keys when their scores are set to 0, and when masked with −∞."""
    scores, seen = times * vectors(length, length), causal_mask(length)
    values = vectors(length, 4, seed=1)
    zeroed = weigh_values(scores * seen, values)
    hidden = weigh_values(scores, values, visible=seen)
    return {
        "leak": float(zeroed.weights[~seen].max()),
        "library": float(hidden.weights[~seen].max()),
    }


def _printed_mask(id_: str) -> Tensor:
    """What a head of the text's masked example may see: the scores not printed as 0."""
    printed = load_example("masked")[id_].printed
    assert isinstance(printed, PrintedDigits)
    return torch.from_numpy(printed.values != 0)


@group.claim("C80", lambda f: f["first_ahead"] == f["second_ahead"] == f["looks_ahead"] == 0)
def both_printed_masks_hide_the_future() -> Figures:
    """The masks of the text's two heads: scores of later positions left visible, and the effect."""
    masks = torch.stack([_printed_mask(f"masked_a{head}_masked") for head in (1, 2)])
    module, x = attention(8, n_heads=2), vectors(1, 3, 8)
    first, second = masks.triu(diagonal=1).sum(dim=(1, 2)).tolist()
    return {
        "first_ahead": first,
        "second_ahead": second,
        "second_hidden": int((~masks[1]).tril(diagonal=-1).sum()),
        "looks_ahead": influence(lambda v: module(v, mask=masks[None]), x).looks_ahead,
    }


@group.claim("C81", lambda f: f["masked"] > f["plain"] + 0.03)
def masking_helps_against_overfitting() -> Figures:
    """Accuracy on new texts after memorising a few, with and without a causal mask."""
    seeds = range(3)
    return {
        "seeds": len(seeds),
        "plain": sum(held_out_accuracy(masked=False, seed=seed) for seed in seeds) / 3,
        "masked": sum(held_out_accuracy(masked=True, seed=seed) for seed in seeds) / 3,
    }


@group.claim(
    "C82",
    lambda f: max(f["unpadded"], f["padded"]) < ROUNDING,
    partly=lambda f: f["unpadded"] < ROUNDING,
)
@torch.no_grad()
def an_encoder_needs_no_mask() -> Figures:
    """What the padding mask changes for an unpadded text and for a padded one."""
    config = presets.bert(vocab_size=20, d_model=16, n_heads=2, n_layers=1, d_ff=32, max_len=10)
    with seeded(0):
        model = TextEncoder(config.with_(architecture="encoder", pad_id=None, init="xavier")).eval()
    text = 1 + ids(2, 6, 19)
    padded = F.pad(text, (0, 3))
    plain = model(text)
    return {
        "unpadded": difference(plain, model(text, torch.ones_like(text).bool())),
        "masked": difference(plain, model(padded, padded.ne(0))[:, :6]),
        "padded": difference(plain, model(padded)[:, :6]),
    }


@group.claim("C83", lambda f: f["accepted"] == f["lengths"] and f["unflattened"] == 0)
@torch.no_grad()
def the_decoders_output_must_be_flattened() -> Figures:
    """The flattened output layer at each length of step-by-step decoding; a map per position."""
    config = presets.by_hand_2024()
    with seeded(0):
        model = Seq2Seq(config).eval()
    source, target = 1 + ids(1, 6, 23), 1 + ids(1, 6, 23, seed=1)
    prefixes = [target[:, :length] for length in range(1, target.size(1) + 1)]
    refused = [refuses(partial(model, source, prefix), (InputError,)) for prefix in prefixes]
    return {
        "lengths": len(prefixes),
        "accepted": refused.count(False),
        "predictions": model(source, target).numel() // config.vocab_size,
        "unflattened": translator()(ids(1, 6, 12), ids(1, 6, 12)).size(1),
    }


@group.claim("C84", lambda f: f["same"] == f["rows"])
def the_largest_logit_wins() -> Figures:
    """Largest logit and largest probability, row by row."""
    logits = 5 * vectors(1000, 23)
    probabilities = torch.softmax(logits, dim=-1)
    same = probabilities.argmax(dim=-1) == logits.argmax(dim=-1)
    return {"rows": len(logits), "same": int(same.sum())}


@group.claim(
    "C85",
    lambda f: f["ends"] > 0 and f["ended"] == f["texts"],
    partly=lambda f: f["ends"] > 0 and f["ended"] > 0,
)
def generation_ends_with_the_end_token() -> Figures:
    """Columns of the printed output layer, `<end>` among them; a translator with such a column."""
    example = load_example("thrones")
    words, answer = example["word_list"].printed, example["decoder_input"].printed
    layer = example["w_vocabulary"].printed
    assert (
        isinstance(words, WordList)
        and isinstance(answer, WordList)
        and isinstance(layer, PrintedDigits)
    )
    model = load("en-de")
    sentences = ["A dog runs.", "Two men are playing football.", "A woman reads a book."]
    answers = model.translate(sentences, beam=1)
    return {
        "columns": layer.values.shape[1],
        "ends": words.items.count(answer.items[-1]),
        "texts": len(sentences),
        "ended": sum(answer.alternatives[0].ended for answer in answers),
    }


@group.claim("C86", lambda f: f["seeds"] > 0 and f["changed"] == f["tensors"])
def parameters_start_random_and_change() -> Figures:
    """The difference between two seeds at the start; parameters changed by one step."""
    model, other = translator(0).train(), translator(1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    apart = difference(model.to_vocabulary.weight.detach(), other.to_vocabulary.weight.detach())
    source, target = ids(8, 7, 12), ids(8, 6, 12, seed=1)

    def loss() -> Tensor:
        return F.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten())

    fit(model.parameters(), loss, steps=1, learning_rate=0.01)
    # A bias of the keys cancels in softmax (C23) and gets no gradient.
    moved = {
        name: difference(before[name], p.detach())
        for name, p in model.named_parameters()
        if not name.endswith("to_keys.bias")
    }
    return {
        "seeds": apart,
        "tensors": len(moved),
        "changed": sum(distance > 0 for distance in moved.values()),
    }


@group.claim("C87", lambda f: f["updates"] > 0)
@torch.no_grad()
def the_example_shows_training() -> Figures:
    """Steps of the worked example with a loss or a gradient; what a forward pass changes."""
    steps = [step for name in ("by-hand", "thrones") for step in load_example(name).steps]
    formulas = [step.formula or "" for step in steps]
    model = translator()
    before = [p.clone() for p in model.parameters()]
    model(ids(1, 7, 12), ids(1, 6, 12))
    changed = zip(before, model.parameters(), strict=True)
    return {
        "steps": len(steps),
        "updates": sum("gradient" in text or "loss" in text for text in formulas),
        "moved": max(difference(old, new) for old, new in changed),
    }
