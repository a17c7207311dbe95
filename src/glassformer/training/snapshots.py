"""Snapshots of a run for the explorer: the attention on one sample, saved at every evaluation.

    watch/sample.json                    the sample's tokens, what attends to what, the run's length
    watch/state.json                     running, stopped or finished
    watch/attention-00001200.safetensors weights (layers, H, Q, K) by kind after step 1200
    watch/model-00001200/                the model after step 1200, if it is small

`announced` and `Watch` write atomically; `read_watch` and `read_attention` read, during the run or
after it. Older snapshots are thinned out, so that a long run does not fill the disk.
"""

import json
import math
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from glassformer import checkpoint
from glassformer.data.batches import EpochRNG
from glassformer.errors import ConfigError, TrainingError
from glassformer.files import read_object, read_tensor_entries
from glassformer.modes import evaluating
from glassformer.nn import MultiHeadAttention, record_attention
from glassformer.training.log import read_metrics, records_in
from glassformer.training.problems.prepared_problem import PreparedProblem
from glassformer.training.run_folder import RunFolder, write_in_folder

RunState = Literal["running", "stopped", "finished"]

_MOST_SNAPSHOTS = 64
_LONGEST = 48  # tokens: more would be too small to see
_PREFERRED = 24
_MOST_PARAMETERS = 500_000
"""Of a model that is saved with every snapshot: 64 of them take 128 MB at most."""
_MOST_LAYERS = 1_000
_MOST_WEIGHTS = 1 << 26
"""Of one kind of attention in a snapshot that is read; those that are written are far smaller."""
_KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Attending:
    """One kind of attention: encoder, decoder, or the decoder's to the encoder (cross)."""

    kind: str
    n_layers: int
    queries: tuple[str, ...]
    """The tokens that attend."""
    keys: tuple[str, ...]
    """The tokens that are attended to."""


@dataclass(frozen=True)
class Sample:
    """What the snapshots show."""

    recipe: str
    total: int
    """Steps of the whole run."""
    attending: tuple[Attending, ...]
    inputs: tuple[tuple[int, ...], ...] = ()
    """The ids that the model reads, of an encoder-decoder also those of the target."""


@dataclass(frozen=True)
class RunStatus:
    """The current state of a run."""

    sample: Sample | None
    """None before the first evaluation, and for models without attention."""
    state: RunState
    metrics: list[dict[str, Any]]
    """Lines of metrics.jsonl from the offset on."""
    next: int
    """The next offset to ask for; smaller than the one given if the run was rewound."""
    snapshots: list[int]
    """Steps that have a snapshot."""
    models: list[int]
    """Steps whose model can be loaded (`model_folder`)."""


class Watch:
    """Writes snapshots into a run's folder."""

    def __init__(
        self, folder: Path, problem: PreparedProblem, recipe: str, total: int, *, writes: bool
    ) -> None:
        self.folder = folder / "watch"
        self._problem, self._recipe, self._total = problem, recipe, total
        self._writes = writes
        self._inputs = _sample_of(problem)

    def rewind(self, step: int) -> None:
        """Remove snapshots from after `step`: the run will take them again."""
        for later in [taken for taken in _steps(self.folder) if taken > step]:
            _remove(self.folder, later)

    @torch.no_grad()
    def take(self, model: nn.Module, step: int) -> None:
        """Save the current attention on the sample."""
        if not self._writes or not any(
            isinstance(part, MultiHeadAttention) for part in model.modules()
        ):
            return
        device = next(model.parameters()).device
        with evaluating(model.modules()), record_attention(model) as recorded:
            model(*(x.to(device) for x in self._inputs))
        weights = _by_kind({name: calls[0][0] for name, calls in recorded.items()})
        sample = Sample(self._recipe, self._total, self._attending(weights), self._ids())
        write_in_folder(self.folder / "sample.json", json.dumps(asdict(sample), ensure_ascii=False))
        write_in_folder(_snapshot_file(self.folder, step), save(weights))
        self._save_model(model, step)
        _thin_out(self.folder)

    def _save_model(self, model: nn.Module, step: int) -> None:
        """The model itself, so that every number of the snapshot can be traced."""
        if sum(p.numel() for p in model.parameters()) > _MOST_PARAMETERS:
            return
        about = {"recipe": self._recipe, "step": step}
        checkpoint.save(_model_of(self.folder, step), self._problem.checkpoint(model, about))

    def _ids(self) -> tuple[tuple[int, ...], ...]:
        """The sample as ids; an image has none."""
        ids = [x for x in self._inputs if x.dim() == 2 and not x.is_floating_point()]
        return tuple(tuple(x[0].tolist()) for x in ids if x.dtype != torch.bool)

    def _attending(self, weights: dict[str, Tensor]) -> tuple[Attending, ...]:
        read, written = _texts(self._inputs, self._problem)
        sides = {"encoder": (read, read), "decoder": (written, written), "cross": (written, read)}
        return tuple(Attending(kind, len(layers), *sides[kind]) for kind, layers in weights.items())


@contextmanager
def announced(folder: Path, *, writes: bool) -> Iterator[None]:
    """Mark a run as running inside this block, then as finished, or as stopped by an exception."""
    state = folder / "watch" / "state.json"

    def write(what: RunState) -> None:
        if writes:
            write_in_folder(state, json.dumps({"state": what}))

    write("running")
    try:
        yield
    except BaseException:
        with suppress(TrainingError):  # what stopped the run matters more
            write("stopped")
        raise
    write("finished")


def read_watch(folder: Path, offset: int = 0) -> RunStatus:
    """A run's metrics from `offset` (bytes, at a line start) on, and its snapshots."""
    data = read_metrics(folder / "metrics.jsonl")
    begin, end = offset, data.rfind(b"\n") + 1  # the last line may be half written
    if offset > len(data) or data[:offset][-1:] not in (b"", b"\n"):
        # The run was rewound since: return everything, and a smaller offset, which says so.
        begin, end = 0, data.rfind(b"\n", 0, offset - 1) + 1
    watch = folder / "watch"
    return RunStatus(
        sample=_read_sample(watch / "sample.json"),
        state=_read_state(watch / "state.json"),
        metrics=[_plain(record.data) for record in records_in(data[begin:end])],
        next=max(begin, end),
        snapshots=_steps(watch),
        models=sorted({step for step in _steps(watch) if _model_of(watch, step).is_dir()}
                      | {*_final_step(folder)}),
    )  # fmt: skip


def newest_run(folder: Path) -> Path:
    """The folder itself if it is a run's, else that of the newest run in it."""
    if (folder / "metrics.jsonl").is_file():
        return folder.resolve()  # "." has no name and no folder around it
    found = [file for file in folder.glob("*/metrics.jsonl") if file.is_file()]
    if not found:
        raise ConfigError("{folder} holds no training run", folder=folder)
    return max(found, key=lambda file: file.stat().st_mtime).parent.resolve()


def model_folder(folder: Path, step: int) -> Path:
    """The folder of the model after a step; raises where none was saved."""
    kept = _model_of(folder / "watch", step)
    if kept.is_dir():
        return kept
    if step in _final_step(folder):
        return RunFolder(folder).model
    raise TrainingError("{folder} has no model of step {step}", folder=folder.name, step=step)


def _final_step(folder: Path) -> list[int]:
    """The step whose weights the finished run saved, if it has."""
    about = folder / "about.json"
    if not (RunFolder(folder).model.is_dir() and about.is_file()):
        return []
    step = read_object(about, error=TrainingError, what="the facts of a run").get("kept_step")
    return [step] if type(step) is int and step >= 0 else []


def read_attention(folder: Path, step: int, kind: str) -> NDArray[np.float32]:
    """Weights (layers, H, Q, K) of one kind of attention after a step."""
    path = _snapshot_file(folder / "watch", step)
    if not path.is_file():
        raise TrainingError(
            "{folder} has no attention snapshot of step {step}", folder=folder, step=step
        )
    entries = read_tensor_entries(path, error=TrainingError)
    if kind not in entries:
        raise TrainingError(
            "the run has no {kind} attention, but {names}", kind=kind, names=", ".join(entries)
        )
    dtype, shape = entries[kind]
    if dtype != "F32" or len(shape) != 4 or math.prod(shape) > _MOST_WEIGHTS:
        raise TrainingError("{path} is not a snapshot of attention", path=path)
    try:
        with safe_open(path, "np") as opened:
            weights: NDArray[np.float32] = opened.get_tensor(kind)
    except (SafetensorError, OSError) as error:
        raise TrainingError(
            "{file} is damaged or not a safetensors file ({error}); copy it again",
            file=path,
            error=error,
        ) from None
    return weights


def _sample_of(problem: PreparedProblem) -> tuple[Tensor, ...]:
    """The model inputs of one held-out example of about the preferred length."""
    examples = problem.train if problem.valid is None else problem.valid.examples
    nearest = int(np.abs(examples.lengths - _PREFERRED).argmin())
    batch = examples.batch(np.array([nearest]), EpochRNG(seed=0, epoch=0))
    # Positions of masked words (one axis) are dropped: attention does not depend on them.
    wide = [x for x in batch.inputs if x is not None and x.dim() > 1]
    return tuple(x[:, :_LONGEST] if x.dim() == 2 else x for x in wide)


def _texts(
    inputs: tuple[Tensor, ...], problem: PreparedProblem
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tokens that the encoder and the decoder read; the same for a single stack."""
    if problem.tokenizer is None:
        places = problem.model.image.patch_places
        return places, places
    shown = [tuple(problem.tokenizer.display_tokens(side[0].tolist())) for side in inputs]
    return shown[0], shown[-1]


def _by_kind(recorded: dict[str, Tensor]) -> dict[str, Tensor]:
    """All layers of one kind stacked in one tensor."""
    kinds: dict[str, list[Tensor]] = defaultdict(list)
    for name, weights in recorded.items():
        stack, _, rest = name.partition(".")
        kind = "cross" if rest.endswith("cross_attention") else stack
        kinds[kind].append(weights.float().cpu())
    return {kind: torch.stack(layers).contiguous() for kind, layers in kinds.items()}


def _snapshot_file(folder: Path, step: int) -> Path:
    return folder / f"attention-{step:08d}.safetensors"


def _steps(folder: Path) -> list[int]:
    files = folder.glob("attention-*.safetensors")
    found = (re.fullmatch(r"attention-([0-9]{8,15})", file.stem) for file in files)
    return sorted(int(name[1]) for name in found if name)


def _thin_out(folder: Path) -> None:
    """Remove every second snapshot but the first and the newest, once there are too many."""
    steps = _steps(folder)
    if len(steps) > _MOST_SNAPSHOTS:
        for step in steps[1:-1:2]:
            _remove(folder, step)


def _model_of(folder: Path, step: int) -> Path:
    return folder / f"model-{step:08d}"


def _remove(folder: Path, step: int) -> None:
    _snapshot_file(folder, step).unlink(missing_ok=True)
    shutil.rmtree(_model_of(folder, step), ignore_errors=True)


def _read_sample(path: Path) -> Sample | None:
    if not path.is_file():
        return None
    data = read_object(path, error=TrainingError, what="the sample of a run")
    try:
        attending = tuple(
            Attending(a["kind"], a["n_layers"], tuple(a["queries"]), tuple(a["keys"]))
            for a in data["attending"]
        )
        inputs = tuple(tuple(ids) for ids in data.get("inputs", ()))
        sample = Sample(data["recipe"], data["total"], attending, inputs)
    except (KeyError, TypeError):
        sample = None
    if sample is None or not _is_sound(sample):
        raise TrainingError("{path} is not the sample of a run", path=path)
    return sample


def _is_sound(sample: Sample) -> bool:
    """Whether the parts of a file that may come from anywhere are of the right kinds."""
    layers = [(one.kind, one.n_layers) for one in sample.attending]
    tokens = [token for one in sample.attending for token in (*one.queries, *one.keys)]
    ids = [id_ for some in sample.inputs for id_ in some]
    return (
        isinstance(sample.recipe, str)
        and type(sample.total) is int
        and all(kind in _KINDS for kind, _ in layers)
        and all(type(n) is int and 0 < n <= _MOST_LAYERS for _, n in layers)
        and all(isinstance(token, str) for token in tokens)
        and all(type(id_) is int and 0 <= id_ < 2**31 for id_ in ids)
    )


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """The numbers and texts in a line of metrics."""
    return {name: one for name, one in record.items() if isinstance(one, int | float | str | None)}


def _read_state(path: Path) -> RunState:
    if not path.is_file():
        return "running"
    said = read_object(path, error=TrainingError, what="the state of a run").get("state")
    if said not in get_args(RunState):
        raise TrainingError("{path} is not the status of a run: {said!r:.40}", path=path, said=said)
    return cast(RunState, said)
