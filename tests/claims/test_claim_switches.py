"""Switches of experiments: their values run, the sentence and the chart follow, the rule judges."""

from __future__ import annotations

import inspect
import json

import pytest

from glassformer.claims import Claim, claims
from glassformer.claims.claim_figures import claim_figure
from glassformer.cli import run
from glassformer.errors import ConfigError
from tests.claims.claim_runs import as_users_run_it

SWITCHED = [claim for claim in claims().values() if claim.switches]
TRAINED = {"C39", "C46", "C53", "C74"}
"""Experiments that take seconds: the cheapest value of one switch has to do."""


def turns(claim: Claim) -> list[tuple[str, float]]:
    """Each value of each switch that is not its default."""
    found = [
        (switch.name, value)
        for switch in claim.switches
        for value in switch.values
        if value != switch.default
    ]
    return found[:1] if claim.id in TRAINED else found


@pytest.mark.parametrize("claim", SWITCHED, ids=lambda claim: claim.id)
def test_switches_are_the_arguments_of_the_experiment(claim: Claim) -> None:
    arguments = inspect.signature(claim.measure).parameters
    assert [switch.name for switch in claim.switches] == list(arguments)
    assert not claim.slow
    for switch in claim.switches:
        assert switch.default == arguments[switch.name].default
        assert switch.default in switch.values
        assert switch.label.en and switch.label.zh


@pytest.mark.parametrize(
    ("claim", "name", "value"),
    [(claim, *turn) for claim in SWITCHED for turn in turns(claim)],
    ids=lambda part: getattr(part, "id", str(part)),
)
def test_a_turned_switch_is_measured_said_and_drawn(claim: Claim, name: str, value: float) -> None:
    with as_users_run_it():
        turned = claim.run(settings={name: str(value)})
    assert turned.settings == {name: value}
    assert turned.verdict == claim.rule.judge(turned.figures)
    assert turned.timings == ()
    assert turned.command == f"glassformer claims {claim.id} --set {name}={value}"
    for language in ("en", "zh"):
        assert "{" not in turned.sentence(language)
        drawing = claim_figure(turned, language)
        assert drawing is None or "{" not in drawing.title


def test_a_switch_changes_what_is_measured() -> None:
    claim = claims()["C30"]
    calm = claim.run(settings={"times": "2"})
    assert claim.run().verdict == "holds" and calm.verdict == "fails"
    assert "scores 2 times larger" in calm.sentence("en")
    drawing = claim_figure(calm, "en")
    assert drawing is not None and "2 times larger" in drawing.svg()


def test_a_default_named_is_no_turn() -> None:
    assert claims()["C30"].turned({"times": "32", "width": "256"}) == {"width": 256}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"depth": "3"}, "claim C30 has no switch 'depth'; its switches: times, width"),
        ({"width": "65"}, "claim C30 has no width '65'; choose 16, 64, 256, 1024"),
    ],
)
def test_what_cannot_be_turned_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        claims()["C30"].run(settings=settings)


def test_the_command_turns_switches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "C42", "--set", "k=64", "--set", "heads=8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["figures"]["one"] == 3 * 64**2 and found["figures"]["heads"] == 8
    assert run(["claims", "C33", "--set", "k=64"]) == 2
    assert "claim C33 has no switch 'k'" in capsys.readouterr().err
