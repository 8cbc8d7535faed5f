"""A result of the course's script in JSON: its numbers, and the claims of its ``record``.

Importing and grading read files here and nowhere else, so both accept the same files and refuse
the others for the same reason.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from flashlab.benchmarks.attention.costs import BACKWARD_FLOPS_RATIO
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.words import COLUMNS, MAX_SIZE, PASSES, column_of
from flashlab.records import COUNTERS, STATUSES
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, parse_json

MAX_SAMPLES = 20_000
"""Most samples of a pass that are read from a record."""

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
    """JSON without any key of a result, such as a ``package.json``."""

    def __init__(self) -> None:
        super().__init__("form.not_a_result")


class NotMeasuredError(Exception):
    """A record that has no times: its status, and its claim of the run if that is sound."""

    def __init__(self, status: str, claim: Claim | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.claim = claim


@dataclass(frozen=True)
class Rounding:
    """The rounding of a file's times, or of its rates; by default none.

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
        """True if rates, times and their sum agree to the last digits of a double."""
        flops = [self.rates[name] * self.seconds[name] / FLOPS_RATIOS[name] for name in PASSES]
        total = self.seconds["forward"] + self.seconds["backward"]
        added_up = agree(total, self.seconds["forward_backward"])
        return added_up and all(agree(flops[0], other) for other in flops)

    @property
    def memory_error(self) -> float:
        """The error of the memory in MiB: half of its last digit, or float32's rounding."""
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
        """True if the forward pass has `flops` operations, within rounding."""
        return math.isclose(self.forward_flops, flops, rel_tol=self.flops_error)


@dataclass(frozen=True)
class Claim:
    """The claims of a ``record`` block: the run, the device's name, the kernel's provider.

    `protocol` is the name of the protocol, `started` the time of measuring as written, `imported`
    whether the record was converted from a result of the course's script.
    """

    run: Run
    device_name: str | None
    provider: str | None
    protocol: str = ""
    started: str = ""
    imported: bool = False


@dataclass(frozen=True)
class CourseResult:
    """One result: its numbers and, where it has a ``record`` block, the claim and the samples.

    `samples` are the seconds of each timed call, by pass; empty without a block. `stated` are the
    cells, by the columns of a table of runs, that stand beside the numbers. `converted` names the
    keys whose numbers were in another unit, each with the factor to the script's.
    """

    numbers: Numbers
    claim: Claim | None
    samples: Mapping[str, tuple[float, ...]]
    stated: Mapping[str, str] = field(default_factory=dict)
    converted: Mapping[str, str] = field(default_factory=dict)


def agree(a: float, b: float) -> bool:
    """True if two numbers that follow from one another are equal but for rounding."""
    return math.isclose(a, b, rel_tol=ARITHMETIC_TOLERANCE)


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


UNITS = {
    TIME: {"s": "1", "sec": "1", "秒": "1", "ms": "0.001", "毫秒": "0.001", "us": "0.000001"},
    RATE: {**dict.fromkeys(("TFLOPs/s", "TFLOP/s", "TFLOPS", "TFLOPs"), "1"), "GFLOP/s": "0.001"},
    MEMORY: {"MB": "1", "MiB": "1", "GB": "1024", "GiB": "1024"},
}
"""The units of each number, with the factor to the script's own."""

NAMES = {
    **dict.fromkeys(("time", "Time", "latency", "時間", "耗時"), TIME),
    **dict.fromkeys(("FLOPS", "FLOPs", "TFLOPS", "TFLOPs", "rate", "速率", "算力"), RATE),
    **dict.fromkeys(("peak_memory_usage", "peak_memory", "memory_usage", "memory"), MEMORY),
    **dict.fromkeys(("峰值記憶體", "記憶體", "記憶體用量", "峰值記憶體用量"), MEMORY),
}
"""The number that each of these names stands for."""

WITH_UNIT = re.compile(r"(.*?)\s*[(（]([^)）]*)[)）]")


def kind_and_factor(key: str) -> tuple[str, str] | None:
    """The number that a key with a unit in parentheses names, and the factor to the script's."""
    parts = WITH_UNIT.fullmatch(key.strip())
    kind = parts and NAMES.get(parts[1])
    factor = parts and kind and UNITS[kind].get(parts[2].strip())
    return (kind, factor) if kind and factor else None


class _Reader:
    """Reads the seven numbers of a document; notes those that were in another unit."""

    def __init__(self) -> None:
        self.converted: dict[str, str] = {}

    def _number(self, document: Mapping[str, Any], wanted: str, where: str = "") -> float:
        keys = {wanted: "1"}
        for key in document if wanted not in document else ():
            if (meaning := kind_and_factor(key)) and meaning[0] == wanted:
                keys = {key: meaning[1]}
        ((key, factor),) = keys.items()
        value = _read_value(document, key, where)
        if factor != "1" and type(value) in (int, float) and math.isfinite(value):
            self.converted[where + key] = factor
            value = float(Decimal(repr(value)) * Decimal(factor))
        return _read_number(value, where + key, wanted)

    def numbers(self, document: Mapping[str, Any]) -> Numbers:
        seconds: dict[str, float] = {}
        rates: dict[str, float] = {}
        for name in PASSES:
            measured = _read_mapping(document, name)
            for key, numbers in ((TIME, seconds), (RATE, rates)):
                numbers[name] = self._number(measured, key, f"{name}.")
        peak = self._number(document, MEMORY)
        roundings = (_rounding_of([*values.values()]) for values in (seconds, rates))
        return Numbers(seconds, rates, peak, *roundings)


def _is_single(value: float) -> bool:
    """True if a number is exactly representable in float32."""
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single == value


def _rounding_of(values: Sequence[float]) -> Rounding:
    """The rounding of numbers that were all rounded in the same way."""
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
    if any(parameter.default for parameter in ATTENTION.stated([run])):
        raise ValueError("a parameter that the course's script lacks is not as by default")
    if not all(isinstance(text, str) for text in (run.implementation, run.dtype, run.device)):
        raise TypeError("a name is not text")
    return run


def _part(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of a ``record`` block; empty where there is none in that form."""
    part = record.get(key)
    return part if isinstance(part, dict) else {}


def _text(part: Mapping[str, Any], key: str, most: int | None = None) -> str | None:
    text = part.get(key)
    return text[:most] if isinstance(text, str) else None


def _read_claim(record: Mapping[str, Any]) -> Claim:
    try:
        run = _read_run(_read_mapping(record, "run", "record."))
    except (KeyError, TypeError, ValueError) as error:
        raise UnsoundFileError("form.record", key="record.run") from error
    stated, protocol = _part(record, "environment"), _part(record, "protocol")
    return Claim(
        run,
        _text(stated, "device_name"),
        _text(stated, "provider"),
        str(protocol.get("name", "")),
        str(record.get("started", ""))[:40],
        stated.get("imported") is True,
    )


def _read_samples(record: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Seconds of each timed call, of which a record has ms; empty for a block without metrics."""
    if "metrics" not in record:
        return {}
    samples: dict[str, tuple[float, ...]] = {}
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
        samples[name] = tuple(_read_number(value / 1e3, key, TIME) for value in values)
    return samples


def is_like_a_result(document: Mapping[str, Any]) -> bool:
    """True if a document has any key of a result."""
    return bool({*FLOPS_RATIOS, MEMORY, "record"} & document.keys())


def read_result(content: bytes) -> CourseResult:
    """The result in the bytes of a JSON file that holds one; errors as of `result_of`."""
    return result_of(parse_json(content))


def result_of(document: Any) -> CourseResult:
    """The result that a JSON document is.

    Raises:
        UnsoundFileError: one of the four keys is missing, a number is not finite and in range, or
            there is a ``record`` block that is not of FlashLab's form, or has numbers though it
            states that there are none.
        NotAResultError: none of the keys is there, or it is a record of another benchmark.
        NotMeasuredError: a record of FlashLab of a run that has no numbers.
    """
    if not isinstance(document, dict) or not is_like_a_result(document):
        raise NotAResultError
    if _part(document, "record").get("benchmark", ATTENTION.name) != ATTENTION.name:
        raise NotAResultError
    status = _part(document, "record").get("status")
    failed = status != "ok" and status in STATUSES
    if failed and document.get(MEMORY, 0) is None:
        raise NotMeasuredError(str(status), _claim_of_failed(document["record"]))
    if _part(_part(document, "record"), "protocol").get("name") == COUNTERS:
        raise NotMeasuredError(COUNTERS)  # which are no times
    if failed:
        raise UnsoundFileError("form.status", status=str(status))
    reader = _Reader()
    numbers = reader.numbers(document)
    beside = (reader.converted,)
    if "record" not in document:
        return CourseResult(numbers, None, {}, _stated(document), *beside)
    record = _read_mapping(document, "record")
    return CourseResult(numbers, _read_claim(record), _read_samples(record), {}, *beside)


def _claim_of_failed(record: Mapping[str, Any]) -> Claim | None:
    try:
        return _read_claim(record)
    except UnsoundFileError:
        return None


def _stated(document: Mapping[str, Any]) -> dict[str, str]:
    """The cells of a table of runs that stand in a result, by their columns."""
    given: dict[str, Any] = {}
    for key, value in document.items():
        given |= value if isinstance(value, dict) and key not in PASSES else {key: value}
    cells = {column_of(key): value for key, value in given.items()}
    columns = {*COLUMNS.values()} - {"file"}
    return {c: str(v) for c, v in cells.items() if c in columns and not isinstance(v, (dict, list))}
