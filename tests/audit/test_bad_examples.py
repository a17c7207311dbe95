"""A malformed example file: a one-line error with file, step, expected and received."""

import json
import math
import os
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from glassformer.audit.example_file import load_example, read_example
from glassformer.audit.judgement import audit
from glassformer.cli import run
from glassformer.errors import ConfigError, UnknownNameError
from glassformer.language import chinese_of

GIVEN = {"id": "a", "printed": [[1, 2], [3, 4]]}


def step(**keys: Any) -> dict[str, Any]:
    return {"id": "b", "formula": "a + 1", "printed": [[2, 3], [4, 5]], "decimals": 0, **keys}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (step(formula="c + 1"), r"step 'b': missing input 'c'"),
        (step(inputs=["a", "d"]), r"step 'b': expected the inputs of the formula, \['a'\]"),
        (step(formula="softmx(a)"), r"step 'b': column 1: unknown function 'softmx'; did you mean"),
        (step(formula="a +"), r"step 'b': column 4: expected a value"),
        (step(formula="a @ [1, 2, 3]"), r"step 'b': column 3: expected as many columns"),
        (step(formula=7), r"step 'b': expected the formula as a string"),
        (step(printed=[[2, 3], [4]]), r"step 'b': ragged rows: expected 2 cells at \[1\], got 1"),
        (step(printed=[[2, 3], 4]), r"step 'b': ragged rows"),
        (step(printed=[[2, 3], [4, [5]]]), r"step 'b': ragged rows"),
        (step(printed=[]), r"step 'b': expected at least one number"),
        (step(printed=[[2, "three"], [4, 5]]), r"step 'b': .*unknown name 'three'"),
        (step(printed=[[2, True], [4, 5]]), r"step 'b': expected a number at \[0, 1\], got True"),
        (step(printed=[[2.25, 3], [4, 5]]), r"step 'b': expected at most 0 decimals at \[0, 0\]"),
        (step(decimals=None), r"step 'b': expected \"decimals\""),
        (step(decimals=-1), r"step 'b': expected \"decimals\" as a whole number"),
        (
            {"id": "b", "formula": "a", "decimals": 10**400},
            r"'b': expected \"decimals\" as a whole",
        ),
        (
            {"id": "b", "formula": "a", "decimals": -400},
            r"step 'b': expected \"decimals\" as a whole",
        ),
        (step(between=[0, 10**400]), r"step 'b': expected 'between' as the least and the greatest"),
        (
            step(between=[math.nan, 1]),
            r"step 'b': expected 'between' as the least and the greatest",
        ),
        (step(decimals=[1]), r"step 'b': expected decimals for each of 2 columns, got 1"),
        (step(significant=3), r"step 'b': expected either \"decimals\" or \"significant\""),
        (step(printed=[[2, "..."], [4, 5]]), r"step 'b': expected a \"shape\""),
        (step(shape=[2, 3]), r"step 'b': expected the declared 2 × 3, got 2 × 2"),
        (step(shape=[100000, 100000]), r"step 'b': expected at most 100000 numbers"),
        (step(rows=["one"]), r"step 'b': expected 2 labels under 'rows', got 1"),
        (step(desimals=2), r"step 'b': unknown key 'desimals'; did you mean 'decimals'"),
        (step(title={"en": "x"}), r"step 'b': title: expected a string or"),
        (step(order="none"), r"step 'b': expected 'order' to be one of as printed, any"),
        (step(words=7), r"step 'b': expected a string or a list of strings under 'words'"),
        (step(words="two"), r"step 'b': expected either 'words' or 'printed', got both"),
        (step(inputs=7), r"step 'b': expected the inputs of the formula, \['a'\], got 7"),
        (step(inputs=["a", 7]), r"step 'b': expected the inputs of the formula"),
        (step(printed=[[10**400, 3], [4, 5]]), r"step 'b': expected a number at \[0, 0\]"),
        (step(formula="a" + " + 1" * 5000), r"step 'b': expected a formula of at most"),
        (step(formula="max(a[5:])"), r"step 'b': column 6: expected at least one number of 2 × 2"),
        (step(formula="sum(range(0))"), r"step 'b': column 5: range: expected 1 to 100000"),
        (step(formula="identity(0 - 3)"), r"step 'b': column 1: identity: expected a size from 1"),
        (step(formula="round(a, 999)"), r"expects a whole number from -12 to 12 as 'decimals'"),
        (step(formula="std(a, sample=5)"), r"expects a whole number from 0 to 1 as 'sample'"),
        (step(formula="layer_norm(a, 1, 2)"), r"column 1: expected layer_norm\(x, eps\)"),
        (step(formula="layer_norm(a, epsilon=1)"), r"column 1: expected layer_norm\(x, eps\)"),
        (step(formula="layer_norm(x=a, epsilon=1)"), r"column 1: expected layer_norm\(x, eps\)"),
        (step(formula="layer_norm(x=a, x=a)"), r"column 1: expected layer_norm\(x, eps\)"),
        (step(formula="sinusoids(a[0])"), r"column 1: expected sinusoids\(positions, d\)"),
        (
            step(formula="sinusoid(a[0], 2)"),
            r"unknown function 'sinusoid'; did you mean 'sinusoids'",
        ),
        (step(id="a"), r"step 'a': expected a"),
        (step(id="not a name"), r"expected letters, digits and _"),
        (step(id="new"), r"step 'new': formulas use 'new' for a new axis: expected another name"),
        ({"printed": 1}, r"step 2: expected an object with a name under 'id'"),
        ({"id": "empty"}, r"step 'empty': expected a formula, or printed numbers, or words"),
        ({"from": "nowhere"}, r"my.json: unknown example 'nowhere'"),
        ({"from": "masked", "steps": ["no"]}, r"'masked' does not have all of the steps"),
        ({"from": "masked", "steps": 5}, r"expected a list of steps from 'masked', got 5"),
        ({"from": "masked", "step": ["no"]}, r"unknown key 'step'; did you mean 'steps'"),
    ],
)
def test_a_bad_step_is_named_with_the_reason(bad: dict[str, Any], message: str) -> None:
    text = json.dumps({"title": "t", "steps": [GIVEN, bad]})
    with pytest.raises(ConfigError, match=message) as caught:
        audit(read_example(text, "my", "my.json"))
    assert str(caught.value).startswith("my.json: ")
    assert "\n" not in str(caught.value)
    in_chinese = chinese_of(caught.value)
    assert in_chinese and not re.search(r"\b(expected|got|unknown|missing|of)\b", in_chinese)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "my.json is damaged or not a worked example: expected JSON in UTF-8"),
        ('{"steps": [', "my.json is damaged or not a worked example: expected JSON in UTF-8"),
        ("[1]", "my.json is damaged or not a worked example: expected a JSON object, got list"),
        ("{}", "my.json: expected a list of steps"),
        ('{"steps": {}}', "my.json: expected a list of steps"),
        ('{"stepps": []}', "my.json: unknown key 'stepps'; did you mean 'steps'"),
        (
            '{"steps": [{"id": "a", "printed": [NaN]}]}',
            "my.json: step 'a': expected a number at [0], got nan",
        ),
        (
            '{"steps": [{"id": "a", "printed": [1, -Infinity]}]}',
            """my.json: step 'a': expected a number at [1], got -inf ("-inf" stands for −∞)""",
        ),
        ("[" * 100_000, "my.json is damaged or not a worked example: nested more than 100"),
        ('{"steps": [{"id": "a", "printed": 1%s}]}' % ("0" * 5000), "my.json is damaged or not"),
        ('{"title": "\\ud800", "steps": []}', "my.json: expected Unicode, got half a character"),
        (
            json.dumps({"steps": [{"id": f"a{i}", "printed": 1} for i in range(1001)]}),
            "my.json: expected at most 1000 steps, got 1001",
        ),
    ],
)
def test_a_bad_file_is_named_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_example(text, "my", "my.json")
    assert str(caught.value).startswith(message)


def test_a_cycle_is_refused() -> None:
    steps = [step(id="b", formula="c"), step(id="c", formula="b")]
    with pytest.raises(ConfigError, match=r"step 'b': .*leads back to itself"):
        read_example(json.dumps({"steps": [GIVEN, *steps]}), "my", "my.json")


def test_unknown_names_and_files() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'by-hand'"):
        load_example("by_hand")
    with pytest.raises(UnknownNameError, match="unknown example ''; there are by-hand"):
        load_example("")
    with pytest.raises(ConfigError, match=r"nowhere\.json: No such file"):
        load_example("nowhere.json")


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "gbk.json"
    file.write_bytes('{"title": "茶"}'.encode("gbk"))
    with pytest.raises(ConfigError, match="expected JSON in UTF-8"):
        load_example(file)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_long_chain_of_unprinted_steps_is_computed(backwards: bool) -> None:
    """As long as an example may be, and in any order: nothing recurses along it."""
    chain = [{"id": f"s{i}", "formula": f"s{i - 1} + 1" if i else "a"} for i in range(900)]
    last = step(formula="s899 * 1", printed=[[900, 901], [902, 903]])
    steps = [GIVEN, *chain, last]
    text = json.dumps({"steps": steps[::-1] if backwards else steps})
    assert audit(read_example(text, "my", "my.json"))["b"].verdict == "agrees"


def formulas(*written: str) -> str:
    """An example whose steps are computed but not printed."""
    steps = [{"id": f"s{i}", "formula": formula} for i, formula in enumerate(written)]
    return json.dumps({"steps": [GIVEN, *steps]})


def given(**keys: Any) -> str:
    return json.dumps({"steps": [{"id": "a", **keys}]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            formulas("range(20000)[:, new] * range(20000)"),
            "at most 100000 numbers, got 20000 × 20000",
        ),
        (formulas("range(1000)[:, new] @ range(1000)[new]"), "numbers, got 1000 × 1000"),
        (
            formulas("where(even(range(1000)), range(1000)[:, new], 0)"),
            "where: expected at most 100000",
        ),
        (
            formulas("embedding(range(2) * 0, range(99999)[new])"),
            "embedding: expected at most 100000",
        ),
        (formulas("stack(range(99999), range(99999))"), "stack: expected at most 100000"),
        (formulas("[range(99999), range(99999)]"), "at most 100000 numbers, got 2 × 99999"),
        (
            formulas("concat(a, a)", *(f"concat(s{i}, s{i})" for i in range(25))),
            "concat: expected at",
        ),
        (formulas(f"a[{', '.join(['new'] * 33)}]"), "column 2: expected at most 4 axes, got 35"),
        (
            formulas("a[new]", "s0[new]", "s1[new]"),
            "step 's2': column 3: expected at most 4 axes, got 5",
        ),
        (formulas("[" * 50 + "1" + "]" * 50), "expected at most 4 axes, got 5"),
        (formulas("1" * 1_000_000), "at most 200000 characters of formulas, got 1000000"),
        (formulas("1" * 9000), "column 1: expected a number of at most 100 digits, got 9000"),
        (formulas(f"a[{'9' * 5000}]"), "column 3: expected a number of at most 100 digits"),
        (formulas(f"a[{'9' * 90}]"), "expected a place inside 2 × 2"),
        (formulas("a" + " + a" * 3000), "expected a formula of at most 10000 characters"),
        (formulas("range(1e300)"), "range: expected 1 to 100000 numbers"),
        (formulas("identity(1e300)"), "identity: expected a size from 1 to 316"),
        (formulas(*["a" + " + a" * 2000] * 30), "at most 200000 characters of formulas"),
        (
            formulas(*(f"range(99999) + {i}" for i in range(900))),
            "fewer numbers in all steps together",
        ),
        (
            formulas("+".join(f"range(99999) * {i}" for i in range(500))),
            "fewer numbers in all steps",
        ),
        (given(printed=json.loads("[" * 5 + "1" + "]" * 5)), "expected at most 4 axes, got 5"),
        (given(printed=json.loads("[" * 80 + "1" + "]" * 80)), "expected at most 4 axes, got 80"),
        (given(printed=[1, json.loads("[" * 80 + "1" + "]" * 80)]), "expected a number at [1]"),
        (given(printed=[1, json.loads("[" * 800 + "1" + "]" * 800)]), "nested more than 100"),
        (given(shape=[1] * 200), "expected at most 4 axes, got 200"),
        (given(shape=[1, 100_000], printed=[None] * 100_000), "expected the declared 1 × 100000"),
        (given(printed=["sum(range(99999))"] * 5000), "expected fewer printed formulas"),
        (
            given(printed=["1 + " * 100 + "1"]),
            "a printed formula of at most 200 characters, got 401",
        ),
        (given(words="w " * 600_000), "at most 100000 words and 1000000 letters"),
        (given(words=["w"] * 100_001), "at most 100000 words and 1000000 letters"),
        (
            json.dumps(
                {
                    "steps": [
                        {"id": "a", "words": "w " * 400_000},
                        {"id": "b", "formula": f"words([{', '.join('a' * 50)}])"},
                    ]
                }
            ),
            "column 7: expected at most 1000000 letters",
        ),
        (given(id="a" * 1000, printed=1), "expected a name of at most 100 letters"),
    ],
    ids=lambda part: "" if part.startswith("{") else part,
)
def test_what_is_too_large_is_refused_before_it_is_made(text: str, message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError) as caught:
            audit(read_example(text, "my", "my.json"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said = str(caught.value)
    assert said.startswith("my.json")
    assert message in said
    assert "\n" not in said
    assert len(said) < 600
    assert most < 150_000_000


@pytest.mark.parametrize("value", ["x" * 1_000_000, ["x"] * 100_000, 10**4000])
def test_a_message_is_short_whatever_came(value: Any) -> None:
    for keys in (
        {"title": [value]},
        {"formula": [value]},
        {"inputs": value},
        {"printed": [[value]]},
    ):
        with pytest.raises(ConfigError) as caught:
            read_example(json.dumps({"steps": [GIVEN, step(**keys)]}), "my", "my.json")
        assert len(str(caught.value)) < 600


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    endless = tmp_path / "endless.json"
    endless.symlink_to("/dev/zero")
    for path in (pipe, endless, tmp_path):
        with pytest.raises(ConfigError, match=r"not a regular file|Is a directory"):
            load_example(path)
    for name in ("no\0file.json", "n" * 5000 + ".json"):
        with pytest.raises(ConfigError, match="cannot read"):
            load_example(name)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as large:
        large.truncate(5_000_001)
    with pytest.raises(ConfigError, match="larger than 5,000,000 bytes"):
        load_example(file)


def test_anything_but_an_example_is_refused() -> None:
    for wrong in (None, 5, ["by-hand"]):
        with pytest.raises(ConfigError, match="expected the name or the file of an example, got"):
            load_example(wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="expected an Example"):
            audit(wrong)  # type: ignore[arg-type]


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    """Notepad on Windows writes a byte order mark."""
    file = tmp_path / "my.json"
    file.write_text(json.dumps({"steps": [GIVEN]}), encoding="utf-8-sig")
    assert load_example(file).steps[0].id == "a"


def test_the_command_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my.json"
    file.write_text(json.dumps({"steps": [GIVEN, step(formula="nothing")]}), encoding="utf-8")
    assert run(["audit", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"glassformer: {file}: step 'b': missing input 'nothing'; there are a, b\n"
