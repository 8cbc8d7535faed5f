"""A remark as HTML: Markdown without raw HTML, its images in it."""

from __future__ import annotations

import logging
from urllib.parse import unquote

from markdown_it.token import Token
from markupsafe import Markup

from flashlab.remarks import Remark, image_names, lines_of, markdown
from flashlab.telling.glyphs import legible

_logger = logging.getLogger(__name__)


def _show_image(token: Token, remark: Remark, name: str, place: str) -> None:
    """Set an image's content in place of its address, and an alternative text if it has none."""
    address = str(token.attrs["src"])
    token.attrs["src"] = remark.images[address].data_url(name)
    if not token.content.strip():
        file = unquote(address).rpartition("/")[2]
        _logger.warning(
            "%s: the image %s has no alternative text, and its name is read out instead; "
            "write what it shows: ![…](%s)",
            place,
            unquote(address),
            unquote(address),
        )
        token.children = [Token("text", "", 0, content=file)]


def rendered(remark: Remark) -> Markup:
    """The remark as HTML.

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
            place = f"{remark.file}: line {line}"
            if token.type in ("text", "code_inline"):
                token.content = legible(token.content, place)
            elif token.type == "image":
                _show_image(token, remark, names[str(token.attrs["src"])], place)
    # The Markdown renderer escapes everything that it does not mark up itself.
    return Markup(parser.renderer.render(blocks, parser.options, {}))
