"""A dataset as frames: every row of the tables, the sign of a ratio turned once."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from planted import ladder, training
from planted.results import PlantedReport

from flashlab.analysis.frames import POOLED


@pytest.mark.parametrize("report", [ladder.ON_GPU, training.REPORT], ids=["ladder", "training"])
def test_every_row_of_the_tables_is_in_a_frame(report: PlantedReport, tmp_path: Path) -> None:
    """Failed runs too; a speed above 1 is better, whichever way the metric is; both directions."""
    data = report.dataset(tmp_path)
    metrics = pd.concat(map(pd.read_csv, tmp_path.glob("tables/*/metrics.csv")))
    known = data.values.index.get_level_values("metric") != "operations"
    assert known.sum() == (metrics.status == "ok").sum()
    assert len(data.runs) + len(data.failed) == metrics.metric.eq(metrics.metric.iat[0]).sum()
    better = {m.name: m.higher_is_better for m in data.benchmark.metrics}
    for key, speed in zip(data.speeds.index, data.speeds.itertuples(), strict=True):
        row = data.comparisons.iloc[speed.row]
        is_turned = (row.subject, row.reference) != key[4:6]
        ratio = row.ratio if better.get(row.metric, False) is not is_turned else 1 / row.ratio
        assert speed.x == pytest.approx(ratio)
        assert speed.verdict != ("slower" if speed.x > 1 else "faster")
        assert (key[-1] == POOLED) == pd.isna(row["value"])
    assert {*data.speeds.row} == {*range(len(data.comparisons))}
