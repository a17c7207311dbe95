"""Chromium, by the names under which it is installed."""

from __future__ import annotations

import shutil

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
"""The shell is Debian's Chromium without windows, which opens a page in half of the time."""


def chromium() -> str | None:
    """The first that is installed; None leaves the choice to Playwright."""
    return next(filter(None, map(shutil.which, NAMES)), None)
