"""The models: their cards on the start page, running one over a text, and a search with its ledger.

The cards are read from the model folders' config files; no model is loaded for them. A request
names a model by the name on its card, never by a path: only the shipped ones and the folder given
at the start can be opened.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from glassformer import checkpoint
from glassformer.decoding import Beam, Greedy, Ledger, Sampling
from glassformer.documents.meaning_phrases import digits, percent
from glassformer.errors import CheckpointError, InputError, UnknownNameError
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.schemas import MOST_CHARACTERS, Message, Task
from glassformer.files import TensorEntry, as_path, read_object, read_tensor_entries
from glassformer.language import Bilingual, words
from glassformer.tasks import Model, Translated, load
from glassformer.tasks.forward_pass import EmptyTextError
from glassformer.tasks.hugging_face_folder import check_folder, is_hugging_face
from glassformer.text import Tokenizer, load_tokenizer
from glassformer.tracing.capture.memory import DEFAULT_BYTES

_TASKS: dict[str, Task] = {
    "Classifier": "classify", "Seq2Seq": "translate", "LanguageModel": "generate",
    "MaskedLanguageModel": "module", "ImageClassifier": "classify", "TextEncoder": "module",
}  # fmt: skip
_ORDER = ("en-de", "toy", "en-zh", "imdb", "shakespeare")
"""The best first: the translator's attention shows most; imdb's is nearly flat."""
_MOST_WORDS = 40
_SMALL_VOCABULARY = 8_192
"""Bytes of a tokenizer file that is looked into for words to list."""
_FIRST = {"ImageClassifier": "test:0", "MaskedLanguageModel": "Hello <mask>"}
_MOST_LOADED = 6
say = words(__name__)


class TrialInfo(Message):
    """A text on which a model is right, or wrong."""

    text: str
    right: str | None = None
    """The right answer; None where there is not one."""
    why: Bilingual | None = None
    """Why the model is wrong."""


class ModelInfo(Message):
    """A card of the start page."""

    name: str
    task: Task
    title: Bilingual
    summary: Bilingual
    n_parameters: int
    max_tokens: int | None = None
    examples: list[str] = Field(default=[])
    """Texts that show what the model can do; the first is traced when the card is opened."""
    score: Bilingual | None = None
    """Its headline metric, such as `accuracy 88.3%`."""
    domain: Bilingual | None = None
    """The texts that it is for, in words."""
    words: list[str] = Field(default=[])
    """All words that it knows, where they are few."""
    works: TrialInfo | None = None
    fails: TrialInfo | None = None
    trace: str | None = None
    """For a user's module, which reads no text: the trace that is already open."""


class DecodeRequest(Message):
    """Search for a translation or a continuation, with its ledger."""

    model: str
    text: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    search: Literal["greedy", "beam", "sampling"] = "beam"
    beam: Annotated[int, Field(ge=1, le=16)] = 4
    length_penalty: Annotated[float, Field(ge=0, le=3)] = 0.6
    temperature: Annotated[float, Field(gt=0, le=5)] = 0.8
    top_k: Annotated[int, Field(ge=1, le=1_000)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    max_new: Annotated[int, Field(ge=1, le=128)] = 48


class CandidateInfo(Message):
    """One token that could have come next."""

    parent: int
    token: int
    text: str
    log_probability: float
    total: float
    score: float
    draw_probability: float | None
    fate: Literal["kept", "ended", "dropped"]


class DecodeStep(Message):
    """The candidates of one step, best first, and the beams that they extend."""

    beams: list[str]
    candidates: list[CandidateInfo]


class DecodeAnswer(Message):
    """What a search found, and how."""

    model: str
    text: str
    results: list[tuple[str, float]]
    """Texts with scores, best first."""
    steps: list[DecodeStep]
    cut: bool
    n_tokens: int
    """How many tokens the text has."""
    n_unknown: int
    """How many of them the model's vocabulary does not know."""
    meaning: Bilingual | None = None
    """What this search does and what it found, in two sentences."""


class Models:
    """The models that this server may open, by name, and their cards.

    Those in folders are loaded on first use; the least recently used are dropped.
    """

    def __init__(self, chosen: str | None = None) -> None:
        """All shipped models, or only `chosen` (a shipped name or a folder)."""
        if chosen is None:
            names = [*_ORDER, *(name for name in checkpoint.shipped() if name not in _ORDER)]
            self.folders = {name: checkpoint.SHIPPED / name for name in names}
        else:
            folder = checkpoint.find(chosen)
            called = Path(chosen) if Path(chosen).is_dir() else folder  # a run holds its model
            self.folders = {called.resolve().name: folder}
        cards = (_card(name, folder) for name, folder in self.folders.items())
        self.cards = [one for one in cards if one is not None]
        if chosen is not None and not self.cards:
            raise CheckpointError(
                "{chosen} is no model that reads text: it cannot be explored", chosen=chosen
            )
        self._lock = threading.Lock()
        self._loaded: OrderedDict[str, Model] = OrderedDict()
        self._kept: dict[str, Model] = {}

    def keep(self, model: Model, text: str | None) -> None:
        """Take in a model that is in memory; its card is the first, perhaps with a text to try."""
        self._kept[model.name] = model
        others = [one for one in self.cards if one.name != model.name]
        own = card(
            model.name,
            task_of(model),
            sum(parameter.numel() for parameter in model.module.parameters()),
            type(model.module).__name__,
            max_tokens=model.max_tokens,
            examples=[] if text is None else [text],
        )
        self.cards = [own, *others]

    def get(self, name: str) -> Model:
        """A model, loaded on first use."""
        if name in self._kept:
            return self._kept[name]
        if name not in self.folders:
            raise UnknownNameError("model", name[:80], self.folders)
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = _loaded(self.folders[name])
                while len(self._loaded) > _MOST_LOADED:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(name)
            return self._loaded[name]

    def run(
        self, name: str, text: str, target: str | None = None, loaded: Model | None = None
    ) -> OpenTrace:
        """Run a model over a text and record every number; `loaded`: one that has no card here."""
        model = loaded or self.get(name)
        if (image := model.image_of(text)) is not None:
            _check_place(image, self.folders.get(name))
        return open_text(model, name, text, target, max_bytes=MOST_BYTES)


def _loaded(folder: Path) -> Model:
    """A model with its attention written out."""
    model = load(folder, attention="written")
    if model.tokenizer is None and model.image_of("") is None:
        model = load(folder, attention="written", tokenizer="ids")
    if model.corpus == "digits":
        from glassformer.data.readers import digit_to_test

        model.samples = digit_to_test
    return model


# --- cards ---


def card(
    name: str,
    task: Task,
    n_parameters: int,
    made: str = "",
    key: str = "yours",
    **more: Any,
) -> ModelInfo:
    """The card of a model that does not ship, called by its name; `key` is what is said of it."""
    told = {"title": Bilingual(name, name), "summary": say.both(key, made=made)} | more
    return ModelInfo(name=name, task=task, n_parameters=n_parameters, **told)


def _card(name: str, folder: Path) -> ModelInfo | None:
    config = read_object(folder / checkpoint.CONFIG, error=CheckpointError, what="a model's config")
    if is_hugging_face(config):
        return _foreign_card(name, folder, config)
    architecture = (config.get("architectures") or [""])[0]
    if architecture not in _TASKS:
        return None
    shipped = folder == checkpoint.SHIPPED / name and name in say.data
    about = config.get("about") or {}
    weights = folder / checkpoint.WEIGHTS
    return card(
        name,
        _TASKS[architecture],
        _count(read_tensor_entries(weights, error=CheckpointError)),
        about.get("what") or about.get("recipe") or architecture,
        max_tokens=config.get("model", {}).get("max_len"),
        score=_score(about),
        words=_few_words(folder),
        **(_shipped(name) if shipped else {"examples": [_FIRST.get(architecture, "Hello")]}),
    )


def _shipped(name: str) -> dict[str, Any]:
    """What model_list.toml says of a model that ships."""
    said = say.data[name]
    return {
        "title": say[f"{name} title"],
        "summary": say[f"{name} summary"],
        "domain": say[f"{name} domain"],
        "examples": said["examples"],
        "works": said["works"],
        "fails": said["fails"] | {"why": say[f"{name} fails why"]},
    }


def _few_words(folder: Path) -> list[str]:
    """The words of a model that knows only a few."""
    file = folder / checkpoint.TOKENIZER
    if not file.is_file() or file.stat().st_size > _SMALL_VOCABULARY:
        return []
    tokenizer = load_tokenizer(file)
    if tokenizer.vocab_size > _MOST_WORDS:
        return []
    spoken = [tokenizer.token(id_) for id_ in range(tokenizer.vocab_size)]
    return [word for word in spoken if not word.startswith("<")]


def _foreign_card(name: str, folder: Path, config: dict[str, Any]) -> ModelInfo:
    """A folder of Hugging Face: what it is for is known when its module is loaded."""
    architecture = str((config.get("architectures") or [config.get("model_type")])[0])
    of_images = "ForImageClassification" in architecture
    endings: dict[str, Task] = {
        "ForSequenceClassification": "classify", "ForImageClassification": "classify",
        "ForConditionalGeneration": "translate", "ForCausalLM": "generate",
        "LMHeadModel": "generate",
    }  # fmt: skip
    return card(
        name,
        next((task for end, task in endings.items() if architecture.endswith(end)), "module"),
        _count(check_folder(folder)[1]),
        architecture,
        key="yours image" if of_images else "yours",
        examples=[] if of_images else ["Hello"],
    )


def _count(entries: Mapping[str, TensorEntry]) -> int:
    """The parameters of a model, from the header of its weights file, which lists every shape."""
    return sum(math.prod(entry.shape) for entry in entries.values())


def _score(about: dict[str, Any]) -> Bilingual | None:
    """The headline metric, on the test set if there is one."""
    scores: dict[str, dict[str, float]] = about.get("scores", {})
    parts = {part: found for part, found in scores.items() if part != "validation"} or scores
    for found in parts.values():
        if "accuracy" in found:
            return say.both("accuracy", share=f"{100 * found['accuracy']:.1f}%")
        if "bleu" in found:
            return say.both("bleu", bleu=found["bleu"])
        if "bits_per_byte" in found:
            return say.both("bits", bits=found["bits_per_byte"])
    return None


# --- running ---

MOST_BYTES = 512 * 1024**2
"""The memory limit of one trace; a text that needs more is refused."""
_ANSWERED: tuple[Task, ...] = ("classify", "translate", "generate")


def _check_place(image: str, folder: Path | None) -> None:
    """A request may open images in the folder of its model, or where the server was started."""
    given = as_path(image, InputError, "an image")
    try:
        path = given.resolve()
    except (OSError, ValueError):  # a name that no file system has
        raise InputError(
            "cannot read the image {path}: {reason}", path=f"{image!r:.60}", reason="no such name"
        ) from None
    if not any(path.is_relative_to(place.resolve()) for place in (Path.cwd(), folder) if place):
        raise InputError(
            "{image} is neither in the folder of its model nor below the one that the explorer "
            "was started in",
            image=image,
        )


def open_text(
    model: Model, name: str, text: str, target: str | None, max_bytes: int = DEFAULT_BYTES
) -> OpenTrace:
    """The trace of one pass of a model over a text, with what the page says about it."""
    reading = model.forward_pass(text, target)
    recorded = reading.trace(max_bytes)
    return OpenTrace(recorded, name, task_of(model), text, target, loaded=model, reading=reading)


def task_of(model: Model) -> Task:
    """What the page shows as a model's answer; the outputs alone where it knows no better."""
    return next((task for task in _ANSWERED if model.tasks[:1] == (task,)), "module")


# --- decoding ---
# A search for a text, with the ledger of what it could have chosen at each step.


MOST_CANDIDATES = 32


def decode(models: Models, wanted: DecodeRequest) -> DecodeAnswer:
    """Decode with a ledger of every step's candidates."""
    model = models.get(wanted.model)
    found = _search(model, wanted)
    assert found.ledger is not None
    unknown, total = model.count_unknown(wanted.text)
    return DecodeAnswer.copy_of(
        wanted,
        results=[(one.text, one.score) for one in found.alternatives],
        steps=_steps(found.ledger, model.writer),
        cut=found.cut,
        n_tokens=total,
        n_unknown=unknown,
        meaning=_search_meaning(wanted, found, model.writer),
    )


def _search_meaning(wanted: DecodeRequest, found: Translated, tokenizer: Tokenizer) -> Bilingual:
    """What the search does, and how close or how unsure it was."""
    assert found.ledger is not None
    steps, count = found.ledger.steps, len(found.ledger.steps)
    if wanted.search == "beam":
        fields = {"beam": wanted.beam, "count": count}
        if len(found.alternatives) < 2:
            return say.both("search beam alone", **fields)
        first, second = (digits(one.score) for one in found.alternatives[:2])
        other = " ".join(found.alternatives[1].text.split())
        return say.both("search beam", **fields, first=first, second=second, other=other)
    chosen = [one for step in steps for one in step.candidates if one.fate != "dropped"]
    if not chosen:
        return say.both(f"search {wanted.search} alone", count=count)
    weakest = min(chosen, key=lambda one: one.log_probability)
    shown = tokenizer.display_tokens([weakest.token])[0]
    token = shown.strip("␣") or shown
    share = percent(math.exp(weakest.log_probability))
    return say.both(f"search {wanted.search}", count=count, token=token, share=share)


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
            size, penalty = wanted.beam, wanted.length_penalty
            return Beam(size=size, n_best=size, length_penalty=penalty, penalty="gnmt")
        case "sampling":
            fields = ("temperature", "top_k", "top_p", "min_p", "seed")
            return Sampling(**{name: getattr(wanted, name) for name in fields})


def _steps(ledger: Ledger, tokenizer: Tokenizer) -> list[DecodeStep]:
    """Each step with the prefixes that its candidates extend."""
    told: list[DecodeStep] = []
    beams = [""]
    for number, step in enumerate(ledger.steps):
        shown = step.candidates[:MOST_CANDIDATES]
        names = tokenizer.display_tokens([candidate.token for candidate in shown])
        told.append(
            DecodeStep(
                beams=beams,
                candidates=[
                    CandidateInfo.copy_of(candidate, text=name)
                    for candidate, name in zip(shown, names, strict=True)
                ],
            )
        )
        beams = [
            tokenizer.decode([part.token for part in ledger.path(number, kept)])
            for kept in step.kept
        ]
    return told
