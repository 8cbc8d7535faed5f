"""The placing of texts: their widths, and positions at which they do not overlap."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath
from scipy.optimize import isotonic_regression

POINTS = 72
"""Points in an inch."""

FONT = "Noto Sans TC"

_PARTS = re.compile(r"[ -~]+?(?: |$|(?=[^ -~]))|[^ -~]")
"""The parts that a line may break between: words, and characters of a script without spaces."""


@cache
def text_inches(text: str, points: float, bold: bool = False) -> float:
    """The width of a text's widest line in the report's font, in inches."""
    font = FontProperties(family=FONT, weight="bold" if bold else "normal", size=points)
    lines = [line for line in text.split("\n") if line]
    widths = [TextToPath().get_text_width_height_descent(line, font, False)[0] for line in lines]
    return float(max(widths, default=0.0)) / POINTS


def spread(wanted: Sequence[float], extent: float) -> Any:
    """Centres for labels in ascending order, as near to where they are wanted as can be.

    Each takes `extent`. They do not overlap, and stay between 0 and 1 where there is room for all
    of them.
    """
    below = extent * np.arange(len(wanted))
    places = isotonic_regression(np.asarray(wanted, dtype=float) - extent / 2 - below).x
    return np.clip(places, 0, max(0, 1 - extent * len(wanted))) + extent / 2 + below


def sparse(centres: Sequence[float], widths: Sequence[float], gap: float) -> list[int]:
    """The positions of the labels to print: the last one and every n-th before it, all apart."""
    last = len(centres) - 1
    for step in range(1, last + 1):
        kept = list(range(last, -1, -step))[::-1]
        ends = [(centres[i] - widths[i] / 2, centres[i] + widths[i] / 2) for i in kept]
        if all(right + gap <= left for (_, right), (left, _) in itertools.pairwise(ends)):
            return kept
    return [last] if centres else []


def wrap_texts(texts: Sequence[str], points: float, width: float, bold: bool = False) -> list[str]:
    """Texts in as few lines as they fit into; one that is too wide for a line is parted."""
    lines = [""]
    for text in texts:
        fits = text_inches(text, points, bold) <= width
        lines += [] if fits else [""]
        for part in [f" {text}"] if fits else _PARTS.findall(text):
            if text_inches(f"{lines[-1]}{part}".strip(), points, bold) > width:
                lines.append("")
            lines[-1] += part
    return [line.strip() for line in lines if line.strip()]
