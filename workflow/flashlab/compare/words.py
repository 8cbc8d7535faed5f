"""The words for verdicts that comparisons and benches share, and tables as text."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from flashlab.benchmarks.model import Metric
from flashlab.labels import message
from flashlab.story.compare import TIMES

EQUAL, INCONCLUSIVE = "equal", "inconclusive"
FAILED, MENDED = "failed", "mended"
LOSSES, GAINS = ("slower", "worse"), ("faster", "better")
STATED, UNSTATED = (FAILED, *LOSSES, MENDED, *GAINS), (INCONCLUSIVE, EQUAL)
"""The words that state a difference, the most pressing first, and those that do not: ``failed`` is
a run that had a result on the first side alone."""


def verdict_word(verdict: str, metric: Metric) -> str:
    """The word for a verdict on a metric: faster or slower for times, else better or worse.

    A verdict that states no difference is its own word.
    """
    if verdict in UNSTATED:
        return verdict
    gained = (verdict == "above") == metric.higher_is_better
    return (GAINS if gained else LOSSES)[0 if metric.unit in TIMES else 1]


def say(key: str, language: str, /, **params: object) -> str:
    """A message in a language, with its parameters filled in. The words of verdicts are keys."""
    return message(language, "compare", key).format_map(params)


def as_text(rows: Sequence[Sequence[str]], headings: Sequence[str], markdown: bool = False) -> str:
    """A table for a terminal, or as Markdown; columns whose headings begin with `>` are numbers.

    These are aligned on the right.
    """
    names = [heading.removeprefix(">") for heading in headings]
    sides = ["right" if heading.startswith(">") else "left" for heading in headings]
    cells = [[*row, *[""] * (len(names) - len(row))] for row in rows]
    if markdown:
        names, *cells = ([cell.replace("|", "\\|") for cell in row] for row in (names, *cells))
    frame = pd.DataFrame(cells, columns=pd.Index(names))
    form = "pipe" if markdown else "plain"
    align = sides if rows else None
    told = frame.to_markdown(index=False, tablefmt=form, disable_numparse=True, colalign=align)
    return "\n".join(line.rstrip() for line in str(told).splitlines())
