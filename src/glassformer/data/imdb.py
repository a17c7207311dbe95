"""IMDb film reviews: the official split, a validation part by film, texts for pre-training.

The stars of a review are in its id and give the label away, so an id never leaves this file.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from glassformer.data.corpora import Found
from glassformer.data.reading import read_lines
from glassformer.errors import DataError

__all__ = ["LABELS", "Review", "read_reviews", "split_by_film", "texts_for_pretraining"]

LABELS = ("negative", "positive")

_BREAK = re.compile(r"\s*(?:<br\s*/?>\s*)+", re.IGNORECASE)


@dataclass(frozen=True)
class Review:
    """A film review; `label` is None in the unlabelled part."""

    text: str
    label: int | None
    movie: str


def read_reviews(found: Found, split: str) -> list[Review]:
    """The reviews of "train", "test" or "unsup", in the order of the file."""
    path = found.file(f"imdb/{split}.jsonl.xz")
    reviews = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row = json.loads(line)
            reviews.append(Review(_clean(row["text"]), row.get("label"), row["movie"]))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                "{path}, line {number}: expected a review, got {error!r}",
                path=path,
                number=number,
                error=error,
            ) from None
    return reviews


def split_by_film(reviews: list[Review], share: float) -> tuple[list[Review], list[Review]]:
    """Training and validation reviews with no film on both sides.

    A film's side depends on its name alone, so it is the same in every run and on every machine.
    """
    kept: list[Review] = []
    held_out: list[Review] = []
    for review in reviews:
        digest = hashlib.sha256(review.movie.encode()).digest()
        at = int.from_bytes(digest[:8]) / 2**64
        (held_out if at < share else kept).append(review)
    return kept, held_out


def texts_for_pretraining(
    train: Iterable[Review], unlabelled: Iterable[Review], test: Iterable[Review]
) -> list[str]:
    """Distinct texts of the training parts, without those that also occur in the test set."""
    in_test = {review.text for review in test}
    texts = dict.fromkeys(review.text for review in (*train, *unlabelled))
    return [text for text in texts if text not in in_test]


def _clean(text: str) -> str:
    """HTML line breaks as line breaks: they are typography, and would be the commonest word."""
    return _BREAK.sub("\n", text)
