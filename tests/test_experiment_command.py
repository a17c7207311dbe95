"""`glassformer experiment` gives what the library gives; wrong questions get one line."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer import checkpoint
from glassformer.cli import run
from glassformer.experiments import (
    ablate,
    compare,
    composition,
    contributions,
    difference,
    head_scores,
    logit_lens,
    patch,
    sweep,
    words,
)
from glassformer.language import columns_of

TEXT, OTHER = "I am not happy", "I am so happy"
LAYER = "encoder.blocks.0.attention"


def asked(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert run(["experiment", *command]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out


def test_each_kind_is_the_librarys(capsys: pytest.CaptureFixture[str]) -> None:
    toy = gf.load("toy", attention="written")
    one, other = toy.trace(TEXT), toy.trace(OTHER)
    sad = one["logits"]["sad"]
    apart = difference(sad, one["logits"]["happy"])
    unknown = toy.reader.special.unknown
    wanted = {
        ("words",): words(sad),
        ("words", "--at", "logits[happy]", "--method", "gradient"): words(
            one["logits"]["happy"], "gradient"
        ),
        ("words", "--baseline", "<unknown>"): words(sad, baseline=unknown),
        ("lens",): logit_lens(one),
        ("parts", "--heads", "--less", "logits[happy]"): contributions(apart, heads=True),
        ("sweep", "--other", OTHER): sweep(one, other, measure=sad),
        ("sweep", "--over", "head", "--to", "0.5"): sweep(one, measure=sad, over="head", to=0.5),
        ("compare", "--other", OTHER): compare(one, other),
        ("ablate", "--part", LAYER, "--head", "0"): compare(one, ablate(one, LAYER, head=0)),
        ("patch", "--part", "encoder.blocks.0.resid_pre", "--position", "not", "--position", "3",
         "--other", OTHER):
            compare(one, patch(one, other, "encoder.blocks.0.resid_pre", position=[2, 3])),
    }  # fmt: skip
    for (kind, *options), result in wanted.items():
        data = json.loads(asked(capsys, kind, "toy", TEXT, *options, "--json"))
        assert ("number" in data) == (kind in ("ablate", "patch"))
        data.pop("number", None)
        assert data == json.loads(json.dumps(result.to_dict())), kind
        shown = asked(capsys, kind, "toy", TEXT, *options)
        assert result.text() in shown and result.note() in shown


def test_lines_fit_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file, tables and sentences are as wide as they are."""
    commands = [
        ["experiment", "ablate", "toy", TEXT, "--part", LAYER],
        ["experiment", "compare", "toy", TEXT, "--other", OTHER],
        ["explain", "toy", TEXT, "--words"],
        ["run", "toy", TEXT, "--why"],
        ["explain", "toy", TEXT, "--at", "logits[0,1]"],
    ]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    for command, lang in itertools.product(commands, ("en", "zh")):
        shown = []
        for is_terminal in (False, True):
            monkeypatch.setattr("sys.stdout.isatty", lambda is_one=is_terminal: is_one)
            assert run([*command, "--lang", lang]) == 0
            shown.append(capsys.readouterr().out)
        assert max(map(columns_of, shown[1].splitlines())) <= 80
        letters = [sorted("".join(text.split())) for text in shown]
        assert letters[0] == letters[1]


def test_an_intervention_says_what_became_of_the_number(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ("ablate", "toy", TEXT, "--part", LAYER)
    said = "logits[0, 0]: 1.941 → -2"
    assert asked(capsys, *command).startswith(f"{said}\n")
    one = gf.load("toy", attention="written").trace(TEXT)
    number = {"cell": "logits[0, 0]", "before": float(one["logits"][0, 0].value), "after": -2.0}
    assert json.loads(asked(capsys, *command, "--json"))["number"] == number
    page, data = tmp_path / "ablated.md", tmp_path / "ablated.json"
    assert run(["experiment", *command, "-o", str(page)]) == 0
    assert said in page.read_text(encoding="utf-8").replace("\\", "")
    assert run(["experiment", *command, "-o", str(data)]) == 0
    assert json.loads(data.read_text(encoding="utf-8"))["number"] == number


def test_a_text_of_one_token_is_called_by_its_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\nhappy  " in asked(capsys, "words", "toy", "happy")
    assert " happy\n" in asked(capsys, "sweep", "toy", "happy")
    asked(capsys, "ablate", "toy", "happy", "--part", LAYER, "--position", "happy")


def test_data_sets_are_files_of_texts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("the cat the cat\n\nno no no\n")
    model = gf.load("shakespeare", attention="written")
    runs = [model.trace(text) for text in ("the cat the cat", "no no no")]
    texts = ("shakespeare", "to be", "--texts", str(file), "--json")
    found = json.loads(asked(capsys, "heads", *texts, "--score", "duplicate"))
    assert found["rows"] == head_scores(runs, "duplicate").rows()
    found = json.loads(asked(capsys, "composition", *texts, "--side", "keys"))
    assert found["rows"] == composition(runs, "keys").rows()
    part = "decoder.blocks.0.attention"
    found = json.loads(asked(capsys, "ablate", *texts, "--part", part, "--to", "mean"))
    run = model.trace("to be")
    without = ablate(run, part, to="mean", over=runs)
    assert found["rows"] == json.loads(json.dumps(compare(run, without).rows()))


def test_files_and_two_models(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for ending, start in {".svg": "<svg", ".html": "<!doctype", ".md": "# ", ".json": "{"}.items():
        file = tmp_path / f"sweep{ending}"
        assert run(["experiment", "sweep", "toy", TEXT, "-o", str(file)]) == 0
        assert file.read_text(encoding="utf-8").lower().startswith(start)
        assert capsys.readouterr().err.startswith(f"{file}: ")
    later = tmp_path / "later"
    loaded = checkpoint.load(checkpoint.find("toy"))
    with torch.no_grad():
        loaded.model.to_classes.weight.mul_(2)  # type: ignore[union-attr, operator]
    checkpoint.save(later, loaded)
    shown = asked(capsys, "compare", "toy", TEXT, "--with", str(later))
    assert shown.startswith("Two runs, largest differences first (steps that differ: 2)")


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (
            ["words", "toy", TEXT, "--over", "head"],
            2,
            "experiment words; it takes --at, --less, --method",
        ),
        (["lens", "toy", TEXT, "--heads"], 2, "--heads does not apply to the experiment lens"),
        (["ablate", "toy", TEXT], 2, "expected --part"),
        (["patch", "toy", TEXT, "--part", LAYER], 2, "expected --other"),
        (["compare", "toy", TEXT], 2, "expected --other with another text, or --with"),
        (["ablate", "toy", TEXT, "--part", LAYER, "--head", "7"], 1, "has no head 7: it has 1"),
        (["ablate", "toy", TEXT, "--part", "encoder.blocks.9"], 2, "unknown step or module"),
        (["ablate", "toy", TEXT, "--part", LAYER, "--to", "nought"], 2, 'to is "zero"'),
        (["sweep", "toy", TEXT, "--to", "nan"], 2, "--to must be a finite number, got nan"),
        (["ablate", "toy", TEXT, "--part", LAYER, "--to", "mean"], 2, "expected --texts: the file"),
        (["ablate", "toy", TEXT, "--part", LAYER, "--position", "1" * 5000], 1, "stands 0 times"),
        (["patch", "toy", TEXT, "--part", LAYER, "--other", "I am"], 1, "the same number of token"),
        (["words", "toy", TEXT, "--method", "guess"], 2, "unknown method 'guess'"),
        (["words", "toy", TEXT, "--at", "logits[glad]"], 2, "unknown label 'glad'"),
        (["heads", "toy", TEXT], 1, "give texts in which tokens repeat"),
        (["heads", "toy", TEXT, "--texts", "nowhere.txt"], 1, "nowhere.txt"),
    ],
)
def test_wrong_questions_get_one_line(
    command: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["experiment", *command]) == code
    shown = capsys.readouterr()
    assert said in shown.err and shown.err.count("\n") == 1 and shown.out == ""
