"""From the records of a dataset to all of its tables; each record is read once.

Of each experiment its runs, metrics, samples and curves; of the dataset every ratio, and what is
known of each run by itself. Nobody reads samples but here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flashlab.analysis.ceilings import Ceilings, read_ceilings
from flashlab.analysis.comparisons import comparisons, comparisons_csv
from flashlab.analysis.doubts import doubts
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import (
    COMPARISONS,
    ESTIMATES,
    Experiment,
    read_experiment,
)
from flashlab.analysis.run_estimates import RunEstimates, estimate_rows, write_run_estimates
from flashlab.analysis.sittings import with_sittings
from flashlab.analysis.tables import (
    KnownRuns,
    samples_by_run,
    tables_of,
    write_tables,
)
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import open_atomically, read_json
from flashlab.plan.plan_files import planned_experiments, records_file, sweep_file


def tabulate(
    records_plan: Path,
    sweep_plan: Path,
    tables: Path,
    ceilings: Ceilings | None = None,
    known: KnownRuns | None = None,
) -> Experiment:
    """Write the tables of an experiment; the experiment as they hold it, with its samples.

    Args:
        records_plan: which records it has (``plan/records/<experiment>.json``).
        sweep_plan: what it is (``plan/sweeps/<experiment>.json``).
        tables: the folder of all experiments' tables.
        ceilings: the device's, None where none were measured.
        known: the runs that other experiments have; those read here are added.
    """
    plan, sweep = read_json(records_plan), read_json(sweep_plan)
    benchmark, found = find_benchmark(plan["benchmark"]), tables_of(plan, ceilings, known)
    write_tables(found, benchmark, tables / sweep["name"])
    experiment = read_experiment(sweep, tables)
    return replace(experiment, samples=samples_by_run(found, benchmark))


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
    read = [
        tabulate(records_file(results, name), sweep_file(results, name), output, ceilings, known)
        for name in planned_experiments(results)
    ]
    known.clear()
    estimates, benchmark = Estimates(read), find_benchmark(read[0].plan["benchmark"])
    rows = list(estimate_rows(read, estimates, doubts(read, estimates)))
    warned = RunEstimates(rows, benchmark).warned
    experiments = with_sittings([replace(each, runs=warned(each)) for each in read])
    with open_atomically(output.with_name(COMPARISONS)) as file:
        file.write(comparisons_csv(comparisons(experiments, estimates)))
    write_run_estimates(output.with_name(ESTIMATES), rows, benchmark)
