"""A text in, every number out: `Model.trace` and its kin, `gf.trace`, `gf.explore`, `--words`."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient

import glassformer as gf
from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint
from glassformer.cli import run
from glassformer.errors import InputError, TraceError, UnknownNameError
from glassformer.nn import MultiHeadAttention, build, presets
from glassformer.tasks import GlassformerModel
from glassformer.text import SubwordTokenizer, WordTokenizer

TEXT = "I am not happy"


@pytest.fixture(scope="module")
def toy() -> GlassformerModel:
    model = gf.load("toy")
    assert isinstance(model, GlassformerModel)
    return model


def test_a_trace_of_a_text_is_that_of_its_ids(toy: GlassformerModel) -> None:
    with gf.trace(toy, TEXT) as traced, toy.trace(TEXT) as again:
        logits = traced["logits"]
        assert torch.equal(logits.value, again["logits"].value)
        ids = torch.tensor([toy.reader.encode(TEXT)])
        assert torch.allclose(logits.value, toy.module(ids), atol=1e-6)
        assert logits.labels == (None, ("sad", "happy"))
        assert traced["encoder.blocks.0.attention.scores"].labels[-1] == ("I", "am", "not", "happy")
    with gf.trace(toy.module, ids) as plain:
        assert torch.equal(plain["logits"].value, logits.value), "a module is traced as before"


def test_attention_is_written_out_and_the_model_stays_fused(toy: GlassformerModel) -> None:
    def kinds() -> set[str]:
        parts = toy.module.modules()
        return {part.implementation for part in parts if isinstance(part, MultiHeadAttention)}

    before = kinds()
    with toy.trace(TEXT) as traced:
        assert not traced["encoder.blocks.0.attention.weights"].expanded
        expected = traced["encoder.blocks.0.attention.weights"].value.clone()
    assert kinds() == before == {"fused"}
    found = toy.attention(TEXT)
    assert torch.allclose(found["encoder.blocks.0.attention"], expected, atol=1e-6)


def test_words_of_the_vocabulary_are_on_the_logits() -> None:
    model = gf.load("shakespeare")
    with model.trace("To be") as traced:
        _, tokens, words = next(iter(traced.outputs.values())).labels
        assert tokens == ("T", "o", "␣", "b", "e")
        assert words is not None and words[5] == model.reader.display_tokens([5])[0]
        table = traced["decoder.embedding.weight"]
        assert table.labels == (words, None)
    with gf.load("en-de").trace("A dog runs.", target="Ein Hund") as traced:
        output = next(iter(traced.outputs.values()))
        assert output.labels[1] is not None and output.labels[1][0] == "<start>"
        assert output.labels[2] is not None and "␣Hund" in output.labels[2]


def test_explain_and_words_default_to_the_answer(toy: GlassformerModel) -> None:
    cell = toy.cell(TEXT)
    assert cell.index == (0, 0) and toy.classify([TEXT])[0].label == "sad"
    assert str(toy.explain(TEXT)) == str(toy.explain(TEXT, at="logits[0, 0]"))
    assert str(toy.explain(TEXT, depth=2)).count("\n") > str(toy.explain(TEXT)).count("\n")
    found = toy.words(TEXT)
    assert found.strongest == "not" and found.tokens == ("I", "am", "not", "happy")
    assert toy.cell(TEXT, "logits[happy]").index == (0, 1)
    assert toy.cell(TEXT, "encoder.blocks.0.attention.weights[0, happy, not]").index == (0, 0, 3, 2)
    with pytest.raises(UnknownNameError, match="unknown label 'glad'; there are happy, sad"):
        toy.cell(TEXT, "logits[glad]")
    with pytest.raises(TraceError, match="the indices of a cell are whole numbers, got"):
        toy.cell(TEXT, "encoder.blocks.0.feed_forward.expanded[happy, x]")
    unknown = toy.words(TEXT, baseline="<unknown>")
    assert unknown.baseline == toy.reader.special.unknown and unknown.strongest == "not"
    other = toy.words(TEXT, "logits[1]", method="gradient")
    assert other.method == "gradient" and other.tokens == found.tokens
    with pytest.raises(UnknownNameError, match="unknown step 'nothing'"):
        toy.explain(TEXT, at="nothing[0]")
    with pytest.raises((TraceError, UnknownNameError)):
        toy.words(TEXT, method="guess")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(InputError, match="expected a text, got int"):
        toy.trace(3)  # type: ignore[arg-type]  # that is the point


def test_the_answer_of_a_language_model_is_its_next_token() -> None:
    model = gf.load("shakespeare")
    with model.trace("To be") as traced:
        cell = model.answer_cell(traced)
        logits = next(iter(traced.outputs.values())).value
        assert cell.index == (0, 4, int(logits[0, 4].argmax()))


def test_explore_opens_a_page_with_a_text_field(toy: GlassformerModel) -> None:
    with toy.explore(TEXT, open_page=False, wait=False, port=0) as page:
        assert page.trace["logits"].shape == (1, 2)
        address = page.address.partition("#")[0]
        with urllib.request.urlopen(f"{address}api/models", timeout=60) as answer:
            cards = {card["name"]: card for card in json.load(answer)}
        assert cards["toy"]["trace"] is None and cards["toy"]["examples"] == [TEXT]
        request = urllib.request.Request(
            f"{address}api/traces",
            json.dumps({"model": "toy", "text": "I am happy"}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["answer"]["text"] == "happy"
    module, words = toy.module, toy.reader
    with gf.explore(
        module, TEXT, tokenizer=words, open_page=False, wait=False, port=0
    ) as page:  # fmt: skip
        assert page.trace is not None
        assert page.trace["ids"].labels[1] == ("I", "am", "not", "happy")


def test_explore_without_a_text_opens_on_the_field_for_one() -> None:
    module = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 2))
    with gf.explore(module, tokenizer="ids", open_page=False, wait=False, port=0) as page:
        address, _, link = page.address.partition("#")
        assert page.trace is None and link == "/"
        with urllib.request.urlopen(f"{address}api/models", timeout=60) as answer:
            first = json.load(answer)[0]
        assert (first["name"], first["task"], first["examples"]) == ("Sequential", "module", [])
        request = urllib.request.Request(
            f"{address}api/traces",
            json.dumps({"model": "Sequential", "text": "3 1"}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert ["3", "1"] in json.load(answer)["labels"]


def masked(subwords: bool) -> GlassformerModel:
    torch.manual_seed(0)
    texts = ["a good film", "a bad film", "a film"] * 3
    special = ("<pad>", "<unknown>", "<mask>")
    words = (
        SubwordTokenizer.train(texts, vocab_size=300, special=("<pad>", "<mask>"))
        if subwords
        else WordTokenizer.build(texts, special=special)
    )
    config = presets.bert(
        vocab_size=words.vocab_size, d_model=8, n_heads=2, n_layers=1, d_ff=16, max_len=16,
        pad_id=words.special.pad,
    )  # fmt: skip
    return GlassformerModel(Checkpoint(build(config).eval(), config, words), "cloze")


@pytest.mark.parametrize("subwords", [False, True])
def test_a_masked_language_model_fills_in(subwords: bool, tmp_path: Path) -> None:
    model = masked(subwords)
    text = "a <mask> film"
    assert model.task == "fill"
    one, two = model.fill([text, "<mask> good <mask>"], n_best=3)
    assert [len(gap) for gap in one.gaps] == [3] and len(two.gaps) == 2
    tokenizer = model.reader
    mask = tokenizer.special.mask
    assert mask is not None
    space = " film" if subwords else "film"
    ids = [*tokenizer.encode("a"), mask, *tokenizer.encode(space)]
    with torch.no_grad():
        shares = model.module(torch.tensor([ids]))[0, 1].softmax(-1)
    best = shares.topk(3)
    assert [word.id for word in one.gaps[0]] == best.indices.tolist()
    assert [w.probability for w in one.gaps[0]] == pytest.approx(best.values.tolist(), abs=1e-6)
    assert model.cell(text).index == (0, 1, one.gaps[0][0].id)
    assert len(model.embed(["a film"])[0].vector) == 8, "it still embeds"
    with pytest.raises(InputError, match="has no gap to fill: write <mask>"):
        model.fill(["a film"])
    folder = checkpoint.save(tmp_path / "cloze", model.checkpoint)
    assert run(["run", str(folder), text, "--n-best", "2"]) == 0


def test_explain_words_and_run_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "toy", TEXT, "--words"]) == 0
    shown = capsys.readouterr().out
    assert "logits[0, 0] “sad” = 1.941" in shown and "\x1b" not in shown
    assert run(["explain", "toy", TEXT, "--words", "--at", "logits[1]", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["token"] for row in data["rows"]] == ["I", "am", "not", "happy"]
    assert run(["run", "toy", TEXT, "", "--why"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("sad\t") and any(line.startswith("not ") for line in lines)
    assert run(["run", "toy", TEXT, "", "--why", "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["label"] == "sad" and first["why"]["rows"][2]["token"] == "not"
    assert "why" not in second
    assert run(["explain", "toy", TEXT]) == 2
    assert "expected --at with a number" in capsys.readouterr().err
    assert run(["run", "shakespeare", "To be", "--why", "--json", "--max-new", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["why"]["rows"][0]["token"] == "T"


def test_words_are_coloured_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert run(["explain", "toy", TEXT, "--words"]) == 0
    shown = capsys.readouterr().out
    assert "m not \x1b[0m" in shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(["explain", "toy", TEXT, "--words"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_an_image_classifier_opens_a_file_or_a_test_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    from glassformer.data.readers import read_digits, split_digits
    from glassformer.explorer.api import create_api
    from glassformer.explorer.state import State
    from glassformer.nn import ModelConfig

    config = ModelConfig.from_dict(
        presets.bloem_2024(vocab_size=2, d_model=8, n_heads=2, n_layers=1, max_len=16).to_dict()
    ).with_(
        architecture="image_classifier", image__size=8, image__patch=2, image__channels=1,
        output__n_classes=10,
    )  # fmt: skip
    torch.manual_seed(0)
    names = tuple(map(str, range(10)))
    about = {"checksums": {"digits": ""}}
    made = Checkpoint(build(config).eval(), config, labels=names, about=about)
    folder = checkpoint.save(tmp_path / "digits", made)
    test = split_digits(read_digits())[2]
    with torch.no_grad():
        wanted = made.model(torch.from_numpy(test.images[[3]])).softmax(-1)[0]
    assert run(["run", str(folder), "test:3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["label"] == names[int(wanted.argmax())]
    assert answer["probability"] == pytest.approx(float(wanted.max()), abs=1e-6)
    pixels = (test.images[3, 0] * 255).round().astype("uint8")
    Image.fromarray(pixels).save(folder / "three.png")
    model = gf.load(folder)
    share = model.classify([str(folder / "three.png")])[0].probability
    assert share == pytest.approx(answer["probability"], abs=1e-3)
    assert run(["trace", str(folder), "test:3"]) == 0
    assert run(["run", str(folder), "test:9999"]) == 1
    assert "there is no image 9999" in capsys.readouterr().err
    with pytest.raises(InputError, match="the test images of this model are not known"):
        model.classify(["test:3"])
    with TestClient(create_api(State(str(folder))), base_url="http://localhost") as client:
        for text, status in (("test:3", 201), (str(folder / "three.png"), 201), ("/x.png", 400)):
            answer = client.post("/api/traces", json={"model": "digits", "text": text})
            assert answer.status_code == status, answer.text
            if status == 201:
                assert answer.json()["answer"]["text"] == names[int(wanted.argmax())]
                assert answer.json()["answer"]["n_tokens"] == 0  # pixels are no words
