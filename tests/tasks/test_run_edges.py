"""Hugging Face models at their edges: what explains an answer, and what is cut or refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient

import glassformer as gf
from glassformer.cli import run
from glassformer.errors import ConfigError, InputError
from glassformer.experiments import WordScores, WordTable
from glassformer.explorer.api import create_api
from glassformer.explorer.state import State
from tests.tasks.foreign_folders import FOLDERS, TEXT, picture


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("folders")
    names = ("gpt2", "bert", "bert_tokens", "bart", "vit", "bert_vectors")
    return {name: FOLDERS[name].write(place / name) for name in names}


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    code = run(list(command))
    shown = capsys.readouterr()
    assert code in (1, 2) and shown.out == "" and shown.err.count("\n") == 1, shown.err
    return shown.err


# --- why ---


def test_why_of_a_token_classifier_is_its_surest_tag(folders: dict[str, Path]) -> None:
    model = gf.load(folders["bert_tokens"])
    (answer,) = model.tag([TEXT])
    shares = [token.probability for token in answer.tokens]
    place = 1 + shares.index(max(shares))  # after [CLS]
    assert model.why(answer).facts()["cell"].startswith(f"logits[0, {place},")


def test_why_of_a_translation_is_about_each_of_its_tokens(folders: dict[str, Path]) -> None:
    model = gf.load(folders["bart"])
    for beam in (1, 4):
        (translated,) = model.translate([TEXT], beam=beam, max_new=4)
        ids = translated.alternatives[0].ids
        table = model.why(translated)
        assert isinstance(table, WordTable)
        for at, (id_, one) in enumerate(zip(ids, table.of_each, strict=False)):  # and the end
            assert one.measured.name.endswith(f"[0, {at}, {id_}]")
        for at in (0, len(ids) - 1):
            alone = model.why(translated, at)
            assert isinstance(alone, WordScores)
            n_read = len(alone.tokens)  # a token that is written later is not read
            assert table.of_each[at].scores[:n_read] == pytest.approx(alone.scores, abs=1e-5)
            assert not any(table.of_each[at].scores[n_read:])


def test_why_names_a_token_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    text = "A dog runs on the beach."
    assert run(["run", "en-de", text, "--why"]) == 0
    lines = capsys.readouterr().out.splitlines()
    hund = next(line for line in lines if line.startswith("␣Hund"))
    assert "␣dog +" in hund and "Ein +" in hund
    assert run(["run", "en-de", text, "--why", "--at", "Hund", "--json"]) == 0
    why = json.loads(capsys.readouterr().out)["why"]
    assert why["cell"].startswith("logits[0, 1, ") and why["kind"] == "words"
    assert run(["run", "en-de", text, "--why", "--json"]) == 0
    why = json.loads(capsys.readouterr().out)["why"]
    assert why["answers"][1] == "␣Hund" and why["answers"][-1] == "<end>"
    best = {row["answer"]: row for row in sorted(why["rows"], key=lambda row: row["score"])}
    assert best["␣Hund"]["token"] == "␣dog" and best["␣Strand"]["token"] == "␣beach"
    for at, said in (("99", "no token 99"), ("Katze", "stands 0 times"), ("9" * 5000, "0 times")):
        assert said in refused(capsys, "run", "en-de", text, "--why", "--at", at)
    assert "writes none" in refused(capsys, "run", "toy", "happy", "--why", "--at", "0")
    assert "give --why" in refused(capsys, "run", "en-de", text, "--at", "0")


def test_why_of_a_continuation_is_its_first_token(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model = gf.load(folders["gpt2"])
    wild = gf.decoding.Sampling(temperature=50.0, seed=3)
    drawn = model.generate(TEXT, search=wild, max_new=2)
    with model.trace(TEXT) as traced:
        last, likeliest = model.answer_cell(traced).index[1:]
        first = drawn.alternatives[0].ids[0]
        assert first != likeliest, "else this shows nothing"
    assert model.why(drawn).facts()["cell"].endswith(f"[0, {last}, {first}]")
    second = drawn.alternatives[0].ids[1]
    assert model.why(drawn, 1).facts()["cell"].endswith(f"[0, {last + 1}, {second}]")
    assert run(["run", str(folders["gpt2"]), TEXT, "--why", "--max-new", "2"]) == 0
    assert "about the first token of the continuation" in capsys.readouterr().out


def test_why_of_a_vector_is_refused(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "its answer is a vector" in refused(
        capsys, "run", str(folders["bert_vectors"]), TEXT, "--why"
    )


def test_why_goes_on_after_a_text_that_it_cannot_explain(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    long = "cat " * 40
    for name, texts in (("bert", [long, TEXT]), ("bart", ["", TEXT]), ("gpt2", [long, "", TEXT])):
        few = [] if name == "bert" else ["--max-new", "2"]
        assert run(["run", str(folders[name]), *texts, "--why", "--json", *few]) == 0
        shown = capsys.readouterr()
        answers = [json.loads(line) for line in shown.out.splitlines()]
        assert ["why" in answer for answer in answers] == [text == TEXT for text in texts]
        assert shown.err.count("is not explained") == len(texts) - 1, shown.err


# --- lengths ---


def test_ids_that_are_too_many_are_cut(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", str(folders["bert"]), "4 " * 40, "--ids"]) == 0
    shown = capsys.readouterr()
    assert "is longer than the model reads: cut" in shown.err and shown.out
    limit = gf.load(folders["bart"]).max_tokens
    assert limit is not None
    assert run(["run", str(folders["bart"]), "4 " * (limit + 9), "--ids", "--max-new", "2"]) == 0
    assert "is longer than the model reads: cut" in capsys.readouterr().err


def test_a_translation_is_no_longer_than_its_model_writes(folders: dict[str, Path]) -> None:
    model = gf.load(folders["bart"])
    assert model.max_tokens is not None
    for beam in (1, 2):
        (found,) = model.translate([TEXT], beam=beam, max_new=500)
        assert len(found.alternatives[0].ids) < model.max_tokens


# --- numbers of an answer ---


def test_a_log_probability_is_that_of_the_model_itself(folders: dict[str, Path]) -> None:
    model = gf.load(folders["gpt2"])
    search = gf.decoding.Sampling(temperature=0.3, top_k=3, repetition_penalty=1.5, seed=1)
    (found,) = model.generate(TEXT, search=search, max_new=4).alternatives
    assert not found.ended and model.tokenizer is not None
    ids = model.tokenizer.encode(TEXT)
    with torch.no_grad():
        logits = model.module(torch.tensor([[*ids, *found.ids]])).logits[0].double()
    shares = logits.log_softmax(-1)[len(ids) - 1 : -1]
    wanted = shares[torch.arange(len(found.ids)), list(found.ids)].sum()
    assert found.log_probability == pytest.approx(float(wanted), abs=1e-4)


def test_classes_of_one_name_are_all_there(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["bert"], tmp_path / "twins")
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"2": "good", "0": "good", "1": "bad"}  # in any order, as JSON has it
    (folder / "config.json").write_text(json.dumps(config))
    (found,) = gf.load(folder).classify([TEXT])
    assert list(found.probabilities) == ["good (0)", "bad", "good (2)"]
    assert gf.load(folder, as_glassformer=True).labels == ("good", "bad", "good")
    assert sum(found.probabilities.values()) == pytest.approx(1, abs=1e-6)


# --- what a folder says of sentences and images ---


def test_poolings_are_read_or_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["bert_vectors"], tmp_path / "pooled")
    (folder / "1_Pooling").mkdir()

    def vector(pooling: Mapping[str, object], *more: str) -> torch.Tensor:
        kinds = ("Transformer", "Pooling", *more)
        places = {"Transformer": "", "Pooling": "1_Pooling"}
        modules = [
            {"type": f"sentence_transformers.models.{kind}", "path": places.get(kind, f"2_{kind}")}
            for kind in kinds
        ]
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        return torch.tensor(gf.load(folder).embed([TEXT])[0].vector)

    model = gf.load(folders["bert_vectors"])
    assert model.tokenizer is not None
    with torch.no_grad():
        ids = torch.tensor([model.tokenizer.encode(TEXT)])
        hidden = model.module(ids).last_hidden_state[0].double()
    first, mean = (torch.nn.functional.normalize(v, dim=0) for v in (hidden[0], hidden.mean(0)))
    old = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    for found, wanted in (
        (vector({"pooling_mode": "cls"}, "Normalize"), first),
        (vector(old), first),
        (vector({"pooling_mode": "mean"}), mean),
        (vector({"pooling_mode_mean_tokens": True}), mean),
    ):
        torch.testing.assert_close(found.double(), wanted, atol=1e-6, rtol=0)
    unlike: list[tuple[Mapping[str, object], tuple[str, ...], str]] = [
        ({"pooling_mode_weightedmean_tokens": True}, (), "weightedmean"),
        ({"pooling_mode": "mean"}, ("Dense",), "Dense"),
        ({"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}, (), "cls .+ max"),
        ({"pooling_mode_mean_tokens": False}, (), "none"),
    ]
    for pooling, more, name in unlike:
        with pytest.raises(ConfigError, match=f"makes its vectors with {name}"):
            vector(pooling, *more)


def test_images_are_not_scaled_to_any_size(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(folders["vit"], tmp_path / "large")
    image = str(picture(tmp_path / "p.png"))
    file = folder / "preprocessor_config.json"
    config = json.loads(file.read_text())
    for side, said in ((100_000, "would be scaled to 100,000 pixels"), (64, "cannot read the im")):
        file.write_text(json.dumps(config | {"size": {"height": side, "width": side}}))
        assert said in refused(capsys, "run", str(folder), image)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "a" * 5000, ""])
def test_the_explorer_refuses_what_names_no_image(folders: dict[str, Path], text: str) -> None:
    with TestClient(create_api(State(str(folders["vit"]))), base_url="http://localhost") as page:
        body = json.dumps({"model": "vit", "text": text})
        answer = page.post("/api/traces", content=body)
        assert 400 <= answer.status_code < 500, answer.text


# --- a module in memory ---


def test_a_module_in_memory_takes_ids_and_no_options() -> None:
    module = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 2))
    assert gf.load(module, tokenizer="ids").trace("3 8").outputs
    with pytest.raises(InputError, match="expected token ids from 0 to 8"):
        gf.load(module, tokenizer="ids").trace("9")
    with pytest.raises(ConfigError, match="it takes no token ids"):
        gf.load(torch.nn.Linear(4, 2), tokenizer="ids")
    for options in (
        {"device": "meta"},
        {"attention": "written"},
        {"weights": "int8"},
        {"as_glassformer": True},
    ):
        with pytest.raises(ConfigError, match=f"{next(iter(options))}= is for a model that"):
            gf.load(module, **options)


# --- what is no model ---


def test_a_file_that_is_no_model_is_called_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = tmp_path / "book.txt"
    book.write_text("Once upon a time, 从前", encoding="utf-8")
    said = refused(capsys, "run", str(book), TEXT)
    assert "is a text file, not a model: MODEL is" in said and "en-de" in said
    assert "是文本文件" in refused(capsys, "run", str(book), TEXT, "--lang", "zh")
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"\0" * 9)
    assert f"give its folder, {tmp_path}" in refused(capsys, "run", str(weights), TEXT)
    assert "did you mean 'toy'?" in refused(capsys, "run", "Toy", TEXT)


def test_a_pdf_is_written_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert "-o FILE.pdf" in refused(capsys, "lesson", "masked", "--to", "pdf")
    assert "-o FILE.pdf" in refused(capsys, "audit", "by-hand", "--to", "pdf", "-o", "x.txt")
    assert "expected a file that ends in" in refused(capsys, "audit", "by-hand", "-o", "x.docx")


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "composition", "toy", "I am not happy"]) == 0
    assert "(nothing to list)" in capsys.readouterr().out
