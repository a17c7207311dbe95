"""Beam search: follow the R most probable continuations of each text, return the best that end.

The rules, all of them tested against brute force:
- The 2R best candidates of a step are looked at, so that R can go on even if R of them end.
- A candidate that ends counts only if it is among the R best: a bad ending is no result.
- Ended texts are ranked by their sum of log-probabilities divided by a length penalty; without
  one, the shortest text would win, since every further token makes the sum smaller.
- A text is done when the best candidate of a step has ended (`stop="best"`), when R of its
  continuations have ended (`stop="first"`, and "best" too), or when no open one can still beat the
  n-th best that ended (`stop="exact"`); not before n have ended, but at its maximum length in any
  case.

The device finds the candidates of a step; what becomes of them is decided on the host, for all
texts at once. Nothing here knows models or caches: they are behind the `Stepper`.
Dims: B texts, R rivals ("beams") of each, N candidates, V vocabulary, T tokens so far.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.cancelling import stop_if_cancelled
from glassformer.decoding.candidates import Candidates, best_continuations
from glassformer.decoding.endings import Ended, Endings
from glassformer.decoding.ledger import Candidate, Fate, Ledger, LedgerStep
from glassformer.decoding.results import Decoded, Hypothesis, Stop
from glassformer.decoding.stepper import MOST_RIVALS, Stepper
from glassformer.decoding.trail import Trail
from glassformer.errors import ConfigError, expect_number, expect_whole
from glassformer.nn.shapes import Int, Tensor

__all__ = ["Beam", "beam_search"]

_STRONGEST = 10.0  # a length to this power, or one over it, is a float for any text there can be


@dataclass(frozen=True, kw_only=True)
class Beam:
    """Settings of a beam search."""

    size: int = 4
    """Continuations followed at once; 1 is greedy."""
    n_best: int = 1
    """How many results to return for each text."""
    length_penalty: float = 1.0
    """Exponent α of the length in the penalty: 0 ranks by plain sums, 1 by their mean."""
    penalty: Literal["power", "gnmt"] = "power"
    """length^α, or ((5 + length) / 6)^α (Wu et al. 2016, used by the 2017 paper with 0.6)."""
    stop: Literal["best", "first", "exact"] = "first"
    """When a text is done: as soon as the most probable continuation ended, as soon as `size` of
    them ended, or when none that is open can win any more. The first is the fastest."""

    def __post_init__(self) -> None:
        for name in ("size", "n_best"):
            expect_whole(getattr(self, name), name, None, None)
        expect_number(self.length_penalty, "length_penalty")
        if not 1 <= self.size <= MOST_RIVALS:
            raise ConfigError(
                "the beam must hold from 1 to {most_rivals:,} continuations, got {size:,}",
                most_rivals=MOST_RIVALS,
                size=self.size,
            )
        if not 1 <= self.n_best <= self.size:
            raise ConfigError(
                f"n_best must be between 1 and the beam size, got {self.n_best} of {self.size}"
                + ("; use a larger beam" if self.n_best > self.size else "")
            )
        if not abs(self.length_penalty) <= _STRONGEST:  # not a number is refused, too
            raise ConfigError(
                "length_penalty must be from {least:g} to {strongest:g}, got {length_penalty:g}",
                least=-_STRONGEST,
                strongest=_STRONGEST,
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
        """A sum of log-probabilities as hypotheses of different length are ranked by it."""
        return float(total / self.divisor(length))

    def divisor(self, length: int | NDArray[np.int64]) -> float | NDArray[np.float64]:
        """The length penalty of one length, or of each of them."""
        more, unit = (0, 1) if self.penalty == "power" else (5, 6)
        divisor: float | NDArray[np.float64] = ((more + length) / unit) ** self.length_penalty
        return divisor


Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Sums = NDArray[np.float32] | NDArray[np.float64]


def beam_search(stepper: Stepper, beam: Beam, stop: Stop, *, ledger: bool = False) -> list[Decoded]:
    """The best continuations of each text."""
    search = _Search(stepper, beam, stop, ledger)
    while search.advance():
        pass
    return search.results()


class _Shortlist(NamedTuple):
    """Candidates on the host (B, N), best first; see `Candidates`."""

    totals: Sums
    tokens: Integers
    parents: Integers

    @classmethod
    def of(cls, candidates: Candidates) -> "_Shortlist":
        # One transfer, since each waits for the device, as floating-point numbers, which hold every
        # integer up to 2²⁴ exactly (not all devices have double precision).
        told = (candidates.tokens, candidates.parents)
        packed = torch.stack([candidates.totals, *(x.to(candidates.totals.dtype) for x in told)])
        totals, tokens, parents = packed.numpy(force=True)
        return cls(totals, tokens.astype(np.int64), parents.astype(np.int64))

    def at(self, *index: Integers) -> "_Shortlist":
        """Those of some rows, or in some places of them."""
        return _Shortlist(self.totals[index], self.tokens[index], self.parents[index])


class _Search:
    """The state of a search: a row of the arrays for each text that is still in the batch."""

    def __init__(self, stepper: Stepper, beam: Beam, stop: Stop, ledger: bool) -> None:
        self.stepper, self.beam, self.stop = stepper, beam, stop
        self.logits = stepper.start()
        n_texts = self.logits.size(0)
        self.length = 0
        # Sums of many small numbers: half precision would stall, so single is the least.
        self.precision = torch.promote_types(self.logits.dtype, torch.float32)
        self.totals = self.logits.new_zeros(n_texts, 1, dtype=self.precision)
        self.texts = np.arange(n_texts)  # the text of each row
        self.limits = np.array(stop.max_new)
        self.n_found = np.zeros(n_texts, dtype=np.int64)
        self.best_ended = np.zeros(n_texts, dtype=np.bool_)  # at this step or an earlier one
        self.is_done = np.zeros(n_texts, dtype=np.bool_)
        self.trail = Trail(n_texts)
        self.endings = Endings()
        self.best_scores = np.full((n_texts, beam.n_best), -np.inf)  # of all texts, ascending
        self.accounts: list[list[LedgerStep]] | None = (
            [[] for _ in range(n_texts)] if ledger else None
        )

    def advance(self) -> bool:
        """Add one token to every text; returns whether there is more to do."""
        stop_if_cancelled()
        candidates = best_continuations(self.logits, self.totals, 2 * self.beam.size)
        shortlist = _Shortlist.of(candidates)
        self.length += 1
        ended = self._ended(shortlist.tokens)
        going_on = self._going_on(ended)
        if self.accounts is not None:
            log_probabilities = candidates.log_probabilities.tolist()
            self._account(self.accounts, shortlist, log_probabilities, ended, going_on)
        self._collect(shortlist, ended)
        rivals = shortlist.at(np.arange(len(going_on))[:, None], going_on)
        self.trail.add(rivals.tokens, rivals.parents)
        self.best_ended |= ended[:, 0]
        self._finish(rivals.totals[:, 0])
        n_left = int(np.count_nonzero(~self.is_done))
        if not n_left:
            return False
        if n_left < len(self.texts) and self.stepper.worth_leaving(n_left):
            rivals = self._leave(rivals)
        tokens, parents = self._follow(rivals)
        self.logits = self.stepper.step(tokens, parents)
        return True

    def results(self) -> list[Decoded]:
        """The n best of each text, best first."""
        best = self.endings.best(self.beam.n_best)
        hypotheses: list[list[Hypothesis]] = [[] for _ in self.best_scores]
        begun = self.trail.read(best.n_before, best.places)
        columns = (best.texts, best.tokens, best.totals, best.scores)
        rows = zip(begun, *(column.tolist() for column in columns), strict=True)
        for tokens, text, last, total, score in rows:
            has_ended = last == self.stop.end
            tokens = tuple(tokens if has_ended else [*tokens, last])
            hypotheses[text].append(Hypothesis(tokens, total, score, has_ended))
        if self.accounts is None:
            return [Decoded(tuple(mine)) for mine in hypotheses]
        both = zip(hypotheses, self.accounts, strict=True)
        return [Decoded(tuple(mine), Ledger(tuple(account))) for mine, account in both]

    def _ended(self, tokens: Integers) -> Flags:
        if self.stop.end is None:
            return np.zeros(tokens.shape, dtype=np.bool_)
        ended: Flags = tokens == self.stop.end
        return ended

    def _going_on(self, ended: Flags) -> Integers:
        """The best candidates that have not ended, in their order."""
        n_parents, vocab_size = self.logits.shape[1:]
        can_go_on = n_parents * (vocab_size - (self.stop.end is not None))
        first_open = ended.argsort(axis=1, kind="stable")
        return first_open[:, : min(self.beam.size, can_go_on)]

    def _collect(self, candidates: _Shortlist, ended: Flags) -> None:
        """Note the hypotheses that this step completes, or cuts at the maximum length."""
        is_cut = self.limits == self.length
        counts = (ended[:, : self.beam.size] | is_cut[:, None]) & ~self.is_done[:, None]
        if not counts.any():
            return
        self.n_found += counts.sum(axis=1)
        totals = candidates.totals[:, : self.beam.size].astype(np.float64)
        scores = totals / self.beam.divisor(self.length)
        self._rank(np.where(counts, scores, -np.inf))
        rows, places = counts.nonzero()
        self.endings.add(
            Ended(
                texts=self.texts[rows],
                n_before=np.full(len(rows), self.trail.n_steps),
                places=self.trail.places(rows, candidates.parents[rows, places]),
                tokens=candidates.tokens[rows, places],
                totals=totals[rows, places],
                scores=scores[rows, places],
            )
        )

    def _rank(self, scores: NDArray[np.float64]) -> None:
        """Put the scores of a step (B, R) among the n best of each text."""
        ranked = np.concatenate([self.best_scores[self.texts], scores], axis=1)
        ranked.sort(axis=1)
        self.best_scores[self.texts] = ranked[:, -self.beam.n_best :]

    def _finish(self, best_open: Sums) -> None:
        """Mark the texts that are done."""
        if self.beam.stop == "exact" and self.beam.size > 1:
            is_over = self._cannot_win(best_open)
        else:
            is_over = self.n_found >= self.beam.size
            if self.beam.stop == "best":
                is_over |= self.best_ended
        is_over &= self.n_found >= self.beam.n_best
        self.is_done |= is_over | (self.limits <= self.length)

    def _cannot_win(self, best_open: Sums) -> Flags:
        """Where no open continuation can still beat the n-th best that ended."""
        totals, divisor = best_open.astype(np.float64), self.beam.divisor
        # A sum never grows again: what it is divided by is largest at the next step or at the end.
        possible = np.maximum(totals / divisor(self.length + 1), totals / divisor(self.limits))
        beaten: Flags = possible <= self.best_scores[self.texts, 0]
        return beaten

    def _leave(self, rivals: _Shortlist) -> _Shortlist:
        """Go on without the texts that are done."""
        rows = (~self.is_done).nonzero()[0]
        self.stepper.keep(torch.from_numpy(rows).to(self.logits.device))
        self.trail.keep(rows)
        self.texts, self.limits = self.texts[rows], self.limits[rows]
        self.n_found, self.is_done = self.n_found[rows], self.is_done[rows]
        self.best_ended = self.best_ended[rows]
        return rivals.at(rows)

    def _follow(self, rivals: _Shortlist) -> tuple[Int[Tensor, "B R"], Int[Tensor, "B R"]]:
        """Send the rivals of the next step to the device; returns their tokens and parents."""
        device = self.logits.device
        self.totals = torch.from_numpy(rivals.totals).to(device, self.precision)
        choices = torch.from_numpy(np.stack([rivals.tokens, rivals.parents]))
        tokens, parents = choices.to(device).unbind()
        return tokens, parents

    def _account(
        self,
        accounts: list[list[LedgerStep]],
        candidates: _Shortlist,
        log_probabilities: list[list[float]],
        ended: Flags,
        going_on: Integers,
    ) -> None:
        """Write this step into the ledgers of the texts that are not done."""
        kept = np.zeros_like(ended)
        np.put_along_axis(kept, going_on, True, axis=1)
        for row in (~self.is_done).nonzero()[0]:
            last = self.length == self.limits[row]
            step = []
            for place in range(ended.shape[1]):
                counts = place < self.beam.size and (last or bool(ended[row, place]))
                goes_on = bool(kept[row, place]) and not last
                fate: Fate = "ended" if counts else "kept" if goes_on else "dropped"
                total = float(candidates.totals[row, place])
                step.append(
                    Candidate(
                        parent=int(candidates.parents[row, place]),
                        token=int(candidates.tokens[row, place]),
                        log_probability=log_probabilities[row][place],
                        total=total,
                        score=self.beam.score(total, self.length),
                        fate=fate,
                    )
                )
            accounts[self.texts[row]].append(LedgerStep(tuple(step)))
