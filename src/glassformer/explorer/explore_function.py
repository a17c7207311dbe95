"""`glassformer.explore(module, *inputs)`: the page on any module, from a script or a notebook.

    import glassformer, torch
    module = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    glassformer.explore(module, torch.randn(1, 4, 8))

The server runs in a thread of this process. A script stops there until Ctrl+C, so that the page
does not go away under its reader; a prompt and a notebook go on, and a notebook shows the page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Self

from torch import nn

from glassformer.explorer import not_installed
from glassformer.tracing import Trace, trace
from glassformer.tracing.capture.recorder import Labels

if TYPE_CHECKING:
    from glassformer.explorer.server import Serving
    from glassformer.explorer.state import State


_HEIGHT = 760


class Exploration:
    """A page that is open on a trace; `close()` ends it, and so does the end of a `with` block."""

    def __init__(self, recorded: Trace, serving: Serving, link: str) -> None:
        self.trace = recorded
        self.address = f"{serving.address}{link}"
        self._serving = serving
        serving.start()

    def __repr__(self) -> str:
        return f"<explorer on {self.address}>"

    def _repr_html_(self) -> str:
        """The page itself, for a notebook."""
        return (
            f'<iframe src="{escape(self.address)}" width="100%" height="{_HEIGHT}" '
            'style="border: 0" title="Glassformer explorer" allow="clipboard-write"></iframe>'
        )

    @property
    def is_open(self) -> bool:
        """Whether the page can still be reached."""
        return self._serving.is_running

    def close(self) -> None:
        """End the server and free its port."""
        self._serving.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Stay until Ctrl+C, then close; what ended the server before is raised."""
        try:
            sys.stderr.write("Ctrl+C closes the page\n")
            self._serving.wait()
        except KeyboardInterrupt:
            pass
        finally:
            self.close()


def explore(
    module_or_function: Callable[..., Any],
    /,
    *inputs: Any,
    axis_labels: Labels | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_page: bool = True,
    wait: bool | None = None,
    **keywords: Any,
) -> Exploration:
    """Run a module or a function once, and open a page on which every number can be clicked.

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
    recorded = trace(module_or_function, *inputs, axis_labels=axis_labels, **keywords)
    state = State.of()
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


def _open(state: State, recorded: Trace, function: Callable[..., Any]) -> str:
    """Put the trace on a card of its own; answers the page's link to it."""
    from glassformer.explorer.open_traces import OpenTrace
    from glassformer.explorer.schemas import ModelInfo
    from glassformer.language import Bilingual, words

    is_module = isinstance(function, nn.Module)
    name = type(function).__name__ if is_module else getattr(function, "__name__", "function")
    opened = state.store.keep(OpenTrace(recorded, name, "module"))
    parameters = {id(step): step.view.numel for step in recorded.parameters.values()}
    state.own.append(
        ModelInfo(
            name=name,
            task="module",
            title=Bilingual(name, name),
            summary=words("glassformer.explorer.model_list")["module"],
            n_parameters=sum(parameters.values()),
            max_tokens=None,
            examples=[],
            score=None,
            trace=opened.id,
        )
    )
    return f"#/trace/{opened.id}"


def _in_notebook() -> bool:
    """Whether IPython runs a kernel, whose page shows what a cell returns."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "IPython" in sys.modules
