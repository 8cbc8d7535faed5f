"""From the records of a dataset to all of its tables; each record is read once.

Of each experiment its runs, metrics, samples and curves; of the dataset every ratio, and what is
known of each run by itself. Nobody reads samples but here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flashlab.analysis.ceilings import read_ceilings
from flashlab.analysis.comparisons import comparisons, comparisons_csv
from flashlab.analysis.doubts import doubts
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import (
    COMPARISONS,
    ESTIMATE_COLUMNS,
    ESTIMATES,
    Key,
    Runs,
    Warnings,
    chosen_metrics,
    run_keys,
)
from flashlab.analysis.tables import KnownRuns, read_runs, write_csv, write_tables
from flashlab.files import canonical, open_atomically, read_json
from flashlab.plan.plan_files import EXPERIMENTS, RECORDS
from flashlab.statistics import interval_of


def _estimate_rows(
    experiments: Sequence[Runs], estimates: Estimates, warnings: Warnings
) -> Iterator[dict[str, Any]]:
    """A row of estimates.csv for each sampled metric of each run, once a dataset.

    The intervals rest on the spread between processes that the runs of an implementation share over
    the whole dataset, as verdicts do; those of an experiment's metrics.csv on the run's own calls.
    """
    seen = set[tuple[Key, str]]()
    for x in experiments:
        sampled = [metric for metric in x.benchmark.measured if not metric.exact]
        named = {metric.name: metric for metric in (*chosen_metrics(x.benchmark), *sampled)}
        every = [(each.key, name) for each in x.runs for name in named]
        for key, name in sorted({*every} - seen):
            if (found := estimates.of(named[name]).get(key)) is None:
                continue
            low, high = interval_of(found) or (None, None)
            medians = [one.median for one in estimates.processes(named[name])[key].estimates]
            own = [warning for warning in warnings.get(key, ()) if warning["metric"] == name]
            yield {
                **dict(zip(run_keys(x.benchmark), key, strict=True)),
                **{"metric": name, "low": low, "high": high},
                **{"least": min(medians), "most": max(medians)},
                "warnings": canonical(own) if own else None,
            }
        seen |= {*every}


def make_tables(results: Path, ceilings_file: Path | None, output: Path) -> None:
    """Write the tables of the planned experiments into `output`, and the dataset's beside it.

    Args:
        results: the dataset's folder, with its plan.
        ceilings_file: the device's ceilings, None where none were measured.
        output: the folder of the experiments' tables.

    Raises:
        RecordError: a record is missing, malformed, of another run, or not the manifest's.
    """
    ceilings = read_ceilings(read_json(ceilings_file)) if ceilings_file else None
    known: KnownRuns = {}
    plan, sweeps = read_json(results / RECORDS), read_json(results / EXPERIMENTS)
    read = [
        read_runs({**plan, "records": records}, sweeps[name], ceilings, known)
        for name, records in plan["experiments"].items()
    ]
    for each in read:
        write_tables(each, plan["sources"], output / each.name)
    estimates = Estimates(read)
    warnings = doubts(read, estimates)
    with open_atomically(output.with_name(COMPARISONS)) as file:
        file.write(comparisons_csv(comparisons(read, estimates, warnings)))
    columns = (*run_keys(read[0].benchmark), *ESTIMATE_COLUMNS)
    write_csv(output.with_name(ESTIMATES), columns, _estimate_rows(read, estimates, warnings))
