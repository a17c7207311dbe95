"""The run folder: config, metrics, checkpoints and the trained model with its card.

config.json     the complete config        metrics.jsonl   one line per log entry
about.json      version, data, seed, time  state/          checkpoints to resume from
model/          the trained model          first/          its pretraining, if any
.lock           locked by the process that trains here
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, GlassformerError, TrainingError
from glassformer.files import os_errors_as, read_object, remove_half_written, try_lock, write_whole
from glassformer.training.log import read_metrics, records_in
from glassformer.training.run_config import RunConfig
from glassformer.training.settings import restored, to_json

_LOCK = ".lock"
_STATE_FILE = re.compile(r"\d{8,}\.(json|safetensors)")


class RunFolder:
    """The folder of one run; only the first process writes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def states(self) -> Path:
        """The folder of checkpoints to resume from."""
        return self.path / "state"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def first(self) -> "RunFolder":
        """The folder of the pretraining run, if there is one."""
        return RunFolder(self.path / "first")

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    def exists(self) -> bool:
        """Whether a run has started here: its config is there, or in a checkpoint."""
        return (self.path / "config.json").is_file() or _config_of_states(self.states) is not None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this folder meanwhile.

        The lock file stays: otherwise one process could lock a file that another has just removed.
        Files that a killed process left half-written are removed.
        """
        unwritable = "cannot write to {path}: {reason}; choose another folder with --out"
        with os_errors_as(TrainingError, unwritable, path=self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / _LOCK).open("ab")
        with lock:
            holder = try_lock(lock)
            if holder == "another":
                raise ConfigError(
                    "another process is training in {path}; wait for it to finish, or choose "
                    "another folder",
                    path=self.path,
                )
            if holder == "us":
                for folder in (self.path, self.states, self.path / "watch"):
                    remove_half_written(folder)
                self._remove_half_saved_model()
                _put_folders_aside(self.states)
            yield

    def _remove_half_saved_model(self) -> None:
        """Remove what an interrupted save left behind, but never the only copy of a model."""
        for left in self.path.glob(f".{self.model.name}.*"):
            if self.model.is_dir() or not (left / "model").is_dir():
                shutil.rmtree(left, ignore_errors=True)

    def read_config(self) -> RunConfig:
        """The config of the run, from a checkpoint if its file is lost."""
        file = self.path / "config.json"
        try:
            data = read_object(file, error=TrainingError, what="the config of a run")
            return restored(RunConfig, data, str(file))
        except GlassformerError:
            kept = _config_of_states(self.states)
            if kept is None:
                raise
        return restored(RunConfig, kept, str(self.states))

    def begin(self, config: RunConfig) -> None:
        """Write the config."""
        write_in_folder(self.path / "config.json", to_json(config))

    def write_about(self, about: Mapping[str, Any]) -> None:
        text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
        write_in_folder(self.path / "about.json", text)

    def log(self, record: Mapping[str, Any]) -> None:
        unwritable = "cannot write {metrics}: {reason}; earlier checkpoints are intact"
        with (
            os_errors_as(TrainingError, unwritable, metrics=self.metrics),
            self.metrics.open("a", encoding="utf-8") as opened,
        ):
            opened.write(json.dumps(record, ensure_ascii=False) + "\n")

    def rewind(self, step: int) -> None:
        """Drop metrics from after `step`: the run will write them again."""
        if not self.metrics.exists():
            return
        if not self.metrics.is_file():
            raise TrainingError(
                "{metrics} is not a regular file; move it elsewhere", metrics=self.metrics
            )
        records = records_in(read_metrics(self.metrics))
        kept = [record.line + b"\n" for record in records if record.data["step"] <= step]
        write_whole(self.metrics, b"".join(kept))

    def check_empty(self) -> None:
        """Refuse a folder that holds something else."""
        if self.path.is_file():
            raise TrainingError("{path} is a file; a run needs a folder", path=self.path)
        if self.path.is_dir() and any(self.path.iterdir()) and not self.never_began():
            raise TrainingError(
                "{path} is not empty; continue with --resume, or choose another folder",
                path=self.path,
            )

    def check_ours(self) -> None:
        """Refuse to resume in a folder with foreign files; a killed run may have left little."""
        if self.path.is_file():
            raise TrainingError("{path} is a file; a run needs a folder", path=self.path)
        names = {file.name for file in self.path.iterdir()} if self.path.is_dir() else set()
        foreign = sorted(name for name in names - {"watch", _LOCK} if not name.endswith(".tmp"))
        if foreign:
            raise TrainingError(
                "{path} holds {foreign!r} and no run to resume; choose another folder",
                path=self.path,
                foreign=foreign[0],
            )

    def never_began(self) -> bool:
        """Whether no run got as far as its first log line here.

        A run that failed so early (its data were missing, say) can be started again in the folder.
        """
        files = [file for file in self.path.rglob("*") if file.is_file()]
        if not self.exists():
            announced = self.path / "watch/state.json"
            return all(file.name == _LOCK or file == announced for file in files)
        if any(file.name not in ("config.json", "state.json", _LOCK) for file in files):
            return False
        self.read_config()  # a config.json of another program is not ours to replace
        return True


def write_in_folder(file: Path, content: str | bytes) -> None:
    """Write a file of a run, whole or not at all."""
    with os_errors_as(TrainingError, "cannot write to {path}: {reason}", path=file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)


def state_files(folder: Path) -> list[Path]:
    """The JSON files of complete checkpoints, newest first."""
    found = (path for path in folder.glob("[0-9]*.json") if _STATE_FILE.fullmatch(path.name))
    return sorted((path for path in found if not path.is_dir()), reverse=True)


def _config_of_states(folder: Path) -> dict[str, Any] | None:
    """The config in the newest readable checkpoint, if any."""
    for path in state_files(folder):
        with suppress(TrainingError, KeyError, TypeError):
            config = read_object(path, error=TrainingError)["facts"]["config"]
            if isinstance(config, dict):
                return config
    return None


def _put_folders_aside(folder: Path) -> None:
    """Rename folders that are named like a checkpoint: none could be saved in their place."""
    for path in folder.glob("[0-9]*"):
        if _STATE_FILE.fullmatch(path.name) and path.is_dir():
            with suppress(OSError):  # saving says what is wrong
                path.rename(path.with_name(f"{path.name}.not-a-state"))


_TITLES = {
    "hardware": "Hardware",
    "train_seconds": "Seconds in training steps",
    "seconds": "Seconds in total",
    "seed": "Seed",
    "steps": "Steps",
    "kept_step": "Weights of step",
    "parameters": "Parameters",
    "training_examples": "Training examples",
    "glassformer": "Glassformer",
    "torch": "PyTorch",
}


def model_card(about: Mapping[str, Any], parts: str) -> str:
    """The README.md of a model folder: Markdown with a YAML head, from the facts of a run.

    `parts` is what `nn.describe` says of the model.
    """
    facts = "".join(
        f"- {title}: {_number(about[name])}\n" for name, title in _TITLES.items() if name in about
    )
    return (
        f"---\nlibrary_name: glassformer\ntags: [{about['recipe']}]\n---\n\n"
        f"# {about['recipe']}\n\n"
        f"## Data\n\n{_data(about)}\n"
        f"## Scores\n\n{_scores(about)}\n"
        f"## How it was made\n\n```\n{about['command']}\n```\n\n{facts}\n"
        f"## Parts\n\n```\n{parts}\n```\n"
    )


def _data(about: Mapping[str, Any]) -> str:
    lines = [about.get("data", "")]
    for name, title in (("licence", "Licence"), ("cite", "Cite")):
        if about.get(name):
            lines.append(f"{title}: {about[name]}.")
    return "\n\n".join(line for line in lines if line) + "\n"


def _scores(about: Mapping[str, Any]) -> str:
    """A table of scores, then the signatures that BLEU scores need to be comparable."""
    rows = ["| data | measure | score |", "| --- | --- | --- |"]
    for part, values in about.get("scores", {}).items():
        rows += [f"| {part} | {name} | {value:.4f} |" for name, value in values.items()]
    signatures = [f"{name}: `{text}`" for name, text in about.get("signatures", {}).items()]
    return "\n".join(rows) + "\n" + "".join(f"\n{line}\n" for line in signatures)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
