"""Beam search: follow the R most probable continuations of each text, return the best that end.

The rules, all of them tested against brute force:
- The 2R best candidates of a step are looked at, so that R can go on even if R of them end.
- A candidate that ends counts only if it is among the R best: a bad ending is no result.
- Ended texts are ranked by their sum of log-probabilities divided by a length penalty; without
  one, the shortest text would win, since every further token makes the sum smaller.
- A text is done when the best candidate of a step ends (`stop="best"`), when R of its
  continuations have ended (`stop="first"`), or when no open one can still beat the n-th best that
  ended (`stop="exact"`); at its maximum length in any case.

It knows logits and ids; models and caches are behind the `Stepper`.
Dims: B texts, R rivals ("beams") of each, N candidates, V vocabulary, T tokens so far.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from glassformer.cancelling import stop_if_cancelled
from glassformer.decoding.batching import worth_leaving
from glassformer.decoding.candidates import Candidates, best_continuations
from glassformer.decoding.ledger import Candidate, Fate, Ledger, LedgerStep
from glassformer.decoding.results import Decoded, Hypothesis, Stop
from glassformer.decoding.stepper import Stepper
from glassformer.errors import ConfigError
from glassformer.nn.shapes import Bool, Int, Tensor

__all__ = ["Beam", "beam_search"]

_LARGEST = 1_024  # each continuation has a cache of its own: more would only fill the memory


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
        if not 1 <= self.size <= _LARGEST:
            raise ConfigError(
                f"the beam must hold from 1 to {_LARGEST:,} continuations, got {self.size:,}"
            )
        if not 1 <= self.n_best <= self.size:
            raise ConfigError(
                f"n_best must be between 1 and the beam size, got {self.n_best} of {self.size}; "
                "use a larger beam"
            )
        if not math.isfinite(self.length_penalty):
            raise ConfigError(f"length_penalty must be a finite number, got {self.length_penalty}")
        for name, choices in (("penalty", ("power", "gnmt")), ("stop", ("best", "first", "exact"))):
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"{name} must be {' or '.join(map(repr, choices))}, got {getattr(self, name)!r}"
                )

    def score(self, total: float, length: int) -> float:
        """A sum of log-probabilities as hypotheses of different length are ranked by it."""
        base = length if self.penalty == "power" else (5 + length) / 6
        return float(total / base**self.length_penalty)

    def best_possible(self, total: float, length: int, limit: int) -> float:
        """The highest score that a continuation can still reach: its sum never grows again."""
        return max(self.score(total, length), self.score(total, limit))


def beam_search(stepper: Stepper, beam: Beam, stop: Stop, *, ledger: bool = False) -> list[Decoded]:
    """The best continuations of each text."""
    search = _Search(stepper, beam, stop, ledger)
    while search.advance():
        pass
    return search.results()


class _Search:
    """The state of a search: a row of tensors for each text that is still in the batch."""

    def __init__(self, stepper: Stepper, beam: Beam, stop: Stop, ledger: bool) -> None:
        self.stepper, self.beam, self.stop = stepper, beam, stop
        self.logits = stepper.start()
        n_texts, device = self.logits.size(0), self.logits.device
        self.length = 0
        self.texts = list(range(n_texts))  # the text of each row
        # Sums of many small numbers: half precision would stall, so single is the least.
        precision = torch.promote_types(self.logits.dtype, torch.float32)
        self.totals = torch.zeros(n_texts, 1, dtype=precision, device=device)
        self.sequences = torch.empty(n_texts, 1, 0, dtype=torch.long, device=device)
        self.found: list[list[Hypothesis]] = [[] for _ in range(n_texts)]
        self.done = [False] * n_texts
        self.accounts: list[list[LedgerStep]] | None = (
            [[] for _ in range(n_texts)] if ledger else None
        )

    def advance(self) -> bool:
        """Add one token to every text; returns whether there is more to do."""
        stop_if_cancelled()
        candidates = best_continuations(self.logits, self.totals, 2 * self.beam.size)
        self.length += 1
        ended = self._ended(candidates.tokens)
        going_on = self._going_on(ended)
        if self.accounts is not None:
            self._account(self.accounts, candidates, ended, going_on)
        self._collect(candidates, ended)
        parents = self._follow(candidates, going_on)
        self._finish(ended[:, 0])
        running = torch.tensor([not self.done[text] for text in self.texts])
        if not running.any():
            return False
        if worth_leaving(running):
            rows = running.nonzero().squeeze(1).to(self.totals.device)
            self.stepper.keep(rows)
            parents, self.totals = parents[rows], self.totals[rows]
            self.sequences = self.sequences[rows]
            self.texts = [self.texts[row] for row in rows.tolist()]
        self.logits = self.stepper.step(self.sequences[..., -1], parents)
        return True

    def results(self) -> list[Decoded]:
        """The n best of each text, best first."""
        decoded = []
        for text, found in enumerate(self.found):
            ranked = sorted(found, key=lambda hypothesis: -hypothesis.score)
            ledger = None if self.accounts is None else Ledger(tuple(self.accounts[text]))
            decoded.append(Decoded(tuple(ranked[: self.beam.n_best]), ledger))
        return decoded

    def _ended(self, tokens: Int[Tensor, "B N"]) -> Bool[Tensor, "B N"]:
        if self.stop.end is None:
            return torch.zeros_like(tokens, dtype=torch.bool)
        return tokens == self.stop.end

    def _going_on(self, ended: Bool[Tensor, "B N"]) -> Int[Tensor, "B R"]:
        """The best candidates that have not ended, in their order."""
        n_parents, vocab_size = self.logits.shape[1:]
        can_go_on = n_parents * (vocab_size - (self.stop.end is not None))
        first_open = ended.byte().argsort(dim=-1, stable=True)
        return first_open[:, : min(self.beam.size, can_go_on)]

    def _collect(self, candidates: Candidates, ended: Tensor) -> None:
        """Note the hypotheses that this step completes, or cuts at the maximum length."""
        cut = [self.length == self.stop.max_new[text] for text in self.texts]
        done = [self.done[text] for text in self.texts]
        counts = ended[:, : self.beam.size]
        if any(cut) or any(done):
            cut_here, done_here = torch.tensor([cut, done], device=ended.device).unsqueeze(-1)
            counts = (counts | cut_here) & ~done_here
        rows, places = counts.nonzero(as_tuple=True)
        if not len(rows):
            return
        begun = self.sequences[rows, candidates.parents[rows, places]].tolist()
        tokens = candidates.tokens[rows, places].tolist()
        totals = candidates.totals[rows, places].tolist()
        for row, start, token, total in zip(rows.tolist(), begun, tokens, totals, strict=True):
            has_ended = token == self.stop.end
            self.found[self.texts[row]].append(
                Hypothesis(
                    tokens=tuple(start if has_ended else [*start, token]),
                    log_probability=total,
                    score=self.beam.score(total, self.length),
                    ended=has_ended,
                )
            )

    def _follow(self, candidates: Candidates, going_on: Tensor) -> Int[Tensor, "B R"]:
        """Make the candidates that go on the rivals of the next step; returns their parents."""
        parents = candidates.parents.gather(1, going_on)
        tokens = candidates.tokens.gather(1, going_on)
        self.totals = candidates.totals.gather(1, going_on)
        begun = self.sequences.take_along_dim(parents.unsqueeze(-1), dim=1)
        self.sequences = torch.cat([begun, tokens.unsqueeze(-1)], dim=-1)
        return parents

    def _finish(self, best_ended: Bool[Tensor, " B"]) -> None:
        """Mark the texts that are done."""
        best_has_ended, best_open = best_ended.tolist(), None
        for row, text in enumerate(self.texts):
            found, limit = self.found[text], self.stop.max_new[text]
            if self.length >= limit:
                self.done[text] = True
            if self.done[text] or len(found) < self.beam.n_best:
                continue
            if self.beam.stop == "exact" and self.beam.size > 1:
                best_open = best_open or self.totals[:, 0].tolist()
                to_beat = sorted(hypothesis.score for hypothesis in found)[-self.beam.n_best]
                possible = self.beam.best_possible(best_open[row], self.length + 1, limit)
                self.done[text] = possible <= to_beat
            else:
                enough = len(found) >= self.beam.size
                self.done[text] = enough or (self.beam.stop == "best" and best_has_ended[row])

    def _account(
        self,
        accounts: list[list[LedgerStep]],
        candidates: Candidates,
        ended: Tensor,
        going_on: Tensor,
    ) -> None:
        """Write this step into the ledgers of the texts that are not done."""
        kept = torch.zeros_like(ended).scatter_(1, going_on, True)
        for row, text in enumerate(self.texts):
            if self.done[text]:
                continue
            last = self.length == self.stop.max_new[text]
            step = []
            for place in range(ended.size(1)):
                counts = place < self.beam.size and (last or bool(ended[row, place]))
                goes_on = bool(kept[row, place]) and not last
                fate: Fate = "ended" if counts else "kept" if goes_on else "dropped"
                total = float(candidates.totals[row, place])
                step.append(
                    Candidate(
                        parent=int(candidates.parents[row, place]),
                        token=int(candidates.tokens[row, place]),
                        log_probability=float(candidates.log_probabilities[row, place]),
                        total=total,
                        score=self.beam.score(total, self.length),
                        fate=fate,
                    )
                )
            accounts[text].append(LedgerStep(tuple(step)))
