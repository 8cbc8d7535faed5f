"""Figures as parts of the page: what is left of Matplotlib's SVG, and whose language a text is."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

import pytest

from flashlab.report.document import FigureEntry
from flashlab.report.inline_svg import FigureLanguages, Styles, inline

TAGS = {"zh_TW": "zh-TW", "en": "en"}
LANGUAGES = FigureLanguages(
    [
        {"zh_TW": "序列長度", "en": "Sequence length"},
        {"zh_TW": "完整", "en": "Full"},
        {"zh_TW": "長序列（d = 64，因果）", "en": "Long sequences (d = 64, causal)"},
        {"zh_TW": "FLOPs", "en": "FLOPs"},
    ],
    TAGS,
)

SVG = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 width="247pt" height="100pt" viewBox="0 0 247.123456 100" version="1.1">
 <metadata>a date</metadata>
 <defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
 <g id="patch_1"><path d="M 0 0 L 1 1" style="fill: #ffffff"/></g>
 <g id="axes_1">
  <g id="implementation:Flash2:3"><path id="m1" d="M 1.234567 -0.5 L 2 2"
    clip-path="url(#p9)" style="stroke: #ab1700"/></g>
  <g id="line_1"><use xlink:href="#m1" x="3.999999" style="stroke: #ab1700"/></g>
  <text style="font-size: 7px; font-family: 'Noto Sans TC'"
    transform="rotate(-0 1 2)">序列長度 Sequence length N</text>
 </g>
 <defs><clipPath id="p9"><rect x="0" y="0" width="5" height="5"/></clipPath></defs>
</svg>"""


def test_a_text_is_taken_apart_into_its_languages() -> None:
    assert LANGUAGES.split("H = 32, 完整 Full") == [
        ("H = 32, ", ""),
        ("完整", "zh-TW"),
        (" ", ""),
        ("Full", "en"),
    ]
    assert LANGUAGES.split("Long sequences") == [("Long sequences", "en")]
    assert LANGUAGES.split("長序列（d = 64，") == [("長序列（d = 64，", "zh-TW")]


def test_what_is_in_no_language_belongs_to_all() -> None:
    for text in ("Flash2", "FLOPs", "d", "causal2", "1,024", ""):
        assert LANGUAGES.split(text) == [(text, "")]


def test_a_figure_keeps_what_is_drawn_and_names_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "time.svg"
    path.write_text(SVG, encoding="utf-8")
    styles: Styles = {}
    drawn = inline(FigureEntry("figure-1", path, "", ""), styles, LANGUAGES, "Time & rate", count())
    assert re.sub(r"\s+", " ", drawn) == (
        '<svg viewBox="0 0 247.1 100" style="width: 48.4%" role="img" '
        'aria-label="Time &amp; rate">'
        '<path d="M1.2 -0.5L2 2" clip-path="url(#m0)" id="m1" class="f0" '
        'data-of="Flash2" />'
        '<use x="3.9" href="#m1" class="f0" />'
        '<text class="f1"><tspan lang="zh-TW">序列長度</tspan><tspan> </tspan>'
        '<tspan lang="en">Sequence length</tspan><tspan> N</tspan></text>'
        '<defs><clipPath id="m0"><rect x="0" y="0" width="5" height="5" /></clipPath>'
        "</defs></svg>"
    )
    assert styles == {"stroke: #ab1700": "f0", "font-size: 7px": "f1"}


def test_only_what_reaches_out_of_a_clip_is_clipped(tmp_path: Path) -> None:
    line = '<path d="M 1 1 L 2.96 2" clip-path="url(#panel)" />'
    moved = line.replace(" />", ' transform="translate(1 1)" />')
    out = line.replace("L 2.96", "L 7.03")
    clip = '<defs><clipPath id="panel"><rect x="0" y="0" width="5" height="5"/></clipPath></defs>'
    path = tmp_path / "lines.svg"
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="10pt" height="10pt" version="1.1">'
        f'<g id="implementation:A">{line}{line}</g>{moved}{out}{clip}</svg>'
    )
    drawn = inline(FigureEntry("f", path, "", ""), {}, LANGUAGES, "", count())
    assert '<g data-of="A"><path d="M1 1L2.9 2" /><path d="M1 1L2.9 2" /></g>' in drawn
    assert '<path d="M1 1L7 2" clip-path="url(#m0)" />' in drawn
    assert drawn.count("clip-path=") == 2  # what is moved is not judged


def test_neighbours_of_one_implementation_say_it_once(tmp_path: Path) -> None:
    groups = "".join(
        f'<g id="implementation:{name}"><path d="M 0 {y}"/></g>' for y, name in enumerate("AAB")
    )
    path = tmp_path / "cells.svg"
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt" version="1.1">'
        f"{groups}</svg>"
    )
    drawn = inline(FigureEntry("f", path, "", ""), {}, LANGUAGES, "", count())
    assert (
        '<g data-of="A"><path d="M0 0" /><path d="M0 1" /></g><path d="M0 2" data-of="B" />'
    ) in drawn


@pytest.mark.parametrize(
    ("styles", "expected"),
    [
        (("fill: #fff", "fill: #fff"), '<g class="f0"><use x="1" /><use x="2" /></g>'),
        (
            ("fill: #fff", "fill: #000"),
            '<g><use x="1" class="f0" /><use x="2" class="f1" /></g>',
        ),
        (("fill: #fff", ""), '<g><use x="1" class="f0" /><use x="2" /></g>'),
        (
            ("opacity: 0.8", "opacity: 0.8"),
            '<g><use x="1" class="f0" /><use x="2" class="f0" /></g>',
        ),
    ],
    ids=["all alike", "different", "one without", "seen through"],
)
def test_marks_that_look_alike_have_their_look_from_their_group(
    tmp_path: Path, styles: tuple[str, str], expected: str
) -> None:
    uses = "".join(f'<use x="{n}" style="{style}"/>' for n, style in enumerate(styles, start=1))
    path = tmp_path / "marks.svg"
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt" version="1.1">'
        f'<g clip-path="url(#c)">{uses}</g><clipPath id="c"/></svg>'
    )
    drawn = inline(FigureEntry("f", path, "", ""), {}, LANGUAGES, "", count())
    assert expected in drawn.replace(' clip-path="url(#m0)"', "")


def test_no_two_figures_of_a_page_share_an_id(tmp_path: Path) -> None:
    path, styles, numbers = tmp_path / "time.svg", Styles(), count()
    path.write_text(SVG, encoding="utf-8")
    figures = [FigureEntry(name, path, "", "") for name in ("figure-1", "figure-2")]
    drawn = [inline(each, styles, LANGUAGES, "", numbers) for each in figures]
    first, second = (set(re.findall(' id="(.*?)"', svg)) for svg in drawn)
    assert len(first) == len(second) == 2 and not first & second
