"""The report as one HTML file, with its style, script and figures inside it.

The page's policy allows no address, and only the script whose hash it has. Its fonts are those of
the reader's system; its Chinese characters are inside it as well, for figures and systems without
Chinese fonts.
"""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import re

from markupsafe import Markup, escape

from flashlab.report.document import TEMPLATES, Figure
from flashlab.telling.glyphs import FONTS

TEXT_POINTS = 180 / 25.4 * 72
"""Width of the text in the PDF, which figures are drawn for."""

FONT_GOES_HERE = "/* font */"

_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_NEEDLESS = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|font-family: [^;\"]*;? ?", re.DOTALL)
"""What the page need not repeat, the font among it, of which it has an embedded one."""
_LENGTHS = re.compile(r' (?:d|x|y|transform|points)="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_IDS = re.compile(r'( id="|href="#|url\(#)')
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)pt"')


def screen_style(*names: str) -> Markup:
    """Style sheets of templates/, which hold no text of a record, without their fonts."""
    sheets = [TEMPLATES.joinpath(name).read_text(encoding="utf-8") for name in names]
    return Markup(_FONT_FACES.sub("", "\n".join(sheets)))


class Page:
    """What the page has and the PDF lacks: its style, its script, its policy, figures in it."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.style = Markup("\n").join([screen_style("report.css", "page.css"), FONT_GOES_HERE])
        self.script = Markup(TEMPLATES.joinpath("page.js").read_text(encoding="utf-8").strip())

    @property
    def policy(self) -> str:
        """The Content Security Policy: the inline style, this script, and the file's own data."""
        digest = base64.b64encode(hashlib.sha256(self.script.encode()).digest()).decode()
        return (
            "default-src 'none'; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{digest}'; img-src data:; font-src data:; "
            "base-uri 'none'; form-action 'none'"
        )

    def svg(self, figure: Figure, alternative: str) -> Markup:
        """A figure as part of the page, as wide a share of it as on paper.

        The serialiser that drew it escaped all text. Its ids become ones that no other figure has.
        """
        drawn = figure.path.read_text(encoding="utf-8")
        drawn = _NEEDLESS.sub("", drawn[drawn.index("<svg") :])
        drawn = _LENGTHS.sub(lambda found: _DECIMALS.sub(r"\1", found[0]), drawn)
        drawn = _IDS.sub(rf"\1f{next(self._numbers)}-", drawn)
        width = _SIZE.match(drawn)
        share = min(100.0, 100 * float(width[1]) / TEXT_POINTS) if width else 100.0
        said = f'<svg role="img" aria-label="{escape(alternative)}" style="width:{share:.1f}%"'
        return Markup(drawn.replace("<svg", said, 1))

    def complete(self, html: str) -> str:
        """The rendered page with the characters that it has as a font, without needless space.

        The script stays unchanged, since the policy has its hash.
        """
        import minify_html  # 0.05 s, which the PDF need not wait for

        whole = html.replace(FONT_GOES_HERE, embedded_font(html), 1)
        small = minify_html.minify(whole, minify_css=True, keep_html_and_head_opening_tags=True)
        return f"{small}</html>\n"  # left out by minify; shows that the file is whole


def embedded_font(text: str) -> Markup:
    """A rule with a font of the characters of a text: a hundred kilobytes of a Chinese one.

    The same text gives the same bytes. The style sheets have its name after those of the system.
    """
    from fontTools import subset  # 0.2 s, which the PDF need not wait for

    options = subset.Options(hinting=False, layout_features=[], name_IDs=[])
    options.flavor = "woff2"
    font = subset.load_font(str(FONTS / "NotoSansTC-Regular.ttf"), options, lazy=True)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=sorted(set(map(ord, text))))
    subsetter.subset(font)
    file = io.BytesIO()
    subset.save_font(font, file, options)
    data = base64.b64encode(file.getvalue()).decode()
    source = f'url("data:font/woff2;base64,{data}") format("woff2")'
    return Markup(f'@font-face{{font-family:"Embedded TC";src:{source}}}')
