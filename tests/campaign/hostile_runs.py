"""Folders of training runs from strangers, looked at as `glassformer explore --runs` does."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from starlette.testclient import TestClient

from glassformer.explorer.api import create_api
from glassformer.explorer.state import State
from glassformer.explorer.training_watch import WatchedRun
from tests.campaign.hostile_folders import mutated_json
from tests.campaign.hostile_requests import wrong_with

_READ = ("metrics.jsonl", "about.json", "watch/*.json", "watch/*.safetensors", "watch/*/*")
_ASKED = (
    ("GET", "/api/watch", None),
    ("GET", "/api/watch/runs/other", None),
    *(("GET", f"/api/watch/attention?update=4&layer={layer}", None) for layer in range(4)),
    *(("POST", "/api/watch/traces", {"update": update}) for update in (2, 4)),
)


def hostile_runs(whole: Path, folder: Path, count: int, seed: int) -> Iterator[tuple[str, Path]]:
    """Copies of a run, with another run beside it; one file of one of the two is spoiled."""
    rng = random.Random(seed)
    for at in range(count):
        place = folder / "runs"
        shutil.rmtree(place, ignore_errors=True)
        for name in ("one", "other"):
            shutil.copytree(whole, place / name)
        spoiled = place / rng.choice(("one", "one", "one", "other"))
        file = rng.choice(sorted(file for way in _READ for file in spoiled.glob(way)))
        yield f"{at} {file.relative_to(place)} {_spoil(file, rng)}", place / "one"


def _spoil(file: Path, rng: random.Random) -> str:
    way = rng.randrange(6)
    if way < 4 and file.suffix in (".json", ".jsonl"):
        lines = file.read_text(encoding="utf-8").splitlines() if file.suffix == ".jsonl" else [""]
        at = rng.randrange(len(lines))
        data = json.loads(lines[at] or file.read_text(encoding="utf-8"))
        lines[at] = json.dumps(mutated_json(data, rng))
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return "a value changed"
    if way == 4:
        file.rename(
            file.with_name(rng.choice(("attention-x.safetensors", "model-", "sample.json")))
        )
        return "renamed"
    data = bytearray(file.read_bytes())
    place = rng.randrange(min(200, len(data)))
    data[place] ^= 1 << rng.randrange(8)
    file.write_bytes(data if way % 2 else data[:place])
    return f"byte {place} {'changed' if way % 2 else 'is the end'}"


def wrong_with_run(folder: Path) -> str:
    """What is wrong with the answers about a run; empty if nothing is."""
    state = State("toy")
    state.watched = WatchedRun(folder)
    client = TestClient(
        create_api(state), base_url="http://localhost", raise_server_exceptions=False
    )
    for method, address, body in _ASKED:
        if wrong := wrong_with(client.request(method, address, json=body)):
            return f"{method} {address}: {wrong}"
    return ""
