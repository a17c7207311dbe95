"""The longer studies of the lessons on positions and on depth, stored for the lessons to show.

    python benchmarks/idea_studies.py

Two minutes on one core. `left neighbour`: each encoding of positions learns to name the token to
the left, in texts of 8 tokens, and is asked in texts of 8, 16 and 32. `depth`: a stack of 2 to 16
blocks learns to reverse a sequence in a hundred steps, with residuals or without, with the norm
after each sum, before each sublayer, or without one; mean accuracy of three seeds. Writes both into
`src/glassformer/claims/stored.json`.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from glassformer.claims.block_claims import learn_left_neighbour
from glassformer.claims.training_studies import NormPlace, learn_at_depth

STORE = Path(__file__).parents[1] / "src" / "glassformer" / "claims" / "stored.json"
LENGTHS = (8, 16, 32)
DEPTHS = (2, 4, 8, 16)
SEEDS = 3


def neighbours() -> dict[str, float]:
    """Accuracy by encoding and length; learned positions end at the trained length."""
    figures = {}
    for kind in ("none", "learned", "sinusoidal", "rotary"):
        lengths = LENGTHS[:1] if kind == "learned" else LENGTHS
        for length, right in zip(lengths, learn_left_neighbour(kind, lengths), strict=True):
            figures[f"{kind} {length}"] = round(right, 4)
            print(kind, length, f"{right:.3f}", flush=True)
    return figures


def depths() -> dict[str, float]:
    """Accuracy by residual, norm and depth, the mean of the seeds."""
    figures = {}
    for residual in (True, False):
        for norm in get_args(NormPlace):
            for depth in DEPTHS:
                right = sum(
                    learn_at_depth(
                        depth, residual=residual, norm=norm, steps=100, learning_rate=0.003,
                        seed=seed,
                    ).accuracy
                    for seed in range(SEEDS)
                ) / SEEDS  # fmt: skip
                figures[f"{'on' if residual else 'off'} {norm} {depth}"] = round(right, 4)
                print(f"residual {residual}, norm {norm}, {depth} layers: {right:.3f}", flush=True)
    return figures


def main() -> None:
    stored = json.loads(STORE.read_text(encoding="utf-8"))
    origin = {
        "command": "python benchmarks/idea_studies.py",
        "date": datetime.now(tz=UTC).date().isoformat(),
        "where": "1 CPU core",
    }
    for name, study in (("left neighbour", neighbours), ("depth", depths)):
        stored[name] = [{"figures": study(), **origin}]
    STORE.write_text(json.dumps(stored, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
