"""Shape annotations are checked in all tests, and nothing reaches for a network.

The variables are set before anything of ours is imported.
"""

import os
import random
from collections.abc import Iterator

os.environ["GLASSFORMER_CHECK_SHAPES"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import config, install_import_hook

install_import_hook("glassformer.nn", "beartype.beartype")
torch.set_num_threads(1)  # the suite runs one process a core
# No test measures time, and each run looks at the same examples, so that a failure is due to the
# change it comes with. New ones: `pytest --hypothesis-profile seek`.
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ours", _UNHURRIED, derandomize=True, database=None)
settings.register_profile("seek", _UNHURRIED)
settings.load_profile("ours")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Before any fixture: the numbers that a test draws do not hang on the tests before it."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


@pytest.fixture
def as_users_run_it() -> Iterator[None]:
    """Without shape checks: users have none, so our own messages must do."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
