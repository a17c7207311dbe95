"""Does more data help, does a deeper model? The imdb recipe over depths and shares of the data.

    GLASSFORMER_DATA=… python benchmarks/depth_and_data.py [--depths 1 2 6 12] [--shares 0.1 0.5 1]
        [--out runs/depth-and-data] [--section.key value …]

Twelve runs; each is resumed where it stopped, so the table can be made in several sittings. Every
run makes as many updates as the one with all data, so that depth and data are what differs.
"""

import argparse
from pathlib import Path

from glassformer.training import recipe, train
from glassformer.training.log import PlainReporter
from glassformer.training.settings import changed, parse_arguments


def accuracy(out: Path, depth: int, share: float, settings: list[str]) -> float:
    """On the test set."""
    config = changed(recipe("imdb"), parse_arguments(settings).settings)
    config = changed(
        config,
        {
            "model.n_layers": depth,
            "data.share": share,
            "loop.epochs": config.loop.epochs / share,
            "loop.evaluate_every": 350,
        },
    )
    folder = out / f"depth-{depth}-share-{share:g}"
    result = train(config, folder, resume=True, reporter=PlainReporter())
    return result.scores["test"]["accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 2, 6, 12])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.5, 1.0])
    parser.add_argument("--out", type=Path, default=Path("runs/depth-and-data"))
    options, settings = parser.parse_known_args()
    print("| depth | " + " | ".join(f"{share:.0%} of the data" for share in options.shares) + " |")
    print("| --- |" + " --- |" * len(options.shares))
    for depth in options.depths:
        row = [accuracy(options.out, depth, share, settings) for share in options.shares]
        print(f"| {depth} | " + " | ".join(f"{value:.2%}" for value in row) + " |", flush=True)


if __name__ == "__main__":
    main()
