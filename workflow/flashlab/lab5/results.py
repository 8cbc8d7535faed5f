"""The results in a folder: their numbers, read within bounds, and what is said of their runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any
from unicodedata import normalize

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.lab5.words import COURSE_DTYPE, MAX_SIZE, PASSES, SIZES
from flashlab.records import COUNTERS, STATUSES
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, parse_json, read_within

from flashlab.lab5.said import (
    OUT_OF_MEMORY,
    RUNS_CSV,
    Said,
    described,
    read_runs_csv,
    said_in_cells,
    said_in_name,
)


class FolderError(Exception):
    """A folder whose files cannot be assigned to runs: the reason and the remedy."""


TIME, RATE, MEMORY = "time(s)", "FLOPS(TFLOPs/s)", "peak_memory_usage(MB)"
RANGES = {TIME: (1e-7, 3600.0), RATE: (1e-9, 1e5), MEMORY: (1e-4, 2.0**21)}
NAMES = {
    TIME: {"time(s)": 1.0, "time(ms)": 1e-3, "time(us)": 1e-6},
    RATE: {"FLOPS(TFLOPs/s)": 1.0, "FLOPs(TFLOPs/s)": 1.0, "TFLOPs/s": 1.0},
    MEMORY: {"peak_memory_usage(MB)": 1.0, "peak_memory_usage(MiB)": 1.0},
}
"""The keys of each number, as the script and its users write them, with the factor to its unit."""

RATIOS = {"forward": 1.0, "backward": 2.5, "forward_backward": 3.5}
"""Operations of each pass over those of the forward pass."""

EXACT = 1e-9
"""Relative error within which numbers of the script follow from one another."""

MAX_FILES, MAX_DEPTH, MAX_BYTES = 10_000, 8, 128 * 1024**2


@dataclass(frozen=True)
class Result:
    """A result: seconds and TFLOP/s by pass, MiB, and what is said of its run.

    `said` is stated by a row or its own record, `hinted` only by its name. `run` is that of a
    FlashLab record; one without numbers has another `status` than ``ok``. `error` is the relative
    error of rate × time that rounding explains.
    """

    name: str
    path: str
    sha256: str
    said: Said
    hinted: Said = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    peak_mib: float = 0.0
    error: float = EXACT
    run: Run | None = None
    status: str = "ok"
    protocol: str = ""
    source: str = "its name"
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def forward_flops(self) -> float:
        """Operations of the forward pass, by the pass whose rate × time rounding affects least."""
        name = max(PASSES, key=self.seconds.__getitem__) if self.error > EXACT else "forward"
        return self.rates[name] * self.seconds[name] * 1e12 / RATIOS[name]


@dataclass
class Folder:
    """The results of a folder, the files that are refused, and those that are none.

    `contradicted` are results of which two things are stated, with the text that says so.
    """

    results: dict[str, Result] = field(default_factory=dict)
    refused: dict[str, UnsoundFileError] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    contradicted: dict[str, str] = field(default_factory=dict)
    failed_rows: list[tuple[int, Said]] = field(default_factory=list)
    has_table: bool = False


def _paths_in(folder: Path) -> Iterator[str]:
    """The files that may be results, and ``runs.csv``; no link is followed."""
    for here, inner, names in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        inner[:] = sorted(n for n in inner if n[0] != "." and n != "__MACOSX" and depth < MAX_DEPTH)
        for name in sorted(names):
            if name[0] != "." and (name.lower().endswith(".json") or name.lower() == RUNS_CSV):
                yield Path(here, name).relative_to(folder).as_posix()


def _number(document: Mapping[str, Any], kind: str, name: str = "") -> float:
    """The number of a kind, of the pass `name` where it is one of a pass, in the script's unit."""
    key, inner = f"{name}.{kind}".strip("."), document.get(name) if name else document
    if not isinstance(inner, dict):
        raise UnsoundFileError("form.missing" if inner is None else "form.no_mapping", key=name)
    value, factor = next(((inner[k], f) for k, f in NAMES[kind].items() if k in inner), (None, 1.0))
    if value is None:
        raise UnsoundFileError("form.missing", key=key)
    if type(value) not in (int, float):
        raise UnsoundFileError("form.no_number", key=key, value=type(value).__name__)
    if not isfinite(value):
        raise UnsoundFileError("form.not_finite", key=key, value=str(value))
    low, high = RANGES[kind]
    if not low <= value * factor <= high:
        limits = {"value": f"{value:.6g}", "low": f"{low:g}", "high": f"{high:g}"}
        raise UnsoundFileError("form.range", key=key, **limits)
    return float(value * factor)


def _rounding(values: Mapping[str, float]) -> float:
    """The relative error of numbers that somebody has rounded: none has more than nine digits."""
    texts = [Decimal(repr(value)).normalize().as_tuple() for value in values.values()]
    decimals, digits = max(-int(t.exponent) for t in texts), max(len(t.digits) for t in texts)
    by_decimals = 0.5 * 10.0**-decimals / min(values.values()) if decimals <= 9 else 0.0
    by_digits = 0.5 * 10.0 ** (1 - digits) if digits <= 9 else 0.0
    return max(by_decimals, by_digits)


def result_of(document: Mapping[str, Any], name: str, path: str, sha256: str) -> Result | None:
    """The result in a JSON document, None where it is none; UnsoundFileError if it is unsound."""
    record = document.get("record") or {}
    if not {*PASSES, MEMORY, "record"} & document.keys():
        return None
    if not isinstance(record, dict) or record.get("benchmark", ATTENTION.name) != ATTENTION.name:
        return None
    beside = {k: v for k, v in document.items() if k not in ("record", *PASSES)}
    inner = [v for v in beside.values() if isinstance(v, dict)]
    cells = {
        k: str(v)
        for part in (beside, *inner)
        for k, v in part.items()
        if not isinstance(v, (dict, list))
    }
    said = {k: v for k, v in said_in_cells(cells).items() if k != "file"}
    result = Result(name, path, sha256, said, said_in_name(name), source="the file itself")
    if record:
        try:
            run, sizes = Run.of(ATTENTION, record["run"]), [record["run"][name] for name in SIZES]
            if (
                any(type(n) is not int or not 0 < n <= MAX_SIZE for n in sizes)
                or sizes[3] % sizes[2]
            ):
                raise ValueError("sizes that no run has")
            if any(parameter.default for parameter in ATTENTION.stated([run])):
                raise ValueError("a parameter that the course's script lacks")
            protocol = str(record["protocol"]["name"])
            device = (record.get("environment") or {}).get("device_name")
        except (KeyError, TypeError, ValueError) as unsound:
            raise UnsoundFileError("form.record", key="record.run") from unsound
        said = {**run.to_json(), "device": device} if device else run.to_json()
        status = COUNTERS if protocol == COUNTERS else str(record.get("status", "ok"))
        result = replace(result, said=said, hinted={}, run=run, source="its own record")
        result = replace(result, protocol=protocol, status=status)
        if status != "ok" and (status in STATUSES or status == COUNTERS):
            return result
    seconds = {each: _number(document, TIME, each) for each in PASSES}
    rates = {each: _number(document, RATE, each) for each in PASSES}
    error = max(EXACT, _rounding(seconds) + _rounding(rates))
    peak = _number(document, MEMORY)
    return replace(
        result, seconds=seconds, rates=rates, peak_mib=peak, error=error, document=document
    )


def documents_in(path: str, content: bytes) -> dict[str, Any]:
    """The documents in a JSON file: itself, or those of a list or mapping of several results."""
    document = parse_json(content)
    parts = dict(enumerate(document, 1)) if isinstance(document, list) else document
    if (
        isinstance(parts, dict)
        and parts
        and all(isinstance(p, dict) and MEMORY in p for p in parts.values())
    ):
        return {f"{path}/{key}": part for key, part in parts.items()}
    return {path: document if isinstance(document, dict) else {}}


def read_folder(folder: Path) -> Folder:
    """The results in a folder, each with what is said of it; what is unsound is in `refused`."""
    found, rows, seen, size = Folder(), list[tuple[str, int, Said]](), set[str](), 0
    for count, path in enumerate(_paths_in(folder)):
        seen.add(normalize("NFC", path))  # macOS decomposes a name's letters, and tables do not
        try:
            content = read_within(folder, path)
            size += len(content)
            if count >= MAX_FILES or size > MAX_BYTES:
                raise UnsoundFileError("form.too_many", most=str(MAX_FILES))
            if PurePosixPath(path).name.lower() == RUNS_CSV:
                found.has_table = True
                rows += [(path, line, said) for line, said in read_runs_csv(content)]
                continue
            digest = hashlib.sha256(content).hexdigest()
            for name, document in documents_in(path, content).items():
                seen.add(normalize("NFC", name))
                if result := result_of(document, name, path, digest):
                    found.results[name] = result
                else:
                    found.ignored.append(name)
        except UnsoundFileError as problem:
            found.refused[path] = problem
    by_name = {normalize("NFC", name): name for name in found.results}
    for table, line, row in rows:
        said, file = {**row}, row["file"]
        del said["file"]
        name = normalize("NFC", str(PurePosixPath(table).parent / file))
        if file == OUT_OF_MEMORY:
            found.failed_rows.append((line, said))
        elif name in by_name:
            _declare(found, by_name[name], said)
        elif name in found.ignored:
            found.refused[name] = UnsoundFileError("form.not_a_result")
        elif name not in seen:
            found.refused[table] = UnsoundFileError("form.row_missing", line=str(line), value=file)
    return found


def _declare(folder: Folder, name: str, row: Said) -> None:
    """Complete a result's statement by its row, which nothing else stated may contradict."""
    result = folder.results[name]
    both = row.keys() & result.said.keys()
    if any(row[key] != result.said[key] for key in both):
        texts = [described({key: said[key] for key in sorted(both)}) for said in (row, result.said)]
        folder.contradicted[name] = (
            f"{result.source} says {texts[1]}, but another declaration {texts[0]}; correct one"
            if result.source == RUNS_CSV
            else f"{RUNS_CSV} says {texts[0]}, but {result.source} says {texts[1]}; correct one."
        )
    hinted = {key: value for key, value in result.hinted.items() if key not in row}
    folder.results[name] = replace(
        result, said={**result.said, **row}, hinted=hinted, source=RUNS_CSV
    )


def is_on_gpu(result: Result) -> bool:
    """True if its memory is that of a run in float16 on CUDA, for all that is said."""
    if result.run:
        substituted = str(
            (result.document["record"].get("environment") or {}).get("provider") or "flash-attn"
        )
        is_real = result.run.implementation != "Flash2" or substituted.startswith("flash-attn")
        return is_real and (result.run.dtype, result.run.device) == (COURSE_DTYPE, "cuda")
    return "cpu" not in str(result.said.get("device", "")).lower()
