"""Every number of the golden reports' figures and comparing tables is printed in one way.

Tables without ratios are of devices, counters and exact values in full.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest
from golden.texts import GOLDEN, Golden, html_of

from flashlab.analysis.frames import Dataset, read_dataset
from flashlab.figures.stage import draw_figures
from flashlab.numbers import measured, times

SVG = "{http://www.w3.org/2000/svg}"
AXES = re.compile("xtick|ytick|legend|matplotlib.axis")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
RATIO = re.compile(r"\d×(?:<[^>]+>)*</td>")
CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)
LONGEST = 14
"""Characters of a cell that is a number; others are words."""


def printed(data: Dataset) -> tuple[set[str], set[str]]:
    """A dataset's times, rates, memory and ceilings as they are printed, and its ratios."""
    ends, plain = ["value", "low", "high"], data.values.to_frame("value")
    values = plain.join(data.intervals)[ends]
    exact = {metric.name for metric in data.benchmark.metrics if metric.exact}
    of_exact = values[values.index.get_level_values("metric").isin(exact)].value
    found = {measured(row) for row in values.itertuples(index=False, name=None)}
    ratios = data.speeds[["x", "low", "high"]].itertuples(index=False, name=None)
    shares = (times(one / other) for one, other in permutations(of_exact.unique(), 2))
    if data.ceilings:
        rates = [rate for each in data.ceilings.matrix.values() for rate in each.bounds]
        found |= {measured(rate / unit) for rate in rates for unit in (1e9, 1e12)}
    return found, {"1.00", *map(times, ratios), *shares}


def marks(node: ElementTree.Element) -> Iterator[str]:
    """The texts of a figure without those of its axes and legend."""
    if AXES.match(node.attrib.get("id", "")):
        return
    if node.tag == f"{SVG}text":
        yield "".join(node.itertext())
    for child in node:
        yield from marks(child)


@pytest.mark.parametrize(
    "golden", [x for x in GOLDEN if x.name in ("cpu", "lab5")], ids=lambda golden: golden.name
)
def test_a_number_is_printed_alike_in_figures_and_tables(golden: Golden) -> None:
    with golden.results() as (home, ceilings):
        draw_figures(home, ceilings, home / "figures", home / "overview")
        data = read_dataset(home, ceilings)
        drawn = [text for x in sorted(home.rglob("*.svg")) for text in marks(_root(x))]
        compared = [
            found for found in TABLE.findall(html_of(home, ceilings)) if RATIO.search(found)
        ]
    cells = [re.sub("<[^>]+>", "", x).strip() for found in compared for x in CELL.findall(found)]
    values, ratios = printed(data)
    seen, wrong = 0, []
    for text in [*drawn, *(cell for cell in cells if len(cell) <= LONGEST)]:
        for number in NUMBER.finditer(text):
            is_ratio = text[number.end() :].startswith("×")
            # Whole numbers are sizes and counts; after × stands by how much something grows.
            if "%" in text or text[0] == "×" or not number[0].strip("0."):
                continue
            if "." in number[0] or is_ratio:
                seen += 1
                wrong += [text] * (number[0] not in (ratios if is_ratio else values))
    assert seen > 100 and not wrong


def _root(svg: Path) -> ElementTree.Element:
    return ElementTree.parse(svg).getroot()
