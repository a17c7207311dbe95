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
from typing import Any

from glassformer import checkpoint
from glassformer.decoding import Beam, Greedy, Ledger, Sampling
from glassformer.documents.meaning_phrases import digits, percent
from glassformer.errors import CheckpointError, InputError, UnknownNameError
from glassformer.explorer import schemas
from glassformer.explorer.open_traces import OpenTrace
from glassformer.files import TensorEntry, as_path, read_object, read_tensor_entries
from glassformer.language import Bilingual, words
from glassformer.tasks import Model, Translated, load
from glassformer.tasks.forward_pass import EmptyTextError
from glassformer.tasks.hugging_face_folder import check_folder, is_hugging_face
from glassformer.text import Tokenizer, load_tokenizer
from glassformer.tracing.capture.memory import DEFAULT_BYTES

_TASKS: dict[str, schemas.Task] = {
    "Classifier": "classify", "Seq2Seq": "translate", "LanguageModel": "generate",
    "MaskedLanguageModel": "module", "ImageClassifier": "classify", "TextEncoder": "module",
}  # fmt: skip
_ORDER = ("en-de", "toy", "en-zh", "imdb", "shakespeare")
"""The best first: the translator's attention shows most; imdb's is nearly flat."""
_MOST_WORDS = 40
_SMALL_VOCABULARY = 8_192
"""Bytes of a tokenizer file that is looked into for words to list."""


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
_FIRST = {"ImageClassifier": "test:0", "MaskedLanguageModel": "Hello <mask>"}
_MOST_LOADED = 6
say = words(__name__)


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
        self.cards = [card for card in cards if card is not None]
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
        others = [card for card in self.cards if card.name != model.name]
        self.cards = [_card_of(model, text), *others]

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


def _card(name: str, folder: Path) -> schemas.ModelInfo | None:
    config = read_object(folder / checkpoint.CONFIG, error=CheckpointError, what="a model's config")
    if is_hugging_face(config):
        return _foreign_card(name, folder, config)
    architecture = (config.get("architectures") or [""])[0]
    if architecture not in _TASKS:
        return None
    shipped = folder == checkpoint.SHIPPED / name and name in _EXAMPLES
    about = config.get("about") or {}
    made = about.get("what") or about.get("recipe") or architecture
    weights = folder / checkpoint.WEIGHTS
    return schemas.ModelInfo(
        name=name,
        task=_TASKS[architecture],
        title=say[f"{name} title"] if shipped else Bilingual(name, name),
        summary=say[f"{name} summary"] if shipped else say.both("yours", made=made),
        n_parameters=_count(read_tensor_entries(weights, error=CheckpointError)),
        max_tokens=config.get("model", {}).get("max_len"),
        examples=_EXAMPLES[name] if shipped else [_FIRST.get(architecture, "Hello")],
        score=_score(about),
        words=_few_words(folder),
        domain=say[f"{name} domain"] if shipped else None,
        works=_trial(name, "works") if shipped else None,
        fails=_trial(name, "fails") if shipped else None,
    )


def _trial(name: str, kind: str) -> schemas.TrialInfo:
    """A text of a shipped model, from model_list.toml."""
    found = say.data[name][kind]
    why = say[f"{name} fails why"] if kind == "fails" else None
    return schemas.TrialInfo(text=found["text"], right=found.get("right"), why=why)


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


def _foreign_card(name: str, folder: Path, config: dict[str, Any]) -> schemas.ModelInfo:
    """A folder of Hugging Face: what it is for is known when its module is loaded."""
    architecture = str((config.get("architectures") or [config.get("model_type")])[0])
    of_images = "ForImageClassification" in architecture
    endings: dict[str, schemas.Task] = {
        "ForSequenceClassification": "classify", "ForImageClassification": "classify",
        "ForConditionalGeneration": "translate", "ForCausalLM": "generate",
        "LMHeadModel": "generate",
    }  # fmt: skip
    return schemas.ModelInfo(
        name=name,
        task=next((task for end, task in endings.items() if architecture.endswith(end)), "module"),
        title=Bilingual(name, name),
        summary=say.both("yours image" if of_images else "yours", made=architecture),
        n_parameters=_count(check_folder(folder)[1]),
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
            return say.both("accuracy", share=f"{100 * found['accuracy']:.1f} %")
        if "bleu" in found:
            return say.both("bleu", bleu=found["bleu"])
        if "bits_per_byte" in found:
            return say.both("bits", bits=found["bits_per_byte"])
    return None


def _card_of(model: Model, text: str | None) -> schemas.ModelInfo:
    """The card of a model in memory, perhaps with a text to try."""
    return schemas.ModelInfo(
        name=model.name,
        task=task_of(model),
        title=Bilingual(model.name, model.name),
        summary=say.both("yours", made=type(model.module).__name__),
        n_parameters=sum(parameter.numel() for parameter in model.module.parameters()),
        max_tokens=model.max_tokens,
        examples=[] if text is None else [text],
    )


# --- running ---

MOST_BYTES = 512 * 1024**2
"""The memory limit of one trace; a text that needs more is refused."""
_ANSWERED: tuple[schemas.Task, ...] = ("classify", "translate", "generate")


def run_text(models: Models, request: schemas.TraceRequest) -> OpenTrace:
    """Run a model over a text and record every number."""
    model = models.get(request.model)
    if (image := model.image_of(request.text)) is not None:
        _check_place(image, models.folders.get(request.model))
    return open_text(model, request.model, request.text, request.target, max_bytes=MOST_BYTES)


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


def task_of(model: Model) -> schemas.Task:
    """What the page shows as a model's answer; the outputs alone where it knows no better."""
    return next((task for task in _ANSWERED if model.tasks[:1] == (task,)), "module")


# --- decoding ---
# A search for a text, with the ledger of what it could have chosen at each step.


MOST_CANDIDATES = 32


def decode(models: Models, wanted: schemas.DecodeRequest) -> schemas.DecodeAnswer:
    """Decode with a ledger of every step's candidates."""
    model = models.get(wanted.model)
    found = _search(model, wanted)
    assert found.ledger is not None
    unknown, total = model.count_unknown(wanted.text)
    return schemas.DecodeAnswer.copy_of(
        wanted,
        results=[(one.text, one.score) for one in found.alternatives],
        steps=_steps(found.ledger, model.writer),
        cut=found.cut,
        n_tokens=total,
        n_unknown=unknown,
        meaning=_search_meaning(wanted, found, model.writer),
    )


def _search_meaning(
    wanted: schemas.DecodeRequest, found: Translated, tokenizer: Tokenizer
) -> Bilingual:
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


def _search(model: Model, wanted: schemas.DecodeRequest) -> Translated:
    search = _settings(wanted)
    if model.task == "generate":
        return model.generate(wanted.text, max_new=wanted.max_new, search=search, ledger=True)
    if model.task == "translate" and not model.can_read(wanted.text):
        raise EmptyTextError("the text is empty: there is nothing to translate")
    return model.translate([wanted.text], search=search, max_new=wanted.max_new, ledger=True)[0]


def _settings(wanted: schemas.DecodeRequest) -> Greedy | Beam | Sampling:
    match wanted.search:
        case "greedy":
            return Greedy()
        case "beam":
            size, penalty = wanted.beam, wanted.length_penalty
            return Beam(size=size, n_best=size, length_penalty=penalty, penalty="gnmt")
        case "sampling":
            fields = ("temperature", "top_k", "top_p", "min_p", "seed")
            return Sampling(**{name: getattr(wanted, name) for name in fields})


def _steps(ledger: Ledger, tokenizer: Tokenizer) -> list[schemas.DecodeStep]:
    """Each step with the prefixes that its candidates extend."""
    told: list[schemas.DecodeStep] = []
    rivals = [""]
    for number, step in enumerate(ledger.steps):
        shown = step.candidates[:MOST_CANDIDATES]
        names = tokenizer.display_tokens([candidate.token for candidate in shown])
        told.append(
            schemas.DecodeStep(
                rivals=rivals,
                candidates=[
                    schemas.CandidateInfo.copy_of(candidate, text=name)
                    for candidate, name in zip(shown, names, strict=True)
                ],
            )
        )
        rivals = [
            tokenizer.decode([part.token for part in ledger.path(number, kept)])
            for kept in step.kept
        ]
    return told
