"""Finding corpora; errors for missing and damaged files."""

import gzip
import lzma
from pathlib import Path

import pytest

from glassformer.data.corpora import (
    CORPORA,
    FoundCorpus,
    cache_folder,
    find,
    read_lines,
    read_text,
    sha256,
)
from glassformer.errors import DataError, UnknownNameError


def test_an_explicit_folder_goes_first_then_the_variable_then_the_cache(
    made_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    (copy / "lm").mkdir(parents=True)
    text = (made_data / "lm/tinyshakespeare.txt").read_bytes()
    (copy / "lm/tinyshakespeare.txt").write_bytes(text)
    assert find("shakespeare", copy).folder == copy
    assert find("shakespeare").folder == made_data
    monkeypatch.delenv("GLASSFORMER_DATA")
    cached = cache_folder() / "data/lm"
    cached.mkdir(parents=True)
    (cached / "tinyshakespeare.txt").write_bytes(text)
    assert find("shakespeare").folder == cache_folder() / "data"


def test_missing_data_are_named_with_the_folders_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLASSFORMER_DATA")
    with pytest.raises(DataError) as caught:
        find("multi30k", tmp_path / "nowhere")
    message = str(caught.value)
    for part in ("train.en.gz and 9 more missing", "nowhere", "--data.folder", "multi30k/dataset"):
        assert part in message


def test_the_error_is_about_the_folder_that_has_most_files(
    made_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "half"))
    first, second, *_ = CORPORA["multi30k"].files
    (tmp_path / "half" / first).parent.mkdir(parents=True)
    (tmp_path / "half" / first).write_bytes((made_data / first).read_bytes())
    with pytest.raises(DataError) as caught:
        find("multi30k", tmp_path / "nowhere")
    assert f"{tmp_path / 'half' / second} and 8 more missing" in str(caught.value)


def test_a_damaged_file_is_named_with_both_checksums(made_data: Path, tmp_path: Path) -> None:
    file = tmp_path / "lm/tinyshakespeare.txt"
    file.parent.mkdir()
    file.write_bytes(b"To be, or not to bee")
    with pytest.raises(DataError) as caught:
        find("shakespeare", tmp_path).file("lm/tinyshakespeare.txt")
    message = str(caught.value)
    for part in (str(file), "damaged", sha256(file), CORPORA["shakespeare"].source):
        assert part in message


def test_a_checksum_follows_a_changed_file(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"1")
    before = sha256(file)
    file.write_bytes(b"22")
    assert sha256(file) != before
    with pytest.raises(DataError, match="cannot read"):
        sha256(tmp_path / "y")


def test_a_file_may_be_compressed_differently_or_not_at_all(
    made_data: Path, tmp_path: Path
) -> None:
    name = "lm/wikitext2-train.txt.xz"
    content = lzma.decompress((made_data / name).read_bytes())
    for file in CORPORA["wikitext2"].files:
        target = tmp_path / file
        target.parent.mkdir(exist_ok=True)
        target.with_suffix("").write_bytes(lzma.decompress((made_data / file).read_bytes()))
    found = find("wikitext2", tmp_path)
    assert found.file(name) == tmp_path / "lm/wikitext2-train.txt"
    packed = tmp_path / name
    packed.write_bytes(lzma.compress(content, preset=1))
    assert sha256(packed) != CORPORA["wikitext2"].files[name]
    assert found.file(name) == packed


def test_different_content_is_refused_compressed_truncated_or_plain(
    made_data: Path, tmp_path: Path
) -> None:
    name = "lm/wikitext2-train.txt.xz"
    content = lzma.decompress((made_data / name).read_bytes()) + b"more"
    packed = tmp_path / name
    packed.parent.mkdir()
    found = FoundCorpus(CORPORA["wikitext2"], tmp_path)
    for data in (lzma.compress(content), (made_data / name).read_bytes()[:-9]):
        packed.write_bytes(data)
        with pytest.raises(DataError, match=f"expected SHA-256 {found.corpus.files[name]}"):
            found.file(name)
    packed.unlink()
    packed.with_suffix("").write_bytes(content)
    with pytest.raises(DataError, match=f"expected SHA-256 {found.corpus.contents[name]}"):
        found.file(name)


def test_an_unknown_data_set_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'imdb'"):
        find("imbd")


@pytest.mark.parametrize("name", CORPORA)
def test_every_corpus_has_a_licence_a_citation_a_source_and_checksums(name: str) -> None:
    entry = CORPORA[name]
    assert entry.licence
    assert entry.cite
    assert entry.source
    assert all(len(digest) == 64 for digest in entry.files.values())
    packed = {file for file in entry.files if file.endswith((".gz", ".xz"))}
    assert entry.contents.keys() == packed
    assert all(len(digest) == 64 for digest in entry.contents.values())


@pytest.mark.parametrize("suffix", ["txt", "gz", "xz"])
def test_compressed_files_read_like_plain_ones(tmp_path: Path, suffix: str) -> None:
    data = "eins\r\nzwei\u2028drei\n\nvier".encode()
    packed = {"txt": data, "gz": gzip.compress(data), "xz": lzma.compress(data)}[suffix]
    file = tmp_path / f"a.{suffix}"
    file.write_bytes(packed)
    assert list(read_lines(file)) == ["eins", "zwei\u2028drei", "", "vier"]


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeff你好".encode())
    assert read_text(file) == "你好"


def test_a_file_in_gbk_is_named_with_the_line_and_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"ok\n" + "满纸荒唐言".encode("gbk"))
    with pytest.raises(DataError) as caught:
        read_text(file)
    message = str(caught.value)
    for part in ("a.txt is not UTF-8", "line 2", "0xc2", "iconv -f gb18030"):
        assert part in message
    with pytest.raises(DataError) as caught:
        list(read_lines(file))
    assert str(caught.value) == message
    file.write_bytes("\ufeff一\n二\n".encode() + b"a\xff\nb\n")  # a BOM is not part of the line
    with pytest.raises(DataError, match="byte 0xff in line 3"):
        read_text(file)


@pytest.mark.parametrize("suffix", ["gz", "xz"])
def test_a_truncated_archive_is_one_clear_error(tmp_path: Path, suffix: str) -> None:
    data = b"some text " * 1000
    packed = gzip.compress(data) if suffix == "gz" else lzma.compress(data)
    file = tmp_path / f"a.{suffix}"
    file.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match="cannot read"):
        read_text(file)


def test_a_damaged_archive_is_one_clear_error(tmp_path: Path) -> None:
    text = "".join(f"{n} {n * n}\n" for n in range(5000))
    packed = bytearray(gzip.compress(text.encode()))
    packed[2000:2040] = bytes(byte ^ 0x5A for byte in packed[2000:2040])
    file = tmp_path / "a.gz"
    file.write_bytes(packed)
    with pytest.raises(DataError, match="cannot read"):
        read_text(file)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_in_utf_16_gets_its_own_remedy(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes("\ufefftext,label\n你好,a\n".encode(encoding))
    with pytest.raises(DataError, match="iconv -f utf-16 -t utf-8"):
        read_text(file)
