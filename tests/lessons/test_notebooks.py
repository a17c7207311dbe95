"""The notebooks run from top to bottom, and the committed ones match their scripts."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from examples.make_notebooks import LANGUAGES, cells_of, notebook_file, notebooks
from tests.tolerances import printed_alike

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted((EXAMPLES / "notebooks").glob("*.py"))


def plain(outputs: list[dict[str, Any]]) -> list[str]:
    """The output as text, without line numbers; pictures have their own tests."""
    texts = []
    for output in outputs:
        data = output.get("data", {})
        lines = output.get("text") or data.get("text/plain") or ["picture"]
        texts.append(re.sub(r"\.py:\d+", ".py", "".join(lines)))
    return texts


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_notebook_is_what_its_script_gives(script: Path) -> None:
    for language, fresh in notebooks(script.read_text(encoding="utf-8")).items():
        committed = json.loads(notebook_file(script, language).read_text(encoding="utf-8"))
        made = json.loads(json.dumps(fresh))
        assert {key: made[key] for key in made if key != "cells"} == {
            key: committed[key] for key in committed if key != "cells"
        }
        assert len(made["cells"]) == len(committed["cells"])
        for one, other in zip(made["cells"], committed["cells"], strict=True):
            assert one["source"] == other["source"], "run python examples/make_notebooks.py"
            given, stored = plain(one.get("outputs", [])), plain(other.get("outputs", []))
            assert len(given) == len(stored)
            for text, wanted in zip(given, stored, strict=True):
                assert printed_alike(text, wanted), f"{text}\nis not\n{wanted}"


def test_there_is_one_for_each_text_in_both_languages() -> None:
    assert [script.stem for script in SCRIPTS] == [
        "attention_is_all_you_need", "by_hand", "from_scratch", "illustrated",
    ]  # fmt: skip
    wanted = {notebook_file(script, language) for script in SCRIPTS for language in LANGUAGES}
    assert set(EXAMPLES.glob("*.ipynb")) == wanted


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_prose_stands_in_both_languages_in_the_same_places(script: Path) -> None:
    cells = list(cells_of(script.read_text(encoding="utf-8")))
    for at, cell in enumerate(cells):
        if cell.kind == "markdown":
            pair = (cell.language, cells[at + 1].language if at + 1 < len(cells) else "")
            assert pair[0] == "zh" or pair == ("en", "zh"), cell.source
            heads = [line for line in cell.source.splitlines() if line.startswith("#")]
            other = cells[at + 1 if cell.language == "en" else at - 1].source
            assert len(heads) == len([x for x in other.splitlines() if x.startswith("#")])
            assert (re.search("[\u4e00-\u9fff]", cell.source) is None) == (cell.language == "en")


def test_the_one_from_scratch_imports_ours_only_to_compare() -> None:
    """Everything up to the comparison is written in the notebook itself."""
    script = (EXAMPLES / "notebooks" / "from_scratch.py").read_text(encoding="utf-8")
    before, comparison, _ = script.partition("# ## The same in the library")
    assert comparison
    assert "glassformer" not in "".join(c.source for c in cells_of(before) if c.kind == "code")


def test_cells_are_prose_or_code() -> None:
    script = (
        "# %% [markdown]\n# # Title\n#\n# Words.\n\n"
        "# %% [markdown zh]\n# # 标题\n#\n# 词，\n# 词。\n\n# %%\nx = 1\nx\n"
    )
    prose, chinese, code = cells_of(script)
    assert (prose.kind, prose.source, prose.language) == ("markdown", "# Title\n\nWords.", "en")
    assert (chinese.kind, chinese.source, chinese.language) == (
        "markdown",
        "# 标题\n\n词，词。",
        "zh",
    )
    assert (code.kind, code.source, code.language) == ("code", "x = 1\nx", "")
    made = notebooks(script)
    assert [cell["source"] for cell in made["zh"]["cells"]] == [
        ["# 标题\n", "\n", "词，词。"],
        ["x = 1\n", "x"],
    ]


def test_code_runs_once_unless_it_names_the_language() -> None:
    cells = ("runs = []", 'runs.append("en")', "runs.append(1)\nruns")
    made = notebooks("".join(f"# %%\n{cell}\n\n" for cell in cells))
    for language in LANGUAGES:
        cells = made[language]["cells"]
        assert cells[1]["source"] == [f'runs.append("{language}")']
        assert cells[2]["outputs"][0]["data"] == {"text/plain": ["['en', 'zh', 1]"]}


def test_outputs_are_those_of_jupyter() -> None:
    made = notebooks("# %%\nprint('said')\n2 + 2\n\n# %%\nx = 3\n")["en"]
    first, second = (cell["outputs"] for cell in made["cells"])
    assert [output["output_type"] for output in first] == ["stream", "display_data"]
    assert first[0]["text"] == ["said\n"]
    assert first[1]["data"] == {"text/plain": ["4"]}
    assert second == []
