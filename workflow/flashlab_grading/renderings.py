"""A second opinion on two PDFs: their pages as pdftoppm draws them, side by side if they differ."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image, ImageChops, ImageFile

PROGRAM = "pdftoppm"
RESOLUTION = 60
MAX_PAGES = 200
MAX_SECONDS = 120.0
MAX_PIXELS = 4_000_000
"""Most pixels of a page; one of A4 has 350,000."""

SHOWN_PAGES = 20


def _draw(content: bytes, folder: Path) -> list[Path]:
    """The pages as picture files, in order."""
    folder.mkdir()
    source = folder / "report.pdf"
    source.write_bytes(content)
    options = ("-r", str(RESOLUTION), "-l", str(MAX_PAGES), "-png")
    command = (PROGRAM, *options, str(source), str(folder / "p"))
    subprocess.run(command, check=True, capture_output=True, timeout=MAX_SECONDS)
    return sorted(folder.glob("p-*.png"))


def _opened(path: Path | None, like: Image.Image | None = None) -> Image.Image:
    """A page's picture; where there is no such page, an empty one of the other's size."""
    if path is None:
        assert like is not None
        return Image.new("RGB", like.size, "grey")
    with Image.open(path, formats=("PNG",)) as image:
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(f"a page has {image.width} × {image.height} pixels")
        return image.convert("RGB")


def _pair(one: Path | None, other: Path | None) -> tuple[Image.Image, Image.Image]:
    if one is None:
        right = _opened(other)
        return _opened(None, right), right
    left = _opened(one)
    return left, _opened(other, left)


def compare_renderings(found: bytes, made: bytes, folder: Path) -> list[str]:
    """What pdftoppm shows differently in two PDFs, in lines; empty where it is not installed.

    Each page that differs is kept in `folder` as ``page-<number>.png``: found, and rebuilt.
    """
    if shutil.which(PROGRAM) is None:
        return []
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    for old in folder.glob("page-*.png"):
        old.unlink()
    differing = []
    with tempfile.TemporaryDirectory(prefix="flashlab-") as temporary:
        try:
            drawn = [
                _draw(content, Path(temporary, name))
                for name, content in (("found", found), ("made", made))
            ]
            count = max(map(len, drawn))
            pairs = zip(*([*pages, *[None] * (count - len(pages))] for pages in drawn), strict=True)
            for number, (one, other) in enumerate(pairs, start=1):
                left, right = _pair(one, other)
                same_size = left.size == right.size
                if same_size and ImageChops.difference(left, right).getbbox() is None:
                    continue
                differing.append(number)
                size = left.width + right.width, max(left.height, right.height)
                both = Image.new("RGB", size, "grey")
                both.paste(left, (0, 0))
                both.paste(right, (left.width, 0))
                folder.mkdir(parents=True, exist_ok=True)
                both.save(folder / f"page-{number}.png")
        # It serves the reader only; a hostile file may make the program or the decoder fail.
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return [f"{PROGRAM} cannot draw them: {type(error).__name__}"]
    if not differing:
        return [f"{PROGRAM} draws every page like the rebuilt one"]
    numbers = ", ".join(map(str, differing[:SHOWN_PAGES]))
    more = f" and {len(differing) - SHOWN_PAGES} more" if len(differing) > SHOWN_PAGES else ""
    return [
        f"{PROGRAM} draws page {numbers}{more} otherwise; found and rebuilt side by side: "
        f"{folder.as_posix()}/"
    ]
