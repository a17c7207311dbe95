"""A software bill of materials: all pinned packages, as CycloneDX 1.6.

    make sbom        # writes dist/glassformer.cdx.json

The same pins give the same file: it contains no time and no serial number.
"""

import json
import sys
from pathlib import Path
from typing import Any

from glassformer import __version__
from release.components import Component, components


def bill(parts: list[Component]) -> dict[str, Any]:
    ours = f"pkg:pypi/glassformer@{__version__}"
    by_name = {(part.ecosystem, part.name): part.purl for part in parts}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": ours,
                "name": "glassformer",
                "version": __version__,
                "purl": ours,
                "licenses": [{"expression": "MIT AND OFL-1.1"}],
            }
        },
        "components": [_component(part) for part in parts],
        "dependencies": [
            {
                "ref": ours,
                "dependsOn": [part.purl for part in parts if part.scope == "required"],
            },
            *(
                {
                    "ref": part.purl,
                    "dependsOn": sorted(
                        by_name[part.ecosystem, name]
                        for name in part.needs
                        if (part.ecosystem, name) in by_name
                    ),
                }
                for part in parts
            ),
        ],
    }


def _component(part: Component) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "library",
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "scope": part.scope,
        "purl": part.purl,
    }
    if part.license is not None:
        entry["licenses"] = [{"license": {"name": part.license}}]
    return entry


def main() -> None:
    file = Path(sys.argv[1])
    parts = components()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(bill(parts), indent=1) + "\n", encoding="utf-8")
    scopes = [part.scope for part in parts]
    counts = ", ".join(f"{scopes.count(one)} {one}" for one in ("required", "optional", "excluded"))
    print(f"{file}: {len(parts)} components ({counts})")


if __name__ == "__main__":
    main()
