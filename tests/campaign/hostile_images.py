"""Hostile image files: small ones that unpack to gigabytes, headers that lie, files without end."""

import io
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tests.campaign.hostile_folders import special_file


def hostile_images(folder: Path, count: int, seed: int = 0) -> Iterator[tuple[str, Path]]:
    """Image files, one at a time: the one before is removed."""
    rng = random.Random(seed)
    good = _good()
    makers: list[tuple[str, Callable[[], bytes]]] = [*_BOMBS.items()]
    makers += [
        (f"damaged {ending}", lambda data=data: _damaged(data, rng))  # type: ignore[misc]
        for _ in range(count)
        for ending, data in good.items()
    ]
    kinds = ("fifo", "folder", "loop", "missing", "/dev/zero", "/etc/passwd")
    for kind in kinds[:count]:
        special_file("image.png", kind)(folder, rng)
        yield kind, folder / "image.png"
        if kind == "folder":
            (folder / "image.png").rmdir()
        else:
            (folder / "image.png").unlink(missing_ok=True)
    for name, make in makers[: max(0, count - len(kinds))]:
        file = folder / "image.png"
        file.write_bytes(make())
        yield name, file
        file.unlink()


def _good() -> dict[str, bytes]:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    made = {}
    for ending in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"):
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, ending)
        made[ending] = stream.getvalue()
    return made


def _damaged(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    way = rng.randrange(4)
    if way == 0:
        return bytes(changed[: rng.randrange(len(changed))])
    if way == 1:  # a size or an offset of the header
        place = rng.randrange(min(60, len(changed) - 4))
        changed[place : place + 4] = struct.pack(">I", rng.choice((0, 1, 2**16, 2**31, 2**32 - 1)))
    elif way == 2:
        for _ in range(rng.choice((1, 4, 64))):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    else:
        changed += bytes(rng.randrange(1, 5000))
    return bytes(changed)


# --- bombs ---


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(
    width: int, height: int, rows: int, *chunks: bytes, depth: int = 8, colour: int = 2
) -> bytes:
    """A PNG that claims a size and holds so many rows of zeros."""
    samples = {0: 1, 2: 3, 3: 1, 6: 4}[colour]
    packed = zlib.compressobj(9)
    row = bytes(1 + width * samples * depth // 8)
    data = b"".join([*(packed.compress(row) for _ in range(rows)), packed.flush()])
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = (_chunk(b"IHDR", head), *chunks, _chunk(b"IDAT", data), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _gif(width: int, height: int, frames: int) -> bytes:
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x44\x01\x00"
    palette = bytes(12)
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x91, 0, 0) + palette
    return head + frame * frames + b"\x3b"


def _bmp(width: int, height: int, bits: int = 24) -> bytes:
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + head + bytes(100)


_BOMBS: dict[str, Callable[[], bytes]] = {
    "a PNG of 60,000 × 60,000": lambda: _png(60_000, 60_000, 10),
    "a PNG of 2³¹ × 2³¹": lambda: _png(2**31 - 1, 2**31 - 1, 0),
    "a PNG as large as allowed": lambda: _png(8_000, 8_000, 8_000),
    "a PNG of 16 bits and four channels": lambda: _png(7_900, 7_900, 7_900, depth=16, colour=6),
    "a PNG of one row": lambda: _png(60_000_000, 1, 1, depth=8, colour=0),
    "a PNG of one column": lambda: _png(1, 60_000_000, 1_000, depth=8, colour=0),
    "a PNG without pixels": lambda: _png(0, 0, 0),
    "a PNG with a text of 1 GB": lambda: _png(
        8, 8, 8, _chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(10**9), 9))
    ),
    "a PNG with a profile of 1 GB": lambda: _png(
        8, 8, 8, _chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(10**9), 9))
    ),
    "a PNG with many chunks": lambda: _png(8, 8, 8, *[_chunk(b"tEXt", b"a\0b")] * 100_000),
    "a GIF of 65,535 × 65,535": lambda: _gif(65_535, 65_535, 1),
    "a GIF of 100,000 frames": lambda: _gif(16, 16, 100_000),
    "a BMP of 2³¹": lambda: _bmp(2**31 - 1, 2**31 - 1),
    "a BMP of a negative size": lambda: _bmp(-(2**31), -(2**31)),
    "a BMP of 32,000 × 2,000": lambda: _bmp(32_000, 2_000),
    "an SVG": lambda: b'<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>',
    "PostScript": lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(executed) (w) file\n",
    "a PDF": lambda: b"%PDF-1.4\n",
    "a pickle": lambda: b"\x80\x04\x95",
    "nothing": lambda: b"",
}
