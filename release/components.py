"""What the package is made of: the pinned Python distributions and npm packages, and why each.

The pins are `constraints.txt` and `web/package-lock.json`. What a user gets is *required* (the
package's own dependencies, and what is bundled into the page), *optional* (its extras) or, for what
only builds and tests it, *excluded*: the words are those of CycloneDX.
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
    """One distribution or package, at one version."""

    ecosystem: Literal["pypi", "npm"]
    name: str
    version: str
    scope: Scope
    license: str | None = None
    """As its metadata have it; None where it is not installed here, or does not say."""
    needs: tuple[str, ...] = ()
    """The names of others of the same ecosystem."""

    @property
    def purl(self) -> str:
        """Its address among all packages: https://github.com/package-url/purl-spec."""
        return f"pkg:{self.ecosystem}/{self.name.replace('@', '%40')}@{self.version}"


def components() -> list[Component]:
    """All that is pinned."""
    return [*python_components(), *npm_components()]


def python_components() -> list[Component]:
    """The lines of constraints.txt."""
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
    """The packages of the lock file; those in the page are required, the rest builds it."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text(encoding="utf-8"))
    bundled = set(bundled_packages())
    found = {
        (path.rpartition("node_modules/")[2], said["version"]): said
        for path, said in lock["packages"].items()
        if path
    }
    return [
        Component(
            "npm",
            name,
            version,
            "required" if name in bundled else "excluded",
            said.get("license"),
            tuple(sorted(said.get("dependencies", {}))),
        )
        for (name, version), said in sorted(found.items())
    ]


def bundled_packages() -> list[str]:
    """The npm packages that the page's build says it contains."""
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
    """What a distribution asks for on this machine, without its extras."""
    there = _distribution(name)
    wanted = [Requirement(line) for line in there.requires or ()] if there is not None else []
    return {
        canonicalize_name(one.name)
        for one in wanted
        if one.marker is None or one.marker.evaluate({"extra": ""})
    }


def _closure(lines: Iterable[str]) -> set[str]:
    """Requirements, with all that they ask for in turn."""
    found: set[str] = set()
    waiting = [canonicalize_name(Requirement(line).name) for line in lines]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(canonicalize_name(needed) for needed in _needs(name))
    return found


def _license(name: str) -> str | None:
    there = _distribution(name)
    if there is None:
        return None
    said = there.metadata
    expression, *_ = said.get_all("License-Expression") or said.get_all("License") or [""]
    if expression and "\n" not in expression and len(expression) < 60:
        return str(expression)
    classifiers = [one for one in said.get_all("Classifier") or () if one.startswith("License ::")]
    return classifiers[0].rpartition(" :: ")[2] if classifiers else None
