"""docs/audit.md: its example and its code run, and it lists what there is."""

import re
from pathlib import Path
from typing import Any

from glassformer.lessons import Audit, audit, read_example
from glassformer.lessons.formulas import FUNCTIONS
from glassformer.lessons.reading import STEP_KEYS

GUIDE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_of_the_guide_gives_what_the_guide_says() -> None:
    result = audit(read_example(block("json"), "my-article", "my-article.json"))
    table = re.findall(r"^\| `(\w+)` \| (agrees|wrong) \| ?(.*?) ?\|$", GUIDE, re.MULTILINE)
    assert len(table) == 4
    for id_, verdict, finding in table:
        assert result[id_].verdict == verdict
        assert (result[id_].slip("en") or "") == finding


def test_the_code_of_the_guide_runs() -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python"), "docs/audit.md", "exec"), names)
    assert isinstance(names["result"], Audit)
    text = '{"steps": [{"id": "a", "printed": [2, 30, 400]}, {"id": "b", "formula": "log(a)", '
    text += '"printed": [0.301, 1.477, 2.602], "decimals": 3}]}'
    found = audit(read_example(text, "t", "t"), slips=[names["mine"]])["b"]
    assert found.explanations[0].kinds == ("log10",)


def test_every_function_and_every_key_is_in_the_guide() -> None:
    words = set(re.findall(r"\w+", GUIDE))
    assert set(FUNCTIONS) <= words
    assert words >= STEP_KEYS
