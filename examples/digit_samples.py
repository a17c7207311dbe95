"""Store one test image of every digit for the lesson `images`, which needs no scikit-learn then.

    python examples/digit_samples.py

Data: optical recognition of handwritten digits (Alpaydin and Kaynak 1998, UCI), CC BY 4.0.
"""

import json
from pathlib import Path

from glassformer.data.readers import read_digits, split_digits

OUT = Path(__file__).parents[1] / "src" / "glassformer" / "lessons" / "image_patches.json"


def main() -> None:
    _, _, test = split_digits(read_digits())
    firsts = {int(label): place for place, label in reversed(list(enumerate(test.labels)))}
    samples = {
        str(label): {
            "test_image": firsts[label],
            "pixels": (16 * test.images[firsts[label], 0]).round().astype(int).tolist(),
        }
        for label in range(10)
    }
    stored = {
        "data": "optical recognition of handwritten digits, UCI",
        "cite": "Alpaydin and Kaynak 1998",
        "licence": "CC BY 4.0",
        "n_test": len(test.labels),
        "command": "python examples/digit_samples.py",
        "samples": samples,
    }
    OUT.write_text(json.dumps(stored) + "\n", encoding="utf-8")
    print(OUT.name)


if __name__ == "__main__":
    main()
