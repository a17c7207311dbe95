"""Ctrl-C when there is nothing to lose: the run ends at once and leaves nothing half-written."""

import json
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from glassformer.cli import run
from glassformer.explorer.training_watch import WatchedRun
from glassformer.training import command, evaluation, train
from glassformer.training import run as run_module
from glassformer.training import run_folder as folder_module
from glassformer.training.command import main
from glassformer.training.problems import prepared_problem
from glassformer.training.processes import listen
from glassformer.training.settings import to_json
from tests.training.made import tiny
from tests.training.runs import At, assert_same_bits


def arguments(tmp_path: Path, *more: str) -> list[str]:
    config = tmp_path / "c.json"
    config.write_text(to_json(tiny("shakespeare")), encoding="utf-8")
    return ["shakespeare", "--config", str(config), "--out", str(tmp_path / "run"), *more]


def signal_after(
    patch: pytest.MonkeyPatch, module: ModuleType, name: str, number: int = signal.SIGINT
) -> None:
    """Send a signal right after a function of a module was called."""
    real = getattr(module, name)

    def interrupted(*given: Any, **named: Any) -> Any:
        result = real(*given, **named)
        signal.raise_signal(number)
        return result

    patch.setattr(module, name, interrupted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("more", [(), ("--resume",), ("--loop.watch=true",)])
def test_ctrl_c_while_texts_are_tokenised_is_one_line_and_leaves_nothing_half_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    more: tuple[str, ...],
) -> None:
    given = arguments(tmp_path, *more)
    with monkeypatch.context() as patch:
        signal_after(patch, prepared_problem, "write_store", number)
        assert main(given) == 130
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        "glassformer: interrupted before the first step; run the same command to start again\n"
    )
    assert list((tmp_path / "cache/tokens").iterdir()) == []
    assert main(given) == 0
    train(tiny("shakespeare"), tmp_path / "whole")
    assert_same_bits(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize(
    ("module", "name"), [(run_module, "choose_device"), (folder_module, "to_json")]
)
def test_ctrl_c_before_the_config_is_written_names_no_command_that_would_lose_settings(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: ModuleType,
    name: str,
) -> None:
    """While processes join, say: `--resume` alone would train with the recipe's own settings."""
    given = arguments(tmp_path, "--loop.watch=true")
    with monkeypatch.context() as patch:
        signal_after(patch, module, name)
        assert main(given) == 130
    assert capsys.readouterr().err == (
        "glassformer: interrupted before the first step; run the same command to start again\n"
    )
    assert not (tmp_path / "run/config.json").exists()
    assert main(given) == 0


def test_ctrl_c_while_a_tokenizer_learns_is_heard(tmp_path: Path) -> None:
    """The subword library calls Python for each text, and exceptions raised there get out."""
    from glassformer.text import SubwordTokenizer

    def texts() -> Any:
        yield "some words"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SubwordTokenizer.train(texts(), vocab_size=300)


def test_the_command_says_in_one_line_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt = At(2, lambda: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(command, "make_reporter", lambda: interrupt)
    assert run(["train", *arguments(tmp_path)]) == 130
    assert capsys.readouterr().err == (
        "glassformer: interrupted; to resume: glassformer train shakespeare --out "
        f"{tmp_path / 'run'} --resume\n"
    )


def test_ctrl_c_in_the_final_test_ends_at_once_and_the_run_can_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("shakespeare")
    with monkeypatch.context() as patch:
        signal_after(patch, run_module, "final_beam")
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "run")
    assert not (tmp_path / "run/model").exists()
    assert train(config, tmp_path / "run", resume=True).steps == 4
    train(config, tmp_path / "whole")
    assert_same_bits(tmp_path / "whole", tmp_path / "run")


def test_ctrl_c_while_the_model_is_saved_waits_until_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("shakespeare")
    signal_after(monkeypatch, run_module, "model_card")
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run")
    assert (tmp_path / "run/model/model.safetensors").is_file()


def test_ctrl_c_after_the_last_check_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal during the last evaluation comes after the loop has checked for the last time."""
    config = tiny("shakespeare", loop__evaluate_every=4)
    signal_after(monkeypatch, evaluation, "Order")
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run")
    assert (tmp_path / "run/state/00000004.json").is_file()
    assert not (tmp_path / "run/model").exists()


def test_a_request_may_wait_only_inside_the_block() -> None:
    with listen() as interruption:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not interruption.asked
        reached = []
        with pytest.raises(KeyboardInterrupt), interruption.waits():
            signal.raise_signal(signal.SIGINT)
            reached.append(interruption.asked)
        assert reached == [True]


def test_ctrl_c_while_the_page_of_a_finished_run_is_waited_for_loses_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        WatchedRun, "wait_for_farewell", lambda *_: signal.raise_signal(signal.SIGINT)
    )
    assert run(["train", *arguments(tmp_path, "--watch")]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 4
