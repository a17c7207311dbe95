"""The commands train, recipes, data, models and evaluate, as a user types them."""

import json
import shlex
from pathlib import Path

import pytest

from glassformer import checkpoint
from glassformer.cli import run
from glassformer.data.corpora import find
from glassformer.data.imdb import read_reviews
from glassformer.errors import TrainingError
from glassformer.tasks import GlassformerModel
from glassformer.training import RunConfig, log, recipe, train
from glassformer.training.command import configure, main
from glassformer.training.problems import SingleTexts
from glassformer.training.problems.prepared_problem import cut_texts
from glassformer.training.recipes import RECIPES, command_of
from glassformer.training.settings import changed, parse_arguments, to_json
from tests.training.made import tiny


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "c.json"
    file.write_text(to_json(tiny("imdb")), encoding="utf-8")
    return file


def test_a_run_its_plot_and_its_evaluation(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    options = ["--config", str(config), "--out", str(out), "--plot", "--loop.seed=3"]
    assert run(["train", "imdb", *options]) == 0
    assert (out / "plot.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr()
    for part in ("imdb: ", "parameters, cpu, ", "plot.png", f"to use it: glassformer run {out}"):
        assert part in shown.err
    result = json.loads(shown.out)
    assert result["folder"] == str(out)
    assert json.loads((out / "config.json").read_text("utf-8"))["loop"]["seed"] == 3

    assert run(["evaluate", str(out / "model"), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["split"] == "test"
    assert row["scores"] == pytest.approx(result["scores"]["test"], rel=1e-5)

    assert run(["evaluate", str(out / "model"), "--split", "validation"]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert run(["evaluate", str(out / "model"), "--split", "tset"]) == 2
    assert "did you mean 'test'" in capsys.readouterr().err


def test_endless_metrics_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n' * 9, encoding="utf-8")
    monkeypatch.setattr(log, "_MOST_METRICS", 100)
    with pytest.raises(TrainingError, match="larger than 100 bytes"):
        log.plot_run(tmp_path)


def test_a_plot_without_matplotlib_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log, "find_spec", lambda _: None)
    assert run(["train", "imdb", "--out", str(tmp_path / "run"), "--plot"]) == 1
    assert "--plot needs matplotlib" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "config",
    [
        tiny("text", data__file="my novel.txt", loop__patience=3),
        changed(recipe("text"), {"loop.epochs": 20, "loop.least_steps": 400}),
        changed(recipe("text"), {"loop.epochs": 20}),
        changed(recipe("shakespeare"), {"loop.epochs": 2, "loop.steps": 2500}),
        changed(recipe("imdb-pretrain"), {"first.loop.epochs": 2, "first.data.folder": "/home/me"}),
    ],
)
def test_the_command_on_a_card_can_be_pasted(config: RunConfig) -> None:
    command = command_of(config)
    name, *settings = shlex.split(command)[2:]
    pasted = configure(name, parse_arguments(settings).settings)
    places = {"loop.device": "auto", "data.folder": "", "data.cache": ""}
    if config.first is not None:
        places |= {f"first.{key}": value for key, value in places.items()}
    assert pasted == changed(config, places)
    assert "/home/me" not in command


def test_help_lists_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--help"]) == 0
    shown = capsys.readouterr().out
    assert main(["--help"]) == 0
    for text in (shown, capsys.readouterr().out):
        for option in ("--out", "--resume", "--config", "--plot", "--watch", "--text", "--csv"):
            assert option in text


def test_a_translator_is_evaluated_with_the_metrics_signature(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.json"
    config.write_text(to_json(tiny("multi30k", loop__steps=1)), encoding="utf-8")
    out = tmp_path / "run"
    assert run(["train", "multi30k", "--config", str(config), "--out", str(out)]) == 0
    capsys.readouterr()
    assert run(["evaluate", str(out / "model"), "--split", "test_2016_flickr"]) == 0
    shown = capsys.readouterr().out
    assert "bleu" in shown
    assert "tok:13a" in shown
    assert "bleu_lower_tokenised" in shown
    assert "case:lc|eff:no|tok:none" in shown


def test_own_files_have_short_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.txt").write_text("一二三四五六七八九十。\n" * 60, encoding="utf-8")
    Path("c.json").write_text(to_json(tiny("text")), encoding="utf-8")
    assert run(["train", "text", "--text", "my.txt", "--config", "c.json"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == "runs/text"
    assert run(["train", "csv", "--csv", "no.csv", "--text-column", "a"]) == 1
    assert "cannot read no.csv: No such file" in capsys.readouterr().err


def test_a_changed_table_is_not_used_for_evaluation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"text number {n},{'ab'[n % 2]}\n" for n in range(60))
    Path("t.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    Path("c.json").write_text(to_json(tiny("csv")), encoding="utf-8")
    assert run(["train", "csv", "--csv", "t.csv", "--config", "c.json"]) == 0
    assert run(["evaluate", "runs/csv/model"]) == 2
    assert "no test split; use --split validation" in capsys.readouterr().err
    assert run(["evaluate", "runs/csv/model", "--split", "validation"]) == 0
    Path("t.csv").write_text(f"text,label\nanother,A\n{rows}", encoding="utf-8")
    capsys.readouterr()
    assert run(["evaluate", "runs/csv/model", "--split", "validation"]) == 1
    assert "t.csv: not the files that this model was trained on" in capsys.readouterr().err


def test_a_trained_model_cuts_long_texts_as_in_training(tmp_path: Path) -> None:
    config = tiny("imdb", data__max_len=8, loop__steps=1)
    assert isinstance(config.data, SingleTexts) and config.data.cut == "middle"
    model = checkpoint.load(train(config, tmp_path / "run").folder / "model")
    texts = [review.text for review in read_reviews(find("imdb"), "test")]
    assert model.tokenizer is not None
    trained = list(cut_texts(model.tokenizer, texts, config.data))
    assert [read.ids for read in GlassformerModel(model).read(texts)] == trained


def test_recipes_are_listed_with_what_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RECIPES, "a-recipe-with-a-long-name", "What it is.")
    assert run(["recipes"]) == 0
    listed = capsys.readouterr().out
    assert "imdb-pretrain" in listed
    assert "a-recipe-with-a-long-name What it is.\n" in listed
    assert run(["recipes", "imdb"]) == 0
    shown = capsys.readouterr().out
    assert "--optimiser.lr 0.0003\n    Peak learning rate" in shown
    assert "--model.attention.n_heads 4\n    Number of heads." in shown
    assert run(["recipes", "imdb", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"] == "imdb"


def test_data_sets_are_listed_and_checked(
    made_data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["data"]) == 0
    assert f"in {made_data}" in capsys.readouterr().out
    assert run(["data", "imdb", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["file"] for row in rows] == ["imdb/train.jsonl.xz", "imdb/test.jsonl.xz"]
    monkeypatch.delenv("GLASSFORMER_DATA")
    assert run(["data", "imdb"]) == 1
    error = capsys.readouterr().err
    assert "not found" in error
    assert error.count("\n") == 1


def test_models_that_ship_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "--json"]) == 0
    rows = {row["name"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["toy"]["task"] == "classify"
    assert run(["models"]) == 0
    assert "MiB" in capsys.readouterr().out


def test_a_model_without_a_recipe_has_no_test_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "toy"]) == 2
    assert "not trained by a recipe" in capsys.readouterr().err
