"""Rendering the report: Jinja to HTML, WeasyPrint to PDF, and any warning is an error.

WeasyPrint only logs a missing glyph, font, image or alt text; here each of them is an error.
"""

from __future__ import annotations

import base64
import gc
import hashlib
import io
import itertools
import logging
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from html import unescape
from logging.handlers import BufferingHandler
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jinja2
import pydyf
import weasyprint.svg
from markupsafe import Markup, escape
from PIL import ImageFont
from weasyprint import CSS, HTML, Attachment, Document
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import FatalURLFetchingError, URLFetcher, URLFetcherResponse

from flashlab.files import open_atomically, read_json
from flashlab.remarks import read_remarks
from flashlab.report.attachments import AttachedFile, Given, attached_files
from flashlab.report.content import compose
from flashlab.report.document import TAGS, TEMPLATES, Figure, Report, Text, says
from flashlab.telling.compiled import bytecode_cache
from flashlab.telling.glyphs import FONTS

NO_SYSTEM_FONTS = TEMPLATES / "fonts" / "fonts.conf"
"""A configuration of Fontconfig without any font: only those of the style sheet are left."""

# A figure says the same styles and lengths thousands of times.
weasyprint.svg.parse_declarations = cache(weasyprint.svg.parse_declarations)
weasyprint.svg.size = cache(weasyprint.svg.size)

FIGURES = "figures"
"""The folder of a dataset's figures."""

_DATA_URL = re.compile(r"(data:[^,\s]{0,200}),[^\s'\"]+")


class RenderError(Exception):
    """Something that the report needs is missing: a glyph, a font, an image."""


class ProjectFetcher(URLFetcher):  # type: ignore[misc]
    """Fetches files under the allowed folders and ``data:`` URLs, and nothing else."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        super().__init__(allowed_protocols=("file", "data"), fail_on_errors=True)
        self._folders = tuple(folder.resolve() for folder in folders)

    def fetch(self, url: str, headers: dict[str, str] | None = None) -> URLFetcherResponse:
        """The resource; ValueError for a file outside the folders, symbolic links resolved.

        The texts of a figure are anchored at their starts (`from_their_starts`).
        """
        parts = urlsplit(url)
        if parts.scheme == "file":
            path = Path(unquote(parts.path)).resolve()
            if parts.netloc or not any(path.is_relative_to(folder) for folder in self._folders):
                raise ValueError(f"{url} is outside the project's folders")
        response = super().fetch(url, headers)
        if parts.scheme == "file" and parts.path.endswith(".svg"):
            drawn = from_their_starts(response.read().decode())
            return URLFetcherResponse(url, drawn.encode(), response.headers)
        return response


@contextmanager
def rendering() -> Iterator[None]:
    """RenderError with all that WeasyPrint logged in the block, if it logged anything.

    Nor is there any garbage collection: WeasyPrint's many boxes all live until the end.
    """
    logger, logged = logging.getLogger("weasyprint"), BufferingHandler(sys.maxsize)
    logged.setLevel(logging.WARNING)
    logger.addHandler(logged)
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    except FatalURLFetchingError as error:
        logger.warning("%s: %s", error, error.__cause__)
    finally:
        logger.removeHandler(logged)
        if collects:
            gc.enable()
    if logged.buffer:
        messages = (_DATA_URL.sub(r"\1", record.getMessage()) for record in logged.buffer)
        lines = "\n  ".join(dict.fromkeys(messages))
        raise RenderError(
            f"The report cannot be rendered completely:\n  {lines}\n"
            "A missing glyph is a character that templates/fonts/ does not cover: use another one."
        )


# Texts

NO_BREAK = "\u00a0"

_EQUATION = re.compile(r"\b([A-Za-zα-ω]) (=|×|≥|≤) (?=[\d.]|[A-Za-z]\b)")
_SIZE = re.compile(r"\b([A-Zd]) (?=\d)")
_NUMBERED = re.compile(r"\b(Table|Figure|表|圖) (?=S?\d)")
_QUANTITY = re.compile(r"(?<=\d) (?=(?:ms|MiB|GiB|GB/s|GB|TFLOP/s|s)\b|倍|次方)")

# The font sets curved quotation marks as wide as a Han character, in whatever language.
_STRAIGHT = str.maketrans("“”‘’", "\"\"''")
_UNIT = re.compile(r"\([A-Za-z]+/[a-z]+\)")
_PAIR = re.compile("([，。、；：？！」』）〕】》])([，。、；：？！「」『』（）〔〕【】《》])")
_FIRST = re.compile(r"^(.*?(?:。|\.(?= [A-Z])|$))", re.DOTALL)


def unbroken(text: str) -> str:
    """A text without a line break in ``N = 1024`` or ``N 1024``, in a quantity, in ``Table 1``."""
    numbered = _NUMBERED.sub(rf"\1{NO_BREAK}", text)
    sized = _SIZE.sub(rf"\1{NO_BREAK}", numbered)
    return _QUANTITY.sub(NO_BREAK, _EQUATION.sub(rf"\1{NO_BREAK}\2{NO_BREAK}", sized))


def typeset(text: str, language: str) -> Markup:
    """A text as it is set: escaped, with what WeasyPrint does not know.

    Equations and units are unbroken. English quotation marks are straight, and of two full-width
    marks in a row, such as ``）：``, the first is set half as wide.
    """
    chinese = language == "zh_TW"
    escaped = escape(unbroken(text if chinese else text.translate(_STRAIGHT)))
    # Neither units nor marks are part of an entity, so that what was escaped stays escaped.
    whole = _UNIT.sub(r'<span class="unit">\g<0></span>', str(escaped))
    pair = '<span class="pair"><span class="half">\\1</span>\\2</span>'
    return Markup(_PAIR.sub(pair, whole) if chinese else whole)


def _led(text: Markup) -> Markup:
    """A paragraph with its first sentence in bold."""
    return Markup(_FIRST.sub(r"<b>\1</b>", str(text), count=1))


def _told(text: Text, languages: Sequence[str]) -> list[str]:
    """A text in each of some languages, without those that are alike."""
    return list(dict.fromkeys(text[language] for language in languages))


# The web page: its policy allows no address, and only the script whose hash it has. Its fonts are
# the system's, but for Chinese characters and in figures: those are inside it.

TEXT_POINTS = 180 / 25.4 * 72
"""Width of the text in the PDF, which figures are drawn for."""

FONT_GOES_HERE, HAN = "/* font */", 0x2E80

_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_NEEDLESS = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|font-family: [^;\"]*;? ?", re.DOTALL)
"""What the page need not repeat, the font among it, of which it has an embedded one."""
_LENGTHS = re.compile(r' (?:d|x|y|transform|points)="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_IDS = re.compile(r'( id="|href="#|url\(#)')
_WIDTH = re.compile(r'<svg [^>]*?width="([\d.]+)pt"')


class Page:
    """What the page has and the PDF lacks: its style, its script, its policy, figures in it."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        sheets = [(TEMPLATES / f"{name}.css").read_text("utf-8") for name in ("report", "page")]
        self.style = Markup(_FONT_FACES.sub("", "\n".join([*sheets, FONT_GOES_HERE])))
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
        width = _WIDTH.match(drawn)
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
    """Rules with the characters of a text as fonts: a hundred kilobytes of Chinese ones, and more.

    The same text gives the same bytes. The Chinese font is for no others, and the style sheets name
    it before those of the system: of a later one, which loads when it is needed, Chromium goes on
    to show boxes where it has laid out a text before.
    """
    from fontTools import subset  # 0.2 s, which the PDF need not wait for

    options, rules, codes = subset.Options(), "", sorted({*map(ord, text)})
    options.set(hinting=False, layout_features=[], name_IDs=[], flavor="woff2")
    for name, first, last in (("Embedded TC", HAN, 0x10FFFF), ("Embedded Latin", 0, HAN - 1)):
        font = subset.load_font(str(FONTS / "NotoSansTC-Regular.ttf"), options, lazy=True)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=[code for code in codes if first <= code <= last])
        subsetter.subset(font)
        subset.save_font(font, file := io.BytesIO(), options)
        data = base64.b64encode(file.getvalue()).decode()
        source = f'url("data:font/woff2;base64,{data}") format("woff2")'
        ranged = f"unicode-range:U+{first:X}-{last:X}"
        rules += f'@font-face{{font-family:"{name}";src:{source};{ranged}}}'
    return Markup(rules)


# The document


@cache
def templates(folder: Path) -> jinja2.Environment:
    """The templates in a folder: every text is escaped, an undefined variable is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        bytecode_cache=bytecode_cache(folder),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"typeset": typeset, "led": _led, "told": _told}
    return environment


def to_html(report: Report, page: Page | None = None) -> str:
    """The report as HTML for WeasyPrint, or with `page` as a web page.

    An undefined variable in the template is an error.
    """
    template = templates(TEMPLATES).get_template("report.html.j2")
    html = template.render(report=report, page=page, tags=TAGS, says=says)
    for language in TAGS.keys() - {*report.languages}:  # headings are in both
        html = re.sub(rf' ?<span lang="{TAGS[language]}">[^<]*</span>', "", html)
    return html


def own_fonts() -> FontConfiguration:
    """Fonts for a document: those that its style sheets name, and no system fonts."""
    before = os.environ.get("FONTCONFIG_FILE")
    os.environ["FONTCONFIG_FILE"] = str(NO_SYSTEM_FONTS)
    try:
        return FontConfiguration()
    finally:
        if before is None:
            del os.environ["FONTCONFIG_FILE"]
        else:
            os.environ["FONTCONFIG_FILE"] = before


def to_pdf(
    html: str,
    results: Path,
    files: Sequence[AttachedFile],
    created: str,
    styles: Sequence[str] = ("report.css",),
) -> bytes:
    """The HTML as PDF/A-3a with these files in it; RenderError for anything missing.

    Its own files are in `results`, where its paths begin, its `styles` in templates/. Compressing
    megabytes of samples takes seconds, in which another core lays out the pages.
    """
    fonts, fetcher = own_fonts(), ProjectFetcher((TEMPLATES, results))
    at = datetime.fromisoformat(created).astimezone(UTC)
    document = HTML(string=html, base_url=f"{results.resolve().as_uri()}/", url_fetcher=fetcher)
    sheets = [CSS(filename=TEMPLATES / name, font_config=fonts) for name in styles]
    with rendering(), ThreadPoolExecutor(max_workers=1) as beside:
        # 3% larger than by pydyf, which takes three times as long.
        packed = {file.content: beside.submit(zlib.compress, file.content) for file in files}

        def compress_once(_document: Document, pdf: pydyf.PDF) -> None:
            """Compress every stream: pydyf does so twice, to write it and to identify the file."""
            for each in pdf.objects:
                if type(each) is pydyf.Stream and each.compress:
                    content = b"\n".join(each.stream)
                    begun = packed.get(content)
                    each.stream = [begun.result() if begun else zlib.compress(content)]
                    each.compress = False
                    each.extra["Filter"] = "/FlateDecode"

        attachments = [
            Attachment(
                **{"string": file.content, "name": file.name, "description": file.name},
                **{"relationship": file.relationship, "created": at, "modified": at},
            )
            for file in files
        ]
        options = {"pdf_variant": "pdf/a-3a", "optimize_images": False, "attachments": attachments}
        rendered = document.render(font_config=fonts, stylesheets=sheets, **options)
        return bytes(rendered.write_pdf(finisher=compress_once, **options))


def write_report(
    config_file: Path,
    results: Path,
    ceilings: Path | None,
    output: Path,
    given: Given | None = None,
) -> None:
    """Write the PDF of the dataset in `results` atomically.

    `given` holds what a report that is rendered again takes from its attachments.
    """
    config = read_json(config_file)
    remarks = given.remarks if given else read_remarks(config)
    with ThreadPoolExecutor(max_workers=1) as beside:
        files = beside.submit(attached_files, config_file, results, ceilings, remarks, given)
        report = compose(config, results, ceilings, remarks)
        pdf = to_pdf(to_html(report), results, files.result(), report.created)
    with open_atomically(output, binary=True) as file:
        file.write(pdf)


def write_page(config_file: Path, results: Path, ceilings: Path | None, output: Path) -> None:
    """Write the same report as one self-contained HTML file."""
    config = read_json(config_file)
    report = compose(config, results, ceilings, read_remarks(config))
    page = Page()
    with open_atomically(output) as file:
        file.write(page.complete(to_html(report, page)))


# The texts of figures: WeasyPrint makes a transparency group of a text with another anchor than its
# start. That takes 200 bytes, and some viewers cut off its left edge at a low zoom.

SHARES = {"middle": 0.5, "end": 1.0}
"""The share of a text that is to the left of its anchor."""

UNITS = 1000
"""Of the report's fonts in an em, so that advances are whole."""

_ANCHORED = re.compile(
    r'<text style="([^"]*?)text-anchor: (middle|end)(?:; )?([^"]*)" x="([-\d.]+)"( y="[-\d.]+")'
    r' transform="rotate\(-0 [^"]*\)">([^<]*)</text>'
)
"""A level text as matplotlib writes it."""

_FONT_SIZE = re.compile(r"font-size: ([\d.]+)px")


@cache
def _font(weight: str) -> ImageFont.FreeTypeFont:
    file = FONTS / f"NotoSansTC-{weight}.ttf"
    return ImageFont.truetype(file, UNITS, layout_engine=ImageFont.Layout.BASIC)


def _from_its_start(match: re.Match[str]) -> str:
    before, anchor, after, x, y, text = match.groups()
    style = before + after
    font = _font("Bold" if "font-weight: 700" in style else "Regular")
    width = float(_FONT_SIZE.findall(style)[0]) * font.getlength(unescape(text)) / UNITS
    return f'<text style="{style}" x="{float(x) - SHARES[anchor] * width:.4f}"{y}>{text}</text>'


def from_their_starts(svg: str) -> str:
    """A figure with its level texts unmoved, each anchored at its start."""
    return _ANCHORED.sub(_from_its_start, svg)
