"""`torch.compile(fullgraph=True)` and `torch.export` on our models, as users run them.

In separate processes, since the shape checks of this one cannot be captured in a graph.
"""

import json
import os
from pathlib import Path

import pytest

from tests.fresh_python import run_python
from tests.nn.oracles import FLOAT64_SHARE
from tests.nn.small import EVERY

ROOT = Path(__file__).parents[2]


Differences = dict[str, dict[str, float]]


def compiled(folder: Path, *what: str, **settings: str) -> dict[str, Differences]:
    """The differences from eager mode that `tests.nn.compile_models` prints."""
    environment = {k: v for k, v in os.environ.items() if k != "GLASSFORMER_CHECK_SHAPES"}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": str(folder), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    arguments = ("-m", "tests.nn.compile_models", *what)
    run = run_python(*arguments, folder=ROOT, environment=environment | settings)
    assert run.returncode == 0, run.stderr[-3000:]
    results: dict[str, Differences] = json.loads(run.stdout)
    return results


def test_models_compile_to_one_graph_and_are_exported_as_they_are(tmp_path: Path) -> None:
    """One process for both: half of its time is spent importing the compiler."""
    results = compiled(tmp_path, "graphs", "export")
    assert len(results["graphs"]) == 6
    assert {name: r for name, r in results["graphs"].items() if any(r.values())} == {}
    for difference in results["export"]["classifier"].values():
        assert difference <= FLOAT64_SHARE


@pytest.mark.slow
def test_every_model_is_one_graph_and_equals_eager_mode_bit_by_bit(tmp_path: Path) -> None:
    """Two with a compiled backward pass, three at lengths not compiled for."""
    results = compiled(tmp_path, "all-graphs")["all-graphs"]
    assert results.keys() >= EVERY.keys()
    assert results.keys() >= {f"{name}, backward" for name in ("gpt2", "seq2seq")}
    assert results.keys() >= {f"{name}, lengths" for name in ("gpt2", "llama", "seq2seq")}
    assert {name: r for name, r in results.items() if any(r.values())} == {}


@pytest.mark.slow
def test_compiled_kernels_equal_eager_mode_to_rounding(tmp_path: Path) -> None:
    # Skip the compiler's test of this CPU's vector instructions: it takes as long as the rest.
    results = compiled(tmp_path, "kernels", TORCHINDUCTOR_VEC_ISA_OK="1")["kernels"]
    assert results["gpt2"]["output"] <= FLOAT64_SHARE
