"""Every number of the golden reports' figures and comparing tables is printed in one way.

Tables without ratios are of devices, counters and exact values in full.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import permutations

import pytest
from golden.texts import GOLDEN, Golden, html_of

from flashlab.analysis.frames import Dataset, read_dataset
from flashlab.figures.stage import draw_figures
from flashlab.numbers import measured, times

AXES = re.compile("xtick|ytick|legend|matplotlib.axis")
NUMBER = re.compile(r"(?<![×\d])(\d[\d,]*(?:\.\d+)?)(×?)")
TABLE, RATIO = re.compile(r"<table.*?</table>", re.DOTALL), re.compile(r"\d×(?:<[^>]+>)*</td>")
CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)
LONGEST = 14
"""Characters of a cell that is a number; others are words."""


def printed(data: Dataset) -> tuple[set[str], set[str]]:
    """A dataset's times, rates, memory and ceilings as they are printed, and its ratios."""
    values = data.values.to_frame("value").join(data.intervals)[["value", "low", "high"]]
    exact = {metric.name for metric in data.benchmark.metrics if metric.exact}
    of_exact = values[values.index.get_level_values("metric").isin(exact)].value.unique()
    found = {measured(row) for row in values.itertuples(index=False, name=None)}
    ratios = data.speeds[["x", "low", "high"]].itertuples(index=False, name=None)
    shares = (times(one / other) for one, other in permutations(of_exact, 2))
    if data.ceilings:
        products = data.ceilings.matrix.values()
        rates = [rate for of in products for rate in (of.rate, of.sustained_rate) if rate]
        found |= {measured(rate / unit) for rate in rates for unit in (1e9, 1e12)}
    return found, {"1.00", *map(times, ratios), *shares}


def marks(node: ElementTree.Element) -> Iterator[str]:
    """The texts of a figure without those of its axes and legend."""
    if not AXES.match(node.get("id", "")):
        yield "".join(node.itertext()) if node.tag.endswith("}text") else ""
        for child in node:
            yield from marks(child)


@pytest.mark.parametrize(
    "golden", [x for x in GOLDEN if x.name in ("cpu", "lab5")], ids=lambda golden: golden.name
)
def test_a_number_is_printed_alike_in_figures_and_tables(golden: Golden) -> None:
    with golden.results() as (home, ceilings):
        draw_figures(home, ceilings, home / "figures", home / "overview")
        data, html = read_dataset(home, ceilings), html_of(home, ceilings)
        roots = [ElementTree.parse(path).getroot() for path in sorted(home.rglob("*.svg"))]
    texts = [text for root in roots for text in marks(root)]
    compared = [table for table in TABLE.findall(html) if RATIO.search(table)]
    cells = [re.sub("<[^>]+>", "", x).strip() for table in compared for x in CELL.findall(table)]
    values, ratios = printed(data)
    seen, wrong = 0, []
    for text in [*texts, *(cell for cell in cells if len(cell) <= LONGEST)]:
        # Whole numbers are sizes and counts; after × stands by how much something grows.
        for number, ratio in NUMBER.findall(text) if "%" not in text and text[:1] != "×" else ():
            if number.strip("0.") and ("." in number or ratio):
                seen += 1
                wrong += [text] * (number not in (ratios if ratio else values))
    assert seen > 100 and not wrong
