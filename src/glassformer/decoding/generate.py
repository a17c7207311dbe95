"""Ids in, hypotheses out: a model, a search, and many texts in batches.

`translate` is for encoder-decoders, `extend` for language models. Both put the model into
evaluation mode while they run, track no gradients, and return results in the order of the texts.
Nothing here knows strings.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import nn

from glassformer.decoding.batching import by_length, check_batch_size
from glassformer.decoding.beam import Beam, beam_search
from glassformer.decoding.greedy import Greedy, MostProbable
from glassformer.decoding.models import ModelStepper
from glassformer.decoding.recorded import stepper_for
from glassformer.decoding.results import Decoded, Stop
from glassformer.decoding.sampling import Drawn, Sampling
from glassformer.decoding.sliding import Sliding
from glassformer.decoding.walk import Chooser, collect, steps
from glassformer.decoding.workers import cores_for, side_by_side, single_threaded
from glassformer.errors import ConfigError, InputError, expect, expect_whole
from glassformer.modes import evaluating
from glassformer.nn import LanguageModel, ModelConfig, Seq2Seq

__all__ = ["Search", "extend", "stream", "translate"]

Search = Greedy | Beam | Sampling

Ids = Sequence[int]
T = TypeVar("T")


def translate(
    model: Seq2Seq,
    sources: Sequence[Ids],
    *,
    start: int,
    end: int | None,
    search: Search | None = None,
    prefixes: Sequence[Ids] | None = None,
    max_new: int | None = None,
    batch_size: int = 64,
    ledger: bool = False,
) -> list[Decoded]:
    """Translate texts given as ids.

    `start` and `end` are ids of the target's vocabulary; `prefixes` are ids that each translation
    must begin with. Without `max_new`, a translation may have 50 tokens more than its source, as
    in the 2017 paper (section 6.1). The search is a beam of 4 unless given.
    """
    _check(model, search or Beam(), end)
    if max_new is not None:
        _check_max_new(max_new)
    _check_ids(sources)
    expect_whole(start, "start", 0)
    if prefixes is not None:
        _check_ids(prefixes)
    forced = (
        [[start, *ids] for ids in prefixes] if prefixes is not None else [[start]] * len(sources)
    )
    if len(forced) != len(sources):
        raise InputError(
            "got {n_sources} sources and {n_forced} prefixes",
            n_sources=len(sources),
            n_forced=len(forced),
        )
    limits = [
        _room(model.config, len(prefix), len(source) + 50 if max_new is None else max_new)
        for source, prefix in zip(sources, forced, strict=True)
    ]

    def decode(batch: list[int]) -> list[Decoded]:
        begun = [forced[i] for i in batch]
        stepper = stepper_for(model, begun, [sources[i] for i in batch])
        stop = Stop(end, tuple(limits[i] for i in batch))
        return _search(stepper, search or Beam(), stop, begun, batch, ledger)

    return _in_batches(model, [len(source) for source in sources], batch_size, decode)


def extend(
    model: LanguageModel,
    prompts: Sequence[Ids],
    *,
    end: int | None,
    search: Search | None = None,
    max_new: int = 100,
    batch_size: int = 64,
    ledger: bool = False,
) -> list[Decoded]:
    """Continue texts given as ids, beyond the model's max_len if need be.

    Greedily unless a search is given.
    """
    _check(model, search or Greedy(), end)
    _check_max_new(max_new)
    _check_ids(prompts)

    def decode(batch: list[int]) -> list[Decoded]:
        begun = [prompts[i] for i in batch]
        stop = Stop(end, (max_new,) * len(batch))
        stepper = Sliding(model, begun)
        return _search(stepper, search or Greedy(), stop, begun, batch, ledger)

    lengths = [len(prompt) for prompt in prompts]
    # Texts that outgrow the memory read anew when the longest of them does: with neighbours of
    # their own length, that is when they would alone.
    outgrow = max(lengths, default=0) + max_new > model.config.max_len
    return _in_batches(model, lengths, batch_size, decode, equal=outgrow)


def stream(
    model: LanguageModel,
    prompt: Ids,
    *,
    end: int | None,
    search: Greedy | Sampling | None = None,
    max_new: int = 100,
) -> Iterator[int]:
    """Continue one text, id by id as they are chosen; the end token is not among them."""
    _check(model, search or Greedy(), end)
    _check_max_new(max_new)
    _check_ids([prompt])
    if isinstance(search, Beam):
        raise ConfigError("a beam's text is known at its end only: stream greedily or by sampling")
    stop = Stop(end, (max_new,))
    with evaluating(model.modules()), torch.inference_mode():
        stepper = Sliding(model, [prompt])
        run = steps(stepper, _chooser(search or Greedy(), stepper, [prompt], [0]), stop)
    n_cores = cores_for(model)
    while True:
        # For each step anew: what the caller does between them is not ours.
        with evaluating(model.modules()), torch.inference_mode(), single_threaded(n_cores):
            step = next(run, None)
        if step is None:
            return
        token = int(step.choice.tokens[0, 0])
        if token != end:
            yield token


def _check(model: nn.Module, search: Search, end: int | None) -> None:
    """What every call has in common is of the right kind."""
    expect(model, nn.Module, "a model that decodes, such as a Seq2Seq or a LanguageModel")
    expect(search, (Greedy, Beam, Sampling), "a search: Greedy(), Beam() or Sampling()")
    if end is not None:
        expect_whole(end, "end", 0)


def _check_max_new(max_new: int) -> None:
    expect_whole(max_new, "max_new", None, None)  # its size is checked with the others


def _check_ids(texts: Sequence[Ids]) -> None:
    for text in _as_list(texts, "several texts as lists of ids"):
        for id_ in _as_list(text, "a text as a list of ids"):
            expect_whole(id_, "an id", 0, error=InputError)


def _as_list(value: Sequence[T], what: str) -> Sequence[T]:
    if isinstance(value, str | bytes) or not (
        hasattr(value, "__len__") and hasattr(value, "__iter__")
    ):
        raise InputError("expected {what}, got {kind}", what=what, kind=type(value).__name__)
    return value


def _in_batches(
    model: nn.Module,
    lengths: Sequence[int],
    batch_size: int,
    decode: Callable[[list[int]], list[Decoded]],
    *,
    equal: bool = False,
) -> list[Decoded]:
    """Decode texts of similar length together, as many batches at once as there are cores."""
    n_cores = cores_for(model)
    check_batch_size(batch_size)
    fair_share = max(1, math.ceil(len(lengths) / n_cores))  # no core without work
    batches = list(by_length(lengths, min(batch_size, fair_share), equal=equal))
    results: dict[int, Decoded] = {}
    with evaluating(model.modules()):
        for batch, decoded in zip(batches, side_by_side(decode, batches, n_cores), strict=True):
            results.update(zip(batch, decoded, strict=True))
    return [results[i] for i in range(len(results))]


def _search(
    stepper: ModelStepper | Sliding,
    search: Search,
    stop: Stop,
    begun: Sequence[Ids],
    texts: Sequence[int],
    ledger: bool,
) -> list[Decoded]:
    if isinstance(search, Beam):
        return beam_search(stepper, search, stop, ledger=ledger)
    n_samples = search.n_samples if isinstance(search, Sampling) else 1
    run = steps(stepper, _chooser(search, stepper, begun, texts), stop, n_samples)
    return collect(run, stop, n_samples, ledger=ledger)


def _chooser(
    search: Greedy | Sampling,
    stepper: ModelStepper | Sliding,
    begun: Sequence[Ids],
    texts: Sequence[int],
) -> Chooser:
    if isinstance(search, Greedy):
        return MostProbable()
    table = stepper.model.to_vocabulary.weight
    return Drawn(search, begun, table.size(0), texts, table.device)


def _room(config: ModelConfig, n_prefix: int, wanted: int) -> int:
    """How many tokens may be produced: learned positions end somewhere, the others do not.

    The last token produced is never read again, so it needs no position.
    """
    if config.positions.kind != "learned":
        return wanted
    room = config.max_len - n_prefix + 1
    if room < 1:
        raise InputError(
            "the text has {n_prefix} tokens, the model has learned {max_len} positions; "
            "cut the text",
            n_prefix=n_prefix,
            max_len=config.max_len,
        )
    return min(wanted, room)
