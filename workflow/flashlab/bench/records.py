"""The records of a bench: one for each process, under the protocol ``interleaved``."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.bench.interleave import Measured
from flashlab.benchmarks.model import Benchmark
from flashlab.plan import identity
from flashlab.records import INTERLEAVED, Measurement, Record, read_metrics, write_record

FOLDER = Path("results", "bench")
"""Where the records go: no plan, table or dataset looks there."""


def protocol_of(measured: Sequence[Measured], place: int, seconds: float) -> dict[str, Any]:
    """The protocol of one of the implementations that were measured in turns."""
    labels = [each.target.label for each in measured]
    return {"name": INTERLEAVED, "seconds": seconds, "in_turns": labels, "place": place}


def _metrics_of(each: Measured, process: int) -> dict[str, Measurement]:
    """What a process measured; memory was measured in the first."""
    found = read_metrics(each.metrics) if process == 0 else {}
    for name, processes in each.batches.items():
        calls = [seconds * 1e3 for seconds in itertools.chain.from_iterable(processes[process])]
        found[name] = Measurement(statistics.median(calls), tuple(calls), "time")
    return found


def records_of(
    benchmark: Benchmark, each: Measured, protocol: Mapping[str, Any], started: str
) -> list[Record]:
    """The records of one implementation: of each process, or a single one of its failure."""
    found = []
    for process, environment in enumerate(each.environments if each.status == "ok" else [{}]):
        decided_by = identity.identity(
            benchmark, each.run, protocol, each.target.implementation, process
        )
        record = Record(
            benchmark=benchmark.name,
            run=each.run,
            status=each.status,
            message=each.message,
            protocol=protocol,
            metrics=_metrics_of(each, process) if each.status == "ok" else {},
            gate=each.gate if process == 0 else None,
            warnings=tuple(each.warnings[process]) if each.status == "ok" else (),
            environment=environment or (each.environments[-1] if each.environments else {}),
            sources=identity.sources(decided_by, each.target.implementation),
            started=started,
        )
        found.append(record)
    return found


def write_records(
    benchmark: Benchmark, measured: Sequence[Measured], seconds: float, started: str
) -> None:
    """Write the records of implementations that were measured in turns into `FOLDER`.

    Measuring the same again replaces them.
    """
    for place, each in enumerate(measured):
        protocol = protocol_of(measured, place, seconds)
        for record in records_of(benchmark, each, protocol, started):
            decided_by = identity.identity(
                benchmark, each.run, protocol, each.target.implementation, record.process
            )
            write_record(FOLDER / identity.record_name(each.run, decided_by), record)
