"""Ids in, hypotheses out: a model, a search, and many sequences in batches.

`translate` is for encoder-decoders, `extend` and `stream` for language models. They run the model
in evaluation mode without gradients and return results in the order of the sequences. Nothing here
knows strings; what makes decoding fast is in `decoding.fast`.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from glassformer.decoding import fast
from glassformer.decoding.beam import Beam, beam_search
from glassformer.decoding.greedy import Chooser, Greedy, MostProbable, collect, steps
from glassformer.decoding.hypotheses import Decoded, Stop
from glassformer.decoding.sampling import RandomChooser, Sampling
from glassformer.decoding.stepper import (
    Ids,
    PrefixStepper,
    SlidingStepper,
    Stepper,
)
from glassformer.errors import ConfigError, InputError, expect, expect_whole
from glassformer.modes import evaluating
from glassformer.nn import LanguageModel, ModelConfig, Seq2Seq
from glassformer.nn.baselines import Translator

Search = Greedy | Beam | Sampling


def translate(
    model: Seq2Seq | Translator,
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
    """Translate sequences of ids.

    `start` and `end` are ids of the target's vocabulary; `prefixes` are ids that each translation
    must begin with. Without `max_new`, a translation may have 50 tokens more than its source, as
    in the 2017 paper (section 6.1). The default search is a beam of 4.
    """
    search = search or Beam()
    _check(model, search, end, 1 if max_new is None else max_new, sources, "source")
    _check_ids(() if prefixes is None else prefixes)
    expect_whole(start, "start", 0)
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
        begun, read = [forced[i] for i in batch], [sources[i] for i in batch]
        stepper: Stepper = (
            PrefixStepper(model, begun, read)
            if isinstance(model, Translator)
            else fast.stepper_for(model, begun, read)
        )
        stop = Stop(end, tuple(limits[i] for i in batch))
        return _search(stepper, search, stop, begun, batch, ledger)

    return fast.in_batches(model, decode, [len(source) for source in sources], batch_size)


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
    """Continue sequences of ids, beyond the model's max_len if need be; greedily by default."""
    search = search or Greedy()
    _check(model, search, end, max_new, prompts, "prefix")

    def decode(batch: list[int]) -> list[Decoded]:
        begun = [prompts[i] for i in batch]
        stop = Stop(end, (max_new,) * len(batch))
        stepper = SlidingStepper(model, begun, fast.stepper_for)
        return _search(stepper, search, stop, begun, batch, ledger)

    lengths = [len(prompt) for prompt in prompts]
    # All sequences of a batch are read again when the longest outgrows the context. With one length
    # per batch, that happens when it would for each sequence alone.
    outgrow = max(lengths, default=0) + max_new > model.config.max_len
    return fast.in_batches(model, decode, lengths, batch_size, equal=outgrow)


def stream(
    model: LanguageModel,
    prompt: Ids,
    *,
    end: int | None,
    search: Greedy | Sampling | None = None,
    max_new: int = 100,
) -> Iterator[int]:
    """Continue one sequence, yielding ids as they are chosen, without the end token."""
    search = search or Greedy()
    _check(model, search, end, max_new, [prompt], "prefix")
    if isinstance(search, Beam):
        raise ConfigError(
            "beam search knows its text only at the end; stream with Greedy() or Sampling()"
        )
    stop = Stop(end, (max_new,))
    with evaluating(model.modules()), torch.inference_mode():
        stepper = SlidingStepper(model, [prompt], fast.stepper_for)
        run = steps(stepper, _chooser(search, [prompt], [0]), stop)
    tokens = (int(step.choice.tokens[0, 0]) for step in fast.paused_between(run, model))
    return (token for token in tokens if token != end)


def _check(
    model: nn.Module,
    search: Search,
    end: int | None,
    max_new: int,
    sequences: Sequence[Ids],
    what: str,
) -> None:
    expect(model, nn.Module, "a model that decodes, such as a Seq2Seq or a LanguageModel")
    expect(search, (Greedy, Beam, Sampling), "a search: Greedy(), Beam() or Sampling()")
    if end is not None:
        expect_whole(end, "end", 0)
    expect_whole(max_new, "max_new", None, None)  # `Stop` checks its size
    _check_ids(sequences)
    empty = next((i for i, ids in enumerate(sequences) if not len(ids)), None)
    if empty is not None:
        raise InputError(
            "the {what} of sequence {empty} is empty; a model needs at least one token, "
            "such as the start or end token",
            what=what,
            empty=empty,
        )


def _check_ids(sequences: Sequence[Ids]) -> None:
    _expect_list(sequences, "several texts as lists of ids")
    for ids in sequences:
        _expect_list(ids, "a text as a list of ids")
        for id_ in ids:
            expect_whole(id_, "an id", 0, error=InputError)


def _expect_list(value: Sequence[object], what: str) -> None:
    if isinstance(value, str | bytes) or not (
        hasattr(value, "__len__") and hasattr(value, "__iter__")
    ):
        raise InputError("expected {what}, got {kind}", what=what, kind=type(value).__name__)


def _search(
    stepper: Stepper,
    search: Search,
    stop: Stop,
    begun: Sequence[Ids],
    numbers: Sequence[int],
    ledger: bool,
) -> list[Decoded]:
    if isinstance(search, Beam):
        return beam_search(stepper, search, stop, ledger=ledger, rank=fast.best_continuations)
    n_samples = search.n_samples if isinstance(search, Sampling) else 1
    run = steps(stepper, _chooser(search, begun, numbers), stop, n_samples)
    return collect(run, stop, n_samples, ledger=ledger)


def _chooser(search: Greedy | Sampling, begun: Sequence[Ids], numbers: Sequence[int]) -> Chooser:
    return MostProbable() if isinstance(search, Greedy) else RandomChooser(search, begun, numbers)


def _room(config: ModelConfig, n_prefix: int, wanted: int) -> int:
    """How many tokens may be produced: learned positions are limited, other kinds are not.

    The last token is never fed back, so it needs no position.
    """
    if config.positions.kind != "learned":
        return wanted
    room = config.max_len - n_prefix + 1
    if room < 1:
        raise InputError(
            "the text has {n_prefix} tokens, but the model has only {max_len} learned "
            "positions; shorten the text",
            n_prefix=n_prefix,
            max_len=config.max_len,
        )
    return min(wanted, room)
