"""The report as one HTML file, with its style, scripts, figures and data inside it.

The page's policy allows no address, and only the scripts whose hashes it has. Its fonts are those
of the reader's system; its Chinese characters are inside it as well (`report.page_font`).
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from pathlib import Path
from typing import Any

from markupsafe import Markup

from flashlab.labels import messages
from flashlab.report.document import FigureEntry, Report
from flashlab.report.inline_svg import FigureLanguages, Styles, inline
from flashlab.report.page_font import embedded_font
from flashlab.telling.teller import Teller
from flashlab.telling.values import Tellable, Value, say

TEMPLATES = Path(__file__).parents[3] / "templates"
LANGUAGE_TAGS = {"zh_TW": "zh-TW", "en": "en"}
OWN_NAMES = {"zh_TW": "中文", "en": "English"}

WORDS = "interface."
"""The beginning of the keys of the script's messages."""

CHART_DIGITS = 7
"""Significant digits of a chart's numbers, so that a ratio of two of them is right when printed."""

FIGURE_STYLES_GO_HERE = "/* figures */"

_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def _template(name: str) -> str:
    """A file of templates/, which holds no text of a record."""
    return TEMPLATES.joinpath(name).read_text(encoding="utf-8")


def screen_style(*names: str) -> Markup:
    """Style sheets of templates/ for a browser, without their fonts."""
    return Markup(_FONT_FACES.sub("", "\n".join(map(_template, names))))


class Page:
    """The parts of the page that the PDF lacks: navigation, charts, scripts, and its policy."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._styles: Styles = {}
        self._numbers = itertools.count()
        self._tellers = {
            language: Teller(language, report.benchmark) for language in report.languages
        }
        texts = [self._in_all(text) for text in report.exploration.figure_texts]
        self._languages = FigureLanguages(texts, LANGUAGE_TAGS)
        self.implementations = [row.implementation for row in report.implementations.table.rows]
        self.own_name = OWN_NAMES

    @property
    def style(self) -> Markup:
        """The PDF's style sheet, then the page's, and a rule that shows a single language."""
        alone = "\n".join(
            f':root[data-language="{tag}"] body [lang]:not([lang="{tag}"], .always) '
            "{ display: none !important; }"
            for tag in map(LANGUAGE_TAGS.__getitem__, self._report.languages)
        )
        sheets = screen_style("report.css", "uplot/uPlot.min.css", "page.css")
        return Markup("\n".join([sheets, alone, FIGURE_STYLES_GO_HERE]))

    @property
    def early_script(self) -> Markup:
        """The script that runs before anything is shown: the reader's theme and language."""
        return Markup(_template("page-early.js").strip())

    @property
    def script(self) -> Markup:
        """The charts' library with its licence, then the page's script."""
        licence = _template("uplot/LICENSE")
        library = _template("uplot/uPlot.iife.min.js")
        own = [_template(f"page{part}.js") for part in ("-charts", "-marks", "")]
        return Markup("\n".join([f"/*\n{licence}*/", library, *own]).strip())

    @property
    def policy(self) -> str:
        """The Content Security Policy: the inline style, these scripts, and the file's own data."""
        digests = (hashlib.sha256(s.encode()).digest() for s in (self.early_script, self.script))
        hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
        return (
            "default-src 'none'; style-src 'unsafe-inline'; "
            f"script-src {hashes}; img-src data:; font-src data:; "
            "base-uri 'none'; form-action 'none'"
        )

    @property
    def data(self) -> Markup:
        """The script's data as JSON: the charts, and the texts of the controls."""
        shown = self._report.exploration
        known = messages(self._report.languages[0], "report")
        keys = [key for key in known if key.startswith(WORDS)]
        content = {
            "languages": [LANGUAGE_TAGS[language] for language in self._report.languages],
            "titles": self._plain(self._report.front.title),
            "words": {key.removeprefix(WORDS): self._plain(say(key)) for key in keys},
            "metrics": self._plain(shown.metrics),
            "charts": self._plain(shown.charts),
        }
        packed = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        # In a script element, only this character could end it or begin a comment.
        return Markup(packed.replace("<", "\\u003c"))

    def _in_all(self, value: Tellable) -> dict[str, str]:
        """A value in words, by language."""
        return {language: teller.tell(value) for language, teller in self._tellers.items()}

    def _plain(self, value: Any) -> Any:
        """A value as JSON: words by the languages' tags, numbers with the digits that matter."""
        if isinstance(value, Value):
            return {LANGUAGE_TAGS[key]: text for key, text in self._in_all(value).items()}
        if isinstance(value, dict):
            return {key: self._plain(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(each) for each in value]
        if isinstance(value, float):
            return float(f"{value:.{CHART_DIGITS}g}")
        return value

    def svg(self, figure: FigureEntry) -> Markup:
        """A figure as part of the page."""
        alt = " ".join(dict.fromkeys(self._in_all(figure.caption).values()))
        return Markup(inline(figure, self._styles, self._languages, alt, self._numbers))

    def complete(self, html: str) -> str:
        """The rendered page with the styles of its figures, without needless white space.

        Scripts stay unchanged, since the policy has their hashes. Opening tags are kept, without
        which Chromium takes half as long again until the page answers.
        """
        import minify_html  # 0.05 s, which the PDF need not wait for

        sheet = "".join(f".{name}{{{style}}}" for style, name in self._styles.items())
        shown = html.replace(FIGURE_STYLES_GO_HERE, f"{sheet}{embedded_font(html)}", 1)
        small = minify_html.minify(shown, minify_css=True, keep_html_and_head_opening_tags=True)
        return f"{small}</html>\n"  # left out by minify; shows that the file is whole
