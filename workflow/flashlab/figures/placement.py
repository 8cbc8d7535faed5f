"""Where texts are placed: how wide they are, and how they are kept apart."""

from __future__ import annotations

import itertools
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

Box = tuple[float, float, float, float]
"""Left, lower, right and upper edge."""


@cache
def text_inches(text: str, points: float, bold: bool = False) -> float:
    """How wide a line of text is in the report's font, in inches."""
    if not text:
        return 0.0
    font = FontProperties(family=FONT, weight="bold" if bold else "normal", size=points)
    width, _, _ = TextToPath().get_text_width_height_descent(text, font, False)
    return float(width) / POINTS


def spread(wanted: Sequence[float], extents: Sequence[float], low: float, high: float) -> Any:
    """Centres for labels in ascending order, as near to where they are wanted as can be.

    They do not overlap, and stay between `low` and `high` where these leave room for all of them.
    """
    sizes = np.asarray(extents, dtype=float)
    offsets = np.cumsum(sizes) - sizes / 2
    centres = isotonic_regression(np.asarray(wanted, dtype=float) - offsets).x
    return np.clip(centres, low, max(low, high - sizes.sum())) + offsets


def sparse(centres: Sequence[float], widths: Sequence[float], gap: float) -> list[int]:
    """The positions of the labels to print: the last one and every n-th before it, all apart."""
    last = len(centres) - 1
    for step in range(1, last + 1):
        kept = list(range(last, -1, -step))[::-1]
        ends = [(centres[i] - widths[i] / 2, centres[i] + widths[i] / 2) for i in kept]
        if all(right + gap <= left for (_, right), (left, _) in itertools.pairwise(ends)):
            return kept
    return [last]


def wrap_texts(texts: Sequence[str], points: float, width: float, bold: bool = False) -> list[str]:
    """Texts in as few lines as they fit into, never more than one line for each."""
    lines: list[str] = []
    for text in texts:
        joined = f"{lines[-1]} {text}" if lines else text
        if lines and text_inches(joined, points, bold) <= width:
            lines[-1] = joined
        else:
            lines.append(text)
    return lines


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes have an area in common."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def boxes_along(points: Sequence[tuple[float, float]], marker: float, line: float) -> list[Box]:
    """Small boxes that cover a line through points and the markers on it.

    `marker` and `line` are half the marker's size and half the line's width.
    """
    boxes = [(x - marker, y - marker, x + marker, y + marker) for x, y in points]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        for share in np.linspace(0, 1, 2 + int(np.hypot(x1 - x0, y1 - y0) / line)):
            x, y = x0 + (x1 - x0) * share, y0 + (y1 - y0) * share
            boxes.append((x - line, y - line, x + line, y + line))
    return boxes


def free_boxes(candidates: Sequence[Box], taken: Sequence[Box], bounds: Box) -> list[Box]:
    """The candidates within the bounds that overlap nothing."""
    left, low, right, high = bounds
    return [
        box
        for box in candidates
        if box[0] >= left and box[1] >= low and box[2] <= right and box[3] <= high
        if not any(overlap(box, other) for other in taken)
    ]
