"""How a token looks to a reader: nothing invisible, nothing garbled.

Bytes that are no whole character are shown as themselves, ⟨E4⟩, and so is what would print as
nothing or as a replacement mark. This file does not know tokenizers.
"""

__all__ = ["show_bytes", "show_text"]

_VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥"}


def show_text(text: str) -> str:
    """A text in which each character can be seen."""
    return "".join(map(_show_character, text))


def show_bytes(data: bytes) -> str:
    """The characters that UTF-8 bytes hold, and the bytes that are part of none."""
    # "surrogateescape" keeps each undecodable byte as one code point from U+DC80 on.
    return show_text(data.decode("utf-8", "surrogateescape"))


def _show_character(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    if character.isprintable() and character != "\ufffd":
        return character
    return "".join(f"⟨{byte:02X}⟩" for byte in character.encode("utf-8", "surrogateescape"))
