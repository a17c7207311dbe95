"""The API's OpenAPI document on stdout: `python -m glassformer.explorer.openapi`.

The page's TypeScript types are generated from it (`make web`).
"""

from __future__ import annotations

import json
import sys

from glassformer.explorer.api import create_api
from glassformer.explorer.state import State

__all__ = ["document"]


def document() -> str:
    """What `/api/openapi.json` answers."""
    return json.dumps(create_api(State.of()).openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
