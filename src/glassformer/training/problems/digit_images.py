"""Images and their classes: handwritten digits."""

import hashlib

from glassformer.data.digits import DigitExamples, read_digits, split_digits
from glassformer.nn import ModelConfig
from glassformer.text import Tokenizer
from glassformer.training.problems.definitions import DigitImages
from glassformer.training.problems.prepared_problem import HeldOut, PreparedProblem


def classify_digits(
    _data: DigitImages, model: ModelConfig, tokenizer: Tokenizer | None = None
) -> PreparedProblem:
    """Which digit an image shows."""
    assert tokenizer is None, "images have no tokens"
    digits = read_digits()
    train, valid, test = split_digits(digits)
    return PreparedProblem(
        task="classify",
        train=DigitExamples(train),
        valid=HeldOut(DigitExamples(valid)),
        tests={"test": HeldOut(DigitExamples(test))},
        model=model.with_(
            output__n_classes=10, image__size=8, image__channels=digits.images.shape[1]
        ),
        tokenizer=None,
        labels=tuple(map(str, range(10))),
        checksums={"digits": hashlib.sha256(digits.images.tobytes()).hexdigest()},
        about={
            "data": "optical recognition of handwritten digits, 1,797 images of 8 by 8 pixels; "
            "every fifth one held out",
            "licence": "CC BY 4.0",
            "cite": "Alpaydin and Kaynak 1998, UCI repository, as in scikit-learn",
        },
    )
