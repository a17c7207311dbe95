"""Checkpoints to resume from: tensors in safetensors, the rest in JSON, whole or not at all.

    state/00001200.safetensors   parameters, optimiser, EMA, best weights, and the random number
                                 generators (RNG) of every process
    state/00001200.json          progress, scores, and the SHA-256 over both files

The JSON is written last, so that a state without one was never finished. A damaged state is
reported and the one before it used. Nothing here is a pickle, and nothing knows what is trained.
"""

import hashlib
import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from glassformer.errors import TrainingError
from glassformer.files import open_regular, read_object, write_whole
from glassformer.training.log import say
from glassformer.training.processes import Processes
from glassformer.training.run_folder import state_files


@dataclass
class Progress:
    """How far a run is; all of it goes into the checkpoint."""

    step: int = 0
    n_tokens: int = 0
    seconds: float = 0.0
    """In updates: evaluation and saving left out."""
    best_score: float | None = None
    best_step: int = 0
    n_worse: int = 0
    """Evaluations since the best one."""

    def forget_best(self) -> None:
        """Begin to compare anew."""
        self.best_score, self.best_step, self.n_worse = None, 0, 0


@dataclass(frozen=True)
class State:
    """Everything that a run needs to go on."""

    step: int
    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    """Plain JSON."""

    def section(self, name: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `name.`, without it."""
        prefix = f"{name}."
        return {
            key.removeprefix(prefix): tensor
            for key, tensor in self.tensors.items()
            if key.startswith(prefix)
        }


def _clear(*places: Path) -> None:
    """Remove what stands in a state's place and is no file: a pipe must not stop a run."""
    for place in places:
        if place.exists() and not (place.is_file() or place.is_dir()):
            place.unlink()


def save_state(folder: Path, state: State, keep: int) -> None:
    """Write a state, then remove all but the newest `keep`.

    States of later steps go too: a run that went back to an earlier one found them damaged.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors.items()}
    data = save(tensors)
    facts = {
        "step": state.step,
        "sha256": _hash(data, state.step, state.facts),
        "facts": state.facts,
    }
    name = f"{state.step:08d}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clear(folder / f"{name}.safetensors", folder / f"{name}.json")
        write_whole(folder / f"{name}.safetensors", data)
        write_whole(folder / f"{name}.json", json.dumps(facts, indent=1).encode())
    except OSError as error:
        raise TrainingError(
            "cannot save the checkpoint of step {step} to {folder}: {reason}; earlier "
            "checkpoints are intact",
            step=state.step,
            folder=folder,
            reason=error.strerror,
        ) from error
    others = [path for path in state_files(folder) if path.stem != name]
    earlier = [path for path in others if path.stem < name]
    for old in [*(path for path in others if path.stem > name), *earlier[keep - 1 :]]:
        # The JSON first: tensors without it are no state.
        with suppress(OSError):  # another process may have removed it
            old.unlink()
            old.with_suffix(".safetensors").unlink()


def newest_state(folder: Path, report: Callable[[str], None]) -> State | None:
    """The newest state that is whole; damaged ones are reported. None where there is none."""
    damaged = 0
    for path in state_files(folder):
        try:
            return _read(path)
        except (OSError, TrainingError, ValueError, TypeError, KeyError, SafetensorError) as error:
            report(say("damaged", path=path, error=error))
            damaged += 1
    if damaged:
        raise TrainingError(
            "all {damaged} checkpoints in {folder} are damaged; start the run again",
            damaged=damaged,
            folder=folder,
        )
    return None


def seed_rng(seed: int) -> None:
    """Seed all random generators of this process."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed % 2**63)


def capture_rng(device: torch.device) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The states of all random generators of this process, as tensors and plain data."""
    version, numbers, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    tensors = {
        "torch": torch.get_rng_state(),
        "python": torch.tensor(numbers, dtype=torch.int64),
        "numpy": torch.from_numpy(np.asarray(keys).astype(np.int64)),
    }
    if device.type == "cuda":
        tensors["cuda"] = torch.cuda.get_rng_state(device)
    if device.type == "mps":
        tensors["mps"] = torch.mps.get_rng_state()
    facts = {
        "python": [version, gauss],
        "numpy": [kind, int(position), int(has_gauss), float(cached)],
    }
    return tensors, facts


def restore_rng(tensors: dict[str, Tensor], facts: dict[str, Any], device: torch.device) -> None:
    """Set all random generators of this process to a captured state."""
    version, gauss = facts["python"]
    random.setstate((version, tuple(tensors["python"].tolist()), gauss))
    kind, position, has_gauss, cached = facts["numpy"]
    keys = tensors["numpy"].numpy().astype(np.uint32)
    np.random.set_state((kind, keys, position, has_gauss, cached))
    torch.set_rng_state(tensors["torch"])
    if device.type == "cuda" and "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"], device)
    if device.type == "mps" and "mps" in tensors:
        torch.mps.set_rng_state(tensors["mps"])


def resume_rng(
    state: State,
    seed: int,
    processes: Processes,
    device: torch.device,
    report: Callable[[str], None],
) -> None:
    """Let this process draw on where the process of its rank stopped."""
    saved = state.facts["random"]
    if processes.rank < len(saved):
        restore_rng(state.section(f"random.{processes.rank}"), saved[processes.rank], device)
    else:  # a process that the run did not have: its dropout must differ from the others'
        seed_rng(hash((seed, state.step, processes.rank)))
    if processes.n != len(saved):
        before, now = _processes(len(saved)), _processes(processes.n)
        report(say("processes", before=before, now=now))


def check_seed(state: State, seed: int, folder: Path) -> None:
    """Refuse a state of another seed: the rest of the run would be in another order."""
    began = state.facts.get("config", {}).get("loop", {}).get("seed", seed)
    if began != seed:
        raise TrainingError(
            "the checkpoints in {folder} were made with seed {began}, not {seed}; leave "
            "loop.seed unchanged, or start in another folder",
            folder=folder,
            began=began,
            seed=seed,
        )


def _processes(n: int) -> str:
    return say("one process") if n == 1 else say("several processes", n=n)


def _hash(data: bytes, step: int, facts: dict[str, Any]) -> str:
    """Over the tensors and what the JSON says besides."""
    said = json.dumps([step, facts], sort_keys=True).encode()
    return hashlib.sha256(data + said).hexdigest()


def _read(path: Path) -> State:
    facts = read_object(path, error=TrainingError, what="a state")
    with open_regular(path.with_suffix(".safetensors")) as opened:
        data = opened.read()
    if _hash(data, facts["step"], facts["facts"]) != facts["sha256"]:
        raise ValueError("its hash does not match")
    return State(facts["step"], load(data), facts["facts"])
