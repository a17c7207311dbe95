"""Evaluation: accuracy, BLEU, loss per token and per byte.

A loss is the sum over all labels divided by their number, not a mean of batch means, so batch size
and number of processes do not matter. The reported loss has no label smoothing. The loss per byte
counts the bytes of predicted tokens, so not those of a text's first token.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.checkpoint import Checkpoint
from glassformer.data.batches import Batch
from glassformer.data.loader import Order, evaluation_batches
from glassformer.data.token_store import Ids
from glassformer.decoding import Beam, Greedy, Search, metrics
from glassformer.decoding import translate as translate_ids
from glassformer.errors import ConfigError, DataError, NotInstalledError, UnknownNameError
from glassformer.modes import evaluating
from glassformer.nn import Seq2Seq
from glassformer.nn.baselines import Translator
from glassformer.text import Tokenizer
from glassformer.training.problems.prepared_problem import HeldOut, PreparedProblem
from glassformer.training.problems.problem_readers import prepare
from glassformer.training.processes import Processes, choose_device, precision
from glassformer.training.recipes import RECIPES, recipe
from glassformer.training.run_config import RunConfig
from glassformer.training.settings import changed, restored

_LOWER_IS_BETTER = frozenset({"loss", "rmse"})
_MOST_LOGITS = 2**27  # per batch: half a gigabyte, whatever the vocabulary
_TOKENS_PER_BATCH = 16_384
_SENTENCES_PER_BATCH = 512  # enough to fill a GPU, few enough for the caches of a beam

GREEDY = Beam(size=1)


@dataclass(frozen=True)
class Scores:
    """Named scores; `main` is the one that selects the best weights."""

    main: str
    values: dict[str, float]
    signatures: dict[str, str]

    @property
    def value(self) -> float:
        return self.values[self.main]


def final_beam(config: RunConfig) -> Beam:
    """The beam search that scores translations at the end of a run."""
    return Beam(size=config.loop.beam, length_penalty=config.loop.length_penalty)


def is_better(scores: Scores, best: float | None, best_loss: float | None) -> bool:
    """Whether these scores beat the best so far.

    Of equal scores, the lower loss decides: of a few held-out examples, all are soon right.
    """
    if best is None:
        return True
    if scores.value == best:
        return best_loss is not None and scores.values.get("loss", math.inf) < best_loss
    return (scores.value < best) == (scores.main in _LOWER_IS_BETTER)


@dataclass(frozen=True)
class Evaluator:
    """Scores models on held-out examples."""

    problem: PreparedProblem
    device: torch.device
    processes: Processes
    precision: AbstractContextManager[object]
    max_tokens: int

    @torch.no_grad()
    def __call__(self, model: nn.Module, held_out: HeldOut, *, beam: Beam = GREEDY) -> Scores:
        """All scores of the problem, in evaluation mode; translation is greedy by default."""
        with evaluating(model.modules()), self.precision:
            return self._scores(model, held_out, beam)

    def _scores(self, model: nn.Module, held_out: HeldOut, beam: Beam) -> Scores:
        nll, n_scored, n_right = self._totals(model, held_out)
        if not n_scored:
            raise DataError(
                "nothing in the held-out part can be scored: hold out more (data.validation), "
                "or mask more words (data.hidden)"
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
        """Summed loss, number of labels and of right answers, over all processes."""
        sums: list[Tensor] = []
        n_scored = 0
        for _, batch in self._batches(held_out):
            here = batch.to(self.device)
            logits = model(*here.inputs)
            loss = self.problem.measure(logits, here.labels, 0.0)
            right = (logits.argmax(dim=-1) == here.labels).sum()
            sums.append(torch.stack([loss.nll, right.to(loss.nll)]))
            n_scored += batch.n_scored
        # One transfer, then summed in float64, which some devices lack.
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
        """BLEU and chrF by sacrebleu, and optionally BLEU as in the Multi30k papers."""
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


def assess(
    model: Checkpoint, split: str = "test", *, data: Path | None = None, device: str = "auto"
) -> dict[str, Scores]:
    """Scores by split: `test` means every test split; or `validation`, or the name of one."""
    config = _config_of(model)
    if data is not None:
        config = changed(config, {"data.folder": str(data)})
    problem = prepare(config, model.tokenizer)
    _check_same_data(model, problem)
    parts: dict[str, HeldOut] = dict(problem.tests)
    if problem.valid is not None:
        parts["validation"] = problem.valid
    wanted = list(problem.tests) if split == "test" and problem.tests else [split]
    if split == "test" and not problem.tests:
        raise ConfigError("this data set has no test split; use --split validation")
    for name in wanted:
        if name not in parts:
            raise UnknownNameError("split", name, ["test", *parts])
    where = choose_device(device, Processes())
    # CPUs evaluate in float32, the reference, whatever precision the model was trained in.
    asked = "float32" if where.type == "cpu" else config.loop.precision
    evaluator = Evaluator(
        problem, where, Processes(), precision(asked, where), max_tokens=_TOKENS_PER_BATCH
    )
    beam = final_beam(config)
    home = next(model.model.parameters()).device
    moved = model.model.to(where)
    try:
        return {name: evaluator(moved, parts[name], beam=beam) for name in wanted}
    finally:
        model.model.to(home)


def _check_same_data(model: Checkpoint, problem: PreparedProblem) -> None:
    """Refuse other files: their held-out part may overlap the training data."""
    known = model.about.get("checksums")
    if isinstance(known, Mapping) and dict(known) != problem.checksums:
        names = ", ".join(sorted({*known, *problem.checksums}))
        raise DataError(
            "{names}: not the files that this model was trained on, so their held-out part "
            "may have been in its training data; `glassformer run` takes any text",
            names=names,
        )


def _config_of(model: Checkpoint) -> RunConfig:
    """The config of the run that made a model, from its model folder."""
    name = str(model.about.get("recipe", "nothing"))
    if name not in RECIPES and "run" not in model.about:
        raise ConfigError("this model was not trained by a recipe, so it has no test data")
    kept = model.about.get("run")
    config = restored(RunConfig, kept) if isinstance(kept, Mapping) else recipe(name)
    data = config.data.as_evaluated(model.config.max_len)
    return replace(config, data=data, first=None, model=model.config)


def translate(
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    max_len: int,
    beam: Beam = GREEDY,
) -> list[str]:
    start, end = tokenizer.special.start, tokenizer.special.end
    assert start is not None
    sources = tokenizer.encode_batch(texts, end=True, max_len=max_len)
    assert isinstance(model, Seq2Seq | Translator)
    search: Search = Greedy() if beam.size == 1 else beam
    decoded = translate_ids(
        model, sources, start=start, end=end, search=search, batch_size=_SENTENCES_PER_BATCH
    )
    return [tokenizer.decode(result.best.tokens) for result in decoded]


def lowercase_tokenised(texts: Sequence[str], language: str) -> list[str]:
    """Texts as the Multi30k papers score them: Moses tokens separated by spaces, lowercased."""
    try:
        from sacremoses import (  # type: ignore[import-untyped]  # it has no annotations
            MosesPunctNormalizer,
            MosesTokenizer,
        )
    except ImportError:
        raise NotInstalledError(
            "the lowercased, tokenised BLEU needs sacremoses: pip install 'glassformer[metrics]'"
        ) from None
    normalise = MosesPunctNormalizer(lang=language).normalize
    tokenise = MosesTokenizer(lang=language).tokenize
    return [str(tokenise(normalise(text), return_str=True, escape=False)).lower() for text in texts]
