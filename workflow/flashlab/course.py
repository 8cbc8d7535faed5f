"""The course's files: a result of its script in JSON, and ``runs.csv``, which declares results.

Importing and grading read them here and nowhere else, so both accept the same files and refuse
the others for the same reason.
"""

from __future__ import annotations

import csv
import io
import math
import re
import struct
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

from flashlab.benchmarks.attention.costs import BACKWARD_FLOPS_RATIO
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.proof import GPU_UUID, NONCE, SEAL, seal_of
from flashlab.records import COUNTERS, STATUSES
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, decoded, parse_json

RUNS_CSV = "runs.csv"
RUNS_CSV_COLUMNS = ("file", "impl", *(parameter.name for parameter in ATTENTION.given))
SIZES = ("batch_size", "seq_len", "num_heads", "emb_dim")
PASSES = ("forward", "backward", "forward_backward")
MAX_ROWS = 20_000
MAX_COLUMNS = 100
MAX_SAMPLES = 20_000
"""Most samples of a pass that are read from a record."""

MAX_SIZE = 2**24
"""Largest batch_size, seq_len, num_heads or emb_dim."""

NAIVE, FLASH2 = "Pytorch", "Flash2"
IMPLEMENTATIONS = {
    **dict.fromkeys(("pytorch", "torch", "py", "pt", "pth", "naive", "eager", "baseline"), NAIVE),
    **dict.fromkeys(("flash2", "flash", "fl2", "fl", "fa2", "fa"), FLASH2),
    **dict.fromkeys(("flashattention", "flashattention2", "flashattn"), FLASH2),
}
"""What the course's two implementations are called, in lower case."""

CAUSAL = {
    **dict.fromkeys(("true", "1", "yes", "y", "t"), True),
    **dict.fromkeys(("false", "0", "no", "n", "f"), False),
}

SPREADSHEETS = "cp950"
"""What a spreadsheet in Taiwan writes where it does not write UTF-8: Big5."""

TIME, RATE, MEMORY = "time(s)", "FLOPS(TFLOPs/s)", "peak_memory_usage(MB)"
RANGES = {TIME: (1e-7, 3600.0), RATE: (1e-9, 1e5), MEMORY: (1e-4, 2.0**21)}
"""Seconds from a tenth of a microsecond to an hour; TFLOP/s up to 10¹⁷ operations a second; MiB up
to 2 TiB. Milliseconds for seconds, or bytes for MiB, are mostly out of range."""

ARITHMETIC_TOLERANCE = 1e-9
"""Largest relative error of a number that follows from others in the same file.

The script computes in doubles, which round by 1.1e-16 an operation, and writes every digit of
them. A few operations in any order stay below 1e-15; a number off by more than 1e-9 was altered.
"""


ROUNDED_DIGITS = 9
"""Numbers of which none has more decimals, or more significant digits, than this were rounded by
somebody: the script writes 16 or 17 significant digits."""

SINGLE_ERROR = 2.0**-24
"""The largest relative error of rounding to float32."""

FLOPS_RATIOS = {
    "forward": 1.0,
    "backward": BACKWARD_FLOPS_RATIO,
    "forward_backward": 1.0 + BACKWARD_FLOPS_RATIO,
}
"""Operations of each pass over those of the forward pass."""


class NotAResultError(UnsoundFileError):
    """JSON that has nothing of a result: a ``package.json``, an editor's settings."""

    def __init__(self) -> None:
        super().__init__("form.not_a_result")


class NotMeasuredError(Exception):
    """A record of a run that has no numbers; `status` is its status."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Rounding:
    """How coarsely a file's times, or its rates, were rounded; by default not at all.

    `decimals` counts digits after the point, `digits` significant ones. Either may be what was
    rounded to, so an error is the larger of the two. `is_single` is whether they are float32.
    """

    decimals: int | None = None
    digits: int | None = None
    is_single: bool = False

    def relative_error(self, value: float) -> float:
        """The largest relative error that rounding left in `value`."""
        by_decimals = 0.0 if self.decimals is None else 0.5 * 10.0**-self.decimals / value
        by_digits = 0.0 if self.digits is None else 0.5 * 10.0 ** (1 - self.digits)
        return max(by_decimals, by_digits, SINGLE_ERROR if self.is_single else 0.0)


@dataclass(frozen=True)
class Numbers:
    """The seven numbers of a result: seconds, TFLOP/s, and MiB (1024² bytes)."""

    seconds: Mapping[str, float]
    rates: Mapping[str, float]
    peak_mib: float
    time_rounding: Rounding = Rounding()
    rate_rounding: Rounding = Rounding()

    @property
    def is_exact(self) -> bool:
        """Whether rates, times and their sum agree to the last digits of a double."""
        flops = [self.rates[name] * self.seconds[name] / FLOPS_RATIOS[name] for name in PASSES]
        total = self.seconds["forward"] + self.seconds["backward"]
        added_up = agree(total, self.seconds["forward_backward"])
        return added_up and all(agree(flops[0], other) for other in flops)

    @property
    def memory_error(self) -> float:
        """How far the memory in MiB may be off: half of its last digit, or what float32 leaves."""
        exponent = int(Decimal(repr(self.peak_mib)).normalize().as_tuple().exponent)
        single = SINGLE_ERROR * self.peak_mib if _is_single(self.peak_mib) else 0.0
        return max(0.5 * 10.0 ** min(exponent, 0), single)

    def product_error(self, name: str) -> float:
        """The relative error of rate × time of a pass that rounding explains."""
        if self.is_exact:
            return ARITHMETIC_TOLERANCE
        time = self.time_rounding.relative_error(self.seconds[name])
        rate = self.rate_rounding.relative_error(self.rates[name])
        return max(ARITHMETIC_TOLERANCE, time + rate + time * rate)

    @property
    def sum_error(self) -> float:
        """The relative error of the sum of the two times that rounding explains."""
        rounding = self.time_rounding
        error = sum(value * rounding.relative_error(value) for value in self.seconds.values())
        return max(ARITHMETIC_TOLERANCE, error / self.seconds["forward_backward"])

    @property
    def _sharpest(self) -> str:
        """The pass whose rate × time is the least affected by rounding."""
        return "forward" if self.is_exact else min(PASSES, key=self.product_error)

    @property
    def forward_flops(self) -> float:
        """Operations of the forward pass: its rate times its time."""
        name = self._sharpest
        return self.rates[name] * self.seconds[name] * 1e12 / FLOPS_RATIOS[name]

    @property
    def flops_error(self) -> float:
        """The relative error of `forward_flops`."""
        return self.product_error(self._sharpest)

    def has_flops(self, flops: float) -> bool:
        """Whether the forward pass has `flops` operations, within rounding."""
        return math.isclose(self.forward_flops, flops, rel_tol=self.flops_error)


@dataclass(frozen=True)
class Claim:
    """What a ``record`` block claims: the run, the device's name, and what provided the kernel.

    `protocol` is the name of the protocol, `started` the time of measuring as written, `imported`
    whether the record was converted from a result of the course's script. `nonce` is the grader's
    word, and `sealed` whether its seal is right (`flashlab.proof`).
    """

    run: Run
    device_name: str | None
    provider: str | None
    protocol: str = ""
    started: str = ""
    imported: bool = False
    nonce: str | None = None
    gpu_uuid: str | None = None
    sealed: bool = False


@dataclass(frozen=True)
class CourseResult:
    """One result: its numbers and, where it has a ``record`` block, the claim and the samples.

    `samples` are the seconds of each timed call, by pass; empty without a block.
    """

    numbers: Numbers
    claim: Claim | None
    samples: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class DeclaredRun:
    """A row of ``runs.csv``: which run a file is, as far as it is declared.

    None stands for what the row leaves out; `device_name` is empty where none is given.
    """

    line: int
    file: str
    implementation: str | None
    batch_size: int | None
    seq_len: int | None
    num_heads: int | None
    emb_dim: int | None
    causal: bool | None
    device_name: str

    @property
    def shape(self) -> Shape | None:
        """The whole shape, None if a part of it is left out."""
        declared = {name: getattr(self, name) for name in (*SIZES, "causal")}
        return None if None in declared.values() else Shape.of(declared)


@dataclass(frozen=True)
class DeclaredRuns:
    """The rows of ``runs.csv``, the problems of those that are unsound, and the codes of notes."""

    rows: list[DeclaredRun] = field(default_factory=list)
    problems: list[UnsoundFileError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def agree(a: float, b: float) -> bool:
    """Whether two numbers that follow from one another are equal but for rounding."""
    return math.isclose(a, b, rel_tol=ARITHMETIC_TOLERANCE)


# Results


def _read_number(value: Any, key: str, unit: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        kind = {bool: "true/false", str: "text", type(None): "null"}.get(
            type(value), "a list or an object"
        )
        raise UnsoundFileError("form.no_number", key=key, value=kind)
    if not math.isfinite(value):
        raise UnsoundFileError("form.not_finite", key=key, value=str(value))
    low, high = RANGES[unit]
    if not low <= value <= high:
        raise UnsoundFileError(
            "form.range", key=key, value=f"{value:.6g}", low=f"{low:g}", high=f"{high:g}"
        )
    return float(value)


def _read_value(document: Mapping[str, Any], key: str, where: str = "") -> Any:
    if key not in document:
        raise UnsoundFileError("form.missing", key=where + key)
    return document[key]


def _read_mapping(document: Mapping[str, Any], key: str, where: str = "") -> Mapping[str, Any]:
    value = _read_value(document, key, where)
    if not isinstance(value, dict):
        raise UnsoundFileError("form.no_mapping", key=where + key)
    return value


def _read_numbers(document: Mapping[str, Any]) -> Numbers:
    seconds: dict[str, float] = {}
    rates: dict[str, float] = {}
    for name in PASSES:
        measured = _read_mapping(document, name)
        for key, found in ((TIME, seconds), (RATE, rates)):
            value = _read_value(measured, key, f"{name}.")
            found[name] = _read_number(value, f"{name}.{key}", key)
    peak = _read_number(_read_value(document, MEMORY), MEMORY, MEMORY)
    roundings = (_rounding_of([*values.values()]) for values in (seconds, rates))
    return Numbers(seconds, rates, peak, *roundings)


def _is_single(value: float) -> bool:
    """Whether a number is exactly one of float32."""
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found == value


def _rounding_of(values: Sequence[float]) -> Rounding:
    """How numbers were rounded that somebody has rounded alike."""
    texts = [Decimal(repr(value)).normalize().as_tuple() for value in values]
    decimals = max(-int(text.exponent) for text in texts)
    digits = max(len(text.digits) for text in texts)
    return Rounding(
        max(decimals, 0) if decimals <= ROUNDED_DIGITS else None,
        digits if digits <= ROUNDED_DIGITS else None,
        all(map(_is_single, values)),
    )


def _read_run(document: Mapping[str, Any]) -> Run:
    """The run of a ``record`` block; KeyError, TypeError or ValueError where it is unsound."""
    run, shape = Run.of(ATTENTION, document), Shape.of(document)
    sizes = (shape.batch_size, shape.seq_len, shape.num_heads, shape.emb_dim)
    if any(type(size) is not int or not 0 < size <= MAX_SIZE for size in sizes):
        raise ValueError("a size is not a whole number in range")
    if type(shape.causal) is not bool or shape.emb_dim % shape.num_heads:
        raise ValueError("the mask is not a boolean, or the heads do not divide emb_dim")
    if not all(isinstance(text, str) for text in (run.implementation, run.dtype, run.device)):
        raise TypeError("a name is not text")
    return run


def _part(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of a ``record`` block; empty where there is none in that form."""
    found = record.get(key)
    return found if isinstance(found, dict) else {}


def _text(part: Mapping[str, Any], key: str, most: int | None = None) -> str | None:
    found = part.get(key)
    return found[:most] if isinstance(found, str) else None


def _read_claim(record: Mapping[str, Any]) -> Claim:
    try:
        run = _read_run(_read_mapping(record, "run", "record."))
    except (KeyError, TypeError, ValueError) as error:
        raise UnsoundFileError("form.record", key="record.run") from error
    stated, protocol = _part(record, "environment"), _part(record, "protocol")
    nonce = _text(protocol, NONCE, 200)
    try:
        sealed = nonce is not None and stated.get(SEAL) == seal_of(record)
    except (KeyError, TypeError, ValueError, AttributeError):
        sealed = False
    return Claim(
        run,
        _text(stated, "device_name"),
        _text(stated, "provider"),
        str(protocol.get("name", "")),
        str(record.get("started", ""))[:40],
        stated.get("imported") is True,
        nonce,
        _text(stated, GPU_UUID, 200),
        sealed,
    )


def _read_samples(record: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Seconds of each timed call, of which a record has ms; empty for a block without metrics."""
    if "metrics" not in record:
        return {}
    found: dict[str, tuple[float, ...]] = {}
    metrics = _read_mapping(record, "metrics", "record.")
    for name in ("forward", "backward"):
        key = f"record.metrics.{name}_time.samples"
        metric = _read_mapping(metrics, f"{name}_time", "record.metrics.")
        values = metric.get("samples", [])
        if not isinstance(values, list):
            raise UnsoundFileError("form.record", key=key)
        if len(values) > MAX_SAMPLES:
            raise UnsoundFileError("form.many_samples", key=key, most=str(MAX_SAMPLES))
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
            raise UnsoundFileError("form.record", key=key)
        found[name] = tuple(_read_number(value / 1e3, key, TIME) for value in values)
    return found


def read_result(content: bytes) -> CourseResult:
    """The result in the bytes of a JSON file.

    Raises:
        UnsoundFileError: it is no sound JSON, one of the four keys is missing, a number is not
            finite and in range, or there is a ``record`` block that is not of FlashLab's form, or
            has numbers though it states that there are none.
        NotAResultError: none of the keys is there.
        NotMeasuredError: a record of FlashLab of a run that has no numbers.
    """
    document = parse_json(content)
    if not isinstance(document, dict):
        raise UnsoundFileError("form.no_object")
    if document and not {*FLOPS_RATIOS, MEMORY, "record"} & document.keys():
        raise NotAResultError
    status = _part(document, "record").get("status")
    failed = status != "ok" and status in STATUSES
    if failed and document.get(MEMORY, 0) is None:
        raise NotMeasuredError(str(status))
    if _part(_part(document, "record"), "protocol").get("name") == COUNTERS:
        raise NotMeasuredError(COUNTERS)  # which are no times
    if failed:
        raise UnsoundFileError("form.status", status=str(status))
    numbers = _read_numbers(document)
    if "record" not in document:
        return CourseResult(numbers, None, {})
    record = _read_mapping(document, "record")
    return CourseResult(numbers, _read_claim(record), _read_samples(record))


# runs.csv


def _read_size(text: str, column: str) -> int | None:
    """A size, None where the cell is empty; ``16.0`` is 16, as spreadsheets write it."""
    if not text:
        return None
    if re.fullmatch(r"[0-9]{1,8}(\.0{1,6})?", text) and 0 < int(text.split(".")[0]) <= MAX_SIZE:
        return int(text.split(".")[0])
    raise UnsoundFileError("form.row_size", column=column, value=text[:40], most=str(MAX_SIZE))


def _read_path(text: str) -> str:
    """A path below the folder, with slashes; parts that begin with a full stop are refused."""
    path = PurePosixPath(text.replace("\\", "/"))
    hidden = any(part.startswith(".") for part in path.parts)
    if path.is_absolute() or hidden or not path.parts:
        raise UnsoundFileError("form.row_file", value=text[:200])
    return str(path)


def _read_row(line: int, cells: Mapping[str, str]) -> DeclaredRun:
    sizes = {column: _read_size(cells.get(column, ""), column) for column in SIZES}
    mask = cells.get("causal", "")
    causal = CAUSAL.get(mask.lower())
    if causal is None and mask:
        raise UnsoundFileError("form.row_causal", value=mask[:40])
    heads, emb_dim = sizes["num_heads"], sizes["emb_dim"]
    if heads and emb_dim and emb_dim % heads:
        raise UnsoundFileError("form.row_shape", num_heads=str(heads), emb_dim=str(emb_dim))
    name = cells.get("impl", "")
    return DeclaredRun(
        line=line,
        file=_read_path(cells["file"]),
        implementation=IMPLEMENTATIONS.get(name.lower(), name) or None,
        causal=causal,
        device_name=cells.get("device", ""),
        **sizes,
    )


def _delimiter_of(header: str) -> str:
    """What separates the cells: a comma, or what spreadsheets write in its place.

    UnsoundFileError where it separates more columns than any table of runs has.
    """
    delimiter = next((each for each in ",;\t" if each in header), ",")
    if header.count(delimiter) >= MAX_COLUMNS:
        raise UnsoundFileError("form.csv_columns", most=str(MAX_COLUMNS))
    return delimiter


def _read_header(cells: Sequence[str]) -> list[str]:
    # ``Batch Size`` is batch_size.
    header = [re.sub(r"[\s_-]+", "_", name.strip()).lower() for name in cells]
    twice = sorted(name for name, count in Counter(header).items() if name and count > 1)
    if "file" not in header:
        raise UnsoundFileError("form.csv_lacking", columns="file")
    if not {*RUNS_CSV_COLUMNS[1:], "device"} & {*header}:
        raise UnsoundFileError("form.csv_lacking", columns=", ".join(RUNS_CSV_COLUMNS[1:]))
    if twice:
        raise UnsoundFileError("form.csv_twice", columns=", ".join(twice)[:200])
    return header


def read_runs_csv(content: bytes) -> DeclaredRuns:
    """What ``runs.csv`` declares; spaces around a cell and rows without any text do not count.

    Columns: file, and any of impl, batch_size, seq_len, num_heads, emb_dim, causal and device (the
    GPU's name); an empty cell declares nothing. A row that is unsound is a problem, whose ``line``
    parameter is its line. Semicolons, tabs, capitals, ``16.0``, UTF-16 and Big5 are understood,
    with a note.

    UnsoundFileError where the whole file cannot be read, or lacks a column.
    """
    text = decoded(content, SPREADSHEETS)
    if "\0" in text:
        raise UnsoundFileError("form.csv", reason="it contains a NUL character")
    delimiter = _delimiter_of(text.lstrip().partition("\n")[0])
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    found = DeclaredRuns()
    notes: set[str] = {"form.csv_delimiter"} if delimiter != "," else set()
    if text.encode() != content.removeprefix(BOM_UTF8):
        notes.add("form.csv_encoding")
    try:
        first = next(rows, [])
        header = _read_header(first)
        if header != [name.strip() for name in first]:
            notes.add("form.csv_header")
        for row in rows:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if rows.line_num > MAX_ROWS:
                raise UnsoundFileError("form.too_many", most=str(MAX_ROWS))
            by_column = dict(zip(header, cells, strict=False))
            try:
                if len(cells) != len(header):
                    raise UnsoundFileError("form.row_fields")
                found.rows.append(_read_row(rows.line_num, by_column))
            except UnsoundFileError as problem:
                line = str(rows.line_num)
                found.problems.append(UnsoundFileError(problem.code, line=line, **problem.params))
                continue
            if any("." in by_column.get(column, "") for column in SIZES):
                notes.add("form.csv_decimals")
    except csv.Error as error:
        raise UnsoundFileError("form.csv", reason=str(error)) from error
    found.notes.extend(sorted(notes))
    return found
