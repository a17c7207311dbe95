"""Converting the IMDb archive into the files that the recipes read; errors for bad archives."""

import io
import json
import lzma
import tarfile
from pathlib import Path

import pytest

from glassformer.cli import run
from glassformer.data.imdb import convert
from glassformer.errors import DataError

FILES = {
    "train/neg/0_3.txt": "Bad.<br />Really\x85",
    "train/pos/0_9.txt": "Schön, “good”",
    "train/neg/1_1.txt": "Worse",
    "train/pos/1_10.txt": "Best",
    "train/unsup/0_0.txt": "Who knows",
    "test/neg/0_2.txt": "No",
    "test/pos/0_8.txt": "Yes",
    "train/urls_neg.txt": "tt0000001 tt0000002",
    "train/urls_pos.txt": "tt0000003 tt0000004",
    "train/urls_unsup.txt": "tt0000005",
    "test/urls_neg.txt": "tt0000006",
    "test/urls_pos.txt": "tt0000007",
    "README": "not a review",
    "train/labeledBow.feat": "not a review either",
}


def archive_of(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "aclImdb_v1.tar.gz"
    with tarfile.open(path, "w:gz") as opened:
        for name, text in files.items():
            if "urls" in name:
                text = "".join(
                    f"http://www.imdb.com/title/{film}/usercomments\n" for film in text.split()
                )
            content = text.encode()
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return path


def rows(path: Path) -> list[dict[str, object]]:
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()  # at any kind of line break
    return [json.loads(line) for line in lines]


def test_reviews_come_by_number_a_negative_first(tmp_path: Path) -> None:
    told: list[str] = []
    train, test, unsup = convert(archive_of(tmp_path, FILES), tmp_path / "data", told.append)
    assert train == tmp_path / "data/imdb/train.jsonl.xz"
    assert rows(train) == [
        {"text": "Bad.<br />Really\x85", "label": 0, "id": "neg/0_3", "movie": "tt0000001"},
        {"text": "Schön, “good”", "label": 1, "id": "pos/0_9", "movie": "tt0000003"},
        {"text": "Worse", "label": 0, "id": "neg/1_1", "movie": "tt0000002"},
        {"text": "Best", "label": 1, "id": "pos/1_10", "movie": "tt0000004"},
    ]
    assert [row["id"] for row in rows(test)] == ["neg/0_2", "pos/0_8"]
    assert rows(unsup) == [{"text": "Who knows", "id": "unsup/0_0", "movie": "tt0000005"}]
    assert [line.split()[0] for line in told] == ["reading", "writing", "writing", "writing"]
    assert sorted(path.name for path in train.parent.iterdir()) == sorted(
        path.name for path in (train, test, unsup)
    )


def test_other_archives_are_refused(tmp_path: Path) -> None:
    half = {name: text for name, text in FILES.items() if not name.startswith("test")}
    with pytest.raises(DataError, match=r"no reviews in test/neg; expected the archive"):
        convert(archive_of(tmp_path, half), tmp_path, lambda line: None)
    no_films = {name: text for name, text in FILES.items() if name != "train/urls_pos.txt"}
    with pytest.raises(DataError, match=r"no film for review pos/0_9; is it complete\?"):
        convert(archive_of(tmp_path, no_films), tmp_path, lambda line: None)
    path = archive_of(tmp_path, FILES)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"cannot read .* as a tar archive of reviews"):
        convert(path, tmp_path, lambda line: None)


def test_the_command_refuses_other_reviews(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fourteen files are not the hundred thousand: the checksum of the result differs."""
    path = archive_of(tmp_path, FILES)
    assert run(["data", "imdb", "--archive", str(path), "--data", str(tmp_path)]) == 1
    assert "is damaged or a different version" in capsys.readouterr().err
    assert run(["data", "multi30k", "--archive", str(path)]) == 2
    assert "--archive is for imdb and imdb-unsup, got multi30k" in capsys.readouterr().err
    assert run(["data", "imdb", "--archive", str(tmp_path / "none"), "--data", str(tmp_path)]) == 1
    assert "No such file" in capsys.readouterr().err
