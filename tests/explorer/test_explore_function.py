"""`glassformer.explore(module, …)`: any module on the page, from a script or a notebook."""

import json
import signal
import subprocess
import sys
import urllib.request
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import glassformer
from glassformer.errors import TraceError
from glassformer.explorer import explore_function, server


def ask(page: explore_function.Exploration, path: str) -> Any:
    address = page.address.partition("#")[0]
    with urllib.request.urlopen(f"{address}api/{path}", timeout=60) as answer:
        return json.loads(answer.read())


def test_a_module_is_a_card_with_an_open_trace(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    module = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    given = torch.randn(1, 4, 8)
    labels = {"src": ["the", "cat", "sat", "down"]}
    with glassformer.explore(
        module, given, axis_labels=labels, open_page=False, wait=False
    ) as page:
        assert capsys.readouterr().out.strip() == page.address
        card = ask(page, "models")[0]
        assert card["task"] == "module" and card["title"]["en"] == "TransformerEncoderLayer"
        assert card["n_parameters"] == sum(p.numel() for p in module.parameters())
        assert page.address.endswith(f"#/trace/{card['trace']}")
        trace = ask(page, f"traces/{card['trace']}")
        assert ["the", "cat", "sat", "down"] in trace["labels"]
        assert trace["answer"]["text"] == "1×4×8" and trace["attention"][0]["n_heads"] == 2
        (note,) = trace["notes"]
        assert note["en"].startswith("fused attention was expanded") and "融合" in note["zh"]
        cell = ask(page, f"traces/{card['trace']}/cell?step={trace['outputs'][0]}&index=0,1,2")
        assert cell["cell"]["value"] == pytest.approx(float(module(given)[0, 1, 2].detach()))
        assert page.is_open
    assert not page.is_open


def test_a_function_is_explored_too() -> None:
    def twice(x: Tensor) -> Tensor:
        doubled = x * 2
        return doubled

    with glassformer.explore(twice, torch.ones(2, 2), open_page=False, wait=False) as page:
        assert ask(page, "models")[0]["name"] == "twice"


def test_what_cannot_be_traced_is_said_before_anything_is_served() -> None:
    with pytest.raises(TraceError, match="contains no tensor"):
        glassformer.explore(lambda x: None, torch.ones(1), open_page=False, wait=False)


def test_in_a_notebook_the_page_is_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore_function, "_in_notebook", lambda: True)
    opened: list[str] = []
    monkeypatch.setattr(server, "open_in_browser", opened.append)
    with glassformer.explore(nn.Linear(2, 2), torch.ones(1, 2), wait=False) as page:
        assert f'<iframe src="{page.address}"' in page._repr_html_()
        address = page.address.partition("#")[0]
        with urllib.request.urlopen(address, timeout=60) as answer:
            policy = answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'self' http://localhost:*" in policy
    assert opened == []


def test_two_pages_at_once_take_two_ports() -> None:
    with (
        glassformer.explore(nn.Linear(2, 2), torch.ones(1, 2), open_page=False, wait=False) as one,
        glassformer.explore(nn.ReLU(), torch.ones(1, 2), open_page=False, wait=False) as other,
    ):
        assert one.address.partition("#")[0] != other.address.partition("#")[0]
        assert ask(one, "models")[0]["name"] == "Linear"
        assert ask(other, "models")[0]["name"] == "ReLU"


SCRIPT = """
import torch, glassformer
glassformer.explore(torch.nn.Linear(2, 2), torch.ones(1, 2), open_page=False)
print("after")
"""


def test_a_script_stays_on_the_page_until_it_is_interrupted() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run in the background, Ctrl+C is ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None and process.stderr is not None
    address, _, link = process.stdout.readline().strip().partition("#/trace/")
    assert process.stderr.readline() == "Ctrl+C closes the page\n"
    with urllib.request.urlopen(f"{address}api/traces/{link}", timeout=60) as answer:
        assert answer.status == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert process.stdout.read() == "after\n"
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("order", ["bqhk", "bqkh", "hbqk"])
def test_attention_is_listed_whatever_the_order_of_its_axes(order: str) -> None:
    def attend(x: Tensor) -> Tensor:
        x = F.linear(x, torch.eye(8)).unflatten(-1, (2, 4))
        scores = torch.einsum(f"bqhd,bkhd->{order}", x, x)
        weights = scores.softmax(order.index("k"))
        return torch.einsum(f"{order},bkhd->bqhd", weights, x)

    x = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))
    heads = x.unflatten(-1, (2, 4))
    expected = torch.einsum("bqhd,bkhd->bhqk", heads, heads).softmax(-1)
    with glassformer.explore(attend, x, open_page=False, wait=False) as page:
        place = f"traces/{ask(page, 'models')[0]['trace']}"
        shown = ask(page, place)
        (layer,) = shown["attention"]
        step = shown["steps"][layer["weights"]]
        assert (layer["n_heads"], step["shape"]) == (2, [1, 2, 3, 3])
        names = [one["name"] for one in shown["steps"]]
        assert len(set(names)) == len(names)  # links find steps by their names
        cell = ask(page, f"{place}/cell?step={step['number']}&index=0,1,2,0")
        assert cell["cell"]["value"] == pytest.approx(float(expected[0, 1, 2, 0]))
