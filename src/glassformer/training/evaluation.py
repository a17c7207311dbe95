"""How good a model is, by the measure that counts: accuracy, BLEU, loss per token and per byte.

Losses are sums over all labels divided by their number, once: no mean of means, so that batch
size and number of processes change nothing. The reported loss is never smoothed. Per byte: by the
bytes of the tokens that are predicted, so not by those of a text's first one.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.data import Batch, Order, evaluation_batches
from glassformer.data.store import Ids
from glassformer.decoding import Beam, metrics
from glassformer.errors import DataError
from glassformer.modes import evaluating
from glassformer.training.moses import lowercase_tokenised
from glassformer.training.problems import HeldOut, Problem
from glassformer.training.processes import Processes
from glassformer.training.translation import GREEDY, translate

__all__ = ["Evaluator", "Scores", "is_better"]

_LOWER_IS_BETTER = frozenset({"loss", "rmse"})
_MOST_LOGITS = 2**27  # of a batch: half a gigabyte, whatever the vocabulary


@dataclass(frozen=True)
class Scores:
    """Named numbers; `main` is the one to choose by."""

    main: str
    values: dict[str, float]
    signatures: dict[str, str]

    @property
    def value(self) -> float:
        """The number to choose by."""
        return self.values[self.main]


def is_better(scores: Scores, best: float | None) -> bool:
    """Whether to prefer these scores to the best so far."""
    if best is None:
        return True
    if scores.main in _LOWER_IS_BETTER:
        return scores.value < best
    return scores.value > best


@dataclass(frozen=True)
class Evaluator:
    """Scores models on held-out examples."""

    problem: Problem
    device: torch.device
    processes: Processes
    precision: AbstractContextManager[object]
    max_tokens: int

    @torch.no_grad()
    def __call__(self, model: nn.Module, held_out: HeldOut, *, beam: Beam = GREEDY) -> Scores:
        """All scores that the problem has; translations are greedy unless a beam is given.

        Dropout is off meanwhile.
        """
        with evaluating(model.modules()), self.precision:
            return self._scores(model, held_out, beam)

    def _scores(self, model: nn.Module, held_out: HeldOut, beam: Beam) -> Scores:
        nll, n_scored, n_right = self._totals(model, held_out)
        if not n_scored:
            raise DataError(
                "the held-out part has nothing to be scored by: hold out more "
                "(data.validation), or hide more words (data.hidden)"
            )
        values = {"loss": nll / n_scored}
        if self.problem.task == "rate":
            return Scores("rmse", {"rmse": math.sqrt(nll / n_scored)}, {})
        if self.problem.task == "classify":
            return Scores("accuracy", {"accuracy": n_right / n_scored, **values}, {})
        if self.problem.task == "continue":
            values["loss_per_byte"] = nll / held_out.n_bytes
            values["bits_per_byte"] = values["loss_per_byte"] / math.log(2)
        if self.problem.task == "mask":
            values["accuracy"] = n_right / n_scored
        if self.problem.task != "translate":
            return Scores("loss", values, {})
        return self._translation(model, held_out, beam, values)

    def _totals(self, model: nn.Module, held_out: HeldOut) -> tuple[float, int, int]:
        """Summed loss, number of labels, number of right answers, over all processes."""
        sums: list[Tensor] = []
        n_scored = 0
        for _, batch in self._batches(held_out):
            here = batch.to(self.device)
            logits = model(*here.inputs)
            loss = self.problem.measure(logits, here.labels, 0.0)
            right = (logits.argmax(dim=-1) == here.labels).sum()
            sums.append(torch.stack([loss.nll, right.to(loss.nll)]))
            n_scored += batch.n_scored
        # The device is asked once, and added up in float64, which some devices do not have.
        nll, n_right = torch.stack(sums).cpu().double().sum(dim=0).tolist() if sums else (0.0, 0.0)
        nll, n_right, n_all = self.processes.totals([nll, n_right, n_scored], self.device)
        return nll, int(n_all), int(n_right)

    def _batches(self, held_out: HeldOut) -> Iterator[tuple[Ids, Batch]]:
        at_once = self.max_tokens
        if self.problem.task in ("continue", "translate"):  # a distribution for every token
            at_once = min(at_once, max(1, _MOST_LOGITS // self.problem.model.vocab_size))
        order = Order(held_out.examples.lengths, max_tokens=at_once)
        return evaluation_batches(held_out.examples, order, self.processes.rank, self.processes.n)

    def _translation(
        self, model: nn.Module, held_out: HeldOut, beam: Beam, values: dict[str, float]
    ) -> Scores:
        """BLEU as sacrebleu counts it, and in the form of the Multi30k papers where possible."""
        language, references = self.problem.language, held_out.references
        mine = range(self.processes.rank, len(held_out.sources), self.processes.n)
        assert self.problem.tokenizer is not None
        texts = translate(
            model,
            self.problem.tokenizer,
            [held_out.sources[at] for at in mine],
            max_len=self.problem.model.max_len,
            beam=beam,
        )
        gathered = self.processes.gather(list(zip(mine, texts, strict=True)))
        hypotheses = [text for _, text in sorted(gathered)]
        scores = {
            "bleu": metrics.bleu(hypotheses, references, language=language),
            "chrf": metrics.chrf(hypotheses, references),
        }
        if self.problem.scores_tokenised:
            scores["bleu_lower_tokenised"] = metrics.bleu(
                lowercase_tokenised(hypotheses, language),
                lowercase_tokenised(references, language),
                form="tokenised",
            )
        values |= {name: score.value for name, score in scores.items()}
        return Scores("bleu", values, {name: score.signature for name, score in scores.items()})
