"""Train one small language model with three learning rates, and store its learning curves.

    python examples/record_curves.py

The model learns to continue `coriolanus.txt`, which lies beside this file; the last tenth of the
text is held out. Seed, data and number of steps are the same in all three runs. The lesson
`training` shows the curves. Takes some minutes on one core.
"""

import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from glassformer.training import RunConfig, recipe, train
from glassformer.training.log import read_metrics, records_in
from glassformer.training.settings import changed

TEXT = Path(__file__).parent / "coriolanus.txt"
OUT = Path(__file__).parents[1] / "src" / "glassformer" / "lessons" / "learning_curves.json"
RATES = {"good": 4e-3, "small": 1e-5, "large": 0.3}
STEPS, EVERY = 1200, 40


def settings(rate: float, steps: int = STEPS) -> RunConfig:
    """A model small enough to learn its text by heart: no dropout, no decay, a constant rate."""
    return changed(
        recipe("text"),
        {
            "data.file": str(TEXT),
            "data.max_len": 64,
            "data.batch_size": 16,
            "model.d_model": 64,
            "model.n_layers": 2,
            "model.attention.dropout": 0.0,
            "model.feed_forward.d_ff": 128,
            "model.block.dropout": 0.0,
            "optimiser.kind": "adamw",
            "optimiser.lr": rate,
            "optimiser.weight_decay": 0.0,
            "schedule.kind": "constant",
            "schedule.warmup": 0,
            "loop.steps": steps,
            "loop.patience": None,
            "loop.evaluate_every": EVERY,
            "loop.log_every": EVERY,
            "loop.device": "cpu",
        },
    )


def curves(rate: float, steps: int = STEPS) -> dict[str, Any]:
    """Losses on the training text (means since the last point) and on the held-out text."""
    with tempfile.TemporaryDirectory() as folder:
        result = train(settings(rate, steps), Path(folder) / "run")
        metrics = read_metrics(Path(folder) / "run" / "metrics.jsonl")
    records = [record.data for record in records_in(metrics)]
    trained = [one for one in records if "loss" in one]
    return {
        "rate": rate,
        "steps": [one["step"] for one in trained],
        "epochs": [one["epoch"] for one in trained],
        "training": [round(one["loss"], 4) for one in trained],
        "validation": [round(one["valid_loss"], 4) for one in records if "valid_loss" in one],
        "parameters": result.n_parameters,
    }


def main() -> None:
    found = {name: curves(rate) for name, rate in RATES.items()}
    stored = {
        "command": "python examples/record_curves.py",
        "date": datetime.now(UTC).date().isoformat(),
        "where": f"{len(os.sched_getaffinity(0))} CPU cores",
        "curves": found,
    }
    OUT.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    print(OUT.name)


if __name__ == "__main__":
    main()
