"""Remarks: the author's own Markdown files with the images that they show, and as HTML.

An image is in the project's folder, named relative to the remark's own file. In a PDF a remark and
its images have flat names (`remark_name`, `image_names`), which follow from the remark alone.
"""

from __future__ import annotations

import base64
import io
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from flashlab.pictures import SUFFIXES, Picture, PictureError, picture_of, suffix_of
from flashlab.telling.glyphs import legible
from flashlab.untrusted import UnsoundFileError, read_file

POINTS = 10
"""The size of a formula's letters, before it is scaled to the text around it."""

_ABSOLUTE = re.compile(r"#|[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""The beginning of an address that does not depend on where the remark is."""

_logger = logging.getLogger(__name__)


class RemarkError(Exception):
    """All problems with the remarks, in one message."""


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


# Markdown


def markdown() -> MarkdownIt:
    """Markdown with tables and formulas, and without raw HTML."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    return parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)


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
    """Set an image's content in place of its address, and an alternative text if it has none."""
    address = unquote(str(token.attrs["src"]))
    token.attrs["src"] = image.data_url(name)
    if not token.content.strip():
        _logger.warning(
            "%s: the image %s has no alternative text, and its name is read out instead; "
            "write what it shows: ![…](%s)",
            *(place, address, address),
        )
        token.children = [Token("text", "", 0, content=address.rpartition("/")[2])]


def _drawn(formula: str) -> tuple[str, str]:
    """A formula as Matplotlib sets it: the address of an image, and its style beside text.

    Raises ValueError for what it cannot set.
    """
    # Few remarks have any, and these take half a second to import.
    from matplotlib import rc_context
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import math_to_image

    if not formula.isascii():
        raise ValueError(r"it must be ASCII; write \alpha for α, and words beside it")
    image = io.BytesIO()
    try:
        with rc_context({"svg.hashsalt": "flashlab", "savefig.facecolor": "none"}):
            font = FontProperties(size=POINTS, math_fontfamily="dejavusans")
            depth = math_to_image(f"${formula}$", image, font, dpi=72, format="svg")
    except (ValueError, RuntimeError) as error:
        raise ValueError(str(error).strip().rpartition("\n")[2]) from error
    svg = re.sub(rb"<metadata>.*?</metadata>", b"", image.getvalue(), flags=re.DOTALL)
    height = re.search(rb'height="([\d.]+)pt"', svg)
    assert height
    style = f"height: {float(height[1]) / POINTS:.3f}em; vertical-align: {-depth / POINTS:.3f}em"
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}", style


def _set_formula(token: Token, place: str) -> None:
    """Set an image in place of a formula, or a warning and what is written."""
    formula = " ".join(token.content.split())
    try:
        address, style = _drawn(formula)
    except ValueError as error:
        written = f"{token.markup}{formula}{token.markup}"
        _logger.warning("%s: the formula %s is printed as it is written: %s", place, written, error)
        token.type, token.content = "text", legible(written, place)
        return
    shown = "formula" if token.type == "math_inline" else "formula display"
    token.type, token.tag = "image", "img"
    token.attrs = {"src": address, "alt": "", "class": shown, "style": style}
    token.children = [Token("text", "", 0, content=formula)]


def as_html(remark: Remark) -> str:
    """The remark as HTML, in which all is escaped but what the Markdown marks up.

    Logs a warning for each character that the report's fonts lack, for each image without an
    alternative text, and for each formula that cannot be set.
    """
    parser = markdown()
    blocks = parser.parse(remark.text)
    names = image_names(remark.experiment, remark.language, remark.images)
    for block in blocks:
        if block.type in ("fence", "code_block"):
            first = block.map[0] + 1 if block.map else 1
            place = f"{remark.file}: the block from line {first}"
            block.content = legible(block.content, place)
        elif block.type == "math_block":
            block.type = "inline"
            block.children = [Token("math_block", "", 0, content=block.content, markup="$$")]
        for token, line in lines_of(block):
            place, address = f"{remark.file}: line {line}", str(token.attrs.get("href", "#"))
            if token.type.startswith("math_"):
                _set_formula(token, place)
            elif token.type in ("text", "code_inline"):
                token.content = legible(token.content, place)
            elif token.type == "image":
                source = str(token.attrs["src"])
                _show_image(token, remark.images[source], names[source], place)
            elif not _ABSOLUTE.match(address):  # in the PDF it would lead into this machine's files
                token.attrs = {"href": f"https:{address}"} if address.startswith("//") else {}
    return str(parser.renderer.render(blocks, parser.options, {}))
