"""What the tests of export share."""

from collections.abc import Iterator

import pytest
from jaxtyping import config


@pytest.fixture(autouse=True)
def without_shape_checks() -> Iterator[None]:
    """Tracing runs the models with symbols for sizes, which no shape annotation knows."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
