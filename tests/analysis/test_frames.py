"""A dataset as frames: every row of the tables, the sign of a ratio turned once."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pandas as pd
import pytest
from planted import ladder, training
from planted.results import PlantedReport

from flashlab.analysis.frames import POOLED, Dataset, number, read_dataset
from flashlab.plan.plan_files import experiment_file, planned_experiments

PLANTED = {"ladder": ladder.ON_GPU, "training": training.REPORT}


def read(report: PlantedReport, folder: Path) -> Dataset:
    """The frames of a planted report."""
    report.tabulate(folder)
    names = planned_experiments(folder)
    return read_dataset([experiment_file(folder, name) for name in names], folder / "tables")


@pytest.mark.parametrize("name", PLANTED)
def test_every_row_of_the_tables_is_in_a_frame(name: str, tmp_path: Path) -> None:
    """Failed runs too; a speed above 1 is better, whichever way the metric is; both directions."""
    report = PLANTED[name]
    with chdir(tmp_path):
        data = read(report, Path("results"))
        known = data.values.index.get_level_values("metric") != "operations"
        metrics = pd.concat(
            pd.read_csv(f"results/tables/{each}/metrics.csv") for each in data.plans
        )
    assert known.sum() == (metrics.status == "ok").sum()
    runs = pd.concat([data.runs, data.failed])
    assert len(runs) == metrics[metrics.metric == metrics.metric.iat[0]].shape[0]
    better = {m.name: m.higher_is_better for m in data.benchmark.metrics}
    for key, speed in zip(data.speeds.index, data.speeds.itertuples(), strict=True):
        row = data.comparisons.iloc[speed.row]
        is_turned = (row.subject, row.reference) != key[4:6]
        ratio = row.ratio if better.get(row.metric, False) is not is_turned else 1 / row.ratio
        assert speed.x == pytest.approx(ratio)
        assert (speed.verdict == "faster") <= (speed.x > 1) and (speed.verdict == "slower") <= (
            speed.x < 1
        )
        assert (key[-1] == POOLED) == pd.isna(row["value"])
    assert {*data.speeds.row} == {*range(len(data.comparisons))}


def test_queries_of_a_sweep(tmp_path: Path) -> None:
    """A frame by value and implementation; empty where nothing is."""
    with chdir(tmp_path):
        data = read(ladder.ON_GPU, Path("results"))
    sweep = data.sweeps[0]
    metric = data.benchmark.measured[0].name
    medians = sweep.medians(metric)
    assert [*medians.columns] == sweep.names and medians.index.is_monotonic_increasing
    assert sweep.medians("nothing").empty and sweep.speed(metric, "nobody").empty
    assert (
        pd.isna(number(medians, -5, sweep.names[0])) and sweep.rows(metric, ["nobody"], [1]) == []
    )
    evidence = data.rows(sweep.speed(metric, sweep.names[1]))
    assert {row["subject"] for row in evidence} <= {*sweep.names}
