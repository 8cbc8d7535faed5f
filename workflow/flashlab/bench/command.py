"""``bench`` and ``profile`` on the command line: what to measure where, and what is printed."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from flashlab import machine
from flashlab.bench.ceilings import find_ceiling
from flashlab.bench.interleave import Measured, measure_in_turns
from flashlab.bench.records import FOLDER, write_records
from flashlab.bench.table import Shown, open_console, table_of
from flashlab.bench.targets import SavedError, Target, find_targets
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.checking.command import claimed_with_notice
from flashlab.checking.profiling import count_run, counters_table, print_profile
from flashlab.checking.shapes import ShapeError, parse_shapes, shape_text
from flashlab.plan.implementations import ImplementationError

DEFAULT_SHAPE = {"cuda": Shape(16, 1024, 32, 2048, True), "cpu": Shape(1, 512, 8, 512, True)}
"""The shape measured if none is given, by kind of device; a size left out is taken from it too."""

DTYPE = {"cuda": "float16", "cpu": "float32"}

PASSES = tuple(metric.name for metric in ATTENTION.measured if metric.work)
"""The timed metrics of the passes."""

COUNTERS_SECONDS = 300.0
WATCH_SECONDS = 0.3
"""How often the watched files are looked at."""

WAITING = "watching for the next save; Ctrl-C ends"

_RANGE = re.compile(r"([1-9][0-9]*):([1-9][0-9]*)", re.ASCII)
_LIST = re.compile(r"[1-9][0-9]*(,[1-9][0-9]*)*", re.ASCII)


@dataclass(frozen=True)
class Order:
    """What to bench, as the command line says it.

    `shapes` are texts such as ``B16,N1024,H32,D64,causal``, `sweep` one such as
    ``seq_len=128:8192``. `seconds` is how long each shape is measured.
    """

    implementations: tuple[str, ...]
    shapes: tuple[str, ...]
    sweep: str | None
    dtype: str | None
    passes: tuple[str, ...]
    seconds: float
    margin: float
    counters: bool


def _swept_values(sweep: str) -> tuple[str, list[int]]:
    """The letter of the swept size and its values. Raises ShapeError."""
    name, _, values = sweep.partition("=")
    symbols = {p.name: p.symbol.upper() for p in ATTENTION.parameters if not p.is_variant}
    if name not in symbols:
        raise ShapeError(f"--sweep {sweep}: {name!r} is none of {', '.join(symbols)}")
    if found := _RANGE.fullmatch(values):
        value, last = map(int, found.groups())
        doubled = []
        while value <= last:
            doubled.append(value)
            value *= 2
        if doubled:
            return symbols[name], doubled
    elif _LIST.fullmatch(values):
        return symbols[name], [int(value) for value in values.split(",")]
    raise ShapeError(
        f"--sweep {sweep}: the form is {name}=128:8192 (doubled from the first to the last at "
        f"most) or {name}=128,384,512"
    )


def _with_size(shape: str, letter: str, value: int) -> str:
    """A shape's text with a size in place of the one that it has, if any."""
    replaced = "DE" if letter in "DE" else letter
    parts = [part.strip() for part in shape.split(",")]
    kept = [part for part in parts if part and part[0].upper() not in replaced]
    return ",".join([*kept, f"{letter}{value}"])


def shapes_of(texts: Sequence[str], sweep: str | None, device: str) -> list[Shape]:
    """The shapes to measure, each once, in order. Raises ShapeError."""
    default = DEFAULT_SHAPE[device]
    given = list(texts) or [shape_text(default)]
    if sweep is not None:
        letter, values = _swept_values(sweep)
        given = [_with_size(text, letter, value) for text in given for value in values]
    found: dict[Shape, None] = {}
    for text in given:
        for shape in parse_shapes(
            text,
            batch_size=[default.batch_size],
            seq_len=[default.seq_len],
            num_heads=[default.num_heads],
            head_dim=[default.head_dim],
        ):
            found[shape] = None
    return list(found)


def _bench_shape(
    console: Console, order: Order, targets: Sequence[Target], shape: Shape, device: str
) -> bool:
    """Measure one shape, print its table and write its records; whether all were measured."""
    dtype = order.dtype or DTYPE[device]
    measured = [
        Measured(target, attention_run(target.implementation.name, shape, dtype, device))
        for target in targets
    ]
    name = machine.device_name(device)
    ceiling = find_ceiling(device, name, dtype)
    title = f"{shape_text(shape)} {dtype} on {name}"
    started = datetime.now(UTC).isoformat(timespec="seconds")
    shown = Shown(
        console,
        lambda: table_of(ATTENTION, measured, order.passes, order.margin, ceiling),
    )
    console.print(f"{' against '.join(target.label for target in targets)}: {title}")
    with claimed_with_notice(device) as variables, shown:
        measure_in_turns(ATTENTION, measured, order.passes, order.seconds, variables, shown.report)
        shown.end()
    for each in measured:
        disturbed = [found for found in each.warnings if found]
        codes = sorted({str(warning["code"]) for found in disturbed for warning in found})
        if codes:
            processes = f"{len(disturbed)} of {len(each.warnings)} processes"
            console.print(f"{each.target.label}: {', '.join(codes)} in {processes}")
    write_records(ATTENTION, measured, order.seconds, started)
    if order.counters:
        counted = {
            each.target.label: count_run(
                ATTENTION, each.run, each.target.implementation, FOLDER, COUNTERS_SECONDS
            )
            for each in measured
            if each.status == "ok"
        }
        for label, record in counted.items():
            if record.status != "ok":
                console.print(f"counters of {label}: {record.status}: {record.message}")
        if any(record.status == "ok" for record in counted.values()):
            console.print(counters_table(ATTENTION, counted, device))
    return all(each.status in ("ok", "unsupported") for each in measured)


def _bench_targets(console: Console, order: Order, targets: Sequence[Target]) -> bool:
    """Measure every shape; whether every implementation was right and could be measured."""
    device = machine.detect_device("auto")
    shapes = shapes_of(order.shapes, order.sweep, device)
    return all([_bench_shape(console, order, targets, shape, device) for shape in shapes])


def run_bench(order: Order) -> bool:
    """Measure once and print; whether every implementation was right and could be measured.

    Raises:
        ImplementationError: an argument names no implementation.
        ShapeError: a shape or a sweep is malformed.
        SavedError: an implementation's file was saved while it was measured.
    """
    with tempfile.TemporaryDirectory(prefix="flashlab-bench-") as folder:
        targets = find_targets(order.implementations, Path(folder))
        return _bench_targets(open_console(), order, targets)


def _read_digests(targets: Sequence[Target]) -> list[str]:
    """What implementations compute as their files are now, or why one cannot be read."""
    try:
        return [target.read_digest() for target in targets]
    except (ImplementationError, OSError) as error:
        return [str(error)]


def _find_mistake(texts: Sequence[str]) -> list[str]:
    """Why the implementations cannot be read; empty if they can be."""
    with tempfile.TemporaryDirectory(prefix="flashlab-bench-") as folder:
        try:
            find_targets(texts, Path(folder))
        except (ImplementationError, OSError) as error:
            return [str(error)]
    return []


def _wait_for_save(read: Callable[[], list[str]], before: list[str]) -> None:
    """Return once `read` gives something else than before, and the same twice in a row.

    A file that is being written may be read half.
    """
    last = now = before
    while now == before or now != last:
        time.sleep(WATCH_SECONDS)
        last, now = now, read()


def watch_bench(order: Order) -> None:
    """Measure, and again whenever a file that decides what an implementation computes is saved.

    A file that cannot be read or measured is reported, and watched on; one that is saved while it
    is measured is measured again at once. It ends only by the keyboard. Raises ShapeError where a
    shape or the sweep is malformed.
    """
    console = open_console()
    while True:
        with tempfile.TemporaryDirectory(prefix="flashlab-bench-") as folder:
            try:
                targets = find_targets(order.implementations, Path(folder))
            except (ImplementationError, OSError) as error:
                console.print(f"error: {error}", WAITING, sep="\n", soft_wrap=True)
                _wait_for_save(partial(_find_mistake, order.implementations), [str(error)])
                continue
            try:
                _bench_targets(console, order, targets)
                console.print(WAITING)
            except SavedError as error:
                console.print(f"{error}; it is measured again", soft_wrap=True)
            before = [target.implementation.digest for target in targets]
            _wait_for_save(partial(_read_digests, targets), before)


def profile(text: str, shapes: Sequence[str], dtype: str | None, timeout_s: float) -> bool:
    """Count the passes of one implementation at each shape and print it; whether all could be.

    Raises:
        ImplementationError: the text names no implementation.
        ShapeError: a shape is malformed.
    """
    console = open_console()
    device = machine.detect_device("auto")
    counted = []
    with tempfile.TemporaryDirectory(prefix="flashlab-bench-") as folder:
        (target,) = find_targets([text], Path(folder))
        for shape in shapes_of(shapes, None, device):
            implementation = target.implementation
            run = attention_run(implementation.name, shape, dtype or DTYPE[device], device)
            record = count_run(ATTENTION, run, implementation, FOLDER, timeout_s)
            print_profile(console, ATTENTION, run, implementation, record)
            counted.append(record.status)
    return all(status == "ok" for status in counted)
