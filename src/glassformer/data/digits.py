"""Handwritten digits of 8 by 8 pixels, as they come inside scikit-learn (UCI, 1998)."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.data.batches import Chance, ImageBatch
from glassformer.data.examples import Examples
from glassformer.data.token_store import Ids
from glassformer.errors import DataError


@dataclass(frozen=True)
class Digits:
    """Images (N, 1, 8, 8) with values from 0 to 1, and the digit that each shows."""

    images: NDArray[np.float32]
    labels: Ids

    def some(self, chosen: NDArray[np.bool_]) -> "Digits":
        """A selection."""
        return Digits(self.images[chosen], self.labels[chosen])


def read_digits() -> Digits:
    """All 1,797 images; the only thing that scikit-learn is needed for."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # not annotated
    except ImportError:
        raise DataError("the digits come with scikit-learn: pip install scikit-learn") from None
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return Digits(images, labels.astype(np.int64))


def split_digits(digits: Digits) -> tuple[Digits, Digits, Digits]:
    """Every fifth image to test with, every tenth to choose by, the rest to learn from."""
    at = np.arange(len(digits.labels))
    is_test, is_valid = at % 5 == 0, at % 10 == 1
    return digits.some(~is_test & ~is_valid), digits.some(is_valid), digits.some(is_test)


def test_image(number: int) -> torch.Tensor:
    """A test image (1, 8, 8) by its number."""
    _, _, test = split_digits(read_digits())
    if number >= len(test.images):
        raise DataError(
            "the digits have {count} test images, from 0 on: there is no image {number}",
            count=len(test.images),
            number=number,
        )
    return torch.from_numpy(test.images[number])


@dataclass(frozen=True)
class DigitExamples(Examples[ImageBatch]):
    """Images to be classified."""

    digits: Digits

    @property
    def lengths(self) -> Ids:
        """All the same."""
        return np.ones(len(self.digits.labels), dtype=np.int64)

    def batch(self, indices: Ids, chance: Chance, width: int = 0) -> ImageBatch:  # noqa: ARG002  no luck in it
        """Some images."""
        return ImageBatch(
            labels=torch.from_numpy(self.digits.labels[indices]),
            n_scored=len(indices),
            n_tokens=len(indices),
            images=torch.from_numpy(self.digits.images[indices]),
        )
