"""Opening the page in a browser, where there is one."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser

__all__ = ["open_in_browser"]


def open_in_browser(address: str) -> bool:
    """Open the page in a moment; False where no browser could show it.

    Without a screen, Python would start a browser inside the terminal, if one is installed.
    """
    has_screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if has_screen:
        opening = threading.Timer(0.2, webbrowser.open, [address])
        opening.daemon = True
        opening.start()
    return has_screen
