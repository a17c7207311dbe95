"""A local page over traces, lessons and models: click any number.

    GET    /                                        the page
    GET    /api/models                              the models that can be run
    POST   /api/traces                              run one over a text   → TraceInfo
    GET    /api/traces/{id}                         a trace               → TraceInfo
    DELETE /api/traces/{id}
    POST   /api/traces/{id}/edits                   set numbers           → TraceInfo of a new trace
    GET    /api/traces/{id}/changes                 what the edits changed
    GET    /api/traces/{id}/thumbnails?steps=1,2    small pictures
    GET    /api/traces/{id}/map                     the model as one picture
    GET    /api/traces/{id}/steps/{n}/equation?lead=0,1
    GET    /api/traces/{id}/steps/{n}/values?lead=0,1&operand=0&rows=0:64&columns=0:64   bytes
    GET    /api/traces/{id}/steps/{n}/changed?lead=0,1&operand=0&rows=…&columns=…  bytes, 0 or 1
    GET    /api/traces/{id}/steps/{n}/unwritten?…        bytes, 1: memory not yet written to
    GET    /api/traces/{id}/cell?step=3&index=0,1&operand=0&language=en                  → CardInfo
    GET    /api/traces/{id}/cell/terms?step=3&index=0,1&offset=0&limit=100&order=size
    GET    /api/traces/{id}/cell/dependents?step=3&index=0,1
    GET    /api/traces/{id}/cell/path?step=3&index=0,1
    POST   /api/traces/{id}/experiments/answer      what it would answer after edits; no new trace
    POST   /api/traces/{id}/experiments/words       a number shared out among the words
    POST   /api/traces/{id}/experiments/compare     the run beside that over another text
    POST   /api/traces/{id}/experiments/sweep       each head or position of a layer off or replaced
    POST   /api/traces/{id}/experiments/lens        what each layer would answer
    POST   /api/traces/{id}/experiments/contributions   what each part adds to a number
    POST   /api/traces/{id}/export                  a file of what is on the screen
    POST   /api/decode                              a search with its ledger
    GET    /api/lessons?language=en · /api/lessons/{name}?language=en&set=encoding=rotary
    POST   /api/lessons/{name}/answers
    POST   /api/playlist                            a page that shows views of traces in order
    GET    /api/watch?since=0 · /api/watch/attention?update=100&layer=0
    GET    /api/openapi.json

With `operand=k` an index or a lead counts in the shape in which step n's operator saw its k-th
operand; the server finds the cell that this is. `/values` answers the last two axes (or the window
asked for) as float32, or float64 where the numbers need it: headers `X-Shape: rows,columns` and
`X-Dtype: float32`, and `X-Unwritten: 1` where `/unwritten` has something to say.

The files, in reading order: `schemas`, what is said and heard; `server`, `connections` and
`security`, a port, slow clients, who may ask; `api`, from a request to a question, over `state`,
`open_traces` and `model_list`, what outlives a request; then what is answered: `overview` of a
trace, `map_info` of its model, `panels` of an equation, `cell_cards`, `trace_edits`,
`experiment_api`, `saved_page`, the page and a trace in one file, and
`saved_playlist`, the views of a lecture in one. `explore_function` is `glassformer.explore`.
"""

from __future__ import annotations

from glassformer.errors import ConfigError


def not_installed(error: ModuleNotFoundError) -> ConfigError:
    """The error for a missing dependency; here, since every other module imports one."""
    return ConfigError(
        f"the explorer needs {error.name}, which is not installed: "
        "pip install 'glassformer[explorer]'"
    )
