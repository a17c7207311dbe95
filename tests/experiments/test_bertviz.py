"""What the guide does with bertviz, beside ours: the same weights, head by head."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.documents import render

# Nothing else here needs bertviz and IPython: `make check-slow` installs them.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # it leaves its script open
]


def test_the_code_in_the_guide_shows_the_same_weights() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
    section = guide.partition("## Coming from bertviz")[2]
    theirs, ours = re.findall(r"```py(?:thon)?\n(.*?)```", section, re.DOTALL)[:2]
    bertviz: dict[str, Any] = {}
    exec(theirs, bertviz)
    attention, page = bertviz["attention"], bertviz["page"]
    glassformer: dict[str, Any] = {}
    exec(ours, glassformer)
    t = glassformer["t"]
    assert len(attention) == 2
    for layer, given in enumerate(attention):
        found = t[f"encoder.layer.{layer}.attention.self.weights"]
        torch.testing.assert_close(found.value, given, rtol=0, atol=1e-7)
        assert found.labels[-2:] == (("the", "cat", "sat"),) * 2
    drawn = re.search(r'"attention": (\[.*?\]), "default_filter"', page.data)
    assert drawn is not None
    (view,) = json.loads(drawn[1])
    assert view["left_text"] == view["right_text"] == ["the", "cat", "sat"]
    on_page = torch.tensor(view["attn"])
    assert on_page.shape == (2, 2, 3, 3)
    assert all(torch.equal(given[0], one) for given, one in zip(attention, on_page, strict=True))
    table = str(render(t["encoder.layer.1.attention.self.weights"], "md")).partition("###")[0]
    shown = torch.tensor([float(x) for x in re.findall(r"(?<=\| )[01]\.\d+", table)])
    torch.testing.assert_close(shown, on_page[1].flatten(), rtol=0, atol=1e-4)  # four digits
