"""Shape annotations are checked in all tests, and nothing reaches for a network.

The variables are set before anything of ours is imported.
"""

import os
from collections.abc import Iterator

os.environ["GLASSFORMER_CHECK_SHAPES"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
from hypothesis import settings
from jaxtyping import config, install_import_hook

install_import_hook("glassformer.nn", "beartype.beartype")
torch.set_num_threads(1)  # the suite runs one process a core
settings.register_profile("ours")  # no test measures time
settings.load_profile("ours")


@pytest.fixture
def as_users_run_it() -> Iterator[None]:
    """Without shape checks: users have none, so our own messages must do."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
