"""Exports: each is opened by its engine and gives the outputs of the model."""

import ast
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint
from glassformer.decoding import Beam, Greedy, translate
from glassformer.errors import ExportError, UnknownNameError
from glassformer.export import TARGETS, export
from glassformer.export.compatibility import traced
from glassformer.nn import ModelConfig, Seq2Seq, build, presets
from glassformer.tasks import GlassformerModel, load
from glassformer.text import CharacterTokenizer, SubwordTokenizer
from tests.fresh_python import run_python

TEXTS = ["a good film", "an awfully bad film", "the dog runs over the lazy fox"]


def made(config: ModelConfig, **changes: object) -> Checkpoint:
    torch.manual_seed(0)
    words = SubwordTokenizer.train(TEXTS * 4, vocab_size=290)
    config = config.with_(vocab_size=words.vocab_size, max_len=40, **changes)
    if config.architecture != "language_model":
        config = config.with_(pad_id=words.special.pad)
    model = build(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # initially zero, which would hide a forgotten one
                parameter.normal_(std=0.1)
    return Checkpoint(model, config, words, labels=("bad", "good"))


SIZES: dict[str, int] = {"d_model": 16, "n_heads": 2, "n_layers": 1}  # tracing is slow
MODELS: dict[str, Callable[[], Checkpoint]] = {
    "classifier": lambda: made(presets.bloem_2024(**SIZES)),
    "post-norm translator": lambda: made(presets.vaswani_2017_base(**SIZES, d_ff=24)),
    "pre-norm translator": lambda: made(
        presets.vaswani_2017_base(**SIZES, d_ff=24),
        block__norm_first=True, block__final_norm=True, output__bias=True,
    ),
    "gpt2": lambda: made(presets.gpt2(**SIZES)),
    "llama": lambda: made(presets.llama(**SIZES, n_kv_heads=1, d_ff=24)),
    "bert": lambda: made(presets.bert(**SIZES, d_ff=24)),
    "encoder": lambda: made(presets.bert(**SIZES, d_ff=24), architecture="encoder"),
}  # fmt: skip
FITS = [
    ("onnx", "classifier"), ("onnx", "post-norm translator"), ("onnx", "llama"),
    ("ctranslate2", "post-norm translator"), ("ctranslate2", "pre-norm translator"),
    ("hf", "post-norm translator"), ("hf", "pre-norm translator"), ("hf", "gpt2"),
    ("hf", "llama"), ("hf", "bert"), ("hf", "encoder"),
    ("torch", "classifier"), ("torch", "pre-norm translator"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "kind"), FITS)
def test_an_export_is_checked_and_carries_a_card(target: str, kind: str, tmp_path: Path) -> None:
    exported = export(MODELS[kind](), target, tmp_path / "out", name="mine")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "# mine" in card and exported.found in card
    assert "tokenizer.json" in exported.files
    assert all(file in exported.files for file in re.findall(r'"(\w+\.\w+)"', card))
    assert set(exported.files) == {file.name for file in (tmp_path / "out").iterdir()}
    assert [file.name for file in tmp_path.iterdir()] == ["out"], "nothing temporary is left"


def said_by_example(folder: Path) -> str:
    """The output of the code in an export's README."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    done = run_python("-c", lines, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_example_of_a_classifier_names_its_classes(tmp_path: Path) -> None:
    toy = checkpoint.load(checkpoint.find("toy"))
    export(toy, "onnx", tmp_path / "out")
    (ours,) = load("toy").classify(["You win or you die."])
    found = ast.literal_eval(said_by_example(tmp_path / "out"))
    assert list(found) == list(toy.labels)
    assert found == pytest.approx(ours.probabilities, abs=1e-5)
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "model.onnx"))
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["labels"]) == list(toy.labels)
    assert told["tokenizer"] == "tokenizer.json" and "pad" in told["special tokens"]


def test_the_example_of_a_translator_translates(tmp_path: Path) -> None:
    export(checkpoint.load(checkpoint.find("en-de")), "ctranslate2", tmp_path / "out")
    (ours,) = load("en-de").translate(["You win or you die."])
    assert said_by_example(tmp_path / "out") == ours.alternatives[0].text


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("hf", "pre-norm translator"), ("onnx", "llama"), ("onnx", "post-norm translator"),
        ("torch", "post-norm translator"),
    ],
)  # fmt: skip
def test_the_example_of_a_model_that_writes_gives_our_answer(
    target: str, kind: str, tmp_path: Path
) -> None:
    ours, text = MODELS[kind](), "You win or you die."
    export(ours, target, tmp_path / "out")
    model = GlassformerModel(ours)
    if "translator" in kind:
        beam, most = (4, 20) if target == "hf" else (1, 39)  # tokens, with the start 40
        expected = model.translate([text], beam=beam, max_new=most)[0].text
    else:
        expected = text + model.generate(text, max_new=20, search=Greedy()).text
    assert said_by_example(tmp_path / "out") == expected.strip()


@pytest.mark.parametrize("target", ["hf", "torch"])
def test_a_model_in_training_mode_is_exported_without_dropout_and_stays_in_training_mode(
    target: str, tmp_path: Path
) -> None:
    checkpoint = made(presets.gpt2(**SIZES), block__dropout=0.3)
    checkpoint.model.train()
    export(checkpoint, target, tmp_path / "out")
    assert all(part.training for part in checkpoint.model.modules())


def of_length(config: ModelConfig, max_len: int) -> Checkpoint:
    torch.manual_seed(0)
    config = config.with_(vocab_size=11, max_len=max_len)
    return Checkpoint(build(config).eval(), config)


def test_a_model_of_few_positions_is_checked_with_short_texts(tmp_path: Path) -> None:
    exported = export(of_length(presets.gpt2(**SIZES), 6), "onnx", tmp_path / "out")
    assert "the same 6 tokens" in exported.found


@pytest.mark.parametrize("target", TARGETS)
def test_an_export_with_different_outputs_is_not_put_in_place(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine gets different weights from the model it is compared with."""
    from importlib import import_module

    engine = import_module(f"glassformer.export.{TARGETS[target]}")
    written = engine.write

    def write_another(checkpoint: Checkpoint, folder: Path) -> None:
        with torch.no_grad():
            for parameter in checkpoint.model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        written(MODELS["post-norm translator"](), folder)

    monkeypatch.setattr(engine, "write", write_another)
    with pytest.raises(ExportError, match="differ"):
        export(MODELS["post-norm translator"](), target, tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("target", "checkpoint", "message"),
    [
        (
            "hf",
            lambda: made(presets.bloem_2024(**SIZES)),
            "our classifier; targets that can represent it: onnx, torch",
        ),
        (
            "hf",
            lambda: made(presets.gpt2(**SIZES), positions__kind="rotary"),
            "Llama.*block.norm is layer, expected rms",
        ),
        ("hf", lambda: made(presets.gpt2(**SIZES), block__norm="rms"), "GPT-2.*block.norm is rms"),
        (
            "hf",
            lambda: made(presets.vaswani_2017_base(**SIZES), positions__kind="learned"),
            "Marian.*positions.kind is learned",
        ),
        (
            "hf",
            lambda: made(presets.bert(**SIZES), block__norm_first=True),
            "BERT.*block.norm_first is True",
        ),
        ("ctranslate2", lambda: made(presets.gpt2(**SIZES)), "architecture is language_model"),
        (
            "ctranslate2",
            lambda: made(presets.torch_nn_transformer(**SIZES)),
            "block.final_norm is True",
        ),
        (
            "ctranslate2",
            lambda: made(presets.vaswani_2017_base(**SIZES), attention__divisor="sqrt_model"),
            r"attention.divisor is sqrt_model, expected sqrt_head",
        ),
        ("onnx", lambda: made(presets.bert(**SIZES)), "no ONNX export for.*masked_language_model"),
        (
            "torch",
            lambda: Checkpoint(build(presets.illustrated()), presets.illustrated()),
            "attention",
        ),
        (
            "torch",
            lambda: made(ModelConfig(architecture="recommender")),
            "architecture recommender",
        ),
        ("onnx", lambda: made(ModelConfig(architecture="recommender")), "architecture recommender"),
        (
            "torch",
            lambda: Checkpoint(build(presets.by_hand_2024()), presets.by_hand_2024()),
            "flattened output layer",
        ),
        ("onnx", lambda: of_length(presets.gpt2(**SIZES), 3), "expected max_len 4 or more"),
        ("hf", lambda: of_length(presets.vaswani_2017_base(**SIZES), 40), "needs a start token"),
        (
            "ctranslate2",
            lambda: replace(
                of_length(presets.vaswani_2017_base(**SIZES), 40),
                tokenizer=CharacterTokenizer.build(["abcdefghi"], special=("<pad>", "<unk>")),
            ),
            "lacks one",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_one_clear_line(
    target: str, checkpoint: Callable[[], Checkpoint], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=message) as caught:
        export(checkpoint(), target, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("target", "kind"), [("torch", "classifier"), ("ctranslate2", "pre-norm translator")]
)
def test_an_export_that_gives_nan_is_not_put_in_place(
    target: str, kind: str, tmp_path: Path
) -> None:
    """Comparisons with NaN are always false."""
    checkpoint = MODELS[kind]()
    with torch.no_grad():
        next(p for n, p in checkpoint.model.named_parameters() if "norm" in n).fill_(torch.nan)
    with pytest.raises(ExportError, match=r"differ.* by nan|are empty"):
        export(checkpoint, target, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_tracing_error_is_one_clear_line() -> None:
    """A decoder without blocks has no cache, for example."""
    with pytest.raises(ExportError, match=r"this model: IndexError: no past$"), traced():
        raise IndexError("no past\nand a page of advice")


def test_wrong_places_and_targets(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(ExportError, match="is not empty"):
        export(MODELS["classifier"](), "onnx", tmp_path)
    with pytest.raises(UnknownNameError, match="did you mean 'onnx'"):
        export(MODELS["classifier"](), "onxx", tmp_path / "out")
    with pytest.raises(ExportError, match="cannot write the export to"):
        export(MODELS["classifier"](), "onnx", tmp_path / "thesis.tex" / "out")


def test_ctranslate2_translates_as_we_do(tmp_path: Path) -> None:
    import ctranslate2

    model = load("en-de")
    assert isinstance(model, GlassformerModel)
    folder = export(model.checkpoint, "ctranslate2", tmp_path / "out").folder
    tokenizer = model.checkpoint.tokenizer
    assert tokenizer is not None
    texts = ["A dog runs on the beach.", "I love you.", "Two men are cooking.", "Where are you?"]
    tokens = [[tokenizer.token(i) for i in tokenizer.encode(text)] for text in texts]
    theirs = ctranslate2.Translator(str(folder)).translate_batch(tokens, beam_size=4)
    for text, result in zip(texts, theirs, strict=True):
        said = tokenizer.decode([tokenizer.id_of(token) for token in result.hypotheses[0]])
        ours = model.translate([text])[0]
        assert said == ours.alternatives[0].text
        assert result.scores == [] or result.scores[0] == pytest.approx(ours.score, abs=1e-3)


def test_a_hugging_face_folder_translates_by_itself(tmp_path: Path) -> None:
    """Tokenizer, weights and generation settings, without our code."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = load("en-de")
    assert isinstance(model, GlassformerModel)
    folder = export(model.checkpoint, "hf", tmp_path / "out").folder
    tokenizer = AutoTokenizer.from_pretrained(folder)
    theirs = AutoModelForSeq2SeqLM.from_pretrained(folder)
    texts = ["A dog runs on the beach.", "I love you."]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    output = theirs.generate(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=40
    )
    said = tokenizer.batch_decode(output, skip_special_tokens=True)
    assert said == [one.text for one in model.translate(texts)]


def test_onnx_predicts_the_same_labels(tmp_path: Path) -> None:
    import onnxruntime

    model = load("imdb")
    assert isinstance(model, GlassformerModel)
    folder = export(model.checkpoint, "onnx", tmp_path / "out").folder
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    texts = ["A wonderful film, I loved it.", "Terrible.", "Boring, but the music was good. " * 9]
    for text, ours in zip(texts, model.classify(texts), strict=True):
        tokenizer = model.checkpoint.tokenizer
        assert tokenizer is not None
        ids = np.array([tokenizer.encode(text)], dtype=np.int64)
        (found,) = session.run(None, {"ids": ids, "is_token": np.ones_like(ids, dtype=bool)})
        assert ours.label == model.checkpoint.labels[int(found[0].argmax())]
        assert float(found[0].max()) == pytest.approx(ours.probability, abs=1e-5)


def test_a_torch_program_runs_without_our_code(tmp_path: Path) -> None:
    exported = export(MODELS["pre-norm translator"](), "torch", tmp_path / "out")
    program = torch.export.load(exported.folder / "model.pt2").module()
    model = MODELS["pre-norm translator"]().model
    for n_texts, n_source, n_target in ((4, 11, 6), (1, 40, 40), (3, 2, 17), (2, 1, 1)):
        source = torch.randint(5, 200, (n_texts, n_source))
        target = torch.randint(5, 200, (n_texts, n_target))
        is_token = torch.ones_like(source, dtype=torch.bool)
        found = program(source=source, target=target, source_is_token=is_token)
        torch.testing.assert_close(found, model(source, target, is_token))


def test_the_configs_have_the_special_ids_of_our_tokenizers(tmp_path: Path) -> None:
    checkpoint = MODELS["post-norm translator"]()
    folder = export(checkpoint, "hf", tmp_path / "out").folder
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert checkpoint.tokenizer is not None
    special = checkpoint.tokenizer.special
    assert (config["pad_token_id"], config["decoder_start_token_id"], config["eos_token_id"]) == (
        special.pad,
        special.start,
        special.end,
    )
    model = checkpoint.model
    assert isinstance(model, Seq2Seq) and GlassformerModel(checkpoint).task == "translate"
    assert special.start is not None
    assert translate(model, [[5]], start=special.start, end=special.end, search=Beam(), max_new=3)
