"""The notebooks run from top to bottom, and the committed ones match their scripts."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from examples.make_notebooks import cells_of, notebook
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
    committed = json.loads((EXAMPLES / f"{script.stem}.ipynb").read_text(encoding="utf-8"))
    made = json.loads(json.dumps(notebook(script.read_text(encoding="utf-8"))))
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


def test_there_is_one_for_each_of_the_two_illustrated_texts() -> None:
    assert [script.stem for script in SCRIPTS] == ["from_scratch", "illustrated"]


def test_cells_are_prose_or_code() -> None:
    script = "# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\nx = 1\nx\n"
    prose, code = cells_of(script)
    assert (prose.kind, prose.source) == ("markdown", "# Title\n\nWords.")
    assert (code.kind, code.source) == ("code", "x = 1\nx")


def test_outputs_are_those_of_jupyter() -> None:
    made = notebook("# %%\nprint('said')\n2 + 2\n\n# %%\nx = 3\n")
    first, second = (cell["outputs"] for cell in made["cells"])
    assert [output["output_type"] for output in first] == ["stream", "display_data"]
    assert first[0]["text"] == ["said\n"]
    assert first[1]["data"] == {"text/plain": ["4"]}
    assert second == []
