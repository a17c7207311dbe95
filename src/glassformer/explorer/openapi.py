"""The API's OpenAPI document on stdout: `python -m glassformer.explorer.openapi`.

The page's TypeScript types are generated from it (`make web`).
"""

from __future__ import annotations

import json
import sys

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from glassformer.explorer import schemas


def document() -> dict[str, object]:
    """All messages as OpenAPI components: what is asked for as heard, the rest as said."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = []
    for name in schemas.__all__:
        model = getattr(schemas, name)
        models.append((model, "validation" if name.endswith("Request") else "serialization"))
    _, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Glassformer explorer", "version": "1"},
        "paths": {},
        "components": {"schemas": definitions["$defs"]},
    }


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=1)
