"""A search for a text, with the ledger of what it could have chosen at each step."""

from __future__ import annotations

from glassformer.decoding import Beam, Greedy, Ledger, Sampling
from glassformer.explorer.running import Models
from glassformer.explorer.schemas import CandidateInfo, DecodeAnswer, DecodeRequest, DecodeStep
from glassformer.passes import EmptyTextError
from glassformer.tasks import Model, Translated
from glassformer.tasks.reading import count_unknown
from glassformer.text import Tokenizer

__all__ = ["decode"]

MOST_CANDIDATES = 32


def decode(models: Models, wanted: DecodeRequest) -> DecodeAnswer:
    """Search, and tell how it went."""
    model = models.get(wanted.model)
    found = _search(model, wanted)
    tokenizer = model.checkpoint.target_tokenizer or model.checkpoint.tokenizer
    assert tokenizer is not None
    assert found.ledger is not None
    unknown, total = count_unknown(model.checkpoint, wanted.text)
    return DecodeAnswer(
        model=wanted.model,
        text=wanted.text,
        results=[(one.text, one.score) for one in found.alternatives],
        steps=_steps(found.ledger, tokenizer),
        cut=found.cut,
        n_tokens=total,
        n_unknown=unknown,
    )


def _search(model: Model, wanted: DecodeRequest) -> Translated:
    search = _settings(wanted)
    if model.task == "generate":
        return model.generate(wanted.text, max_new=wanted.max_new, search=search, ledger=True)
    if model.task == "translate" and not model.can_read(wanted.text):
        raise EmptyTextError("the text is empty: there is nothing to translate")
    return model.translate([wanted.text], search=search, max_new=wanted.max_new, ledger=True)[0]


def _settings(wanted: DecodeRequest) -> Greedy | Beam | Sampling:
    match wanted.search:
        case "greedy":
            return Greedy()
        case "beam":
            return Beam(
                size=wanted.beam,
                n_best=wanted.beam,
                length_penalty=wanted.length_penalty,
                penalty="gnmt",
            )
        case "sampling":
            return Sampling(
                temperature=wanted.temperature,
                top_k=wanted.top_k,
                top_p=wanted.top_p,
                min_p=wanted.min_p,
                seed=wanted.seed,
            )


def _steps(ledger: Ledger, tokenizer: Tokenizer) -> list[DecodeStep]:
    """Each step with the texts that its candidates continue."""
    told: list[DecodeStep] = []
    rivals = [""]
    for number, step in enumerate(ledger.steps):
        shown = step.candidates[:MOST_CANDIDATES]
        names = tokenizer.display_tokens([candidate.token for candidate in shown])
        told.append(
            DecodeStep(
                rivals=rivals,
                candidates=[
                    CandidateInfo(
                        parent=candidate.parent,
                        token=candidate.token,
                        text=name,
                        log_probability=candidate.log_probability,
                        total=candidate.total,
                        score=candidate.score,
                        chance=candidate.chance,
                        fate=candidate.fate,
                    )
                    for candidate, name in zip(shown, names, strict=True)
                ],
            )
        )
        rivals = [
            tokenizer.decode([part.token for part in ledger.path(number, kept)])
            for kept in step.kept
        ]
    return told
