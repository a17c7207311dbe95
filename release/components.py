"""The pinned Python distributions and npm packages, and the scope of each.

The pins are in `constraints.txt` and `web/package-lock.json`. The scopes are those of CycloneDX:
*required* (dependencies, and packages bundled into the page), *optional* (extras) and *excluded*
(used only for building and testing).
"""

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
BUNDLED = ROOT / "src/glassformer/explorer/static/THIRD_PARTY_LICENSES.txt"
Scope = Literal["required", "optional", "excluded"]


@dataclass(frozen=True)
class Component:
    ecosystem: Literal["pypi", "npm"]
    name: str
    version: str
    scope: Scope
    license: str | None = None
    """From its metadata; None if it is not installed here or does not say."""
    needs: tuple[str, ...] = ()
    """Names of dependencies in the same ecosystem."""

    @property
    def purl(self) -> str:
        """The package URL: https://github.com/package-url/purl-spec."""
        return f"pkg:{self.ecosystem}/{self.name.replace('@', '%40')}@{self.version}"


def components() -> list[Component]:
    return [*python_components(), *npm_components()]


def python_components() -> list[Component]:
    pins = dict(_pins((ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = _closure(project["dependencies"])
    optional = _closure(
        line for group in project["optional-dependencies"].values() for line in group
    )

    def scope(name: str) -> Scope:
        return "required" if name in required else "optional" if name in optional else "excluded"

    return [
        Component("pypi", name, version, scope(name), _license(name), tuple(sorted(_needs(name))))
        for name, version in sorted(pins.items())
    ]


def npm_components() -> list[Component]:
    """The packages of the lock file; those bundled into the page are required."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text(encoding="utf-8"))
    bundled = set(bundled_packages())
    found = {
        (path.rpartition("node_modules/")[2], entry["version"]): entry
        for path, entry in lock["packages"].items()
        if path
    }
    return [
        Component(
            "npm",
            name,
            version,
            "required" if name in bundled else "excluded",
            entry.get("license"),
            tuple(sorted(entry.get("dependencies", {}))),
        )
        for (name, version), entry in sorted(found.items())
    ]


def bundled_packages() -> list[str]:
    """The npm packages in the page, from its list of licences."""
    text = BUNDLED.read_text(encoding="utf-8")
    return re.findall(r"^={70,}\n\n(\S+) [0-9]\S* \(", text, flags=re.MULTILINE)


def _pins(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        requirement, _, version = line.partition("==")
        if version:
            yield canonicalize_name(requirement.strip()), version.partition(";")[0].strip()


def _distribution(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _needs(name: str) -> set[str]:
    """The requirements of a distribution on this machine, without extras."""
    found = _distribution(name)
    wanted = [Requirement(line) for line in found.requires or ()] if found is not None else []
    return {
        canonicalize_name(one.name)
        for one in wanted
        if one.marker is None or one.marker.evaluate({"extra": ""})
    }


def _closure(lines: Iterable[str]) -> set[str]:
    """Requirements with their transitive requirements."""
    found: set[str] = set()
    waiting = [canonicalize_name(Requirement(line).name) for line in lines]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(canonicalize_name(needed) for needed in _needs(name))
    return found


def _license(name: str) -> str | None:
    found = _distribution(name)
    if found is None:
        return None
    metadata = found.metadata
    expression, *_ = metadata.get_all("License-Expression") or metadata.get_all("License") or [""]
    if expression and "\n" not in expression and len(expression) < 60:
        return str(expression)
    classifiers = [
        one for one in metadata.get_all("Classifier") or () if one.startswith("License ::")
    ]
    return classifiers[0].rpartition(" :: ")[2] if classifiers else None
