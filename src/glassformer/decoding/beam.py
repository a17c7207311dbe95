"""Beam search: follow the R most probable continuations of each sequence, return the best.

The rules, all of them tested against brute force:
- The 2R best candidates of a step are considered, so that R can continue even if R of them end.
- A candidate that ends counts only if it is among the R best: a bad ending is not a result.
- Completed sequences are ranked by their sum of log-probabilities divided by a length penalty;
  without one, the shortest would win, since every further token makes the sum smaller.
- A sequence is finished when the best candidate of a step has ended (`stop="best"`), when R of its
  beams have ended (`stop="first"`, and "best" too), or when no open beam can still beat the n-th
  best that ended (`stop="exact"`); never before n have ended, always at its maximum length.

The device finds the candidates of a step; the host decides what becomes of them, for all sequences
at once. Nothing here knows models or caches: they are behind the `Stepper`.
Dims: B sequences, R beams of each, N candidates, V vocabulary, T tokens so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.decoding.hypotheses import (
    Candidate,
    Decoded,
    Fate,
    Hypothesis,
    Ledger,
    LedgerStep,
    Stop,
)
from glassformer.decoding.stepper import MAX_BEAMS, Stepper
from glassformer.errors import ConfigError, Fragment, expect_number, expect_whole, stop_if_cancelled
from glassformer.nn.tensors import Float, Int, Tensor

# --- history: which tokens led to each beam, and which hypotheses are complete -----------------
# Both stay columns of numbers while the search runs; token lists are put together at its end, for
# the few hypotheses that are returned, instead of being copied at every step.
# Dims: B sequences, R beams of each, N completed hypotheses.

Integers = NDArray[np.int64]


class BackPointers:
    """The tokens and parents of all steps so far, from which sequences are read back."""

    def __init__(self, n_sequences: int) -> None:
        self._tokens: list[Integers] = []  # of each step, all beams in one row
        self._before: list[Integers] = []  # their parents' places in the step before
        self._firsts = np.arange(n_sequences)  # place of each sequence's first beam, last step

    def add(self, tokens: Integers, parents: Integers) -> None:
        """Note a step: its tokens (B, R), and which beam of its sequence each continues."""
        n_sequences, n_beams = tokens.shape
        self._tokens.append(tokens.ravel())
        self._before.append((self._firsts[:, None] + parents).ravel())
        self._firsts = np.arange(n_sequences) * n_beams

    def keep(self, rows: Integers) -> None:
        """Continue with these sequences only, in this order."""
        self._firsts = self._firsts[rows]

    def places(self, rows: Integers, beams: Integers) -> Integers:
        """Indices of beams after the last step, among all beams of all sequences."""
        places: Integers = self._firsts[rows] + beams
        return places

    def read(self, n_steps: Integers, places: Integers) -> list[list[int]]:
        """The tokens of the beams that were in these places after this many steps."""
        places = places.copy()
        ids = np.zeros((len(places), max(n_steps, default=0)), dtype=np.int64)
        for step in reversed(range(ids.shape[1])):
            there = n_steps > step
            ids[there, step] = self._tokens[step][places[there]]
            places[there] = self._before[step][places[there]]
        return [row[:n] for row, n in zip(ids.tolist(), n_steps.tolist(), strict=True)]


COMPLETED = np.dtype(
    [
        ("sequence", np.int64),
        ("n_before", np.int64),  # tokens before the last one, to be read from the back-pointers
        ("place", np.int64),  # ... from this place on
        ("token", np.int64),  # the last one: the end token, or the one at which it was cut
        ("total", np.float64),
        ("score", np.float64),
    ]
)
"""The columns of completed hypotheses, one row per hypothesis."""


def best_completed(rows: NDArray[np.void], n_best: int) -> NDArray[np.void]:
    """The n best of each sequence, best first, grouped by sequence; ties: earliest first."""
    ranked = rows[np.lexsort((-rows["score"], rows["sequence"]))]  # stable; the last key leads
    firsts = np.searchsorted(ranked["sequence"], ranked["sequence"])
    return ranked[np.arange(len(firsts)) - firsts < n_best]


_MAX_PENALTY = 10.0  # lengths to this power, or to its negative, stay finite as floats


@dataclass(frozen=True, kw_only=True)
class Beam:
    """Settings of a beam search."""

    size: int = 4
    """Continuations followed at once; 1 is greedy."""
    n_best: int = 1
    """How many hypotheses to return per sequence."""
    length_penalty: float = 1.0
    """Exponent α of the length in the penalty: 0 ranks by plain sums, 1 by their mean."""
    penalty: Literal["power", "gnmt"] = "power"
    """length^α, or ((5 + length) / 6)^α (Wu et al. 2016, used by the 2017 paper with 0.6)."""
    stop: Literal["best", "first", "exact"] = "first"
    """When a sequence is finished: as soon as the most probable continuation has ended, as soon as
    `size` of them have, or when no open one can win any more. The first is the fastest."""

    def __post_init__(self) -> None:
        for name in ("size", "n_best"):
            expect_whole(getattr(self, name), name, None, None)
        expect_number(self.length_penalty, "length_penalty")
        if not 1 <= self.size <= MAX_BEAMS:
            raise ConfigError(
                "the beam must hold from 1 to {most:,} continuations, got {size:,}",
                most=MAX_BEAMS,
                size=self.size,
            )
        if not 1 <= self.n_best <= self.size:
            raise ConfigError(
                "n_best must be between 1 and the beam size, got {n_best} of {size}{remedy}",
                n_best=self.n_best,
                size=self.size,
                remedy=Fragment.of("; use a larger beam") if self.n_best > self.size else "",
            )
        if not abs(self.length_penalty) <= _MAX_PENALTY:  # refuses NaN, too
            raise ConfigError(
                "length_penalty must be from {least:g} to {most:g}, got {length_penalty:g}",
                least=-_MAX_PENALTY,
                most=_MAX_PENALTY,
                length_penalty=self.length_penalty,
            )
        for name, choices in (("penalty", ("power", "gnmt")), ("stop", ("best", "first", "exact"))):
            if getattr(self, name) not in choices:
                raise ConfigError(
                    "{name} must be {names}, got {value!r}",
                    name=name,
                    names=" or ".join(map(repr, choices)),
                    value=getattr(self, name),
                )

    def score(self, total: float, length: int) -> float:
        """The score that ranks hypotheses of different lengths: the sum over the length penalty."""
        return float(total / self.divisor(length))

    def divisor(self, length: int | NDArray[np.int64]) -> float | NDArray[np.float64]:
        """The length penalty of one length, or of each of them."""
        more, unit = (0, 1) if self.penalty == "power" else (5, 6)
        divisor: float | NDArray[np.float64] = ((more + length) / unit) ** self.length_penalty
        return divisor


Flags = NDArray[np.bool_]
Columns = NDArray[np.float32] | NDArray[np.float64]
"""Totals, tokens and parents (3, B, N) of candidates or beams, best first."""


class Candidates(NamedTuple):
    """The best continuations of each sequence, best first."""

    totals: Float[Tensor, "B N"]
    """Sum of log-probabilities, this token's included."""
    log_probabilities: Float[Tensor, "B N"]
    tokens: Int[Tensor, "B N"]
    parents: Int[Tensor, "B N"]
    """Which beam each continues."""


def best_continuations(
    logits: Float[Tensor, "B R V"], totals: Float[Tensor, "B R"], n: int
) -> Candidates:
    """The n best of all R·V ways to continue each sequence (fewer where there are fewer)."""
    n_beams, vocab_size = logits.shape[1:]
    log_probabilities = torch.log_softmax(logits, dim=-1, dtype=totals.dtype)
    sums = totals.unsqueeze(-1) + log_probabilities
    best, places = sums.flatten(1).topk(min(n, n_beams * vocab_size), dim=-1)
    chosen = log_probabilities.flatten(1).gather(1, places)
    return Candidates(best, chosen, places % vocab_size, places // vocab_size)


Rank = Callable[[Tensor, Tensor, int], Candidates]
"""The signature of `best_continuations`; `decoding.fast` has a faster one."""


def beam_search(
    stepper: Stepper,
    beam: Beam,
    stop: Stop,
    *,
    ledger: bool = False,
    rank: Rank = best_continuations,
) -> list[Decoded]:
    """The best continuations of each sequence."""
    search = _Search(stepper, beam, stop, ledger, rank)
    while search.advance():
        pass
    return search.results()


class _Search:
    """The state of a search: a row of the arrays for each sequence that is still in the batch."""

    def __init__(self, stepper: Stepper, beam: Beam, stop: Stop, ledger: bool, rank: Rank) -> None:
        self.stepper, self.beam, self.stop, self.rank = stepper, beam, stop, rank
        self.logits = stepper.start()
        n_sequences = self.logits.size(0)
        self.length = 0
        # Sums of many small numbers: half precision would stall, so single is the least.
        self.precision = torch.promote_types(self.logits.dtype, torch.float32)
        self.totals = self.logits.new_zeros(n_sequences, 1, dtype=self.precision)
        self.sequences = np.arange(n_sequences)  # the sequence of each row
        self.limits = np.array(stop.max_new)
        self.n_found = np.zeros(n_sequences, dtype=np.int64)
        self.best_ended = np.zeros(n_sequences, dtype=np.bool_)  # at this step or an earlier one
        self.is_done = np.zeros(n_sequences, dtype=np.bool_)
        self.history = BackPointers(n_sequences)
        self.completed: list[NDArray[np.void]] = []
        self.best_scores = np.full((n_sequences, beam.n_best), -np.inf)  # of all, ascending
        self.accounts: list[list[LedgerStep]] | None = (
            [[] for _ in range(n_sequences)] if ledger else None
        )

    def advance(self) -> bool:
        """Add one token to every sequence; returns whether any is unfinished."""
        stop_if_cancelled()
        found = self.rank(self.logits, self.totals, 2 * self.beam.size)
        # One transfer, since each waits for the device, as floating-point numbers, which hold every
        # integer up to 2²⁴ exactly (not all devices have double precision).
        columns = [
            column.to(self.precision) for column in (found.totals, found.tokens, found.parents)
        ]
        candidates: Columns = torch.stack(columns).numpy(force=True)  # (3, B, N), best first
        self.length += 1
        ended: Flags = candidates[1] == (-1 if self.stop.end is None else self.stop.end)
        going_on = self._going_on(ended)
        if self.accounts is not None:
            log_probabilities = found.log_probabilities.tolist()
            self._account(self.accounts, candidates, log_probabilities, ended, going_on)
        self._collect(candidates, ended)
        beams = candidates[:, np.arange(len(going_on))[:, None], going_on]
        self.history.add(*beams[1:].astype(np.int64))
        self.best_ended |= ended[:, 0]
        self._finish(beams[0, :, 0])
        n_left = int(np.count_nonzero(~self.is_done))
        if not n_left:
            return False
        if n_left < len(self.sequences) and self.stepper.worth_leaving(n_left):
            beams = self._leave(beams)
        self.totals, tokens, parents = torch.from_numpy(beams).to(self.logits.device)
        self.logits = self.stepper.step(tokens.long(), parents.long())
        return True

    def results(self) -> list[Decoded]:
        best = best_completed(np.concatenate(self.completed), self.beam.n_best)
        hypotheses: list[list[Hypothesis]] = [[] for _ in self.best_scores]
        begun = self.history.read(best["n_before"], best["place"])
        for tokens, (sequence, _, _, last, total, score) in zip(begun, best.tolist(), strict=True):
            has_ended = last == self.stop.end
            whole = tuple(tokens if has_ended else [*tokens, last])
            hypotheses[sequence].append(Hypothesis(whole, total, score, has_ended))
        if self.accounts is None:
            return [Decoded(tuple(mine)) for mine in hypotheses]
        both = zip(hypotheses, self.accounts, strict=True)
        return [Decoded(tuple(mine), Ledger(tuple(account))) for mine, account in both]

    def _going_on(self, ended: Flags) -> Integers:
        """The best candidates that have not ended, in their order."""
        n_parents, vocab_size = self.logits.shape[1:]
        can_go_on = n_parents * (vocab_size - (self.stop.end is not None))
        first_open = ended.argsort(axis=1, kind="stable")
        return first_open[:, : min(self.beam.size, can_go_on)]

    def _collect(self, candidates: Columns, ended: Flags) -> None:
        """Record the hypotheses that end in this step, or are cut at the maximum length."""
        is_cut = self.limits == self.length
        counts = (ended[:, : self.beam.size] | is_cut[:, None]) & ~self.is_done[:, None]
        if not counts.any():
            return
        self.n_found += counts.sum(axis=1)
        totals = candidates[0, :, : self.beam.size].astype(np.float64)
        scores = totals / self.beam.divisor(self.length)
        known = self.best_scores[self.sequences]
        ranked = np.concatenate([known, np.where(counts, scores, -np.inf)], axis=1)
        ranked.sort(axis=1)
        self.best_scores[self.sequences] = ranked[:, -self.beam.n_best :]
        rows, places = counts.nonzero()
        completed = np.empty(len(rows), COMPLETED)
        completed["sequence"] = self.sequences[rows]
        completed["n_before"] = self.length - 1
        tokens, parents = candidates[1:, rows, places].astype(np.int64)
        completed["place"] = self.history.places(rows, parents)
        completed["token"] = tokens
        completed["total"] = totals[rows, places]
        completed["score"] = scores[rows, places]
        self.completed.append(completed)

    def _finish(self, best_open: Columns) -> None:
        """Mark the finished sequences, given the total of each one's best open beam."""
        is_over: Flags = self.n_found >= self.beam.size
        if self.beam.stop == "best":
            is_over |= self.best_ended
        if self.beam.stop == "exact" and self.beam.size > 1:
            # Sums only fall, and the divisor is monotonic: the best that an open beam can still
            # reach is at the next step or at the last one.
            totals, divisor = best_open.astype(np.float64), self.beam.divisor
            possible = np.maximum(totals / divisor(self.length + 1), totals / divisor(self.limits))
            is_over = possible <= self.best_scores[self.sequences, 0]
        is_over &= self.n_found >= self.beam.n_best
        self.is_done |= is_over | (self.limits <= self.length)

    def _leave(self, beams: Columns) -> Columns:
        """Drop the finished sequences from the batch."""
        rows = (~self.is_done).nonzero()[0]
        self.stepper.keep(torch.from_numpy(rows).to(self.logits.device))
        self.history.keep(rows)
        self.sequences, self.limits = self.sequences[rows], self.limits[rows]
        self.n_found, self.is_done = self.n_found[rows], self.is_done[rows]
        self.best_ended = self.best_ended[rows]
        return beams[:, rows]

    def _account(
        self,
        accounts: list[list[LedgerStep]],
        candidates: Columns,
        log_probabilities: list[list[float]],
        ended: Flags,
        going_on: Integers,
    ) -> None:
        """Write this step into the ledgers of the unfinished sequences."""
        kept = np.zeros_like(ended)
        np.put_along_axis(kept, going_on, True, axis=1)
        for row in (~self.is_done).nonzero()[0]:
            last = self.length == self.limits[row]
            step = []
            for place, (total, token, parent) in enumerate(candidates[:, row].T.tolist()):
                counts = place < self.beam.size and (last or bool(ended[row, place]))
                goes_on = bool(kept[row, place]) and not last
                fate: Fate = "ended" if counts else "kept" if goes_on else "dropped"
                step.append(
                    Candidate(
                        parent=int(parent),
                        token=int(token),
                        log_probability=log_probabilities[row][place],
                        total=total,
                        score=self.beam.score(total, self.length),
                        fate=fate,
                    )
                )
            accounts[self.sequences[row]].append(LedgerStep(tuple(step)))
