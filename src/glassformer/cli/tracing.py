"""What `explain` and `trace` share: a model and a text to a trace."""

from glassformer import checkpoint
from glassformer.passes import forward_pass
from glassformer.trace import Trace, trace

__all__ = ["trace_text"]


def trace_text(model: str, text: str, target: str | None) -> Trace:
    """The trace of one pass over a text, attention written out."""
    loaded = checkpoint.load(checkpoint.find(model), attention="written")
    reading = forward_pass(loaded, text, target)
    return trace(reading.model, *reading.arguments, axis_labels=reading.labels)
