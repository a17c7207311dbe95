"""What the backward pass needs to know of the forward pass: its operators, names and tensors."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.errors import TraceError
from glassformer.trace.calls import Call
from glassformer.trace.memory import Version, View
from glassformer.trace.recording import Recording
from glassformer.trace.steps import Step
from glassformer.trace.trace import Trace
from glassformer.trace.training.windows import same

__all__ = ["ForwardPass", "Title"]


@dataclass(frozen=True, slots=True)
class Title:
    """What a tensor is called, and the module it belongs to."""

    name: str
    module: str

    def gradient(self, suffix: str = "") -> tuple[str, str]:
        """What its gradient is called, and the branch that it belongs to."""
        return f"gradients.{self.name}{suffix}", f"gradients.{self.module}".rstrip(".")

    def beside(self, other: Title) -> str:
        """The name without the modules that it shares with another."""
        own, known = self.name.split("."), other.name.split(".")
        while len(own) > 1 and known and own[0] == known[0]:
            own, known = own[1:], known[1:]
        return ".".join(own)


class ForwardPass:
    """A finished forward pass."""

    def __init__(self, recording: Recording, parameters: dict[str, View]) -> None:
        self.calls: list[Call] = list(recording.calls)
        self.parameters = parameters
        """Those that require a gradient; one of several names for a tied one."""
        self._titles: dict[int, Title] = {}
        self._wholes: dict[int, View] = {}
        self._views: list[tuple[Title, View]] = []
        self._read_names(recording)

    def title(self, version: Version) -> Title:
        """What the tensor is called that filled a storage."""
        return self._titles[id(version)]

    def whole(self, version: Version) -> View:
        """The tensor that a storage was made for; writing to parts of it leaves it the same."""
        if version.base is not None:
            return self.whole(version.base).on(version)
        return self._wholes[id(version)]

    def view_title(self, view: View) -> Title | None:
        """The name that the source gave to just this view, if it gave one."""
        for title, known in self._views:
            if known.version is view.version and same(known, view):
                return title
        return None

    def _read_names(self, recording: Recording) -> None:
        """The names that a trace of the forward pass alone gives."""
        trace = Trace(recording)
        given = [*trace.parameters.values(), *trace.inputs.values(), *trace.constants.values()]
        for step in [*given, *trace.steps]:
            self._note(step)
        for step in trace.views:
            self._views.append((Title(step.name, step.module), step.view))
        for step in [*given, *trace.steps]:  # the trace of the whole training step names them anew
            step.view.version.owners.clear()

    def _note(self, step: Step) -> None:
        version = step.view.version
        known = self._wholes.setdefault(id(version), step.view)
        if not same(known, step.view) and step.role == "parameter":
            raise TraceError(
                f"{step.name} and {self._titles[id(version)].name} share memory without being "
                "the same tensor: their gradients are not traced"
            )
        self._titles.setdefault(id(version), Title(step.name, step.module))
