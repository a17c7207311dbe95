"""Look up known vulnerabilities of every pinned version.

    make audit-deps

The database is OSV (https://osv.dev), which covers PyPI and npm; only names and versions are sent.
Exit codes: 0 no known vulnerability, 1 at least one, 3 the database could not be reached.
"""

import json
import sys
import urllib.request
from typing import Any

from release.components import Component, components

DATABASE = "https://api.osv.dev/v1/querybatch"
BATCH_SIZE = 500
FOUND, UNREACHABLE = 1, 3


def known(parts: list[Component], address: str = DATABASE) -> dict[Component, list[str]]:
    """The vulnerabilities of each component that has any; OSError without a connection."""
    found: dict[Component, list[str]] = {}
    for start in range(0, len(parts), BATCH_SIZE):
        batch = parts[start : start + BATCH_SIZE]
        queries = [{"package": {"purl": part.purl}} for part in batch]
        answers = _post(address, {"queries": queries})["results"]
        for part, answer in zip(batch, answers, strict=True):
            if names := [one["id"] for one in answer.get("vulns", ())]:
                found[part] = names
    return found


def _post(address: str, data: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        address, json.dumps(data).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def main(address: str = DATABASE) -> int:
    """Print the known vulnerabilities; returns the exit code."""
    parts = components()
    try:
        found = known(parts, address)
    except (OSError, ValueError, KeyError) as error:
        print(f"not checked: cannot reach {address} ({error})")
        return UNREACHABLE
    for part, names in found.items():
        print(f"{part.name} {part.version} ({part.ecosystem}, {part.scope}): {', '.join(names)}")
    print(f"{len(parts)} pinned versions, {len(found)} with a known vulnerability")
    return FOUND if found else 0


if __name__ == "__main__":
    sys.exit(main())
