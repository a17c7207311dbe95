"""Chromium without a window: open a page, let its scripts run, and look at what is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def dumped(page: Path, folder: Path, fragment: str = "") -> str:
    """The page's markup after its scripts ran; anything on the console fails."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program, "this test needs Chromium: apt-get install chromium"
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += ["--disable-background-networking", "--virtual-time-budget=20000"]
    command += ["--enable-logging=stderr", "--v=0", f"--user-data-dir={folder / 'chromium'}"]
    ran = subprocess.run(
        [*command, page.as_uri() + fragment], check=True, capture_output=True, timeout=120
    )
    said = [line for line in ran.stderr.decode().splitlines() if "CONSOLE" in line]
    assert said == [], "\n".join(said)
    return ran.stdout.decode()
