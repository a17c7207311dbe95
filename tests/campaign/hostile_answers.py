"""A learner's mistakes: answers to an exercise that never end, fill the memory, print or crash."""

from collections.abc import Iterator
from pathlib import Path

_FUNCTION = "def dot_product_scores(q, k):\n    "
_BODIES = (
    "while True: pass",
    "a = []\n    while True: a.append([0] * 10**7)",
    "return bytearray(6 * 2**30)",
    "return dot_product_scores(q, k)",
    "import sys; sys.setrecursionlimit(10**9); return (lambda f: f(f))(lambda f: f(f))",
    "import os; os._exit(7)",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "import ctypes; ctypes.string_at(0)",
    "raise KeyboardInterrupt",
    "raise BaseException('x' * 10**6)",
    "import threading, time; threading.Thread(target=time.sleep, args=(10**6,)).start(); return q",
    "import subprocess; subprocess.Popen(['sleep', '30']); return q",
    "print('x' * 10**7); return q",
    "import sys; sys.stdout.close(); sys.stderr.close(); return q",
    "import sys; sys.exit(0)",
    "q.zero_(); k.zero_(); return q",
    "return 'x' * 10**8",
    "return [q] * 10**6",
    "return q.new_zeros(0)",
    "return q.new_zeros(10**5, 10**5)",
    "return q * float('nan')",
    "return None",
    "return lambda: 0",
    "import torch; return torch.zeros(3, 3, dtype=torch.complex64)",
    "import torch; return torch.zeros(3, 3).to_sparse()",
    "import torch; return torch.zeros(3, 3, device='meta')",
    "import torch; torch.set_default_dtype(torch.float64); return q @ k.mT",
    "import torch; torch.matmul = None; return q",
    "import glassformer; glassformer.__path__ = []; return q",
    "class T(type(q)): __eq__ = None\n    return T(q)",
    "try:\n        while True: pass\n    except BaseException: return q",
)
_FILES = (
    "while True: pass\n",
    "x = [0] * 2**33\n",
    "x = " + "(" * 5_000 + ")" * 5_000 + "\n",
    "x = " + "1 + " * 200_000 + "1\n",
    "x = '" + "a" * (1 << 20) + "'\n",
    "\x00",
    "# -*- coding: rot13 -*-\n",
    "from __future__ import braces\n",
    "raise SystemExit(0)\n",
    "import os; os.fork()\n" + _FUNCTION + "return q @ k.mT\n",
    "dot_product_scores = 5\n",
    "class dot_product_scores:\n    def __call__(self): 1 / 0\n",
    "async def dot_product_scores(q, k): return q\n",
    "def dot_product_scores(q, k): yield q\n",
    "def dot_product_scores(): ...\n",
    "import sys; sys.modules.clear()\n",
)


def hostile_answers(folder: Path, count: int) -> Iterator[tuple[str, Path]]:
    """Files for `glassformer exercise scores`, one at a time."""
    sources = [*_FILES, *(f"{_FUNCTION}{body}\n" for body in _BODIES)]
    for at, source in enumerate(sources[:count]):
        file = folder / "answer.py"
        file.write_text(source, encoding="utf-8")
        yield f"{at} {source.removeprefix(_FUNCTION)[:60]!r}", file
        file.unlink()
