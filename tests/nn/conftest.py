"""What the tests of nn share."""

from collections.abc import Iterator

import pytest
from jaxtyping import config


@pytest.fixture
def as_users_run_it() -> Iterator[None]:
    """Without shape checks: users have none, so our own messages must do."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
