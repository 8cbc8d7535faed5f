"""The results in a folder: their numbers, read within bounds, and what is said of their runs."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any
from unicodedata import normalize

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.devices import find_device
from flashlab.lab5 import documents, words
from flashlab.lab5.documents import RUNS_CSV, is_like_a_result, keys_of, listed, numbers_in
from flashlab.lab5.said import (
    ATTRIBUTES,
    Said,
    described,
    read_runs_csv,
    said_in_cells,
    said_in_name,
)
from flashlab.lab5.words import MEMORY, PASSES, RATE, SIZES, TIME
from flashlab.records import COUNTERS, STATUSES
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, read_within


class FolderError(Exception):
    """A folder whose files cannot be assigned to runs: the reason and the remedy."""


RANGES = {TIME: (1e-7, 3600.0), RATE: (1e-9, 1e5), MEMORY: (1e-4, 2.0**21)}
"""Seconds, TFLOP/s and MiB: milliseconds for seconds, or bytes for MiB, are mostly out of range."""

RATIOS = {"forward": 1.0, "backward": 2.5, "forward_backward": 3.5}
"""Operations of each pass over those of the forward pass."""

EXACT = 1e-9
"""Relative error within which numbers of the script follow from one another."""

SINGLE = 2.0**-24
"""The relative error of rounding to float32."""

MAX_SAMPLES = 20_000
"""Most samples of a pass that are read from a record."""


@dataclass(frozen=True)
class Result:
    """A result: seconds and TFLOP/s by pass, MiB, and what is said of its run.

    `said` is stated by a row or its own record, `hinted` only by its name. `run` is that of a
    FlashLab record; one without numbers has another `status` than ``ok``. `error` is the relative
    error of rate × time that rounding explains, `converted` has the keys that were in other units
    than the script's, with their factors. `document` holds a FlashLab record, if it is one.
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
    converted: Mapping[str, str] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def told(self) -> Said:
        """What is said of its run, also by its name where nothing else says it."""
        return {**self.hinted, **self.said}

    @property
    def forward_flops(self) -> float:
        """Operations of the forward pass, by the pass whose rate × time rounding affects least."""
        name = max(PASSES, key=self.seconds.__getitem__) if self.error > EXACT else "forward"
        return self.rates[name] * self.seconds[name] * 1e12 / RATIOS[name]


@dataclass
class Folder:
    """The results of a folder, the files that are refused, and those that are none.

    A result without numbers has another `status` than ``ok``; one that a row of ``runs.csv`` says
    ran out of memory is named by the row's line. `ignored` has the keys of each file that is none,
    `contradicted` the text for each of which two things are stated.
    """

    results: dict[str, Result] = field(default_factory=dict)
    refused: dict[str, UnsoundFileError] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    contradicted: dict[str, str] = field(default_factory=dict)
    has_table: bool = False


def _numbers_of(document: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """The seven numbers by pass and kind, in the script's units.

    UnsoundFileError where one is missing, with the keys seen and wanted, is none, or out of range.
    """
    found, values = numbers_in(document), dict[tuple[str, str], float]()
    for which, kind in [("", MEMORY), *((each, kind) for each in PASSES for kind in (TIME, RATE))]:
        if (which, kind) not in found:
            wanted = ".".join(filter(None, (which, kind)))
            raise UnsoundFileError("form.missing_key", key=wanted, seen=keys_of(document))
        (key, given, factor), (low, high) = found[which, kind], RANGES[kind]
        if type(given) not in (int, float):
            shown = json.dumps(given, ensure_ascii=False)[:40]
            raise UnsoundFileError("form.no_number", key=key, value=shown)
        if not isfinite(given):
            raise UnsoundFileError("form.not_finite", value=f"{key} {given}")
        value = float(given) if factor == "1" else float(Decimal(repr(given)) * Decimal(factor))
        if not low <= value <= high:
            limits = {"value": f"{value:.6g}", "low": f"{low:g}", "high": f"{high:g}"}
            raise UnsoundFileError("form.range", key=key, **limits)
        values[which, kind] = value
    return values


def _rounding(values: Sequence[float]) -> float:
    """The relative error of numbers that somebody has rounded: none has more than nine digits.

    The script writes 16 or 17 significant ones; float32 has about seven, written as a double.
    """
    texts = [Decimal(repr(value)).normalize().as_tuple() for value in values]
    decimals, digits = max(-int(t.exponent) for t in texts), max(len(t.digits) for t in texts)
    by_decimals = 0.5 * 10.0**-decimals / min(values) if decimals <= 9 else 0.0
    by_digits = 0.5 * 10.0 ** (1 - digits) if digits <= 9 else 0.0
    are_single = struct.unpack("3f", struct.pack("3f", *values)) == (*values,)
    return max(by_decimals, by_digits, SINGLE if are_single else 0.0)


def _error(seconds: Sequence[float], rates: Sequence[float]) -> float:
    """The relative error of rate × time that rounding explains; `EXACT` where all of them agree."""
    each = zip(seconds, rates, RATIOS.values(), strict=True)
    flops, total = [time * rate / ratio for time, rate, ratio in each], sum(seconds[:2])
    if max(flops) - min(flops) <= EXACT * max(flops) and abs(total - seconds[2]) <= EXACT * total:
        return EXACT
    return max(EXACT, _rounding(seconds) + _rounding(rates))


def _of_record(result: Result, record: Mapping[str, Any]) -> Result:
    """A result with the claims of its ``record`` block, whose samples are sound."""
    key, most = "record.run", 0
    try:
        said = said_in_cells({name: str(record["run"][name]) for name in ATTRIBUTES})
        run = Run.of(ATTENTION, {**record["run"], **said})
        # The course's script lacks the parameters with a default.
        is_script = not any(parameter.default for parameter in ATTENTION.stated([run]))
        is_whole = len(said) == len(ATTRIBUTES) and isinstance(run.dtype, str)
        if not is_script or not is_whole or not isinstance(run.device, str):
            raise ValueError("no run of the script")
        protocol, metrics = str(record["protocol"]["name"]), record.get("metrics") or {}
        device = (record.get("environment") or {}).get("device_name")
        for name in ("forward_time", "backward_time"):
            key = f"record.metrics.{name}.samples"
            samples = (metrics.get(name) or {}).get("samples") or []
            if not isinstance(samples, list) or any(type(s) not in (int, float) for s in samples):
                raise TypeError("samples that are no numbers")
            most = max(most, len(samples))
    except (KeyError, TypeError, ValueError, AttributeError, UnsoundFileError) as unsound:
        raise UnsoundFileError("form.record", key=key) from unsound
    if most > MAX_SAMPLES:
        raise UnsoundFileError("form.many_samples", key="record.metrics", most=str(MAX_SAMPLES))
    said |= {"device": device} if isinstance(device, str) else {}
    status = COUNTERS if protocol == COUNTERS else str(record.get("status", "ok"))
    claimed: dict[str, Any] = {"said": said, "run": run, "protocol": protocol, "status": status}
    return replace(result, hinted={}, source="its own record", **claimed)


def result_of(document: Mapping[str, Any], name: str, path: str, sha256: str) -> Result | None:
    """The result in a document, None where it is none.

    Raises:
        UnsoundFileError: a number is missing, not finite or out of range, a ``record`` block is not
            of FlashLab's form, or has numbers though it states that there are none.
    """
    record, has_run_out = document.get("record"), documents.says_out_of_memory(document)
    if not is_like_a_result(document) and not has_run_out:
        return None
    if isinstance(record, dict) and record.get("benchmark", ATTENTION.name) != ATTENTION.name:
        return None
    if "record" in document and not isinstance(record, dict):
        raise UnsoundFileError("form.no_mapping", key="record")
    # The path of a result is its file's name: no cell says another.
    cells = {k: str(v) for k, v in documents.plain_in(document).items() if v is not None}
    said = {key: value for key, value in said_in_cells(cells).items() if key != "file"}
    hinted = {key: value for key, value in said_in_name(name).items() if key not in said}
    result = Result(name, path, sha256, said, hinted, source="the file itself")
    if isinstance(record, dict):
        result = _of_record(result, record)
        is_failed = result.status != "ok" and result.status in (*STATUSES, COUNTERS)
        if is_failed and (document.get(MEMORY) is None or result.status == COUNTERS):
            return result
        if is_failed:
            raise UnsoundFileError("form.status", status=result.status)
        kept = ("run", "status", "protocol", "environment", "metrics", "started")
        record = {key: record[key] for key in kept if key in record}
    elif has_run_out:
        is_run = {*SIZES} & (said.keys() | hinted.keys()) or is_like_a_result(document)
        return replace(result, status=words.OUT_OF_MEMORY) if is_run else None
    numbers = _numbers_of(document)
    seconds = {each: numbers[each, TIME] for each in PASSES}
    rates = {each: numbers[each, RATE] for each in PASSES}
    return replace(
        result,
        seconds=seconds,
        rates=rates,
        peak_mib=numbers["", MEMORY],
        error=_error([*seconds.values()], [*rates.values()]),
        converted={key: f for key, _, f in numbers_in(document).values() if f != "1"},
        document={"record": record} if record else {},
    )


def read_folder(folder: Path) -> Folder:
    """The results in a folder, each with what is said of it; what is unsound is in `refused`."""
    found, rows, paths, size = Folder(), list[tuple[str, int, Said]](), list[str](), 0
    try:
        for count, path in enumerate(documents.paths_in(folder)):
            if count >= documents.MAX_FILES:
                raise UnsoundFileError("form.too_many", most=str(documents.MAX_FILES))
            if size > documents.MAX_BYTES:
                raise UnsoundFileError("form.too_many_bytes", most=str(documents.MAX_BYTES))
            paths.append(path)
            try:
                content = read_within(folder, path)
                size += len(content)
                is_table = PurePosixPath(path).name.lower() == RUNS_CSV
                if is_table and (read := read_runs_csv(content)):
                    found.has_table = True
                    rows += [(path, line, said) for line, said in read[0]]
                    if told := listed(read[1], " ", " And {} more."):
                        raise UnsoundFileError("form.rows", problems=told)
                else:
                    take(found, path, content)
            except UnsoundFileError as problem:
                found.refused[path] = _alone(problem)
    except UnsoundFileError as enough:
        found.refused[paths[-1] if paths else folder.name] = enough
    # macOS decomposes a name's letters; tables do not.
    by_name = {normalize("NFC", name): name for name in found.results}
    seen = {normalize("NFC", name) for name in (*paths, *found.refused, *found.ignored)}
    for table, line, row in rows:
        file, said = row["file"], {key: value for key, value in row.items() if key != "file"}
        name = normalize("NFC", str(PurePosixPath(table).parent / file))
        if file == words.OUT_OF_MEMORY:
            name, failed = f"{table}/{line}", Result("", table, "", said, source=RUNS_CSV)
            found.results[name] = replace(failed, name=name, status=words.OUT_OF_MEMORY)
        elif name in by_name:
            _declare(found, by_name[name], said)
        elif name in found.ignored:
            found.refused[name] = UnsoundFileError("form.not_a_result")
        elif name not in seen:
            missing = {"line": str(line), "value": file[:200]}
            found.refused[table] = UnsoundFileError("form.row_missing", **missing)
    return found


def _alone(problem: UnsoundFileError) -> UnsoundFileError:
    """The problem without its traceback, which would keep the document."""
    return UnsoundFileError(problem.code, **problem.params)


def take(found: Folder, path: str, content: bytes) -> None:
    """Add the results of a file to a folder; UnsoundFileError where it cannot be read."""
    digest = hashlib.sha256(content).hexdigest()
    for name, document in documents.documents_in(path, content).items():
        try:
            is_object = isinstance(document, dict)
            if result := is_object and result_of(document, name, path, digest):
                found.results[name] = result
            else:
                found.ignored[name] = keys_of(document)
        except UnsoundFileError as problem:
            found.refused[name] = _alone(problem)


def _declare(folder: Folder, name: str, row: Said) -> None:
    """Complete a result's statement by its row, which nothing else stated may contradict."""
    result = folder.results[name]
    differing = [key for key in row if row[key] != result.said.get(key, row[key])]
    devices = [find_device(said.get("device")) for said in (row, result.said)]
    if devices[0] and devices[0] == devices[1]:  # by another of its names
        differing = [key for key in differing if key != "device"]
    if differing:
        folder.contradicted[name] = (
            f"{RUNS_CSV} says {described(row)}, but {result.source} says {described(result.said)}; "
            "correct the one that is wrong."
        )
    said, hinted = {**result.said, **row}, {k: v for k, v in result.hinted.items() if k not in row}
    folder.results[name] = replace(result, said=said, hinted=hinted, source=RUNS_CSV)


def is_cpu(name: str | None) -> bool:
    """True for the name of a CPU."""
    return bool(re.search(r"\bcpus?\b", name or "", re.IGNORECASE))


def is_on_gpu(result: Result) -> bool:
    """True if its memory is that of a run in float16 on CUDA, for all that is said."""
    if result.run:
        stated = result.document.get("record", {}).get("environment") or {}
        provider = str(stated.get("provider") or words.FLASH_ATTN)
        is_real = result.run.implementation != words.FLASH2 or provider.startswith(words.FLASH_ATTN)
        return is_real and (result.run.dtype, result.run.device) == (words.COURSE_DTYPE, "cuda")
    return not is_cpu(result.said.get("device"))
