"""Synthetic corpora in the layout of the real ones: small, learnable, the same in every run.

`make_data` writes the files; the fixture `made_data` (conftest.py) registers their checksums, so
that the code under test reads them as it would read the real ones.
"""

import gzip
import hashlib
import json
import lzma
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from glassformer.data.corpora import CORPORA, Corpus, sha256
from glassformer.training import RunConfig, recipe
from glassformer.training.settings import changed, keys

GOOD, BAD = ("good", "fine", "great", "lovely"), ("bad", "awful", "poor", "dull")
PLAIN = ("the", "a", "film", "plot", "was", "and", "with", "actor", "scene", "long", "it", "in")
ENGLISH = ("one", "two", "red", "blue", "dog", "cat", "runs", "sits", "here", "there")
GERMAN = ("eins", "zwei", "rot", "blau", "Hund", "Katze", "rennt", "sitzt", "hier", "dort")
CHINESE = ("一", "二", "红", "蓝", "狗", "猫", "跑", "坐", "这里", "那里")


def review(rng: random.Random, label: int) -> str:
    """A few words about a film, some of which reveal its class."""
    words = rng.choices(PLAIN, k=rng.randint(4, 30))
    for _ in range(3):
        words.insert(rng.randrange(len(words)), rng.choice(GOOD if label else BAD))
    return " ".join(words).capitalize() + ".<br /><br />The end."


def sentences(rng: random.Random, n: int, words: tuple[str, ...]) -> list[tuple[str, str]]:
    """English sentences and their word-by-word translations."""
    pairs = []
    for _ in range(n):
        picks = rng.choices(range(len(ENGLISH)), k=rng.randint(1, 6))
        pairs.append((" ".join(ENGLISH[i] for i in picks), " ".join(words[i] for i in picks)))
    return pairs


def prose(rng: random.Random, n_words: int) -> str:
    """Running text with lines."""
    words = [rng.choice((*PLAIN, *ENGLISH)) for _ in range(n_words)]
    return "\n".join(" ".join(words[at : at + 8]) for at in range(0, n_words, 8)) + "\n"


def write(path: Path, text: str) -> None:
    """A text file, packed as its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    pack = {".gz": lambda d: gzip.compress(d, mtime=0), ".xz": lzma.compress}
    path.write_bytes(pack[path.suffix](data) if path.suffix in pack else data)


def make_data(folder: Path) -> None:
    """All corpora, small."""
    rng = random.Random(0)
    for split, n in (("train", 160), ("test", 40), ("unsup", 60)):
        # Sorted by label, as the original folders are: a reader has to shuffle.
        labels = sorted(i % 2 for i in range(n))
        rows: list[dict[str, Any]] = [
            {"text": review(rng, label), "label": label, "id": f"x/{i}", "movie": f"tt{i % 40}"}
            for i, label in enumerate(labels)
        ]
        if split == "test":
            rows[0]["text"] += " testonlyword"
        if split == "unsup":
            rows = [{k: v for k, v in row.items() if k != "label"} for row in rows]
        write(folder / f"imdb/{split}.jsonl.xz", "".join(json.dumps(r) + "\n" for r in rows))
    for split, n in (
        ("train", 120),
        ("val", 10),
        ("test_2016_flickr", 10),
        ("test_2017_flickr", 10),
        ("test_2017_mscoco", 10),
    ):
        pairs = sentences(rng, n, GERMAN)
        for side, language in enumerate(("en", "de")):
            text = "".join(pair[side] + "\n" for pair in pairs)
            write(folder / f"multi30k/{split}.{language}.gz", text)
    for name, words in (("deu", GERMAN), ("cmn", CHINESE)):
        pairs = sentences(rng, 150, words)
        write(
            folder / f"parallel/tatoeba-eng-{name}.tsv.xz",
            "".join(f"{english}\t{other}\n" for english, other in pairs),
        )
    write(folder / "lm/tinyshakespeare.txt", prose(rng, 1200))
    for part in ("train", "valid", "test"):
        write(folder / f"lm/wikitext2-{part}.txt.xz", prose(rng, 600))
    ratings = ["userId,movieId,rating,timestamp"]
    for user in range(1, 21):
        for movie in rng.sample(range(1, 31), 12):
            rating = min(5.0, max(0.5, round(2 * (2.5 + user % 3 - movie % 3 / 2)) / 2))
            ratings.append(f"{user},{movie},{rating},{rng.randrange(10**9)}")
    write(folder / "movielens/ratings.csv.xz", "\n".join(ratings) + "\n")
    movies = ["movieId,title,genres", *(f'{m},"Film {m}, The (2000)",Drama' for m in range(1, 31))]
    write(folder / "movielens/movies.csv.xz", "\n".join(movies) + "\n")


@cache
def registered(folder: Path) -> dict[str, Corpus]:
    """The registry with the checksums of the synthetic files."""
    return {
        name: replace(
            corpus,
            files={file: sha256(folder / file) for file in corpus.files},
            contents={file: content_sha256(folder / file) for file in corpus.contents},
        )
        if all((folder / file).is_file() for file in corpus.files)
        else corpus
        for name, corpus in CORPORA.items()
    }


def content_sha256(path: Path) -> str:
    """The checksum of a compressed file's content."""
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}
    return hashlib.sha256(unpack[path.suffix](path.read_bytes())).hexdigest()


def tiny(name: str, **changes: Any) -> RunConfig:
    """A recipe at a size that takes a second; `model__d_model=8` sets `model.d_model`."""
    config = recipe(name)
    small: dict[str, Any] = {
        "model.d_model": 16,
        "model.n_layers": 1,
        "model.attention.n_heads": 2,
        "model.feed_forward.d_ff": 16,
        "data.max_len": 32,
        "data.pad_multiple": 1,
        "data.bucket_width": 8,
        "schedule.warmup": 2,
        "loop.steps": 4,
        "loop.evaluate_every": 2,
        "loop.log_every": 1,
        "loop.device": "cpu",
        "loop.beam": 2,
    }
    if getattr(config.data, "tokenizer", "") == "subwords":
        small["data.vocab_size"] = 320
    if config.data.max_tokens is not None:
        small["data.max_tokens"] = 128
    else:
        small["data.batch_size"] = 8
    if config.first is not None:
        small |= {f"first.{key}": value for key, value in small.items() if "batch_size" not in key}
        small["first.data.max_tokens"] = 128
    known = set(keys(config))  # images and ratings have no longest text, say
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return changed(config, {key: small[key] for key in small if key in known} | given)
