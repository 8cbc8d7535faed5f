"""A remark as HTML: Markdown without raw HTML, its images and formulas in it."""

from __future__ import annotations

import base64
import io
import logging
import re
from urllib.parse import unquote

from markdown_it.token import Token
from markupsafe import Markup

from flashlab.remarks import Remark, image_names, lines_of, markdown
from flashlab.telling.glyphs import legible

POINTS = 10
"""The size of a formula's letters, before it is scaled to the text around it."""

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


def rendered(remark: Remark) -> Markup:
    """The remark as HTML.

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
            place = f"{remark.file}: line {line}"
            if token.type.startswith("math_"):
                _set_formula(token, place)
            elif token.type in ("text", "code_inline"):
                token.content = legible(token.content, place)
            elif token.type == "image":
                _show_image(token, remark, names[str(token.attrs["src"])], place)
    # The Markdown renderer escapes everything that it does not mark up itself.
    return Markup(parser.renderer.render(blocks, parser.options, {}))
