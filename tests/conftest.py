"""Shape annotations are checked in the tests of `nn`, and nothing reaches for a network.

The variables are set before anything of ours is imported. Three more are for whoever looks for
tests that depend on what they should not (`make matrix` sets them):

    GLASSFORMER_TEST_THREADS=4   threads of torch and numpy; otherwise 1: pytest has every core
    GLASSFORMER_TEST_ORDER=7     shuffle the files and the tests inside each, by this seed
    GLASSFORMER_TEST_SHAPES=1    check shapes in the tests of the other packages, too
"""

import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path

os.environ["GLASSFORMER_CHECK_SHAPES"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GLASSFORMER_LANG"] = "en"  # whatever the locale; tests of Chinese set their own
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# For the processes that tests start, too: threads that wait for one another on cores that are taken
# made a lesson of half a second last two minutes.
THREADS = os.environ.get("GLASSFORMER_TEST_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", THREADS)

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from jaxtyping import config, install_import_hook
from threadpoolctl import threadpool_limits

gc.set_threshold(20_000, 10, 10)  # 700 of Python 3.11 is a sixth of the time of importing torch
_NN = Path(__file__).parent / "nn"
install_import_hook("glassformer.nn", "beartype.beartype")
threadpool_limits(int(THREADS))  # a plugin has imported numpy before us
torch.set_num_threads(int(THREADS))
# No test measures time, and each run looks at the same examples, so that a failure is due to the
# change it comes with. New ones: `pytest --hypothesis-profile seek`.
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ours", _UNHURRIED, derandomize=True, database=None)
settings.register_profile("seek", _UNHURRIED)
settings.load_profile("ours")
# Hypothesis also tries constants that it reads in our modules: those that are imported by then, so
# that the examples of a test would depend on the tests before it.
_none = providers._local_constants
providers._get_local_constants = lambda: _none


def pytest_report_header() -> str:
    """What the numbers of this run depend on, and how to have the same run again."""
    order = os.environ.get("GLASSFORMER_TEST_ORDER")
    return (
        f"torch {torch.__version__}: {torch.backends.cpu.get_cpu_capability()}, "
        f"{torch.get_num_threads()} thread(s); "
        + ("order as written" if order is None else f"order GLASSFORMER_TEST_ORDER={order}")
    )


@pytest.hookimpl(tryfirst=True)  # pytest sorts by parameters of shared fixtures afterwards
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle where asked to: files, and the tests of each; fixtures of a file are made once."""
    seed = os.environ.get("GLASSFORMER_TEST_ORDER")
    if seed is None:
        return
    by_file: dict[Path, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.path, []).append(item)
    shuffle = random.Random(seed).shuffle
    files = list(by_file.values())
    shuffle(files)
    for tests in files:
        shuffle(tests)
    items[:] = [item for tests in files for item in tests]


def pytest_collection_finish() -> None:
    """What is there now stays: the garbage collector need not look at a million objects again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture: the numbers that a test draws do not hang on the tests before it.

    To check the shapes of every call takes a third of the time of training and decoding, and what
    it finds there it finds in the tests of `nn` first.
    """
    checked = _NN in item.path.parents or "GLASSFORMER_TEST_SHAPES" in os.environ
    config.update("jaxtyping_disable", not checked)
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


@pytest.fixture
def as_users_run_it() -> None:
    """Without shape checks: users have none, so our own messages must do."""
    config.update("jaxtyping_disable", True)


@pytest.fixture
def in_float64() -> Iterator[None]:
    """Models and numbers that are made in the test are float64: for identities of algebra."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
