"""Every recipe at tiny size, from synthetic corpora to a model folder that loads and works."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer import checkpoint
from glassformer.errors import ConfigError, UnknownNameError
from glassformer.training import RECIPES, recipe, recipes, train
from glassformer.training.problems import TokenisedData
from glassformer.training.problems.prepared_problem import learn_tokenizer, suitable_vocab_size
from glassformer.training.problems.problem_readers import prepare
from glassformer.training.settings import changed, restored, to_json
from tests.training.made import tiny


@pytest.fixture
def own_files(tmp_path: Path) -> dict[str, dict[str, str]]:
    """What recipes for a user's own data are given, by their problem."""
    text = tmp_path / "红楼梦.txt"
    text.write_text("满纸荒唐言,一把辛酸泪。\n都云作者痴,谁解其中味?\n" * 40, encoding="utf-8")
    table = tmp_path / "table.csv"
    rows = [f'"{word}, really {i}",{label}' for i in range(20) for word, label in PAIRS]
    table.write_text("comment,mood\n" + "\n".join(rows) + "\n", encoding="utf-8")
    columns = {"data__text_column": "comment", "data__label_column": "mood"}
    pairs = tmp_path / "pairs.tsv"
    lines = [f"{a} {b}\t{b} {a}" for a in "abcdef" for b in "uvwxyz"]
    pairs.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "translate-file": {"data__file": str(pairs)},
        "continue-file": {"data__file": str(text)},
        "classify-csv": {"data__file": str(table), **columns},
    }


PAIRS = (("good", "happy"), ("bad", "sad"), ("so so", "neither"))


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_trains_tests_and_saves(
    name: str, tmp_path: Path, own_files: dict[str, dict[str, str]]
) -> None:
    config = tiny(name, **own_files.get(recipe(name).data.problem, {}))
    result = train(config, tmp_path / "run")
    assert result.steps == 4
    about = json.loads((tmp_path / "run/about.json").read_text("utf-8"))
    assert about["recipe"] == name
    assert about["scores"] == result.scores
    assert about["checksums"] or name == "thrones"
    lines = (tmp_path / "run/metrics.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert [r["step"] for r in records if "loss" in r] == [1, 2, 3, 4]
    assert restored(type(config), json.loads(to_json(config))) == config
    if config.kind not in ("transformer", "factors"):
        assert (tmp_path / "run/weights.safetensors").is_file()
        return
    loaded = checkpoint.load(tmp_path / "run/model")
    assert loaded.about["scores"] == result.scores
    card = (tmp_path / "run/model/README.md").read_text("utf-8")
    assert f"glassformer train {name}" in card
    assert "## Data\n\n" in card


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_complete_and_says_what_it_is(name: str) -> None:
    config = recipe(name)
    assert config.recipe == name
    assert RECIPES[name].endswith(".")


def test_an_unknown_key_in_a_recipe_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recipes._TABLES["imdb"], "loop", {"epoch": 3})
    with pytest.raises(UnknownNameError, match=r"in imdb\.loop: 'epoch'; did you mean"):
        recipe("imdb")


def test_a_section_of_a_recipe_given_one_value_names_its_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(recipes._TABLES["imdb"], "schedule", "cosine")
    with pytest.raises(ConfigError, match=r"imdb\.schedule is a section with the settings kind, "):
        recipe("imdb")


def test_a_recipe_that_extends_another_changes_only_its_own_settings() -> None:
    plain, recurrent = recipe("imdb"), recipe("imdb-lstm")
    assert recurrent.data == plain.data
    assert recurrent.schedule == plain.schedule
    assert recurrent.model == plain.model.with_(d_model=160, n_layers=2)
    assert recurrent.optimiser == replace(plain.optimiser, lr=1e-3)
    assert recurrent.loop == replace(plain.loop, epochs=6.0)
    assert (plain.kind, recurrent.kind) == ("transformer", "lstm")


def test_a_typing_mistake_in_a_recipe_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'shakespeare'"):
        recipe("shakespear")


def test_the_classifier_starts_from_its_pretraining(tmp_path: Path) -> None:
    config = tiny("imdb-pretrain", loop__steps=1, optimiser__lr=1e-12, loop__average=0.0)
    train(config, tmp_path / "run")
    first = checkpoint.load(tmp_path / "run/first/model")
    last = checkpoint.load(tmp_path / "run/model")
    earlier, later = (dict(m.model.named_parameters()) for m in (first, last))
    shared = earlier.keys() & later.keys()
    assert "encoder.blocks.0.attention.to_queries.weight" in shared
    for name in shared:
        assert torch.allclose(earlier[name], later[name], atol=1e-9)
    assert first.tokenizer is not None
    assert last.tokenizer is not None
    assert first.tokenizer.to_json() == last.tokenizer.to_json()


def test_a_small_text_gets_a_small_vocabulary() -> None:
    """One token per 200 bytes, plus multi-byte characters that occur more than once."""
    assert suitable_vocab_size(["to be or not to be\n"] * 20) == 300
    assert suitable_vocab_size(["x" * 99_999, "y"]) == 500
    assert suitable_vocab_size(["x" * 100_000, "天地玄黄", "天地"]) == 500 + 2
    assert suitable_vocab_size(["x" * 10_000_000]) == 4000


def test_few_pairs_are_not_read_by_whole_phrases(tmp_path: Path) -> None:
    """A phrase that is one token teaches nothing about another that shares its letters."""
    rng = random.Random(0)
    numerals = "零一二三四五六七八九"
    rows = ["".join(rng.choices("0123456789", k=4)) for _ in range(300)]
    file = tmp_path / "pairs.tsv"
    lines = [f"{row}\t{''.join(numerals[int(digit)] for digit in row)}\n" for row in rows]
    file.write_text("".join(lines), encoding="utf-8")
    tokenizer = prepare(tiny("pairs", data__file=str(file), data__vocab_size=None)).tokenizer
    assert tokenizer is not None
    assert min(len(tokenizer.encode(line.split("\t")[1].strip())) for line in lines) >= 2


def test_a_small_table_is_not_read_by_whole_phrases(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = ["".join(rng.choices("天地玄黄宇宙洪荒", k=4)) + rng.choice("我他") for _ in range(300)]
    file = tmp_path / "table.csv"
    file.write_text("text,who\n" + "".join(f"{row},{row[-1]}\n" for row in rows), encoding="utf-8")
    columns = {"data__text_column": "text", "data__label_column": "who"}
    config = tiny("csv", data__file=str(file), data__vocab_size=None, **columns)
    tokenizer = prepare(config).tokenizer
    assert tokenizer is not None
    assert min(len(tokenizer.encode(row)) for row in rows) >= 2


def test_a_classifier_may_have_a_larger_vocabulary() -> None:
    texts = ["".join(chr(0x4E00 + i % 20_000) for i in range(40_000))]
    for name, most in (("csv", 8000), ("pairs", 4000)):
        data = changed(recipe(name), {"data.tokenizer": "words"}).data
        assert isinstance(data, TokenisedData) and data.vocab_size is None
        assert learn_tokenizer([f"{i}" for i in range(9_000)] + texts * 9, data).vocab_size == most


def test_a_small_text_is_trained_on_for_many_steps(tmp_path: Path) -> None:
    file = tmp_path / "small.txt"
    file.write_text("In the beginning was the word.\n" * 9, encoding="utf-8")
    loop = {"steps": None, "epochs": 2, "least_steps": 40, "evaluate_every": None, "patience": None}
    settings = {f"loop__{key}": value for key, value in loop.items()}
    config = tiny("text", data__file=str(file), data__vocab_size=None, **settings)
    train(config, tmp_path / "run")
    lines = (tmp_path / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    evaluated = [row["step"] for row in map(json.loads, lines) if "valid_loss" in row]
    assert evaluated == [20, 40]


@pytest.mark.parametrize("name", ["imdb", "multi30k"])
def test_the_longest_text_need_not_be_a_multiple_of_the_padding(name: str, tmp_path: Path) -> None:
    """As with `train imdb --data.max_len 500`: learned positions end there."""
    settings = {"data__max_len": 10, "data__pad_multiple": 16, "model__positions__kind": "learned"}
    assert train(tiny(name, **settings), tmp_path).steps == 4
