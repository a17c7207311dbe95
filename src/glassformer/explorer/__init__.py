"""A local page over traces, lessons and models: click any number.

`GET /` is the page, `GET /api/openapi.json` describes everything below `/api`; `api.py` has the
routes in the order of its sections: traces, steps, cells, models, lessons, claims, audits,
searches, playlists, watching; `experiment_api.py` has those of experiments.

With `operand=k` an index or a lead counts in the shape in which step n's operator saw its k-th
operand; the server finds the cell that this is. `/values` answers the last two axes (or the window
asked for) as float32, or float64 where the numbers need it: headers `X-Shape: rows,columns` and
`X-Dtype: float32`, and `X-Unwritten: 1` where `/unwritten` has something to say.

The files, in reading order: `schemas` has the messages; `server`, `connections` and `security` open
a port, cope with slow clients and check who may ask; `api` has the routes, over `state`,
`open_traces` and `model_list`, which outlive a request. The responses come from `overview` (a
trace), `map_info` (the picture of its model), `panels` (an equation), `cell_cards`, `trace_edits`,
`experiment_api`, `saved_page` (the page and a trace in one file) and `saved_playlist` (the views of
a lecture in one file). `explore_function` is `glassformer.explore`.
"""

from __future__ import annotations

from glassformer.errors import NotInstalledError


def not_installed(error: ModuleNotFoundError) -> NotInstalledError:
    """The error for a missing dependency; here, since every other module imports one."""
    return NotInstalledError(
        "the explorer needs {name}, which is not installed: pip install 'glassformer[explorer]'",
        name=error.name,
    )
