"""A text to a trace: models loaded once, attention written out."""

from __future__ import annotations

import threading
from collections import OrderedDict

from glassformer.explorer.catalogue import Catalogue
from glassformer.explorer.opened import OpenTrace
from glassformer.explorer.schemas import Task, TraceRequest
from glassformer.passes import forward_pass
from glassformer.tasks import Model, load
from glassformer.trace import trace
from glassformer.trace.budget import DEFAULT_BYTES

__all__ = ["Models", "open_text", "run_text"]

MOST_BYTES = 512 * 1024**2
"""What one trace may take; a longer text is refused in one line."""
_MOST_LOADED = 6
_ANSWERED: tuple[Task, ...] = ("classify", "translate", "generate")


class Models:
    """The models that are loaded."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._lock = threading.Lock()
        self._loaded: OrderedDict[str, Model] = OrderedDict()

    def get(self, name: str) -> Model:
        """A model of the catalogue, read from its folder the first time."""
        folder = self.catalogue.folder(name)
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = load(folder, attention="written")
                while len(self._loaded) > _MOST_LOADED:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(name)
            return self._loaded[name]


def run_text(models: Models, request: TraceRequest) -> OpenTrace:
    """Run a model over a text and keep every number."""
    model = models.get(request.model)
    return open_text(model, request.model, request.text, request.target, max_bytes=MOST_BYTES)


def open_text(
    model: Model, name: str, text: str, target: str | None, max_bytes: int = DEFAULT_BYTES
) -> OpenTrace:
    """The trace of one pass of a model over a text, with what the page says about it."""
    reading = forward_pass(model.checkpoint, text, target)
    recorded = trace(
        reading.model, *reading.arguments, axis_labels=reading.labels, max_bytes=max_bytes
    )
    task: Task = next((known for known in _ANSWERED if known == model.task), "module")
    return OpenTrace(recorded, name, task, text, target, loaded=model, reading=reading)
