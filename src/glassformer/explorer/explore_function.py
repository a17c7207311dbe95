"""`glassformer.explore(module, *inputs)`: the page on any module, from a script or a notebook.

    import glassformer, torch
    module = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    glassformer.explore(module, torch.randn(1, 4, 8))

The server runs in a thread of this process. A script blocks until Ctrl+C, so that the page stays
up; a prompt or a notebook continues, and a notebook displays the page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Self

from torch import nn

from glassformer.explorer import not_installed
from glassformer.tasks import Model
from glassformer.tasks import load as as_model
from glassformer.tracing import Trace, trace
from glassformer.tracing.capture.recorder import Labels

if TYPE_CHECKING:
    from glassformer.explorer.server import Serving
    from glassformer.explorer.state import State


_HEIGHT = 760


class Exploration:
    """A page that is served; `close()` or the end of a `with` block stops its server."""

    def __init__(self, recorded: Trace | None, serving: Serving, link: str) -> None:
        self.trace = recorded
        """What the page opened on, unless it waits for a text."""
        self.address = f"{serving.address}{link}"
        self._serving = serving
        serving.start()

    def __repr__(self) -> str:
        return f"<explorer on {self.address}>"

    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks."""
        return (
            f'<iframe src="{escape(self.address)}" width="100%" height="{_HEIGHT}" '
            'style="border: 0" title="Glassformer explorer" allow="clipboard-write"></iframe>'
        )

    @property
    def is_open(self) -> bool:
        """Whether the server is still running."""
        return self._serving.is_running

    def close(self) -> None:
        """Stop the server and free its port."""
        self._serving.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Block until Ctrl+C, then close; raises the error that stopped the server, if one did."""
        try:
            sys.stderr.write("Ctrl+C closes the page\n")
            self._serving.wait()
        except KeyboardInterrupt:
            pass
        finally:
            self.close()


def explore(
    module_or_function: Callable[..., Any] | Model,
    /,
    *inputs: Any,
    tokenizer: Any = None,
    axis_labels: Labels | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_page: bool = True,
    wait: bool | None = None,
    **keywords: Any,
) -> Exploration:
    """Run a module or a function once, and open a page on which every number can be clicked.

    A `Model`, or a module with its `tokenizer`, is run on a text, and the page has a field for
    others: `explore(load("toy"), "I am not happy")`, `explore(module, "a text", tokenizer=…)`;
    without a text it opens on that field.
    `axis_labels` names the positions of an input: `{"input_ids": ["I", "am"]}`. Other keywords are
    the module's own. `open_page=False` starts no browser; in a notebook the page is the cell's
    output. `wait=False` lets a script go on while the page is open: it ends when the script ends.
    """
    try:
        from glassformer.explorer.api import create_api
        from glassformer.explorer.server import open_in_browser, prepare
        from glassformer.explorer.state import State
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    state = State()
    if tokenizer is not None and isinstance(module_or_function, nn.Module):
        module_or_function = as_model(module_or_function, tokenizer=tokenizer)
    recorded: Trace | None
    if isinstance(module_or_function, Model):
        recorded, link = _open_text(state, module_or_function, *inputs, **keywords)
    else:
        recorded = trace(module_or_function, *inputs, axis_labels=axis_labels, **keywords)
        link = _open(state, recorded, module_or_function)
    notebook = _in_notebook()
    serving = prepare(lambda: create_api(state), host, port, framed=notebook)
    page = Exploration(recorded, serving, link)
    sys.stdout.write(f"{page.address}\n")
    sys.stdout.flush()
    if open_page and not notebook:
        open_in_browser(page.address)
    if wait if wait is not None else not (notebook or _is_interactive()):
        page.wait()
    return page


def _open_text(
    state: State, model: Model, text: str | None = None, target: str | None = None
) -> tuple[Trace | None, str]:
    """Put the model on a card with a text field, and open its pass over a text if one is given."""
    from glassformer.explorer.model_list import open_text

    state.models.keep(model, text)
    if text is None:
        return None, "#/"
    opened = state.store.keep(open_text(model, model.name, text, target))
    return opened.trace, f"#/trace/{opened.id}"


def _open(state: State, recorded: Trace, function: Callable[..., Any]) -> str:
    """Add a card for the trace; returns the page's link to it."""
    from glassformer.explorer.model_list import card
    from glassformer.explorer.open_traces import OpenTrace

    is_module = isinstance(function, nn.Module)
    name = type(function).__name__ if is_module else getattr(function, "__name__", "function")
    opened = state.store.keep(OpenTrace(recorded, name, "module"))
    parameters = {id(step): step.view.numel for step in recorded.parameters.values()}
    made = card(name, "module", sum(parameters.values()), key="module", trace=opened.id)
    state.models.cards.insert(0, made)
    return f"#/trace/{opened.id}"


def _in_notebook() -> bool:
    """Whether this is a Jupyter kernel, which displays what a cell returns."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "IPython" in sys.modules
