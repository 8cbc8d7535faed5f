"""Check 1, form: strict JSON, the four keys, finite positive numbers in the range of their units.

Bounded in size (`files`), depth and digits, with duplicate keys, NaN and Infinity refused.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from flashlab.grading.files import UnsoundFileError
from flashlab.grading.model import Numbers
from flashlab.records import PASSES, STATUSES, Run, Shape

TIME, RATE, MEMORY = "time(s)", "FLOPS(TFLOPs/s)", "peak_memory_usage(MB)"

MAX_JSON_DEPTH = 16
MAX_DIGITS = 40
"""Most characters of a number; the shortest text of a double has 24 at most."""

RANGES = {TIME: (1e-7, 3600.0), RATE: (1e-9, 1e5), MEMORY: (1e-4, 2.0**21)}
"""Seconds from a tenth of a microsecond to an hour; TFLOP/s up to 10¹⁷ operations a second; MiB up
to 2 TiB. Milliseconds for seconds, or bytes for MiB, mostly lie beyond."""


class NotMeasuredError(Exception):
    """A record of ours that says why it has no numbers; `status` is its status."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise UnsoundFileError("form.duplicate_key", key=twice)
    return found


def _constant(text: str) -> NoReturn:
    raise UnsoundFileError("form.not_finite", key="", value=text)


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise UnsoundFileError("form.digits", most=str(MAX_DIGITS))
    return int(text)


def _fraction(text: str) -> float:
    if len(text) > MAX_DIGITS:
        raise UnsoundFileError("form.digits", most=str(MAX_DIGITS))
    return float(text)


def _check_depth(document: Any) -> None:
    level: list[Any] = [document]
    for _ in range(MAX_JSON_DEPTH + 1):
        level = [
            inner
            for value in level
            if isinstance(value, (dict, list))
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise UnsoundFileError("form.nested", most=str(MAX_JSON_DEPTH))


def parse(content: bytes) -> Any:
    """Strict JSON from UTF-8 bytes; UnsoundFileError that says what is not sound."""
    try:
        document = json.loads(
            content.decode("utf-8-sig"),
            object_pairs_hook=_pairs,
            parse_constant=_constant,
            parse_int=_whole,
            parse_float=_fraction,
        )
    except UnicodeDecodeError as error:
        raise UnsoundFileError("form.not_utf8") from error
    except RecursionError as error:
        raise UnsoundFileError("form.nested", most=str(MAX_JSON_DEPTH)) from error
    except json.JSONDecodeError as error:
        raise UnsoundFileError("form.not_json", line=str(error.lineno), reason=error.msg) from error
    _check_depth(document)
    return document


def _number(value: Any, key: str, unit: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        kind = {bool: "true/false", str: "text", type(None): "null"}.get(type(value), "no number")
        raise UnsoundFileError("form.no_number", key=key, value=kind)
    if not math.isfinite(value):
        raise UnsoundFileError("form.not_finite", key=key, value=str(value))
    low, high = RANGES[unit]
    if not low <= value <= high:
        raise UnsoundFileError(
            "form.range", key=key, value=f"{value:.6g}", low=f"{low:g}", high=f"{high:g}"
        )
    return float(value)


def _mapping(document: Mapping[str, Any], key: str, where: str = "") -> Mapping[str, Any]:
    if key not in document:
        raise UnsoundFileError("form.missing", key=where + key)
    value = document[key]
    if not isinstance(value, dict):
        raise UnsoundFileError("form.no_mapping", key=where + key)
    return value


def read_numbers(document: Any) -> Numbers:
    """The numbers of the four keys.

    Raises:
        UnsoundFileError: a key is missing, or its value is no finite positive number in range.
        NotMeasuredError: a record of ours of a run that gave no numbers, and says why.
    """
    if not isinstance(document, dict):
        raise UnsoundFileError("form.no_object")
    inner = document.get("record")
    status = inner.get("status") if isinstance(inner, dict) else None
    if status != "ok" and status in STATUSES and document.get(MEMORY, 0) is None:
        raise NotMeasuredError(status)
    seconds: dict[str, float] = {}
    rates: dict[str, float] = {}
    for name in PASSES:
        measured = _mapping(document, name)
        for key, found in ((TIME, seconds), (RATE, rates)):
            if key not in measured:
                raise UnsoundFileError("form.missing", key=f"{name}.{key}")
            found[name] = _number(measured[key], f"{name}.{key}", key)
    if MEMORY not in document:
        raise UnsoundFileError("form.missing", key=MEMORY)
    return Numbers(seconds, rates, _number(document[MEMORY], MEMORY, MEMORY))


def _sound_run(run: Mapping[str, Any]) -> Run:
    found = Run.from_json(run)
    sizes = (getattr(found.shape, name) for name in ("batch_size", "seq_len", "num_heads"))
    whole = all(type(size) is int and 0 < size < 2**24 for size in (*sizes, found.shape.emb_dim))
    texts = all(isinstance(t, str) for t in (found.implementation, found.dtype, found.device))
    if not whole or type(found.shape.causal) is not bool or not texts:
        raise ValueError
    if found.shape.emb_dim % found.shape.num_heads:
        raise ValueError
    return found


@dataclass(frozen=True)
class Claim:
    """What a ``record`` block claims: the run, the device's name, and what provided the kernel."""

    run: Run
    device_name: str | None
    provider: str | None


def read_claim(document: Mapping[str, Any]) -> Claim | None:
    """What a ``record`` block claims; None where there is no block.

    UnsoundFileError where there is one that is not of our form.
    """
    if "record" not in document:
        return None
    record = _mapping(document, "record")
    try:
        run = _sound_run(_mapping(record, "run", "record."))
    except (KeyError, TypeError, ValueError) as error:
        raise UnsoundFileError("form.record", key="record.run") from error
    environment = record.get("environment")
    said = environment if isinstance(environment, dict) else {}
    device_name, provider = said.get("device_name"), said.get("provider")
    return Claim(
        run,
        device_name if isinstance(device_name, str) else None,
        provider if isinstance(provider, str) else None,
    )


def read_samples(document: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """The samples (seconds) that a ``record`` block holds for each pass, empty without a block.

    UnsoundFileError where one is no time.
    """
    record = document.get("record")
    if not isinstance(record, dict) or record.get("samples") is None:
        return {}
    samples = _mapping(record, "samples", "record.")
    found = {}
    for name in ("forward", "backward"):
        values = samples.get(name, [])
        if not isinstance(values, list):
            raise UnsoundFileError("form.record", key=f"record.samples.{name}")
        found[name] = _times(values, f"record.samples.{name}")
    return found


def _times(values: Iterable[Any], key: str) -> tuple[float, ...]:
    return tuple(_number(value, key, TIME) for value in values)


def shape_bounds(shape: Shape) -> bool:
    """Whether a shape is one that a benchmark could have: whole heads and sizes below 2²⁴."""
    sizes = (shape.batch_size, shape.seq_len, shape.num_heads, shape.emb_dim)
    return all(0 < size < 2**24 for size in sizes) and shape.emb_dim % shape.num_heads == 0
