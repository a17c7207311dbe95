"""The long description: README.md with absolute links, as PyPI needs them.

Hatchling runs this when it builds the metadata (`tool.hatch.metadata.hooks.custom`).
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "glassformer/glassformer"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):  # type: ignore[misc]  # it is not installed here
    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field `readme`."""
        root = Path(self.root)
        readme = (root / "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(readme, root, f"v{_version(root)}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, root: Path, tag: str) -> str:
    """A text of the repository's root with links and images as URLs at a tag."""

    def absolute(found: re.Match[str]) -> str:
        mark, shown, target = found.groups()
        if "://" in target or target.startswith("#"):
            return found[0]
        path, hash_, section = target.partition("#")
        if mark:
            address = f"https://raw.githubusercontent.com/{REPOSITORY}/{tag}/{path}"
        else:
            kind = "tree" if (root / path).is_dir() else "blob"
            address = f"https://github.com/{REPOSITORY}/{kind}/{tag}/{path}{hash_}{section}"
        return f"{mark}[{LINK.sub(absolute, shown)}]({address})"  # a link may show an image

    return LINK.sub(absolute, text)


def _version(root: Path) -> str:
    source = (root / "src/glassformer/__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', source, flags=re.MULTILINE)
    assert found is not None
    return found[1]
