"""Whether the parts of a run fit together: what each section alone cannot know.

A setting that a problem does not read is refused, not ignored: a result would seem to come from it.
"""

from typing import TYPE_CHECKING

from glassformer.errors import ConfigError
from glassformer.nn.config import Architecture

if TYPE_CHECKING:
    from glassformer.training.config import Kind, RunConfig

__all__ = ["check_fit"]

# What answers a problem, by its name or its first word: a Transformer's architecture, other kinds.
_ANSWERS: "dict[str, tuple[Architecture, tuple[Kind, ...]]]" = {
    "classify": ("classifier", ("lstm",)),
    "classify-digits": ("image_classifier", ()),
    "mask": ("masked_language_model", ()),
    "continue": ("language_model", ()),
    "translate": ("seq2seq", ("rnn", "conv")),
    "rate": ("recommender", ("factors",)),
}


def check_fit(config: "RunConfig") -> None:
    """Raise where two sections contradict each other."""
    _check_answer(config)
    _check_data(config)
    for name in ("agreement", "label_smoothing"):
        if getattr(config.optimiser, name) and config.data.problem == "rate-movielens":
            raise ConfigError(
                "optimiser.{name} is for probabilities; ratings are numbers", name=name
            )
    if config.loop.sharding == "fsdp" and config.optimiser.kind == "muon":
        raise ConfigError(
            "muon works on whole matrices, and loop.sharding = fsdp cuts them: "
            "set optimiser.kind to adamw"
        )


def _check_answer(config: "RunConfig") -> None:
    """Whether this kind of model gives answers that the problem can be scored by."""
    problem, kind = config.data.problem, config.kind
    architecture, others = _ANSWERS.get(problem) or _ANSWERS[problem.partition("-")[0]]
    if kind == "transformer" and config.model.architecture != architecture:
        raise ConfigError(
            "data.problem {problem} needs model.architecture {architecture}, got {other}",
            problem=problem,
            architecture=architecture,
            other=config.model.architecture,
        )
    if kind != "transformer" and kind not in others:
        possible = " or ".join(("transformer", *others))
        raise ConfigError(
            "data.problem {problem} needs kind {possible}, got {kind}",
            problem=problem,
            possible=possible,
            kind=kind,
        )


def _check_data(config: "RunConfig") -> None:
    problem = config.data.problem
    is_of_texts = problem != "classify-digits" and problem.startswith(("classify", "mask"))
    if config.data.share < 1 and not (is_of_texts or problem.startswith("translate")):
        raise ConfigError(
            "data.share is for single texts and pairs; {problem} has neither", problem=problem
        )
    if config.data.word_dropout and not (is_of_texts and problem.startswith("classify")):
        raise ConfigError(
            "data.word_dropout is for classifiers of texts, not for {problem}", problem=problem
        )
    if problem.startswith("mask") and not config.data.hidden:
        raise ConfigError("data.hidden must be above 0: without hidden words nothing is learnt")
