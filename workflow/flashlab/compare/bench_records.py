"""The records of a bench: one for each process, under the protocol ``interleaved``."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.compare.interleave import Candidate
from flashlab.plan import identity
from flashlab.records import INTERLEAVED, Measurement, Record, read_metrics, write_record

FOLDER = Path("results", "bench")
"""Where the records go: no plan, table or dataset looks there."""


def _metrics(candidate: Candidate, process: int) -> dict[str, Measurement]:
    """What a process measured; memory was measured in the first."""
    metrics = read_metrics(candidate.metrics) if process == 0 else {}
    for name, processes in candidate.batches.items():
        calls = [seconds * 1e3 for seconds in itertools.chain.from_iterable(processes[process])]
        metrics[name] = Measurement(statistics.median(calls), tuple(calls), "time")
    return metrics


def _write_process(
    benchmark: Benchmark,
    candidate: Candidate,
    protocol: Mapping[str, Any],
    process: int,
    started: str,
) -> None:
    """Write the record of one process of an implementation, or that of its failure."""
    implementation, ok = candidate.target.implementation, candidate.status == "ok"
    decided_by = identity.identity(benchmark, candidate.run, protocol, implementation, process)
    environments = candidate.environments
    record = Record(
        benchmark=benchmark.name,
        run=candidate.run,
        status=candidate.status,
        message=candidate.message,
        protocol=protocol,
        metrics=_metrics(candidate, process) if ok else {},
        gate=None if process else candidate.gate,
        warnings=tuple(candidate.warnings[process]) if ok else (),
        environment=environments[process if ok else -1] if environments else {},
        sources=identity.sources(decided_by, implementation),
        started=started,
    )
    write_record(FOLDER / identity.record_name(candidate.run, decided_by), record)


def write_records(
    benchmark: Benchmark, candidates: Sequence[Candidate], seconds: float, started: str
) -> None:
    """Write the records of implementations that were measured in turns into `FOLDER`.

    There is one for each process, and a single one of a failure. Measuring the same again replaces
    them.
    """
    labels = [candidate.target.label for candidate in candidates]
    for place, candidate in enumerate(candidates):
        protocol = {"name": INTERLEAVED, "seconds": seconds, "in_turns": labels, "place": place}
        count = len(candidate.environments) if candidate.status == "ok" else 1
        for process in range(count):
            _write_process(benchmark, candidate, protocol, process, started)
