"""The run folder: what was asked for, what came of it, and from what to go on.

config.json     the complete config        metrics.jsonl   one line a report
about.json      version, data, seed, time  state/          to resume from
model/          the trained model         first/          the run it started from, if any
.lock           held by the process that trains here
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.data.holding import hold
from glassformer.errors import ConfigError, TrainingError
from glassformer.training.config import RunConfig
from glassformer.training.settings import restored, to_json
from glassformer.training.writing import remove_half_written, write_whole

__all__ = ["RunFolder"]

_LOCK = ".lock"


class RunFolder:
    """A folder of one run; only the first process writes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def states(self) -> Path:
        """Where states to resume from are."""
        return self.path / "state"

    @property
    def model(self) -> Path:
        """Where the trained model is."""
        return self.path / "model"

    @property
    def first(self) -> "RunFolder":
        """Where the run is that this one starts from, if there is one."""
        return RunFolder(self.path / "first")

    @property
    def metrics(self) -> Path:
        """One JSON object a line."""
        return self.path / "metrics.jsonl"

    def exists(self) -> bool:
        """Whether a run has begun here."""
        return (self.path / "config.json").is_file()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from training in this folder meanwhile.

        The file stays: without it, one process could hold the file that another has removed. What a
        killed process had half written is removed.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / _LOCK).open("ab")
        except OSError as error:
            raise TrainingError(
                f"cannot write to {self.path}: {error.strerror}; choose another folder with --out"
            ) from error
        with lock:
            holder = hold(lock)
            if holder == "another":
                raise ConfigError(
                    f"another process is training in {self.path}; wait for its end, or choose "
                    "another folder"
                )
            if holder == "us":
                for folder in (self.path, self.states, self.path / "watch"):
                    remove_half_written(folder)
                self._remove_half_saved_model()
            yield

    def _remove_half_saved_model(self) -> None:
        """Remove what saving a model was killed over, but no older model that is the only one."""
        for left in self.path.glob(f".{self.model.name}.*"):
            if self.model.is_dir() or not (left / "model").is_dir():
                shutil.rmtree(left, ignore_errors=True)

    def read_config(self) -> RunConfig:
        """The config that the run began with."""
        file = self.path / "config.json"
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise TrainingError(f"cannot read {file}: {error}") from None
        if not isinstance(data, dict):
            raise TrainingError(f"{file} is not the config of a run: expected a JSON object")
        return restored(RunConfig, data, str(file))

    def begin(self, config: RunConfig) -> None:
        """Write what was asked for."""
        self._write("config.json", to_json(config))

    def write_about(self, about: Mapping[str, Any]) -> None:
        """Facts about the run."""
        self._write("about.json", json.dumps(about, indent=1, ensure_ascii=False) + "\n")

    def log(self, record: Mapping[str, Any]) -> None:
        """Append a line to the metrics."""
        try:
            with self.metrics.open("a", encoding="utf-8") as opened:
                opened.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as error:
            raise TrainingError(
                f"cannot write {self.metrics}: {error.strerror}; the states saved before are whole"
            ) from error

    def rewind(self, step: int) -> None:
        """Drop metrics from after `step`: the run will make them again."""
        if not self.metrics.is_file():
            return
        kept = []
        for line in self.metrics.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except ValueError:  # cut short when the run was killed
                continue
            if record["step"] <= step:
                kept.append(line)
        write_whole(self.metrics, "".join(f"{line}\n" for line in kept).encode())

    def check_empty(self) -> None:
        """Refuse a folder that holds something else."""
        if self.path.is_file():
            raise TrainingError(f"{self.path} is a file; a run needs a folder")
        if self.path.is_dir() and any(self.path.iterdir()) and not self.never_began():
            raise TrainingError(
                f"{self.path} is not empty; go on with --resume, or choose another folder"
            )

    def check_ours(self) -> None:
        """Refuse to go on in a folder that no run began: of a killed one, little may be left."""
        if self.path.is_file():
            raise TrainingError(f"{self.path} is a file; a run needs a folder")
        names = {file.name for file in self.path.iterdir()} if self.path.is_dir() else set()
        foreign = sorted(name for name in names - {"watch", _LOCK} if not name.endswith(".tmp"))
        if foreign:
            raise TrainingError(
                f"{self.path} holds {foreign[0]!r} and no run to go on with; choose another folder"
            )

    def never_began(self) -> bool:
        """Whether at most a run was announced here and nothing came of it, not even a first report.

        Such a run (its data were missing, say) may be tried again without cleaning up after it.
        """
        files = [file for file in self.path.rglob("*") if file.is_file()]
        if not self.exists():
            announced = self.path / "watch/state.json"
            return all(file.name == _LOCK or file == announced for file in files)
        if any(file.name not in ("config.json", "state.json", _LOCK) for file in files):
            return False
        self.read_config()  # a config.json of another program is not ours to replace
        return True

    def _write(self, name: str, text: str) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(self.path / name, text.encode())
        except OSError as error:
            raise TrainingError(f"cannot write to {self.path}: {error.strerror}") from error
