"""Writing a workbook; reading it back, and changing one number in it, by the standard library."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from glassformer.documents import render
from glassformer.tracing import Trace

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


@dataclass(frozen=True)
class SheetCell:
    """What a file says about a cell."""

    value: float | str
    formula: str | None


Sheet = dict[str, SheetCell]


def write_workbook(trace: Trace, path: Path, **options: Any) -> Path:
    made = render(trace, to="xlsx", path=path, **options)
    assert isinstance(made, Path)
    return made


def read_workbook(path: Path) -> dict[str, Sheet]:
    """The cells of every sheet by their names."""
    with zipfile.ZipFile(path) as archive:
        strings = _strings(archive)
        return {name: _sheet(archive.read(part), strings) for name, part in _parts(archive).items()}


def _parts(archive: zipfile.ZipFile) -> dict[str, str]:
    """The file of each sheet."""
    relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    targets = {item.attrib["Id"]: item.attrib["Target"].lstrip("/") for item in relations}
    book = ElementTree.fromstring(archive.read("xl/workbook.xml"))
    parts = {}
    for sheet in book.iter(f"{_MAIN}sheet"):
        target = targets[sheet.attrib[_RELATION]]
        parts[sheet.attrib["name"]] = target if target.startswith("xl/") else f"xl/{target}"
    return parts


def _strings(archive: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    root = ElementTree.fromstring(archive.read("xl/sharedStrings.xml"))
    return ["".join(part.itertext()) for part in root]


def _sheet(data: bytes, strings: list[str]) -> Sheet:
    cells = {}
    for item in ElementTree.fromstring(data).iter(f"{_MAIN}c"):
        formula, value = item.find(f"{_MAIN}f"), item.find(f"{_MAIN}v")
        text = value.text if value is not None and value.text is not None else ""
        kind = item.attrib.get("t", "n")
        shown: float | str = text
        if kind == "s":
            shown = strings[int(text)]
        elif kind in ("n", "b") and text:
            shown = float(text)
        cells[item.attrib["r"]] = SheetCell(shown, formula.text if formula is not None else None)
    return cells


def with_number(source: Path, target: Path, sheet: str, cell: str, number: float) -> None:
    """A copy of a workbook in which one plain number is another."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        part = _parts(old)[sheet]
        for name in old.namelist():
            data = old.read(name)
            if name == part:
                pattern = rf'(<c r="{cell}"[^>]*><v>)[^<]*(</v></c>)'
                text, count = re.subn(pattern, rf"\g<1>{number!r}\g<2>", data.decode())
                assert count == 1, f"{sheet}!{cell} is no plain number"
                data = text.encode()
            new.writestr(name, data)
