"""Public functions called with what nobody means: an answer, or one line in one of our errors."""

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer import audit, checkpoint, decoding, nn, text, training
from glassformer.checkpoint import Checkpoint
from glassformer.data import corpora
from glassformer.errors import CheckpointError, ConfigError, GlassformerError, InputError
from glassformer.experiments import ablate
from glassformer.export import export
from glassformer.nn import presets
from glassformer.tasks import GlassformerModel
from glassformer.text import CharacterTokenizer, SubwordTokenizer, WordTokenizer

BAD = [
    None, 5, -1, 2.5, "3", "", b"x", [], [None], {}, object(), float("nan"), 10**25, True, "a\0b",
    10**400, -(10**400), np.float32(0.7),
]  # fmt: skip
TOKENIZER = CharacterTokenizer.build(["you win or you die"])
SIZES: dict[str, Any] = {"vocab_size": TOKENIZER.vocab_size, "d_model": 4, "n_heads": 2}
SIZES |= {"n_layers": 1, "max_len": 20}


def model_of(config: nn.ModelConfig, **more: Any) -> GlassformerModel:
    torch.manual_seed(0)
    return GlassformerModel(Checkpoint(nn.build(config).eval(), config, TOKENIZER, **more))


WRITER = model_of(presets.gpt2(**SIZES))
TRANSLATOR = model_of(presets.vaswani_2017_base(**SIZES, d_ff=4))
CLASSIFIER = model_of(
    presets.bert(**SIZES, d_ff=4).with_(architecture="classifier"), labels=("a", "b")
)
SAVED = WRITER.checkpoint
START, END = TOKENIZER.special.start, TOKENIZER.special.end
FOLDER = checkpoint.find("toy")
GREEDY = decoding.Greedy()

# A function, arguments that are good, and which of them to spoil, one at a time.
Case = tuple[Callable[..., object], dict[str, Any], tuple[str, ...]]


def cases(tmp: Path) -> dict[str, Case]:
    """Everything public that takes more than a tensor; what traces is tested with the trace."""
    two: dict[str, Any] = {"max_new": 2}
    return {
        "build": (
            glassformer.build,
            {"config": SAVED.config, "attention": "fused"},
            ("config", "attention"),
        ),
        "load": (
            glassformer.load,
            {"model": "toy", "device": "cpu", "attention": "fused", "weights": "float32"},
            ("model", "tokenizer", "device", "attention", "weights", "as_glassformer"),
        ),
        "classify": (
            CLASSIFIER.classify,
            {"texts": ["you"], "batch_size": 2},
            ("texts", "batch_size"),
        ),
        "embed": (CLASSIFIER.embed, {"texts": ["you"], "batch_size": 2}, ("texts", "batch_size")),
        "can_read": (CLASSIFIER.can_read, {"text": "you"}, ("text",)),
        "translate": (
            TRANSLATOR.translate,
            {"texts": ["you"], "beam": 1, "n_best": 1, "batch_size": 2, "search": None, **two},
            ("texts", "beam", "n_best", "batch_size", "search", "max_new"),
        ),
        "generate": (
            WRITER.generate,
            {"prompt": "y", "search": GREEDY, **two},
            ("prompt", "search", "max_new"),
        ),
        "stream": (
            lambda **given: list(WRITER.stream(**given)),
            {"prompt": "y", "search": GREEDY, **two},
            ("prompt", "search", "max_new"),
        ),
        "save": (
            checkpoint.save,
            {"folder": tmp / "model", "checkpoint": SAVED, "card": None, "dtype": None},
            ("folder", "checkpoint", "card", "dtype"),
        ),
        "Checkpoint": (
            lambda **given: checkpoint.save(tmp / "other", Checkpoint(**given)),
            {
                "model": SAVED.model,
                "config": SAVED.config,
                "tokenizer": None,
                "labels": (),
                "about": {},
            },
            ("model", "config", "tokenizer", "labels", "about"),
        ),
        "checkpoint.load": (
            checkpoint.load,
            {"folder": FOLDER, "attention": "fused", "device": "cpu"},
            ("folder", "attention", "device"),
        ),
        "load_foreign": (checkpoint.load_foreign, {"folder": FOLDER}, ("folder",)),
        "load_nanogpt": (checkpoint.load_nanogpt, {"file": FOLDER}, ("file",)),
        "load_mingpt": (
            checkpoint.load_mingpt,
            {"file": FOLDER, "n_heads": 2},
            ("file", "n_heads"),
        ),
        "load_llama2c": (checkpoint.load_llama2c, {"file": FOLDER}, ("file",)),
        "find": (checkpoint.find, {"name_or_folder": "toy"}, ("name_or_folder",)),
        "name_of": (checkpoint.name_of, {"folder": FOLDER}, ("folder",)),
        "decoding.translate": (
            decoding.translate,
            {"model": TRANSLATOR.checkpoint.model, "sources": [[5, 6]], "start": START, "end": END}
            | {"search": GREEDY, "batch_size": 2, "prefixes": None, **two},
            ("model", "sources", "start", "end", "search", "batch_size", "prefixes", "max_new"),
        ),
        "decoding.extend": (
            decoding.extend,
            {
                "model": SAVED.model,
                "prompts": [[5]],
                "end": END,
                "search": GREEDY,
                "batch_size": 2,
                **two,
            },
            ("model", "prompts", "end", "search", "batch_size", "max_new"),
        ),
        "decoding.stream": (
            lambda **given: list(decoding.stream(**given)),
            {"model": SAVED.model, "prompt": [5], "end": END, "search": GREEDY, **two},
            ("model", "prompt", "end", "search", "max_new"),
        ),
        "Beam": (decoding.Beam, {}, tuple(inspect.signature(decoding.Beam).parameters)),
        "Sampling": (decoding.Sampling, {}, tuple(inspect.signature(decoding.Sampling).parameters)),
        "data.find": (corpora.find, {"name": "imdb", "folder": str(tmp)}, ("name", "folder")),
        "export": (
            export,
            {"checkpoint": SAVED, "target": "nowhere", "folder": tmp / "export"},
            ("checkpoint", "target", "folder"),
        ),
        "recipe": (training.recipe, {"name": "text"}, ("name",)),
        "train": (
            training.train,
            {"config": training.recipe("text"), "folder": tmp / "run"},
            ("config", "folder"),
        ),
        "load_example": (audit.load_example, {"name_or_file": "masked"}, ("name_or_file",)),
        "audit": (audit.audit, {}, ("example",)),
        "read_example": (audit.read_example, {"name": "n", "source": "s"}, ("text",)),
        "load_tokenizer": (text.load_tokenizer, {"path": tmp / "none"}, ("path",)),
        "encode": (TOKENIZER.encode, {"text": "you", "max_len": 5}, ("text", "max_len")),
        "encode_batch": (TOKENIZER.encode_batch, {"texts": ["you"]}, ("texts",)),
        "decode": (TOKENIZER.decode, {"ids": [5]}, ("ids",)),
        "decode_batch": (TOKENIZER.decode_batch, {"batch": [[5]]}, ("batch",)),
        "display_tokens": (TOKENIZER.display_tokens, {"ids": [5]}, ("ids",)),
        "token": (TOKENIZER.token, {"id_": 5}, ("id_",)),
        "id_of": (TOKENIZER.id_of, {"token": "y"}, ("token",)),
        "pieces": (TOKENIZER.pieces, {"text": "you", "max_len": 5}, ("text", "max_len")),
        "Tokenizer.save": (TOKENIZER.save, {"path": tmp / "tokenizer.json"}, ("path",)),
        "SubwordTokenizer.train": (
            SubwordTokenizer.train,
            {"texts": ["ab"], "vocab_size": 300, "special": ()},
            ("texts", "vocab_size", "special"),
        ),
        "WordTokenizer.build": (
            WordTokenizer.build,
            {"texts": ["ab"]},
            ("texts", "case", "punctuation", "min_count", "max_size", "special"),
        ),
        "WordTokenizer.from_ids": (WordTokenizer.from_ids, {"ids": {"a": 1}}, ("ids",)),
        "CharacterTokenizer.build": (
            CharacterTokenizer.build,
            {"texts": ["ab"]},
            ("texts", "special"),
        ),
        "with_": (SAVED.config.with_, {}, ("d_model", "block", "attention__n_heads", "nonsense")),
        "from_dict": (nn.ModelConfig.from_dict, {}, ("data",)),
        "describe": (nn.describe, {}, ("model",)),
        "count_parameters": (nn.count_parameters, {}, ("model",)),
        "set_attention": (
            nn.set_attention,
            {"module": SAVED.model, "implementation": "fused"},
            ("module", "implementation"),
        ),
    }


def spoilt(
    function: Callable[..., object], given: dict[str, Any], names: tuple[str, ...]
) -> Iterator[str]:
    """What was raised that is none of ours, or more than one line."""
    for name in names:
        for bad in BAD:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(**{**given, name: bad})
            except GlassformerError as error:
                if "\n" in str(error):
                    yield f"{name}={bad!r:.60}: several lines: {error}"
            except Exception as error:
                yield f"{name}={bad!r:.60}: {type(error).__name__}: {error}"


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("name", cases(Path()))
def test_no_argument_raises_an_exception_of_python_s_or_torch_s(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # "3" is the name of a folder, too
    function, given, names = cases(tmp_path)[name]
    assert list(spoilt(function, given, names)) == []


@pytest.mark.usefixtures("as_users_run_it")
def test_the_lines_say_what_was_expected(tmp_path: Path) -> None:
    def line(call: Callable[[], object], error: type[GlassformerError]) -> str:
        with pytest.raises(error) as caught:
            call()
        return str(caught.value)

    wrong: Any = None
    assert line(lambda: checkpoint.save(tmp_path, wrong), CheckpointError) == (
        "expected a Checkpoint(model, config, …), got NoneType"
    )
    wrong = "3"
    assert line(lambda: CLASSIFIER.classify(["you"], batch_size=wrong), ConfigError) == (
        "batch_size must be a whole number, got '3'"
    )
    wrong = None
    assert line(lambda: audit.load_example(wrong), ConfigError) == (
        "expected the name or the file of an example, got NoneType"
    )
    assert line(lambda: audit.audit(wrong), ConfigError) == (
        "expected an Example, such as load_example(…) gives, got NoneType"
    )
    wrong = "nowhere"
    said = line(lambda: glassformer.load("toy", device=wrong), ConfigError)
    assert said.startswith(
        "device must be available on this machine, for example 'cpu'; got 'nowhere'"
    )
    wrong = [["a"]]
    said = line(lambda: decoding.extend(SAVED.model, wrong, end=END), InputError)  # type: ignore[arg-type]
    assert said == "an id must be a whole number, got 'a'"


def test_numbers_of_any_library_are_taken() -> None:
    assert decoding.Sampling(temperature=np.float32(0.5)).temperature == 0.5  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"that a float can hold, got a number of more than 40"):
        decoding.Beam(length_penalty=10**400)
    with pytest.raises(ConfigError, match=r"at most 1,048,576, got a number of more than 40"):
        CLASSIFIER.classify(["you"], batch_size=10**5000)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda toy, _: glassformer.trace("toy"), r"glassformer.load\('toy'\) opens a model"),
        (
            lambda toy, _: glassformer.trace(toy, torch.tensor([[1]])),
            r"trace\(model.module, tensor",
        ),
        (
            lambda toy, _: glassformer.trace(torch.nn.Linear(2, 2), "I am"),
            r"load\(module, tokenizer=tokenizer",
        ),
        (
            lambda toy, _: glassformer.load("google/bert"),
            "nothing is downloaded: a model of the Hu",
        ),
        (lambda toy, t: t["scores"], r"did you mean '[\w.]+attention.scores'\?$"),
        (lambda toy, t: t["weight"], r"did you mean .*attention.weights'"),
        (lambda toy, t: t["wieghts"], r"did you mean '[\w.]+attention.weights'\?$"),
        (lambda toy, t: ablate(t, t), "expected the name of a step or module, got Trace"),
    ],
)
def test_a_first_guess_is_answered_in_one_line(
    call: Callable[[Any, Any], object], said: str
) -> None:
    toy = glassformer.load("toy")
    with pytest.raises(GlassformerError, match=said) as raised:
        call(toy, toy.trace("I am"))
    assert "\n" not in str(raised.value)


def test_a_cell_is_a_number() -> None:
    cell = glassformer.load("toy").trace("I am not happy")["logits"]["sad"]
    assert float(cell) == cell.value
