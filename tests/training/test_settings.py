"""Settings from a command line and from files: typos are always refused."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import ConfigError, GlassformerError, UnknownNameError
from glassformer.training import PROBLEMS, RECIPES, LoopConfig, OptimiserConfig, RunConfig, recipe
from glassformer.training.command import configure
from glassformer.training.problems import (
    ClassifiedTexts,
    LabelledTable,
    RunningText,
    TranslationPairs,
)
from glassformer.training.problems.classification import CORPORA_OF
from glassformer.training.problems.language_modelling import TEXTS_OF
from glassformer.training.problems.problem_readers import READERS
from glassformer.training.problems.translation import PAIRS_OF
from glassformer.training.settings import (
    changed,
    from_file,
    keys,
    parse_arguments,
    restored,
    settings_of,
    to_json,
)


def test_fields_are_set_by_their_dotted_names() -> None:
    config = changed(
        recipe("multi30k"),
        parse_arguments(
            [
                *("--model.d-model", "64", "--optimiser.lr=1e-4", "--loop.compile", "on"),
                *("--loop.patience", "none", "--data.max_tokens", "none", "--data.batch_size", "8"),
            ]
        ).settings,
    )
    assert config.model.d_model == 64
    assert config.optimiser.lr == 1e-4
    assert config.loop.compile == "on"
    assert config.loop.patience is None
    assert (config.data.max_tokens, config.data.batch_size) == (None, 8)


def test_a_toml_file_has_one_table_per_section(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(
        "[model]\nd_model = 64\nattention = {n_heads = 2}\n[loop]\nepochs = 2\n", "utf-8"
    )
    config = changed(recipe("imdb"), from_file(file))
    assert config.model.d_model == 64
    assert config.model.attention.n_heads == 2
    assert config.loop.epochs == 2.0


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[loop]\nseed = 1\nepochs = 3\n", encoding="utf-8")
    config = configure("imdb", {"loop.seed": "2"}, config_file=str(file))
    assert (config.loop.seed, config.loop.epochs) == (2, 3.0)


def test_explicit_epochs_override_the_recipes_steps(tmp_path: Path) -> None:
    """Unless the number of steps is set explicitly, too."""
    assert recipe("shakespeare").loop.steps and recipe("text").loop.least_steps
    file = tmp_path / "my.toml"
    file.write_text("[loop]\nepochs = 2\n", "utf-8")

    def loop(name: str, *settings: str, config_file: str | None = None) -> LoopConfig:
        changes = parse_arguments(settings).settings
        return configure(name, changes, config_file=config_file).loop

    for found in (
        loop("shakespeare", "--loop.epochs=2"),
        loop("shakespeare", config_file=str(file)),
        loop("text", "--loop.epochs=2"),
    ):
        assert found.n_steps(per_epoch=7) == (14, found.evaluate_every or 20)
    assert loop("shakespeare", "--loop.epochs=2", "--loop.steps=3").n_steps(7)[0] == 3
    assert loop("text", "--loop.epochs=2", "--loop.least_steps=30").n_steps(7)[0] == 30
    with pytest.raises(UnknownNameError, match=r"'first\.loop\.epochs'"):  # what was typed
        loop("text", "--first.loop.epochs=2")


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"epochs": 3.0}, (21, 20)),
        ({"epochs": 0.01}, (1, 20)),
        ({"epochs": 3.0, "steps": 5}, (5, 20)),
        ({"epochs": 3.0, "least_steps": 20}, (21, 20)),
        ({"epochs": 3.0, "least_steps": 60}, (60, 20)),
        ({"epochs": 3.0, "least_steps": 60, "evaluate_every": 9}, (60, 9)),
        ({"epochs": 3.0, "steps": 5, "least_steps": 60}, (5, 20)),
    ],
)
def test_few_examples_are_repeated_more_often(
    settings: dict[str, Any], steps: tuple[int, int]
) -> None:
    assert LoopConfig(**settings).n_steps(per_epoch=7) == steps
    assert LoopConfig(epochs=3.0, least_steps=60).n_steps(per_epoch=70) == (210, 70)


def test_pretraining_has_its_own_settings() -> None:
    config = changed(recipe("imdb-pretrain"), {"first.loop.epochs": "2", "loop.epochs": "1"})
    assert config.first is not None
    assert (config.first.loop.epochs, config.loop.epochs) == (2.0, 1.0)
    assert changed(config, {"first": "none"}).first is None
    with pytest.raises(ConfigError, match="first is set as a whole"):
        changed(config, {"first": "none", "first.loop.epochs": "2"})


def test_a_typo_in_a_file_names_the_file_and_the_nearest_key(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[model]\nd_modl = 64\n", encoding="utf-8")
    with pytest.raises(UnknownNameError) as caught:
        configure("imdb", {}, config_file=str(file))
    assert "my.toml" in str(caught.value)
    assert "did you mean 'model.d_model'" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("loop.epoch", "3", "did you mean 'loop.epochs'"),
        ("loop.steps", "2.5", "loop.steps must be a whole number or none, got '2.5'"),
        ("loop.epochs", "many", "loop.epochs must be a number, got 'many'"),
        ("loop.compile", "perhaps", "loop.compile must be 'auto' or 'on' or 'tuned' or 'off'"),
        ("schedule.kind", "cosin", "schedule.kind must be 'constant' or 'linear'"),
        ("loop.epochs", "0", "loop.epochs must be above 0"),
        ("loop.keep", "0", "loop.keep must be at least 1"),
        ("data.bucket_width", "9" * 20, "data.bucket_width must be below 2,147,483,648"),
        ("loop.ema", "1", "loop.ema must be below 1"),
        ("loop.seed", "-1", "loop.seed must be at least 0"),
        ("loop.seed", str(2**63), "loop.seed must be below 9,223,372,036,854,775,808"),
        ("loop.epochs", "nan", "loop.epochs must be a number, got 'nan'"),
        ("optimiser.lr", "inf", "optimiser.lr must be a number, got 'inf'"),
        (
            "optimiser.lr",
            10**400,
            "optimiser.lr must be a number, got a number of more than 40 digits",
        ),
        ("kind", "rnn", "classify-imdb needs kind transformer or lstm, got rnn"),
        ("model.architecture", "seq2seq", "needs model.architecture classifier, got seq2seq"),
        ("data.problem", "continue-file", "needs model.architecture language_model"),
        ("optimiser.lr", "0", "optimiser.lr must be above 0"),
        ("optimiser.beta2", "1", "optimiser.beta2 must be below 1"),
        ("optimiser.clip", "-1", "optimiser.clip must be at least 0"),
        ("schedule.warmup", "-1", "schedule.warmup must be at least 0"),
        ("schedule.floor", "2", "schedule.floor must be at most 1"),
        ("data.share", "0", "data.share must be above 0"),
        ("data.share", "1.5", "data.share must be at most 1"),
        ("data.max_tokens", "100", "set one of data.max_tokens and data.batch_size"),
        ("model.attention.n_heads", "5", "multiple of n_heads"),
    ],
)
def test_a_wrong_value_says_what_is_expected(key: str, value: str | int, message: str) -> None:
    with pytest.raises(GlassformerError, match=message):
        changed(recipe("imdb"), {key: value})


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_configs_made_in_python_hold_finite_numbers(number: float) -> None:
    with pytest.raises(ConfigError, match=r"optimiser\.lr must be a finite number"):
        OptimiserConfig(lr=number)
    with pytest.raises(ConfigError, match=r"loop\.epochs must be a finite number"):
        LoopConfig(epochs=number)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("text", "data.share", 0.5),
        ("digits", "data.share", 0.5),
        ("movielens", "data.share", 0.5),
        ("multi30k", "data.word_dropout", 0.5),
        ("digits", "data.word_dropout", 0.5),
        ("imdb-pretrain", "first.data.word_dropout", 0.5),
    ],
)
def test_a_setting_that_a_problem_does_not_read_is_refused(
    name: str, key: str, value: float
) -> None:
    with pytest.raises(ConfigError, match=key.removeprefix("first.")):
        changed(recipe(name), {key: value})


def test_ratings_are_not_smoothed() -> None:
    with pytest.raises(
        ConfigError, match=r"optimiser\.label_smoothing needs predicted probabilities"
    ):
        changed(recipe("movielens"), {"optimiser.label_smoothing": 0.1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["loop.seed", "1"], "expected --section.key value"), (["--loop.seed"], "needs a value")],
)
def test_arguments_that_are_not_settings_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_arguments(arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model\n", "is not TOML"),
        ("\ufeff[model]\nd_modl = 1", "unknown setting"),
        (None, "cannot read"),
        ("x = 1", "unknown setting"),
        (f"{'a.' * 2000}a = 1", "is not TOML: maximum recursion depth"),  # a traceback before
        (f"{'a.' * 20000}a = 1", "a line of more than 4,096 bytes"),  # 1.6 GB and ten seconds
        ("# and so on\n" * 6000, "larger than 65,536 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "my.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(GlassformerError, match=message):
        changed(recipe("imdb"), from_file(file), str(file))


@pytest.mark.parametrize("name", RECIPES)
def test_every_key_has_a_help_sentence(name: str) -> None:
    """The sentence under a field is its help: none is missing, not even of inherited fields."""
    assert [setting.name for setting in settings_of(recipe(name)) if not setting.help] == []


def test_a_saved_config_may_have_the_settings_of_other_problems() -> None:
    """Configs of earlier versions have the settings of all problems."""
    config = recipe("shakespeare")
    saved = json.loads(to_json(config))
    saved["data"] |= {"hidden": 0.3, "text_column": "text", "share": 1.0, "word_dropout": 0.0}
    assert restored(RunConfig, saved) == config
    flat = {f"data.{key}": value for key, value in saved["data"].items()}
    assert changed(config, flat, "runs/old/config.json") == config
    with pytest.raises(UnknownNameError, match=r"config\.data: 'hiden'"):
        restored(RunConfig, saved | {"data": saved["data"] | {"hiden": 0.3}})


def test_a_setting_of_another_problem_may_be_left_at_its_default() -> None:
    config = recipe("text")
    assert changed(config, {"data.hidden": "0.15", "data.share": 1.0}) == config
    with pytest.raises(ConfigError, match=r"data\.hidden is not a setting of the problem continue"):
        changed(config, {"data.hidden": "0.2"})


def test_another_problem_brings_its_own_settings() -> None:
    """Common settings are kept; a problem that needs another model is refused."""
    config = changed(
        recipe("imdb"), {"data.problem": "classify-csv", "data.file": "my.csv", "data.max_len": 99}
    )
    assert isinstance(config.data, LabelledTable)
    assert (config.data.file, config.data.max_len) == ("my.csv", 99)
    assert config.data.word_dropout == recipe("imdb").data.word_dropout  # type: ignore[attr-defined]
    with pytest.raises(UnknownNameError, match="did you mean 'classify-csv'"):
        changed(recipe("imdb"), {"data.problem": "clasify-csv"})


def test_every_problem_has_a_reader_and_a_recipe() -> None:
    for kind in PROBLEMS.values():
        assert sum(issubclass(kind, known) for known in READERS) == 1, kind
    for known, corpora in (
        (ClassifiedTexts, CORPORA_OF),
        (RunningText, TEXTS_OF),
        (TranslationPairs, PAIRS_OF),
    ):
        assert set(corpora) == {name for name in PROBLEMS if issubclass(PROBLEMS[name], known)}
    configs = [recipe(name) for name in RECIPES]
    pretraining = [config.first for config in configs if config.first is not None]
    assert {config.data.problem for config in (*configs, *pretraining)} == set(PROBLEMS)


def test_a_problem_has_one_class() -> None:
    with pytest.raises(
        ConfigError, match="classify-imdb has settings of its own: use ClassifiedTexts"
    ):
        LabelledTable(problem="classify-imdb", batch_size=8)


def test_a_key_of_a_newer_version_is_not_ignored() -> None:
    data: dict[str, Any] = {"recipe": "imdb", "data": {"problm": "classify-imdb"}}
    with pytest.raises(UnknownNameError, match=r"config\.data: 'problm'"):
        restored(RunConfig, data)


def test_keys_are_listed_with_their_sections() -> None:
    listed = set(keys(recipe("imdb-pretrain")))
    assert {"recipe", "model.attention.n_heads", "first.loop.steps"} <= listed


def test_the_names_of_earlier_versions_are_understood() -> None:
    config = changed(recipe("imdb"), {"loop.average": "0.5", "optimiser.agreement": 2.0})
    assert (config.loop.ema, config.optimiser.r_drop) == (0.5, 2.0)
    data = asdict(config)
    data["loop"]["average"] = data["loop"].pop("ema")
    data["optimiser"]["agreement"] = data["optimiser"].pop("r_drop")
    assert restored(RunConfig, data) == config


TWO_PHASES = recipe("imdb-pretrain")


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**5000), "9" * 5000, {"a": "b" * 5000}],
    ids=["large", "negative", "digits", "table"],
)
@pytest.mark.parametrize("key", sorted(keys(TWO_PHASES)))
def test_a_huge_value_is_refused_in_one_short_line(key: str, value: Any) -> None:
    """Python itself refuses to print an int of more than 4,300 digits."""
    try:
        changed(TWO_PHASES, {key: value})
    except GlassformerError as error:
        assert len(str(error)) < 400 and "\n" not in str(error)
    else:
        assert isinstance(value, str), "a text may be long"


def test_a_typo_is_nearer_than_the_same_word_elsewhere() -> None:
    known = ["a.weights", "a.to_keys.weight", "b.to_keys.weight"]
    with pytest.raises(UnknownNameError, match=r"did you mean 'a\.weights'\?"):
        raise UnknownNameError("step", "a.weight", known)
    with pytest.raises(UnknownNameError, match=r"did you mean 'a\.weights'\?"):
        raise UnknownNameError("step", "weights", known)
