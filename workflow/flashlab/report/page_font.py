"""A web page's characters as a font inside it, for figures and systems without Chinese fonts."""

from __future__ import annotations

import base64
import io

from markupsafe import Markup

from flashlab.telling.glyphs import FONTS

FAMILY = "Embedded TC"
"""The name of the font, which the style sheets have after those of the system."""

FONT = FONTS / "NotoSansTC-Regular.ttf"


def embedded_font(text: str) -> Markup:
    """A rule with a font of the characters of a text: a hundred kilobytes of a Chinese one.

    The same text gives the same bytes.
    """
    from fontTools import subset  # 0.2 s, which the PDF need not wait for

    options = subset.Options(hinting=False, layout_features=[], name_IDs=[])
    options.flavor = "woff2"
    font = subset.load_font(str(FONT), options, lazy=True)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=sorted(set(map(ord, text))))
    subsetter.subset(font)
    file = io.BytesIO()
    subset.save_font(font, file, options)
    data = base64.b64encode(file.getvalue()).decode()
    source = f'url("data:font/woff2;base64,{data}") format("woff2")'
    return Markup(f'@font-face{{font-family:"{FAMILY}";src:{source}}}')
