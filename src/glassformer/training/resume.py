"""Checkpoints to resume from: tensors in safetensors, the rest in JSON, written atomically.

    state/00001200.safetensors   parameters, optimiser, EMA, best weights, and the random number
                                 generators (RNG) of every process
    state/00001200.json          progress, scores, and the SHA-256 of both files

The JSON is written last, so a checkpoint without one is incomplete. A damaged checkpoint is
reported and the one before it used. Nothing here is a pickle or knows what is being trained.
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
from glassformer.files import open_regular, os_errors_as, read_object, write_whole
from glassformer.training.log import say
from glassformer.training.processes import Processes
from glassformer.training.run_folder import state_files


@dataclass
class Progress:
    """How far a run is; saved in the checkpoint."""

    step: int = 0
    n_tokens: int = 0
    seconds: float = 0.0
    """In training steps, without evaluation and saving."""
    total_seconds: float = 0.0
    """Of the run before it was last resumed: evaluation, saving and preparation included."""
    best_score: float | None = None
    best_loss: float | None = None
    best_step: int = 0
    n_worse: int = 0
    """Evaluations since the best one."""

    def forget_best(self) -> None:
        """Compare with no earlier score."""
        self.best_score, self.best_loss, self.best_step, self.n_worse = None, None, 0, 0


@dataclass(frozen=True)
class TrainingState:
    """A checkpoint: everything that a run needs to resume."""

    step: int
    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    """Plain JSON."""

    def section(self, name: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `name.`, without that prefix."""
        prefix = f"{name}."
        return {
            key.removeprefix(prefix): tensor
            for key, tensor in self.tensors.items()
            if key.startswith(prefix)
        }


def _clear(*places: Path) -> None:
    """Remove pipes and the like from the place of a checkpoint: they must not block a run."""
    for place in places:
        if place.exists() and not (place.is_file() or place.is_dir()):
            place.unlink()


def save_state(folder: Path, state: TrainingState, keep: int) -> None:
    """Write a checkpoint, then remove all but the newest `keep`.

    Checkpoints of later steps go too: the run found them damaged and went back to an earlier one.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors.items()}
    data = save(tensors)
    facts = {
        "step": state.step,
        "sha256": _hash(data, state.step, state.facts),
        "facts": state.facts,
    }
    name = f"{state.step:08d}"
    with os_errors_as(
        TrainingError,
        "cannot save the checkpoint of step {step} to {folder}: {reason}; earlier checkpoints are "
        "intact",
        step=state.step,
        folder=folder,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        _clear(folder / f"{name}.safetensors", folder / f"{name}.json")
        write_whole(folder / f"{name}.safetensors", data)
        write_whole(folder / f"{name}.json", json.dumps(facts, indent=1))
    others = [path for path in state_files(folder) if path.stem != name]
    earlier = [path for path in others if path.stem < name]
    for old in [*(path for path in others if path.stem > name), *earlier[keep - 1 :]]:
        # The JSON first: tensors without it are no checkpoint.
        with suppress(OSError):  # another process may have removed it
            old.unlink()
            old.with_suffix(".safetensors").unlink()


def newest_state(folder: Path, report: Callable[[str], None]) -> TrainingState | None:
    """The newest undamaged checkpoint, or None; damaged ones are reported."""
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
    """Seed all RNGs of this process."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed % 2**63)


def capture_rng(device: torch.device) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The states of all RNGs of this process, as tensors and plain data."""
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
    """Set all RNGs of this process to a captured state."""
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
    state: TrainingState,
    seed: int,
    processes: Processes,
    device: torch.device,
    report: Callable[[str], None],
) -> None:
    """Restore the RNGs of this process from the process of the same rank."""
    saved = state.facts["random"]
    if processes.rank < len(saved):
        restore_rng(state.section(f"random.{processes.rank}"), saved[processes.rank], device)
    else:  # a new process: its dropout must differ from that of the others
        seed_rng(hash((seed, state.step, processes.rank)))
    if processes.n != len(saved):
        before, now = _processes(len(saved)), _processes(processes.n)
        report(say("processes", before=before, now=now))


def check_seed(state: TrainingState, seed: int, folder: Path) -> None:
    """Refuse a checkpoint of another seed: the data order would change."""
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
    """SHA-256 of the tensors and the rest of the JSON."""
    said = json.dumps([step, facts], sort_keys=True).encode()
    return hashlib.sha256(data + said).hexdigest()


def _read(path: Path) -> TrainingState:
    facts = read_object(path, error=TrainingError, what="a state")
    with open_regular(path.with_suffix(".safetensors")) as opened:
        data = opened.read()
    if _hash(data, facts["step"], facts["facts"]) != facts["sha256"]:
        raise ValueError("its hash does not match")
    return TrainingState(facts["step"], load(data), facts["facts"])
