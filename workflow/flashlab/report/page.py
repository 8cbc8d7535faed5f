"""The report as one HTML file: its style, script, fonts and figures all inside it.

The page's policy lets nothing in that is not in the file: no address is ever asked, and only the
script whose hash the policy names runs.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from fontTools import subset
from markupsafe import Markup

from flashlab.report.document import FigureEntry, Report

TEMPLATES = Path(__file__).parents[3] / "templates"
LANGUAGE_TAGS = {"zh_TW": "zh-TW", "en": "en"}
OWN_NAMES = {"zh_TW": "中文", "en": "English"}
WEIGHTS = {"Regular": 400, "Bold": 700}

TEXT_POINTS = 6.85 * 72
"""Width of the text in the PDF, which figures are drawn for."""

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
FONTS_GO_HERE = "/* fonts */"

_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


class Page:
    """What the page has beyond the PDF: figures and style in the file, script, and its policy."""

    def __init__(self, report: Report) -> None:
        self.implementations = [row.implementation for row in report.implementations.table.rows]
        self.own_name = OWN_NAMES

    @property
    def style(self) -> Markup:
        """The style sheet of the PDF, and the page's own over it; fonts are set in at the end."""
        printed = TEMPLATES.joinpath("report.css").read_text(encoding="utf-8")
        screen = TEMPLATES.joinpath("page.css").read_text(encoding="utf-8")
        # Both are files of ours; nothing of a record is in them.
        return Markup(f"{FONTS_GO_HERE}\n{_FONT_FACES.sub('', printed)}\n{screen}")

    @property
    def script(self) -> Markup:
        """The page's script, a file of ours."""
        return Markup(TEMPLATES.joinpath("page.js").read_text(encoding="utf-8"))

    @property
    def policy(self) -> str:
        """The Content Security Policy: the inline style, this one script, fonts in the file."""
        digest = hashlib.sha256(str(self.script).encode()).digest()
        script = base64.b64encode(digest).decode()
        return (
            "default-src 'none'; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{script}'; font-src data:; img-src data:"
        )

    def svg(self, figure: FigureEntry) -> Markup:
        """A figure's SVG as part of the page: its ids its own, its groups named for the filter."""
        ElementTree.register_namespace("", SVG)
        ElementTree.register_namespace("xlink", XLINK)
        root = ElementTree.fromstring(figure.path.read_bytes())
        for metadata in root.findall(f"{{{SVG}}}metadata"):
            root.remove(metadata)
        for node in root.iter():
            _make_own(node, figure.id)
        # As wide a share of the page as on paper; the height follows.
        width = float(root.attrib.pop("width").removesuffix("pt"))
        del root.attrib["height"]
        root.set("style", f"width: {min(100, 100 * width / TEXT_POINTS):.1f}%")
        root.set("role", "img")
        root.set("aria-label", figure.alt)
        # The serialiser escapes all text and attributes.
        return Markup(ElementTree.tostring(root, encoding="unicode"))


def _make_own(node: ElementTree.Element, prefix: str) -> None:
    """Prefix a node's id and what it refers to; name the implementation that a group shows."""
    name = node.get("id")
    if name:
        if name.startswith("implementation:"):
            node.set("data-implementation", name.split(":")[1])
        node.set("id", f"{prefix}-{name}")
    for key, value in list(node.items()):
        if key == f"{{{XLINK}}}href" and value.startswith("#"):
            node.set(key, f"#{prefix}-{value[1:]}")
        elif "url(#" in value:
            node.set(key, _REFERENCE.sub(rf"url(#{prefix}-\1)", value))


def _font_face(weight: str, characters: set[str]) -> str:
    """A font of the report, with these characters alone, in the style sheet itself."""
    options = subset.Options()
    options.flavor = "woff2"
    options.layout_features = ["kern", "halt", "tnum", "locl", "ccmp", "liga", "mark"]
    options.drop_tables += ["DSIG"]
    options.recalc_timestamp = False
    path = TEMPLATES / "fonts" / f"NotoSansTC-{weight}.ttf"
    font = subset.load_font(str(path), options)
    chosen = subset.Subsetter(options)
    chosen.populate(text="".join(sorted(characters)))
    chosen.subset(font)
    content = io.BytesIO()
    subset.save_font(font, content, options)
    data = base64.b64encode(content.getvalue()).decode()
    return (
        f'@font-face {{ font-family: "Noto Sans TC"; font-weight: {WEIGHTS[weight]}; '
        f'src: url("data:font/woff2;base64,{data}") format("woff2"); }}\n'
    )


def complete(html: str) -> str:
    """The page with its fonts set in: the characters that it has, and no more."""
    characters = set(html)
    faces = "".join(_font_face(weight, characters) for weight in WEIGHTS)
    return html.replace(FONTS_GO_HERE, faces, 1)
