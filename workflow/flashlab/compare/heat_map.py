"""The heat map of a comparison: how many times as fast the second side is, at every setting.

A row a setting, a column a time and implementation; faster is blue and slower orange, by how much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from flashlab.analysis.ratios import exceeds_margin
from flashlab.benchmarks.model import Metric
from flashlab.compare.words import printed
from flashlab.report.document import HeatBlock, HeatCell
from flashlab.story.compare.means import shown_times
from flashlab.story.compare.table import Compared, as_speeds
from flashlab.story.tables import FASTER, SLOWER

SHADES = {True: (0x0B, 0x3D, 0x62), False: (0x8A, 0x3B, 0x00)}
"""The deepest colour of what is faster, and of what is slower."""

FULL = 1.6
"""The speed, or one over it, from which on the colour is the deepest."""

DEEP = 0.55
"""The share of the deepest colour from which on text is white."""


def shade(speed: float) -> tuple[str, bool]:
    """The colour of a speed, between white and the deepest; whether it is a deep one."""
    share = min(1.0, abs(math.log(speed)) / math.log(FULL))
    mixed = (round(255 + (channel - 255) * share) for channel in SHADES[speed >= 1])
    return f"#{bytes(mixed).hex()}", share > DEEP


def _cell(name: str, row: pd.Series | None, *, has_ended: bool) -> HeatCell:
    """A speed, bold where it is decided; × of a run without a result on either side."""
    if row is None:
        return HeatCell("×" if has_ended else "", name)
    is_decided = row.word in (FASTER, SLOWER)
    speed = float(row.x)
    return HeatCell(_text(speed), name, None, *shade(speed), is_decided)


def _text(speed: float) -> str:
    """A speed to two decimals, and to more where these would be on the other side of the margin."""
    short = f"{speed:.2f}"
    is_safe = speed < 10 and exceeds_margin(float(short)) == exceeds_margin(speed)
    return short if is_safe and float(short) else printed(speed)


def _rows(
    compared: Compared, speeds: pd.DataFrame, metrics: list[Metric]
) -> Iterator[tuple[str, list[list[HeatCell]]]]:
    """A row of cells for each setting, in order of the sequences where there are any."""
    ended = {(run["implementation"], run["shape"]) for run in compared.about["ended"]}
    if "seq_len" in speeds:
        speeds = speeds.sort_values("seq_len", kind="stable")
    found = {(row.implementation, row.metric, row["shape"]): row for _, row in speeds.iterrows()}
    for shape in speeds["shape"].unique():
        yield (
            str(shape),
            [
                [
                    _cell(
                        name,
                        found.get((name, metric.name, shape)),
                        has_ended=(name, shape) in ended,
                    )
                    for name in compared.implementations
                ]
                for metric in metrics
            ],
        )


def render_heat_map(compared: Compared) -> tuple[Mapping[str, Mapping[str, str]], list[HeatBlock]]:
    """The titles of its times, by name and language, and a block for each class of sizes."""
    metrics = shown_times(compared)
    names = [metric.name for metric in metrics]
    speeds = as_speeds(compared.single[compared.single.metric.isin(names)])
    classes = compared.classes(speeds) if len(speeds) else []
    blocks = [
        HeatBlock(
            [sizes] if sizes else [],
            [*_rows(compared, speeds[speeds.sizes == sizes], metrics)],
        )
        for sizes in classes
    ]
    titles = {metric.name: metric.part or metric.labels for metric in metrics}
    return titles, blocks
