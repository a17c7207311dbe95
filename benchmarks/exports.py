"""Exported models beside ours on whole test sets: the same translations, the same labels.

    GLASSFORMER_DATA=… python benchmarks/exports.py [--translations 1000] [--reviews 1000]

The shipped en-de is exported for CTranslate2 and translates Multi30k test2016; the shipped imdb is
exported for onnxruntime and classifies test reviews, half of either label. Every difference is
shown with our own score of both answers, so that a tie that rounding decided can be told from a
search that went wrong. CTranslate2 is asked twice: as it comes, when it never writes an empty
translation, and by our rule, where an empty one may end like any other and counts towards the
four that end the search. Exits 1 where less agrees than the export promises.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint
from glassformer.data.corpora import find
from glassformer.data.imdb import read_reviews
from glassformer.data.readers import read_multi30k
from glassformer.decoding import Beam, translate
from glassformer.export import export
from glassformer.nn import Classifier, Seq2Seq
from glassformer.tasks import GlassformerModel

SAME_TRANSLATIONS = 0.99
SAME_PROBABILITY = 1e-5
BEAM = 4
RULES = {"as it comes": 1, "empty ones may end": 0}  # tokens of its shortest translation


@dataclass(frozen=True)
class Difference:
    """A text that the two engines answered otherwise."""

    source: str
    ours: str
    theirs: str
    our_score: float
    their_score: float
    """Of their answer, by our model: what we would have ranked it by."""


@dataclass(frozen=True)
class Translations:
    """How two engines translate the same sentences."""

    rule: str
    n_sentences: int
    differences: tuple[Difference, ...]

    @property
    def share(self) -> float:
        """Of sentences with the same translation."""
        return 1 - len(self.differences) / self.n_sentences


@dataclass(frozen=True)
class Labels:
    """How two engines classify the same texts."""

    n_texts: int
    n_same: int
    worst: float
    """The largest difference of a probability."""


def compare_translations(loaded: Checkpoint, sentences: list[str]) -> list[Translations]:
    """Our beam search and CTranslate2's, with the exported model, under each rule."""
    import ctranslate2

    model, tokenizer = loaded.model, loaded.tokenizer
    assert isinstance(model, Seq2Seq) and tokenizer is not None
    start, end = tokenizer.special.start, tokenizer.special.end
    assert start is not None and end is not None
    sources = [read.ids for read in GlassformerModel(loaded).read(sentences)]
    ours = translate(model, sources, start=start, end=end, search=Beam(size=BEAM))
    with tempfile.TemporaryDirectory() as folder:
        place = export(loaded, "ctranslate2", Path(folder) / "out").folder
        engine = ctranslate2.Translator(str(place), compute_type="float32")
    texts = [[tokenizer.token(i) for i in ids[:-1]] for ids in sources]
    compared = []
    for rule, shortest in RULES.items():
        results = engine.translate_batch(
            texts,
            beam_size=BEAM,
            max_batch_size=32,
            min_decoding_length=shortest,
            max_decoding_length=max(map(len, sources)) + 50,
        )
        differences = []
        for sentence, source, found, result in zip(sentences, sources, ours, results, strict=True):
            theirs = [tokenizer.id_of(token) for token in result.hypotheses[0]]
            if list(found.best.tokens) != theirs:
                said = tokenizer.decode(found.best.tokens), tokenizer.decode(theirs)
                score = mean_log_probability(model, source, [start, *theirs, end])
                differences.append(Difference(sentence, *said, found.best.score, score))
        compared.append(Translations(rule, len(sentences), tuple(differences)))
    return compared


@torch.inference_mode()
def mean_log_probability(model: Seq2Seq, source: list[int], target: list[int]) -> float:
    """What our beam ranks a finished text by; `target` from its start to its end token."""
    ids = torch.tensor([source])
    logits = model(ids, torch.tensor([target[:-1]]), torch.ones_like(ids, dtype=torch.bool))
    chosen = logits.log_softmax(-1)[0, torch.arange(len(target) - 1), torch.tensor(target[1:])]
    return float(chosen.mean())


def compare_labels(loaded: Checkpoint, texts: list[str]) -> Labels:
    """Our classifier and the exported one, one text at a time: no padding on either side."""
    import onnxruntime

    model = loaded.model
    assert isinstance(model, Classifier)
    read = GlassformerModel(loaded).read(texts)
    with tempfile.TemporaryDirectory() as folder:
        place = export(loaded, "onnx", Path(folder) / "out").folder
        session = onnxruntime.InferenceSession(str(place / "model.onnx"))
    n_same, worst = 0, 0.0
    for one in read:
        ids = torch.tensor([one.ids])
        with torch.inference_mode():
            ours = model(ids).softmax(-1)[0].numpy()
        is_token = np.ones((1, len(one.ids)), dtype=bool)
        (found,) = session.run(None, {"ids": ids.numpy(), "is_token": is_token})
        n_same += int(ours.argmax() == found[0].argmax())
        worst = max(worst, float(np.abs(ours - found[0]).max()))
    return Labels(len(texts), n_same, worst)


def balanced_reviews(n: int) -> list[str]:
    """Test reviews of IMDb, as many good as bad ones."""
    reviews = read_reviews(find("imdb"), "test")
    of_label = [[review.text for review in reviews if review.label == name] for name in (0, 1)]
    return [text for pair in zip(*of_label, strict=False) for text in pair][:n]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--translations", type=int, default=1_000)
    parser.add_argument("--reviews", type=int, default=1_000)
    arguments = parser.parse_args()
    pairs = read_multi30k(find("multi30k"), "test_2016_flickr")[: arguments.translations]
    sentences = [pair.source for pair in pairs]
    compared = compare_translations(checkpoint.load(checkpoint.find("en-de")), sentences)
    labels = compare_labels(
        checkpoint.load(checkpoint.find("imdb")), balanced_reviews(arguments.reviews)
    )
    for one in {one.source: one for found in compared for one in found.differences}.values():
        print(f"source  {one.source}")
        print(f"  ours  {one.our_score:.6f}  {one.ours}")
        print(f"theirs  {one.their_score:.6f}  {one.theirs}\n")
    print("| export | data | the same | largest difference |\n| --- | --- | ---: | ---: |")
    for found in compared:
        print(
            f"| en-de, CTranslate2 float32, beam {BEAM}, {found.rule} | Multi30k test2016, "
            f"{found.n_sentences} sentences | {found.share:.1%} | – |"
        )
    print(
        f"| imdb, onnxruntime | IMDb test, {labels.n_texts} reviews | "
        f"{labels.n_same / labels.n_texts:.1%} | {labels.worst:.1e} |"
    )
    if min(found.share for found in compared) < SAME_TRANSLATIONS:
        sys.exit("the exported translator writes otherwise than its model")
    if labels.n_same < labels.n_texts:
        sys.exit("the exported classifier answers otherwise than its model")
    if labels.worst > SAME_PROBABILITY:
        sys.exit(f"a probability differs by more than {SAME_PROBABILITY}")


if __name__ == "__main__":
    main()
