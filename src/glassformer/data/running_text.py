"""Running text for language models: Shakespeare, WikiText-2, a file of the user's own."""

from dataclasses import dataclass
from pathlib import Path

from glassformer.data.corpora import Found
from glassformer.data.text_files import read_text
from glassformer.errors import DataError


@dataclass(frozen=True)
class TextSplits:
    """Running text to train on, to choose by and, where there is a third part, to report."""

    train: str
    valid: str
    test: str = ""


def read_shakespeare(found: Found) -> TextSplits:
    """The last tenth of the characters held out, as everybody does; there is no test part."""
    text = read_text(found.file("lm/tinyshakespeare.txt"))
    cut = int(len(text) * 0.9)
    return TextSplits(text[:cut], text[cut:])


def read_wikitext2(found: Found) -> TextSplits:
    """The official three parts."""
    parts = (
        read_text(found.file(f"lm/wikitext2-{part}.txt.xz")) for part in ("train", "valid", "test")
    )
    return TextSplits(*parts)


def read_text_file(path: Path, share: float) -> TextSplits:
    """A user's own text; the last `share` of its characters is held out."""
    if not path.is_file():
        raise DataError("there is no text file {path}", path=path)
    text = read_text(path)
    if not text.strip():
        raise DataError("{path} holds no text: it is empty, or all spaces", path=path)
    cut = int(len(text) * (1 - share))
    if not text[:cut].strip() or not text[cut:].strip():
        raise DataError(
            "{path} is too short, or all spaces on one side of the cut: expected text to "
            "train on and, in the last {share:.0%}, to validate with; got {n_text} "
            "characters",
            path=path,
            share=share,
            n_text=len(text),
        )
    return TextSplits(text[:cut], text[cut:])
