"""The models: their cards on the start page, running one over a text, and a search with its ledger.

The cards are read from the model folders' config files; no model is loaded for them. A request
names a model by the name on its card, never by a path: only the shipped ones and the folder given
at the start can be opened.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from glassformer import checkpoint
from glassformer.decoding import Beam, Greedy, Ledger, Sampling
from glassformer.errors import CheckpointError, UnknownNameError
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.schemas import (
    CandidateInfo,
    DecodeAnswer,
    DecodeRequest,
    DecodeStep,
    ModelInfo,
    Task,
    TraceRequest,
)
from glassformer.files import read_object, read_tensor_entries
from glassformer.language import Bilingual, words
from glassformer.tasks import Model, Translated, load
from glassformer.tasks.forward_pass import EmptyTextError, forward_pass
from glassformer.tasks.reading import count_unknown
from glassformer.text import Tokenizer
from glassformer.tracing import trace
from glassformer.tracing.capture.memory import DEFAULT_BYTES

_TASKS: dict[str, Task] = {
    "Classifier": "classify", "Seq2Seq": "translate", "LanguageModel": "generate"
}  # fmt: skip
_ORDER = ("toy", "imdb", "en-de", "en-zh", "shakespeare")


_EXAMPLES = {
    "toy": ["I am not happy", "you are very happy", "we are not sad"],
    "imdb": [
        "A wonderful film, beautifully shot and moving.",
        "The plot is thin and the jokes are worse, but I did not regret a single minute.",
        "I wanted to like it, but it was a waste of time.",
    ],
    "en-de": ["A dog runs through the snow.", "Where is the station?", "Two children are playing."],
    "en-zh": ["Where is the station?", "I like to read books.", "She is not at home today."],
    "shakespeare": ["KING HENRY:\nWhat say you, my", "ROMEO:\nO, she doth", "To be, or not to"],
}
say = words(__name__)


class Catalogue:
    """The models that this server may open, by name."""

    def __init__(self, chosen: str | None = None) -> None:
        """All that ship; with `chosen`, that one alone (a shipped name or a folder)."""
        self._folders: dict[str, Path] = {}
        if chosen is None:
            names = [*_ORDER, *(name for name in checkpoint.shipped() if name not in _ORDER)]
            self._folders = {name: checkpoint.SHIPPED / name for name in names}
        else:
            folder = checkpoint.find(chosen)
            called = Path(chosen) if Path(chosen).is_dir() else folder  # a run's model is in it
            self._folders = {called.resolve().name: folder}
        self.cards = [
            card for name, folder in self._folders.items() if (card := _card(name, folder))
        ]
        if chosen is not None and not self.cards:
            raise CheckpointError(
                "{chosen} is no model that reads text: it cannot be explored", chosen=chosen
            )

    def folder(self, name: str) -> Path:
        """The folder of a model on a card."""
        if name not in self._folders:
            raise UnknownNameError("model", name[:80], self._folders)
        return self._folders[name]


def _card(name: str, folder: Path) -> ModelInfo | None:
    config = _config(folder)
    architecture = (config.get("architectures") or [""])[0]
    if architecture not in _TASKS:
        return None
    shipped = folder == checkpoint.SHIPPED / name and name in _EXAMPLES
    about = config.get("about") or {}
    made = about.get("what") or about.get("recipe") or architecture
    return ModelInfo(
        name=name,
        task=_TASKS[architecture],
        title=say[f"{name} title"] if shipped else Bilingual(name, name),
        summary=say[f"{name} summary"] if shipped else say.both("yours", made=made),
        n_parameters=_count_parameters(folder / checkpoint.WEIGHTS),
        max_tokens=config.get("model", {}).get("max_len"),
        examples=_EXAMPLES[name] if shipped else ["Hello"],
        score=_score(about),
    )


def _config(folder: Path) -> dict[str, Any]:
    return read_object(folder / checkpoint.CONFIG, error=CheckpointError, what="a model's config")


def _count_parameters(file: Path) -> int:
    """From the head of the weights' file, which lists every shape."""
    entries = read_tensor_entries(file, error=CheckpointError)
    return sum(math.prod(entry.shape) for entry in entries.values())


def _score(about: dict[str, Any]) -> Bilingual | None:
    """The measure that people ask for first, on its test part if there is one."""
    scores: dict[str, dict[str, float]] = about.get("scores", {})
    parts = {part: found for part, found in scores.items() if part != "validation"} or scores
    for found in parts.values():
        if "accuracy" in found:
            return say.both("accuracy", share=f"{100 * found['accuracy']:.1f} %")
        if "bleu" in found:
            return say.both("bleu", bleu=found["bleu"])
        if "bits_per_byte" in found:
            return say.both("bits", bits=found["bits_per_byte"])
    return None


# --- running ---
# A text to a trace: models loaded once, attention written out.


MOST_BYTES = 512 * 1024**2
"""What one trace may take; a longer text is refused in one line."""
_MOST_LOADED = 6
_ANSWERED: tuple[Task, ...] = ("classify", "translate", "generate")


class Models:
    """The models that are loaded."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._lock = threading.Lock()
        self._loaded: OrderedDict[str, Model] = OrderedDict()

    def get(self, name: str) -> Model:
        """A model of the catalogue, read from its folder the first time."""
        folder = self.catalogue.folder(name)
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = load(folder, attention="written")
                while len(self._loaded) > _MOST_LOADED:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(name)
            return self._loaded[name]


def run_text(models: Models, request: TraceRequest) -> OpenTrace:
    """Run a model over a text and keep every number."""
    model = models.get(request.model)
    return open_text(model, request.model, request.text, request.target, max_bytes=MOST_BYTES)


def open_text(
    model: Model, name: str, text: str, target: str | None, max_bytes: int = DEFAULT_BYTES
) -> OpenTrace:
    """The trace of one pass of a model over a text, with what the page says about it."""
    reading = forward_pass(model.checkpoint, text, target)
    recorded = trace(
        reading.model, *reading.arguments, axis_labels=reading.labels, max_bytes=max_bytes
    )
    task: Task = next((known for known in _ANSWERED if known == model.task), "module")
    return OpenTrace(recorded, name, task, text, target, loaded=model, reading=reading)


# --- decoding ---
# A search for a text, with the ledger of what it could have chosen at each step.


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
