"""The records of a bench: one for each process, under the protocol ``interleaved``."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path

from flashlab.benchmarks.model import Benchmark
from flashlab.compare.interleave import Candidate
from flashlab.plan import identity
from flashlab.records import INTERLEAVED, Measurement, Record, read_metrics, write_record

FOLDER = Path("results", "bench")
"""Where the records go: no plan, table or dataset looks there."""


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
        implementation, environments = candidate.target.implementation, candidate.environments
        ok = candidate.status == "ok"
        for process in range(len(environments) if ok else 1):
            # Memory was measured in the first.
            metrics = read_metrics(candidate.metrics) if ok and process == 0 else {}
            for name, processes in candidate.batches.items() if ok else ():
                calls = [s * 1e3 for s in itertools.chain.from_iterable(processes[process])]
                metrics[name] = Measurement(statistics.median(calls), tuple(calls), "time")
            decided_by = identity.identity(
                benchmark, candidate.run, protocol, implementation, process
            )
            record = Record(
                benchmark=benchmark.name,
                run=candidate.run,
                status=candidate.status,
                message=candidate.message,
                protocol=protocol,
                metrics=metrics,
                gate=None if process else candidate.gate,
                warnings=tuple(candidate.warnings[process]) if ok else (),
                environment=environments[process if ok else -1] if environments else {},
                sources=identity.sources(decided_by, implementation),
                started=started,
            )
            write_record(FOLDER / identity.record_name(candidate.run, decided_by), record)
