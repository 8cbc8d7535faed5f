"""``bench`` and ``profile`` on the command line."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from flashlab import machine
from flashlab.analysis.experiment import IMPLAUSIBLE
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import ImplementationError
from flashlab.checking.command import claimed_with_notice
from flashlab.checking.shapes import parse_shapes, shape_text, sweep_shape
from flashlab.compare.bench_process import Patience
from flashlab.compare.bench_profile import count_run, counters_table, print_profile
from flashlab.compare.bench_table import blocks, describe, find_ceiling, show_progress
from flashlab.compare.interleave import Candidate, measure_in_turns
from flashlab.compare.printing import open_console
from flashlab.compare.targets import SavedError, Target, opened_targets
from flashlab.files import write_json
from flashlab.measuring.supervise import MeasuringError
from flashlab.plan import identity
from flashlab.records import INTERLEAVED, Measurement, Record, read_metrics, write_record

DEFAULT_SHAPE = {"cuda": Shape(16, 1024, 32, 2048, True), "cpu": Shape(1, 512, 8, 512, True)}
"""The shape measured if none is given, by kind of device; a size left out is taken from it too."""

DTYPE = {"cuda": "float16", "cpu": "float32"}

FOLDER = Path("results", "bench")
"""The folder of the records, which no plan, table or dataset reads."""

PASSES = tuple(metric.name for metric in ATTENTION.measured if metric.work)
"""The timed metrics of the passes."""

COUNTERS_SECONDS = 300.0
WATCH_SECONDS = 0.3
"""Seconds between two looks at the watched files."""

WAITING = "watching for the next save; Ctrl-C ends"


@dataclass(frozen=True)
class Order:
    """The arguments of a bench, in the order of the command line's options.

    `shapes` are texts such as ``B16,N1024,H32,D64,causal``, `sweep` one such as
    ``seq_len=128:8192``. `asked` are the passes to measure, all where none is. `seconds` is how
    long each shape is measured, `timeout_s` how long a step of a process may take, None by what the
    others took. `output` is a JSON file to write.
    """

    implementations: Sequence[str]
    shapes: Sequence[str]
    sweep: str | None
    dtype: str | None
    asked: Sequence[str] | None
    seconds: float
    margin: float
    counters: bool
    timeout_s: float | None
    output: Path | None

    @property
    def passes(self) -> tuple[str, ...]:
        """The timed metrics of the passes to measure."""
        return tuple(p for p in PASSES if not self.asked or p.removesuffix("_time") in self.asked)


def shapes_of(texts: Sequence[str], sweep: str | None, device: str) -> list[Shape]:
    """The shapes to measure, each once, in order. Raises ShapeError."""
    default = DEFAULT_SHAPE[device]
    given = list(texts) or [shape_text(default)]
    if sweep is not None:
        given = [swept for text in given for swept in sweep_shape(text, sweep)]
    names = ("batch_size", "seq_len", "num_heads", "head_dim")
    sizes = {name: [getattr(default, name)] for name in names}
    return list(dict.fromkeys(shape for text in given for shape in parse_shapes(text, **sizes)))


def _print_counters(console: Console, candidates: Sequence[Candidate], device: str) -> None:
    """Count the passes of each implementation that was measured, and print the counters."""
    counted = {
        candidate.target.label: count_run(
            candidate.run, candidate.target.implementation, FOLDER, COUNTERS_SECONDS
        )
        for candidate in candidates
        if candidate.status == "ok"
    }
    for label, record in counted.items():
        if record.status != "ok":
            console.print(f"counters of {label}: {record.status}: {record.message}")
    if any(record.status == "ok" for record in counted.values()):
        console.print(counters_table(counted, device))


def _write_records(candidates: Sequence[Candidate], seconds: float, started: str) -> None:
    """Write the records of implementations that were measured in turns into `FOLDER`.

    There is one for each process, and a single one of a failure. Measuring the same again replaces
    them.
    """
    labels = [candidate.target.label for candidate in candidates]
    for position, candidate in enumerate(candidates):
        protocol = {"name": INTERLEAVED, "seconds": seconds, "in_turns": labels, "place": position}
        implementation, environments = candidate.target.implementation, candidate.environments
        ok = candidate.status == "ok"
        for process in range(len(environments) if ok else 1):
            # Memory was measured in the first.
            metrics = read_metrics(candidate.metrics) if ok and process == 0 else {}
            for name, processes in candidate.batches.items() if ok else ():
                calls = [s * 1e3 for s in itertools.chain.from_iterable(processes[process])]
                metrics[name] = Measurement(statistics.median(calls), tuple(calls), "time")
            decided_by = identity.identity(
                ATTENTION, candidate.run, protocol, implementation, process
            )
            record = Record(
                benchmark=ATTENTION.name,
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


def _bench_shape(
    console: Console, order: Order, targets: Sequence[Target], shape: Shape, device: str
) -> dict[str, Any]:
    """Measure one shape, print its table and write its records; returns the table's content."""
    dtype, name = order.dtype or DTYPE[device], machine.device_name(device)
    candidates = [
        Candidate(target, attention_run(target.implementation.name, shape, dtype, device))
        for target in targets
    ]
    ceiling = find_ceiling(device, name, dtype)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    known = partial(describe, ATTENTION, candidates, order.passes, order.margin, ceiling)
    labels = " against ".join(target.label for target in targets)
    console.print(f"{labels}: {shape_text(shape)} {dtype} on {name}", soft_wrap=True)
    with claimed_with_notice(device) as variables:
        measuring = measure_in_turns(
            ATTENTION,
            candidates,
            order.passes,
            order.seconds,
            variables,
            Patience(order.timeout_s),
        )
        with closing(measuring):
            show_progress(console, measuring, lambda: blocks(known(), ceiling))
    _write_records(candidates, order.seconds, started)
    if order.counters:
        _print_counters(console, candidates, device)
    return {
        "shape": shape_text(shape),
        "dtype": dtype,
        "device": name,
        "ceiling": asdict(ceiling) if ceiling else None,
        "margin": order.margin,
        "implementations": known(),
    }


def run_bench(order: Order) -> bool:
    """Measure once and print; whether every one was right, could be measured, and is plausible.

    Raises:
        ImplementationError: an argument names no implementation.
        ShapeError: a shape or a sweep is malformed.
        SavedError: an implementation's file was saved while it was measured.
    """
    console, device = open_console(), machine.detect_device("auto")
    with opened_targets(order.implementations) as targets:
        shapes = shapes_of(order.shapes, order.sweep, device)
        described = [_bench_shape(console, order, targets, shape, device) for shape in shapes]
    if order.output:
        write_json(order.output, {"benchmark": ATTENTION.name, "shapes": described})
    entries = [entry for shape in described for entry in shape["implementations"]]
    implausible = any(timed.get(IMPLAUSIBLE) for entry in entries for timed in entry["passes"])
    return {entry["status"] for entry in entries} <= {"ok", "unsupported"} and not implausible


def _state(texts: Sequence[str]) -> list[str]:
    """The digests of implementations as their files are now, or the reason that there are none."""
    try:
        with opened_targets(texts) as targets:
            return [target.implementation.digest for target in targets]
    except (ImplementationError, OSError) as error:
        return [str(error)]


def watch_bench(order: Order) -> None:
    """Measure, and again whenever a file that decides what an implementation computes is saved.

    A file that cannot be read or measured is reported, and watched on; one that is saved while it
    is measured is measured again at once. It ends only by the keyboard. Raises ShapeError where a
    shape or the sweep is malformed.
    """
    console = open_console()
    while True:
        before = _state(order.implementations)
        try:
            run_bench(order)
            console.print(WAITING)
        except SavedError as error:
            console.print(f"{error}; it is measured again", soft_wrap=True)
        except (ImplementationError, MeasuringError, OSError) as error:
            console.print(f"error: {error}", WAITING, sep="\n", soft_wrap=True)
        last = now = before
        while now == before or now != last:  # a file that is being written may be read half
            time.sleep(WATCH_SECONDS)
            last, now = now, _state(order.implementations)


def profile(text: str, shapes: Sequence[str], dtype: str | None, timeout_s: float) -> bool:
    """Count the passes of one implementation at each shape and print it; whether all could be.

    Raises:
        ImplementationError: the text names no implementation.
        ShapeError: a shape is malformed.
    """
    console = open_console()
    device = machine.detect_device("auto")
    statuses = []
    with opened_targets([text]) as (target,):
        for shape in shapes_of(shapes, None, device):
            implementation = target.implementation
            run = attention_run(implementation.name, shape, dtype or DTYPE[device], device)
            record = count_run(run, implementation, FOLDER, timeout_s)
            print_profile(console, run, implementation, record)
            statuses.append(record.status)
    return all(status == "ok" for status in statuses)
