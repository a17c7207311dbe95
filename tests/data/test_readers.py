"""The readers: official splits, nothing on both sides, no leaking labels."""

import csv
import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.movielens import ranked_right, read_from
from glassformer.data import corpora
from glassformer.data.batches import EpochRNG
from glassformer.data.corpora import MAX_LINE, find, stream_lines
from glassformer.data.imdb import Review, read_reviews, split_by_film, texts_for_pretraining
from glassformer.data.loader import Order
from glassformer.data.readers import (
    Pair,
    read_genres,
    read_multi30k,
    read_pairs,
    read_ratings,
    read_shakespeare,
    read_table,
    read_tatoeba,
    read_text_file,
    read_titles,
    read_wikitext2,
    split_by_source,
    split_by_text,
)
from glassformer.errors import ConfigError, DataError
from glassformer.training.problems.prepared_problem import share_of
from glassformer.training.problems.problem_readers import prepare
from tests.bounded import GIB, run_bounded
from tests.training.made import registered, tiny, write


def test_trap_27_both_classes_are_read_and_neither_comes_first() -> None:
    reviews = read_reviews(find("imdb"), "train")
    labels = [review.label for review in reviews]
    assert labels == sorted(labels), "the made file is sorted by label"  # type: ignore[type-var]
    assert labels.count(0) == labels.count(1) == 80
    problem = prepare(tiny("imdb"))
    order = Order(problem.train.lengths, batch_size=16, bucket_width=100)
    first = problem.train.batch(order.epoch(0)[0], EpochRNG(0, 0))
    assert set(first.labels.tolist()) == {0, 1}


def test_trap_27_the_vocabulary_has_no_word_of_the_test_set() -> None:
    tokenizer = prepare(tiny("imdb")).tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode("film testonlyword")
    assert ids[0] != tokenizer.special.unknown
    assert ids[1] == tokenizer.special.unknown


def test_no_film_is_on_both_sides_and_no_id_leaves_the_reader() -> None:
    reviews = read_reviews(find("imdb"), "train")
    train, valid = split_by_film(reviews, 0.3)
    assert len(train) + len(valid) == len(reviews)
    assert valid
    assert {r.movie for r in train}.isdisjoint(r.movie for r in valid)
    assert not hasattr(reviews[0], "id")
    assert "<br" not in reviews[0].text


def test_pretraining_excludes_test_texts_and_duplicates() -> None:
    def make(*texts: str) -> list[Review]:
        return [Review(text, None, "tt1") for text in texts]

    assert texts_for_pretraining(make("a", "b"), make("b", "c", "t"), make("t")) == ["a", "b", "c"]


def test_a_line_that_is_not_a_review_is_named(
    tmp_path: Path, made_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = json.dumps({"text": "x", "label": 0, "movie": "tt1"})
    for split in ("train", "test"):
        write(tmp_path / f"imdb/{split}.jsonl.xz", good + "\n" + '{"label": 1}\n')
    monkeypatch.setitem(corpora.CORPORA, "imdb", registered(tmp_path)["imdb"])
    with pytest.raises(DataError, match=r"train\.jsonl\.xz, line 2: expected a review"):
        read_reviews(find("imdb", tmp_path), "train")


def test_captions_come_in_pairs() -> None:
    pairs = read_multi30k(find("multi30k"), "val")
    assert len(pairs) == 10
    assert len(pairs[0].source.split()) == len(pairs[0].target.split())


def test_captions_without_a_partner_are_refused(
    tmp_path: Path, made_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in corpora.CORPORA["multi30k"].files:
        write(tmp_path / name, "one\n" * (2 if name.endswith("val.de.gz") else 1))
    monkeypatch.setitem(corpora.CORPORA, "multi30k", registered(tmp_path)["multi30k"])
    with pytest.raises(DataError, match="as many English as German lines, got 1 and 2"):
        read_multi30k(find("multi30k", tmp_path), "val")


def test_sentences_are_split_by_their_english_side() -> None:
    pairs = [Pair(text, f"{i}") for i, text in enumerate("abcAdefgha")]
    splits = split_by_source(pairs, n_valid=2, n_test=3)
    sides = [
        {pair.source.casefold() for pair in part}
        for part in (splits.train, splits.valid, splits.test)
    ]
    assert sides[0].isdisjoint(sides[1] | sides[2])
    assert sides[1].isdisjoint(sides[2])
    assert (len(splits.valid), len(splits.test)) == (2, 3)
    assert splits == split_by_source(pairs, n_valid=2, n_test=3)


def test_a_sentence_without_a_tab_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "parallel/tatoeba-eng-cmn.tsv.xz", "Hi.\t你好。\nBye.\n")
    monkeypatch.setitem(corpora.CORPORA, "tatoeba-zh", registered(tmp_path)["tatoeba-zh"])
    with pytest.raises(DataError, match="line 2: expected a text, a tab and its translation"):
        read_tatoeba(find("tatoeba-zh", tmp_path))


def test_a_file_without_pairs_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "mine.tsv"
    empty.write_bytes(b"")
    with pytest.raises(DataError, match=r"mine\.tsv contains no pairs: it is empty"):
        read_pairs(empty)


def test_running_texts_have_their_usual_parts() -> None:
    shakespeare = read_shakespeare(find("shakespeare"))
    whole = len(shakespeare.train) + len(shakespeare.valid)
    assert len(shakespeare.train) == int(whole * 0.9)
    assert read_wikitext2(find("wikitext2")).test


@pytest.mark.parametrize(
    ("text", "message"),
    [(" \n", "contains no text"), ("x", "too short"), (None, "cannot read .*my.txt: No such file")],
)
def test_a_text_that_is_missing_or_too_short_is_named(
    tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "my.txt"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_text_file(file, 0.1)


@pytest.mark.parametrize(
    "read",
    [
        partial(read_text_file, share=0.1),
        read_pairs,
        partial(read_table, text_column="a", label_column="b"),
    ],
)
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    with pytest.raises(DataError, match="cannot read /dev/zero: it is not a regular file"):
        read(Path("/dev/zero"))
    with pytest.raises(DataError, match=f"cannot read {tmp_path}: Is a directory"):
        read(tmp_path)


def table(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "t.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_table_may_have_quoted_line_breaks(tmp_path: Path) -> None:
    file = table(tmp_path, 'n,text,label\n1,"two\nlines, yes",a\n2,好的,b\n')
    read = read_table(file, "text", "label")
    assert read.texts == ["two\nlines, yes", "好的"]
    assert read.labels == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("texts,label\nx,a\n", "name; did you mean 'texts'"),
        ("text,class\nx,a\n", "no column 'label'"),
        ("", "is empty: its first row must name the columns"),
        ("text,label\nx,a\ny,a\n", "at least two classes in column 'label', got only 'a'"),
        ("text,label\n", "got no rows"),
        ("text,label\nx,a\n ,b\n", "line 3: the column 'text' is empty"),
        ("text,label\nx,a\ny\n", "line 3: the column 'label' is empty"),
        (
            'text,label\nx,a\n"y,a\nz,b\n',
            "in the row after line 2: a cell begins with a quote",
        ),
        ('"te"xt,label\nx,a\n', "in the first row: a cell goes on after its closing quote"),
        ("text,text,label\n1,x,a\n2,y,b\n", "2 columns 'text'; rename all but one"),
    ],
)
def test_an_unusable_table_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_table(table(tmp_path, text), "text", "label")


def test_a_text_of_a_table_may_be_as_long_as_a_book(tmp_path: Path) -> None:
    book = "word " * 40_000 + "end"
    read = read_table(table(tmp_path, f"text,label\n{book},a\nshort,b\n"), "text", "label")
    assert read.texts == [book, "short"]
    assert csv.field_size_limit() == 131_072, "the limit of others is left as it was"


def test_an_endless_cell_is_refused_with_its_line(tmp_path: Path) -> None:
    long = "word " * 250_000
    file = table(tmp_path, f'text,label\nshort,a\n"{long}",b\n')
    with pytest.raises(DataError, match="after line 2: a cell has more than 1,048,576 characters"):
        read_table(file, "text", "label")
    assert csv.field_size_limit() == 131_072
    # An unclosed quote swallows everything after it.
    file = table(tmp_path, 'text,label\nshort,a\n"open,b\n' + f"{long[:1000]}\n" * 1200)
    with pytest.raises(DataError, match="shorten it or check the quotes"):
        read_table(file, "text", "label")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_a_table_may_be_of_any_kind_even_mixed(tmp_path: Path, end: str) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(f'text,label{end}one,a\n"two\r\nlines",b\r\nthree,a{end}'.encode())
    read = read_table(file, "text", "label")
    assert (read.texts, read.labels) == (["one", "two\r\nlines", "three"], ["a", "b", "a"])


def test_a_column_with_a_different_value_in_each_row_is_not_a_label_column(tmp_path: Path) -> None:
    rows = "".join(f"text {i},{i}\n" for i in range(10_000))
    with pytest.raises(
        DataError, match=r"10,000 different values in 10,000 rows of column 'label'"
    ):
        read_table(table(tmp_path, "text,label\n" + rows), "text", "label")
    few = "".join(f"text {i},{i % 101}\n" for i in range(202))
    assert len(read_table(table(tmp_path, "text,label\n" + few), "text", "label").texts) == 202


def test_pairs_with_mixed_line_ends_are_refused_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_bytes(b"a\tb\r\nc\td\n")
    assert len(read_pairs(file)) == 2
    file.write_bytes(b"a\tb\nc\td\re\tf\n")
    with pytest.raises(DataError, match=r"line 2: a carriage return inside the line"):
        read_pairs(file)


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
def test_an_endless_line_is_refused_with_its_number(tmp_path: Path, name: str) -> None:
    data = b"first\n" + b"x" * (MAX_LINE + 1)
    file = tmp_path / name
    file.write_bytes(gzip.compress(data, 1) if name == "a.gz" else data)
    with pytest.raises(DataError, match=r"line 2: longer than 16,777,216 bytes; split it"):
        list(stream_lines(file))
    splits = read_text_file(file, 0.5)  # a text need not have lines
    assert splits.train + splits.valid == data.decode()


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
def test_an_endless_text_is_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"word " * 200
    file = tmp_path / name
    file.write_bytes(gzip.compress(data) if name == "a.gz" else data)
    monkeypatch.setattr(corpora, "MAX_TEXT", 1000)
    assert read_text_file(file, 0.5).train
    monkeypatch.setattr(corpora, "MAX_TEXT", 999)
    with pytest.raises(DataError, match=r"has more than 999 bytes of text; use only part of it"):
        read_text_file(file, 0.5)


def test_a_table_of_too_many_columns_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "wide.csv"
    for n_more, is_taken in ((9_998, True), (9_999, False)):
        names = ",".join(f"c{n}" for n in range(n_more))
        file.write_text(f"text,label,{names}\na,b\nc,d\n", encoding="utf-8")
        if is_taken:
            assert read_table(file, "text", "label").texts == ["a", "c"]
        else:
            with pytest.raises(DataError, match=r"has 10,001 columns, expected at most 10,000"):
                read_table(file, "text", "label")


_HUGE = """
from pathlib import Path
from glassformer.errors import DataError
from glassformer.training import train
from glassformer.training.recipes import recipe
from glassformer.training.settings import changed

def refused(name, file):
    config = changed(recipe(name), {"data.file": str(file), "data.cache": sys.argv[1] + "/cache"})
    try:
        train(config, sys.argv[1] + "/run")
    except DataError as error:
        print(error)
    else:
        raise AssertionError(name)

cell = Path(sys.argv[1]) / "cell.csv"
with cell.open("w", encoding="utf-8") as opened:
    opened.write('text,label\\nshort,a\\n"')
    for _ in range(80):
        opened.write("word " * 200_000)
    opened.write('",b\\n')
refused("csv", cell)
cell.write_text(cell.read_text("utf-8").replace("word word ", "word\\nword "), "utf-8")
refused("csv", cell)
line = Path(sys.argv[1]) / "line.txt"
with line.open("wb") as opened:
    opened.truncate(2**30)  # a line of zero bytes, which takes no place on the disk
refused("pairs", line)
with line.open("ab") as opened:
    opened.truncate(2**31 + 1)
refused("text", line)
"""


@pytest.mark.slow
def test_no_refusal_of_data_takes_a_gibibyte(tmp_path: Path) -> None:
    ran = run_bounded(_HUGE, str(tmp_path))
    assert len(ran.printed.splitlines()) == 4
    assert ran.peak < GIB, f"{ran.peak:,} bytes"


def test_pairs_that_are_all_too_long_are_named(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"a{i} b c d\td c b a{i}\n" for i in range(9)), encoding="utf-8")
    with pytest.raises(
        DataError, match=r"none of the \d training pairs fits into data\.max_len = 3"
    ):
        prepare(tiny("pairs", data__file=str(file), data__max_len=3))


@pytest.mark.parametrize(
    ("target", "language"), [("我爱北京 {}。", "zh"), ("ich liebe {}", "en"), ("{}", "en")]
)
def test_bleu_counts_the_characters_of_chinese_pairs(
    tmp_path: Path, target: str, language: str
) -> None:
    file = tmp_path / "pairs.tsv"
    lines = [f"I love {n}\t{target.format(n)}\n" for n in range(20)]
    file.write_text("".join(lines), encoding="utf-8")
    assert prepare(tiny("pairs", data__file=str(file))).language == language


def test_a_text_with_nothing_held_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.validation must be above 0"):
        prepare(tiny("text", data__file=str(tmp_path), data__validation=0))


def test_a_class_that_is_entirely_held_out_is_named(tmp_path: Path) -> None:
    rows = "".join(f"text {i},a\n" for i in range(50))
    read = read_table(table(tmp_path, f"text,label\n{rows}only one,b\n"), "text", "label")
    with pytest.raises(DataError, match="the class 'b' has no training texts left"):
        split_by_text(read, 0.999)


def test_equal_texts_of_a_table_are_on_one_side(tmp_path: Path) -> None:
    rows = "".join(f"text {i % 20},{'ab'[i % 2]}\n" for i in range(60))
    read = read_table(table(tmp_path, f"text,label\n{rows}"), "text", "label")
    train, valid = split_by_text(read, 0.3)
    assert valid
    assert {text for text, _ in train}.isdisjoint(text for text, _ in valid)
    assert len(train) + len(valid) == 60


def test_a_share_of_alternating_classes_has_both() -> None:
    items = [f"{n}{'ab'[n % 2]}" for n in range(1000)]
    half, tenth = share_of(items, 0.5), share_of(items, 0.1)
    assert (len(half), len(tenth)) == (500, 100)
    for part in (half, tenth):
        assert part == [item for item in items if item in set(part)], "in their order"
        assert 0.4 < sum(item.endswith("a") for item in part) / len(part) < 0.6
    assert set(tenth) < set(half)
    assert share_of(items, 1.0) == items


def test_texts_are_truncated_at_the_end_or_in_the_middle() -> None:
    whole = prepare(tiny("imdb", data__max_len=100))
    longest = int(np.argmax(whole.train.lengths))
    ids = whole.train.store[longest].tolist()  # type: ignore[attr-defined]  # labelled texts
    for cut, expected in (("end", ids[:8]), ("middle", [*ids[:2], *ids[-6:]])):
        problem = prepare(tiny("imdb", data__max_len=8, data__cut=cut))
        assert problem.train.store[longest].tolist() == expected  # type: ignore[attr-defined]


# --- films and their genres ---


def test_genres_are_in_the_order_of_the_films() -> None:
    genres, titles = read_genres(find("movielens")), read_titles(find("movielens"))
    assert len(genres) == len(titles) == int(read_ratings(find("movielens")).films.max()) + 1
    assert set(genres) == {frozenset({"Drama"})}


def test_pairs_are_ranked_right_as_often_as_counting_says() -> None:
    scores, has = np.array([0.1, 0.9, 0.4, 0.3, 0.7]), np.array([False, True, False, True, True])
    pairs = [(s, t) for s in scores[has] for t in scores[~has]]
    assert ranked_right(scores, has) == pytest.approx(np.mean([s > t for s, t in pairs]))
    assert ranked_right(-scores, has) == pytest.approx(np.mean([s < t for s, t in pairs]))


def test_a_probe_reads_what_is_in_the_vectors_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(400, 8))
    assert read_from(vectors, vectors @ rng.normal(size=8) > 0, rng) > 0.95
    # A rate of 200 × 200 pairs guessed has a deviation of √(401 / (12 · 200 · 200)) = 0.03.
    assert abs(read_from(vectors, rng.permutation(400) < 200, rng) - 0.5) < 0.12
