"""Ask a list of known vulnerabilities about every pinned version.

    make audit-deps

The list is OSV (https://osv.dev), which covers PyPI and npm; only names and versions are sent. Exit
codes: 0 nothing is known, 1 something is, 3 the list could not be asked, so nothing is known.
"""

import json
import sys
import urllib.request
from typing import Any

from release.components import Component, components

LIST = "https://api.osv.dev/v1/querybatch"
AT_ONCE = 500
FOUND, NOT_ASKED = 1, 3


def known(parts: list[Component], address: str = LIST) -> dict[Component, list[str]]:
    """The vulnerabilities of each component that has any; OSError where nobody can be asked."""
    found: dict[Component, list[str]] = {}
    for start in range(0, len(parts), AT_ONCE):
        some = parts[start : start + AT_ONCE]
        queries = [{"package": {"purl": part.purl}} for part in some]
        answers = _ask(address, {"queries": queries})["results"]
        for part, answer in zip(some, answers, strict=True):
            if names := [one["id"] for one in answer.get("vulns", ())]:
                found[part] = names
    return found


def _ask(address: str, question: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        address, json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def main(address: str = LIST) -> int:
    """Print what is known; the exit code."""
    parts = components()
    try:
        found = known(parts, address)
    except (OSError, ValueError, KeyError) as error:
        print(f"not checked: {address} cannot be asked ({error}); try again where it can be")
        return NOT_ASKED
    for part, names in found.items():
        print(f"{part.name} {part.version} ({part.ecosystem}, {part.scope}): {', '.join(names)}")
    print(f"{len(parts)} pinned versions, {len(found)} with a known vulnerability")
    return FOUND if found else 0


if __name__ == "__main__":
    sys.exit(main())
