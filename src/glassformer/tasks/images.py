"""Image files from anyone: their size is checked before they are decoded."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.errors import Fragment, InputError, NotInstalledError
from glassformer.files import as_path, open_regular

if TYPE_CHECKING:
    from PIL.Image import Image

Samples = Callable[[int], NDArray[np.float32]]
"""The test images of a data set by number, each (C, Y, X) with values from 0 to 1."""
_SAMPLE = re.compile(r"test:(\d{1,9})")
_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
_MOST_BYTES = 64 * 2**20
_MOST_PIXELS = 50 * 10**6  # 4 bytes each once decoded, and 6 more while an image is scaled
_MOST_SIDE = 2**15  # a row of millions of pixels takes as much memory as an image to scale


def read_image(source: str | Path) -> Image:
    """An image file as RGB."""
    path = as_path(source, InputError, "an image")
    try:
        from PIL import Image
    except ImportError:
        raise NotInstalledError(
            "image files are read by Pillow: pip install 'glassformer[hf]'"
        ) from None
    try:
        with open_regular(path) as opened:
            if path.stat().st_size > _MOST_BYTES:
                raise InputError(
                    "the image {path} is larger than {most:,} bytes", path=path, most=_MOST_BYTES
                )
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                image = Image.open(opened, formats=_FORMATS)
                if max(image.size) > _MOST_SIDE or image.width * image.height > _MOST_PIXELS:
                    raise InputError(
                        "the image {path} has {width:,} × {height:,} pixels: expected at most "
                        "{most:,}, and {side:,} on a side",
                        path=path,
                        width=image.width,
                        height=image.height,
                        most=_MOST_PIXELS,
                        side=_MOST_SIDE,
                    )
                image.load()
                return image if image.mode == "RGB" else image.convert("RGB")
    except InputError:
        raise
    except OSError as error:
        raise InputError(
            "cannot read the image {path}: {reason}",
            path=path,
            reason=error.strerror
            or Fragment.of("it is none of {formats}", formats=", ".join(_FORMATS)),
        ) from None
    except Exception as error:  # decoders raise anything for a damaged file
        raise InputError(
            "cannot read the image {path}: {reason}", path=path, reason=type(error).__name__
        ) from None


def image_tensor(source: str, size: int, channels: int, samples: Samples | None) -> Tensor:
    """An image (1, C, Y, X) from 0 to 1: a file, scaled to the model's size, or `test:17`."""
    if (numbered := _SAMPLE.fullmatch(source.strip())) is not None:
        if samples is None:
            raise InputError(
                "{source}: the test images of this model are not known; give an image file",
                source=source,
            )
        return torch.from_numpy(samples(int(numbered[1]))).unsqueeze(0)
    with read_image(source) as image:
        scaled = image.convert("L" if channels == 1 else "RGB").resize((size, size))
        pixels = torch.from_numpy(np.asarray(scaled, dtype=np.float32) / 255)
    if channels == 1:
        return pixels.view(1, 1, size, size)
    return pixels.permute(2, 0, 1).unsqueeze(0)
