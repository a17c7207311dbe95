"""What the processor of this machine can compute."""

import subprocess
import sys
from functools import cache

__all__ = ["multiplies_bfloat16"]

_MULTIPLY = """
import torch
ones = torch.ones(64, 64, dtype=torch.bfloat16)
assert float((ones @ ones)[0, 0]) == 64
"""


@cache
def multiplies_bfloat16() -> bool:
    """Tried in another process: some machines claim the instruction and are killed by it."""
    command = [sys.executable, "-c", _MULTIPLY]
    tried = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  our own text
    return tried.returncode == 0
