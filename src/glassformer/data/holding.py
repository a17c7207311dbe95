"""Files that a living process holds, so that others can tell its work from what a dead one left.

The lock is the system's own (flock) on an open file: it ends with the process, however that ends,
so nothing that a killed process leaves behind stands in anybody's way. Windows and some network
file systems have none: there, who holds a file is not known.
"""

import sys
from typing import IO, Any, Literal

if sys.platform != "win32":
    import fcntl

__all__ = ["Holder", "hold"]

Holder = Literal["us", "another", "unknown"]


def hold(opened: IO[Any]) -> Holder:
    """Hold a file that is open for writing until it is closed; says who holds it now."""
    if sys.platform == "win32":
        return "unknown"
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "another"
    except OSError:  # a file system without locks
        return "unknown"
    return "us"
