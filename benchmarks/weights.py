"""Fewer bits: what int8 and bfloat16 weights lose in score and gain in speed and memory.

    GLASSFORMER_DATA=… python benchmarks/weights.py [--translations 1000] [--reviews 2000]

The shipped en-de translates Multi30k test2016 with a beam of 4 (BLEU, sacrebleu), the shipped imdb
classifies every so manieth test review (accuracy). Seconds are those of the processor, best
of the rounds, which take turns. A kind of weights that this machine cannot compute is named.
"""

import argparse
import time
from collections.abc import Callable

import torch

from glassformer.data.corpora import find
from glassformer.data.imdb import read_reviews
from glassformer.data.readers import read_multi30k
from glassformer.decoding.metrics import bleu
from glassformer.errors import ConfigError
from glassformer.tasks import Model, Weights, load

KINDS: tuple[Weights, ...] = ("float32", "int8", "bfloat16")
ROUNDS = 2


def available(name: str) -> dict[Weights, Model]:
    """The model in every kind of weights that this machine computes."""
    models = {}
    for kind in KINDS:
        try:
            models[kind] = load(name, weights=kind)
        except ConfigError as error:
            print(f"{name}, {kind}: {error}")
    return models


def table(name: str, measure: str, score: Callable[[Model], float]) -> None:
    models = available(name)
    scores, seconds = {}, dict.fromkeys(models, float("inf"))
    for _ in range(ROUNDS):
        for kind, model in models.items():
            began = time.process_time()
            scores[kind] = score(model)
            seconds[kind] = min(seconds[kind], time.process_time() - began)
    for kind, model in models.items():
        inner = model.module
        tensors = {t.data_ptr(): t for t in (*inner.parameters(), *inner.buffers())}
        size = sum(t.numel() * t.element_size() for t in tensors.values()) / 2**20
        speed = seconds["float32"] / seconds[kind]
        print(
            f"| {name} | {kind} | {measure} {scores[kind]:.2f} | {seconds[kind]:.1f} s | "
            f"{speed:.2f} | {size:.1f} MiB |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--translations", type=int, default=1_000)
    parser.add_argument("--reviews", type=int, default=2_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pairs = read_multi30k(find("multi30k"), "test_2016_flickr")[: arguments.translations]
    every = read_reviews(find("imdb"), "test")
    # An odd step: the file has negative and positive reviews by turns.
    reviews = every[:: max(1, len(every) // arguments.reviews) | 1]

    def translated(model: Model) -> float:
        said = model.translate([pair.source for pair in pairs])
        return bleu([one.text for one in said], [pair.target for pair in pairs]).value

    def classified(model: Model) -> float:
        said = model.classify([review.text for review in reviews])
        pairs = zip(said, reviews, strict=True)
        labels = model.labels
        right = [labels.index(one.label) == review.label for one, review in pairs]
        return 100 * sum(right) / len(right)

    print("| model | weights | score | processor time | times float32 | memory |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    table("en-de", "BLEU", translated)
    table("imdb", "accuracy", classified)


if __name__ == "__main__":
    main()
