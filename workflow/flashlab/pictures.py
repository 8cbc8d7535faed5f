"""Images from outside, PNG or JPEG, checked before they are printed.

They are limited in bytes and pixels, so that no file can exhaust the memory.
"""

from __future__ import annotations

import base64
import io
import warnings
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageFile, UnidentifiedImageError

SUFFIXES = (".png", ".jpg", ".jpeg")
MAX_BYTES = 5 * 1024**2
MAX_PIXELS = 20_000_000
"""Pixels of a picture; at three bytes each, within what PDF readers unpack at once."""
_TOO_MANY_PIXELS = f"it has more than {MAX_PIXELS:,} pixels; scale it down"

MODES = {
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA"),
    "JPEG": ("L", "RGB"),
    "MPO": ("L", "RGB"),  # a phone's JPEG, with further pictures after the first
}


class PictureError(Exception):
    """A picture that cannot be printed: the fault and the remedy."""


@dataclass(frozen=True)
class Picture:
    """A checked picture: the file as it is, and its media type."""

    content: bytes
    media_type: str

    def data_url(self, name: str) -> str:
        """The picture as a ``data:`` address; `name` identifies it in messages about that."""
        content = base64.b64encode(self.content).decode()
        return f"data:{self.media_type};name={name};base64,{content}"


def picture_of(content: bytes) -> Picture:
    """Check a picture file.

    Raises:
        PictureError: it is too large, damaged, of another format, or would load something.
    """
    if len(content) > MAX_BYTES:
        raise PictureError(
            f"it has {len(content) / 1024**2:.1f} MiB, and the most is {MAX_BYTES // 1024**2} MiB; "
            "scale it down"
        )
    lenient = ImageFile.LOAD_TRUNCATED_IMAGES  # WeasyPrint sets it for the whole process
    try:
        ImageFile.LOAD_TRUNCATED_IMAGES = False
        with warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning):
            kind = _checked(content)
    except PictureError:
        raise
    except UnidentifiedImageError as error:
        raise PictureError("it is neither PNG nor JPEG; save it as one of them") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PictureError(_TOO_MANY_PIXELS) from error
    # A malformed file can make a decoder raise anything.
    except Exception as error:
        raise PictureError(
            f"it cannot be read as PNG or JPEG ({error}); save it again as one of them"
        ) from error
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = lenient
    return Picture(content, "image/png" if kind == "PNG" else "image/jpeg")


def _checked(content: bytes) -> str:
    """The format of a picture that can be decoded whole, and is neither large nor unusual."""
    with Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise PictureError(_TOO_MANY_PIXELS)
        kind = image.format or ""
        if image.mode not in MODES[kind]:
            raise PictureError(f"its colours are {image.mode}; save it as 8-bit RGB or greyscale")
        image.load()
    return kind


def suffix_of(name: str) -> str:
    """The suffix of a picture file's name, in lower case."""
    return Path(name).suffix.lower()
