"""Random examples, mostly nonsense: a report or a one-line error, never a traceback."""

import json
import random
from typing import Any

import pytest

from glassformer.audit.audit_report import audit_document
from glassformer.audit.example_file import read_example
from glassformer.audit.formulas.formula_functions import FUNCTIONS, NAMES
from glassformer.audit.judgement import audit
from glassformer.documents import render_text
from glassformer.errors import ConfigError

GIVEN: list[dict[str, Any]] = [
    {"id": "a", "printed": [[1, 2], [3, 4]]},
    {"id": "b", "printed": [[0.5, -1], [2, 0.25]], "rounded": True, "decimals": 2},
    {"id": "v", "printed": [1, 2]},
    {"id": "w", "words": ["x", "y"]},
    {"id": "s", "printed": 3},
    {"id": "q", "printed": [[1, None], [2, "-inf"]], "rounded": True, "decimals": 1},
]
LEAVES: list[str] = [
    *"abvwsq",
    "r0",
    "0",
    "1",
    "2",
    "-1",
    "0.5",
    "1e3",
    "'x'",
    "['x', 'y']",
    "[[1, 2], [3, 4]]",
]
ENDS = [".T", "[0]", "[:, 0]", "[:1]", "[5:]", "[new]", "[0, 1]", "[-1]"]


class Maker:
    """Random formulas and printed numbers, reproducible by seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def formula(self, depth: int) -> str:
        kind = self.chance.random()
        if depth == 0 or kind < 0.15:
            return self.chance.choice(LEAVES)
        if kind < 0.4:
            operator = self.chance.choice("+-*/@^")
            return f"{self.formula(depth - 1)} {operator} {self.formula(depth - 1)}"
        if kind < 0.5:
            return f"({self.formula(depth - 1)}){self.chance.choice(ENDS)}"
        return self.call(depth)

    def call(self, depth: int) -> str:
        name = self.chance.choice(NAMES)
        parameters = FUNCTIONS[name].parameters if name in FUNCTIONS else ()
        needed = sum(part.default is None for part in parameters) or 1
        count = self.chance.choice([needed, needed, needed, self.chance.randint(0, 3)])
        arguments = [self.formula(depth - 1) for _ in range(count)]
        if parameters and self.chance.random() < 0.25:
            named = self.chance.choice(parameters).name
            arguments.append(f"{named}={self.chance.choice(['0', '1', '-1', self.formula(0)])}")
        return f"{name}({', '.join(arguments)})"

    def printed(self, shape: tuple[int, ...]) -> Any:
        if not shape:
            return self.chance.choice([self.chance.randint(-5, 9), 0.25, -1.37, None, "-inf"])
        return [self.printed(shape[1:]) for _ in range(shape[0])]

    def step(self, name: str) -> dict[str, Any]:
        made: dict[str, Any] = {
            "id": name,
            "formula": self.formula(self.chance.choice([1, 1, 2, 3])),
        }
        kind = self.chance.random()
        if kind < 0.75:
            shape = self.chance.choice([(), (2,), (3,), (2, 2), (3, 2), (1, 2, 2)])
            made |= {"printed": self.printed(shape), "decimals": 2}
        elif kind < 0.9:
            made["words"] = self.chance.choice(["x", ["x", "y"], ["y", "x", "z"]])
        return made


@pytest.mark.parametrize("seed", range(4))
def test_a_report_or_one_clear_line(seed: int) -> None:
    maker, reported = Maker(seed), 0
    for _ in range(250):
        steps = [*GIVEN, maker.step("r0"), maker.step("r1")]
        try:
            found = audit(read_example(json.dumps({"steps": steps}), "my", "my.json"))
        except ConfigError as error:
            assert "\n" not in str(error)
            continue
        for language in ("en", "zh"):
            made = audit_document(found, language)
            assert all(render_text(made, to) for to in ("md", "html", "tex"))
            json.dumps(found.to_dict(language), allow_nan=False)
        reported += 1
    assert reported > 10
