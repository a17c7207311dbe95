"""LibreOffice without a window: open a workbook, recalculate everything, save it again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

# 0 = always: without it, LibreOffice trusts the numbers that are stored with the formulas.
_SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load">
<prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>0</value></prop></item>
</oor:items>
"""


def recalculate(paths: Sequence[Path], folder: Path) -> list[Path]:
    """The recalculated copies of workbooks."""
    program = shutil.which("soffice") or shutil.which("libreoffice")
    assert program, "this test needs LibreOffice: apt-get install libreoffice-calc-nogui"
    profile = folder / "profile"
    (profile / "user").mkdir(parents=True, exist_ok=True)
    (profile / "user" / "registrymodifications.xcu").write_text(_SETTINGS, encoding="utf-8")
    out = folder / "recalculated"
    command = [program, f"-env:UserInstallation={profile.as_uri()}", "--headless"]
    command += ["--convert-to", "xlsx:Calc MS Excel 2007 XML", "--outdir", str(out)]
    subprocess.run([*command, *map(str, paths)], check=True, capture_output=True, timeout=600)
    return [out / path.name for path in paths]
