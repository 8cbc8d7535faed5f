"""Remarks: the author's own Markdown files, the images that they show, and both as HTML.

An image is in the project's folder, named relative to the remark's own file. In a PDF a remark and
its images have flat names (`remark_name`, `image_names`), which follow from the remark alone.
"""

from __future__ import annotations

import base64
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from PIL import Image, ImageFile, UnidentifiedImageError

from flashlab.telling.glyphs import legible
from flashlab.untrusted import UnsoundFileError, read_file

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

_ABSOLUTE = re.compile(r"#|[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""The beginning of an address that does not depend on where the remark is."""

_logger = logging.getLogger(__name__)


class PictureError(Exception):
    """A picture that cannot be printed: the fault and the remedy."""


class RemarkError(Exception):
    """All problems with the remarks, in one message."""


@dataclass(frozen=True)
class Picture:
    """A checked picture: the file as it is, and its media type."""

    content: bytes
    media_type: str


@dataclass(frozen=True)
class Remark:
    """An author's remark on an experiment in a language.

    `file` names it in messages. `images` holds the checked images by their addresses, as the
    Markdown has them.
    """

    experiment: str
    language: str
    file: str
    content: bytes
    images: Mapping[str, Picture]

    @property
    def text(self) -> str:
        return self.content.decode("utf-8-sig")

    def attachments(self) -> dict[str, bytes]:
        """The files that the PDF carries: the remark and its images, by name."""
        names = image_names(self.experiment, self.language, self.images)
        images = {names[address]: image.content for address, image in self.images.items()}
        return {remark_name(self.experiment, self.language): self.content, **images}


def remark_name(experiment: str, language: str) -> str:
    """The attachment that holds the author's remark on an experiment in a language."""
    return f"remark-{experiment}-{language}.md"


def image_names(experiment: str, language: str, addresses: Mapping[str, object]) -> dict[str, str]:
    """The attachments that hold a remark's images, by address: numbered as they first appear."""
    return {
        address: f"remark-{experiment}-{language}-{number}{suffix_of(_path(address))}"
        for number, address in enumerate(addresses, start=1)
    }


def _path(address: str) -> str:
    return unquote(urlsplit(address).path)


# Pictures: limited in bytes and pixels, so that no file can exhaust the memory


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


# Markdown


def markdown() -> MarkdownIt:
    """Markdown with tables, and without raw HTML."""
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def lines_of(block: Token) -> Iterator[tuple[Token, int]]:
    """Every token within a block of text, with its line in the file, from 1."""
    line = block.map[0] + 1 if block.map else 1
    for token in block.children or ():
        yield token, line
        line += token.type in ("softbreak", "hardbreak")


def image_addresses(text: str) -> dict[str, int]:
    """The address of every image in the Markdown, with the line where it first appears."""
    lines: dict[str, int] = {}
    parser = markdown()
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # so that it is refused
    for block in parser.parse(text):
        for token, line in lines_of(block):
            if token.type == "image":
                lines.setdefault(str(token.attrs["src"]), line)
    return lines


# Reading


def _contained(address: str, remark: Path, root: Path) -> Path:
    """The file that an address in a remark means; PictureError unless it is inside the project."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise PictureError(f"it is no file's name ({error}); rename it") from error
    named = _path(address)
    if parts.scheme or parts.netloc or parts.query or parts.fragment or not named:
        raise PictureError(
            "it is no file beside the remark; put the picture into the project's folder and name "
            "it relative to the remark"
        )
    if {*"{}\0\n"} & {*named}:
        raise PictureError("its name has a brace or a line break; rename it")
    if suffix_of(named) not in SUFFIXES:
        raise PictureError(f"only {', '.join(SUFFIXES)} can be shown; save it as one of them")
    path = remark.parent / named
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise PictureError(f"there is no file {path}; add it, or correct the name") from error
    if not target.is_relative_to(root.resolve()):
        raise PictureError(f"it is outside the project's folder ({target}); copy it into it")
    if not target.is_file():
        raise PictureError(f"{path} is not a file; name one")
    return path


def remark_of(
    experiment: str,
    language: str,
    file: str,
    content: bytes,
    picture: Callable[[str, str], Picture],
) -> Remark:
    """A remark with its images; RemarkError with a line for each that cannot be shown.

    `file` names it in messages. `picture` gives the image of an address and of a name
    (`image_names`), or raises PictureError.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise RemarkError(f"{file}: line {line}: it is not UTF-8; save it as UTF-8") from error
    images, problems, lines = {}, [], image_addresses(text)
    names = image_names(experiment, language, lines)
    for address, line in lines.items():
        try:
            images[address] = picture(address, names[address])
        except (PictureError, UnsoundFileError) as error:
            problems.append(f"{file}: line {line}: the image {unquote(address)[:120]}: {error}")
    if problems:
        raise RemarkError("\n  ".join(problems))
    return Remark(experiment, language, file, content, images)


def read_remarks(config: Mapping[str, Any]) -> list[Remark]:
    """The remarks that the resolved configuration names, with their images.

    The images are in the project's folder, which is the current one.

    Raises:
        RemarkError: one message that lists all that is missing or cannot be shown.
    """
    remarks, problems = [], []
    for experiment, by_language in config["remarks"].items():
        for language, path in ((each, Path(file)) for each, file in by_language.items()):

            def picture(address: str, _: str, remark: Path = path) -> Picture:
                return picture_of(read_file(_contained(address, remark, Path.cwd())))

            where = f"config: remarks.{experiment}.{language}"
            try:
                if not path.is_file():
                    raise RemarkError(f"{where}: there is no file {path}")
                content = read_file(path)
                remarks.append(remark_of(experiment, language, str(path), content, picture))
            except RemarkError as error:
                problems.append(str(error))
            except UnsoundFileError as error:
                problems.append(f"{path}: {error}")
    if problems:
        raise RemarkError("The remarks cannot be shown:\n  " + "\n  ".join(problems))
    return remarks


def remark_files(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The files of all remarks and their images; raises RemarkError as `read_remarks` does."""
    files: list[str] = []
    for remark in read_remarks(config):
        beside = [Path(remark.file).parent / _path(address) for address in remark.images]
        files += [remark.file, *(path.as_posix() for path in beside)]
    return tuple(dict.fromkeys(files))


# As HTML


def _show_image(token: Token, image: Picture, name: str, place: str) -> None:
    """Set an image's content in place of its address, and an alternative text if it has none.

    `name` identifies the content in messages about it.
    """
    address, content = unquote(str(token.attrs["src"])), base64.b64encode(image.content).decode()
    token.attrs["src"] = f"data:{image.media_type};name={name};base64,{content}"
    if not token.content.strip():
        _logger.warning(
            "%s: the image %s has no alternative text, and its name is read out instead; "
            "write what it shows: ![…](%s)",
            *(place, address, address),
        )
        token.children = [Token("text", "", 0, content=address.rpartition("/")[2])]


def as_html(remark: Remark) -> str:
    """The remark as HTML, in which all is escaped but what the Markdown marks up.

    Logs a warning for each character that the report's fonts lack, and for each image without an
    alternative text.
    """
    parser = markdown()
    blocks = parser.parse(remark.text)
    names = image_names(remark.experiment, remark.language, remark.images)
    for block in blocks:
        if block.type in ("fence", "code_block"):
            first = block.map[0] + 1 if block.map else 1
            place = f"{remark.file}: the block from line {first}"
            block.content = legible(block.content, place)
        for token, line in lines_of(block):
            place, address = f"{remark.file}: line {line}", str(token.attrs.get("href", "#"))
            if token.type in ("text", "code_inline"):
                token.content = legible(token.content, place)
            elif token.type == "image":
                source = str(token.attrs["src"])
                _show_image(token, remark.images[source], names[source], place)
            elif not _ABSOLUTE.match(address):  # in the PDF it would lead into this machine's files
                token.attrs = {"href": f"https:{address}"} if address.startswith("//") else {}
    return str(parser.renderer.render(blocks, parser.options, {}))
