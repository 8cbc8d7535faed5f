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
from flashlab.lab5.words import ATTRIBUTES, MEMORY, PASSES, RATE, TIME, TIMED, Said, described
from flashlab.records import COUNTERS, Measurement, RecordError, parse_record
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, read_within

RANGES = {TIME: (1e-7, 3600.0), RATE: (1e-9, 1e5), MEMORY: (1e-4, 2.0**21)}
"""Seconds, TFLOP/s and MiB: milliseconds for seconds, or bytes for MiB, are mostly out of range."""

RATIOS = {"forward": 1.0, "backward": 2.5, "forward_backward": 3.5}
"""Operations of each pass over those of the forward pass."""

EXACT, SINGLE = 1e-9, 2.0**-24
"""Relative error within which numbers of the script follow from one another; that of float32."""

MAX_SAMPLES, NO_SAMPLES = 20_000, Measurement(0.0)
"""Most samples of a pass that are read from a record, and what has none."""


@dataclass(frozen=True)
class Result:
    """A result: seconds and TFLOP/s by pass, MiB, and what is said of its run.

    `said` is stated by a row or its own record, `hinted` only by its name. One without numbers has
    another `status` than ``ok``. `error` is the relative error of rate × time that rounding
    explains, `converted` has the keys that were in other units than the script's, with their
    factors. Of a FlashLab record there are `run`, `protocol`, the `provider` of a kernel from
    outside, and `samples`: the seconds of each call, of the passes that have any.
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
    converted: Mapping[str, str] = field(default_factory=dict)
    status: str = "ok"
    run: Run | None = None
    protocol: str = ""
    provider: str = ""
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict, repr=False)

    @property
    def told(self) -> Said:
        """What is said of its run, also by its name where nothing else says it."""
        return {**self.hinted, **self.said}

    @property
    def numbers(self) -> str:
        """The same text for a result and a copy of it."""
        return repr((self.seconds, self.rates, self.peak_mib, self.samples))

    @property
    def forward_flops(self) -> float:
        """Operations of the forward pass, by the pass whose rate × time rounding affects least."""
        name = max(PASSES, key=self.seconds.__getitem__) if self.error > EXACT else "forward"
        return self.rates[name] * self.seconds[name] * 1e12 / RATIOS[name]

    @property
    def is_on_gpu(self) -> bool:
        """True if its memory is that of a run in float16 on CUDA, for all that is said."""
        if self.run is None:
            return not is_cpu(self.said.get("device"))
        provider = self.provider or words.FLASH_ATTN
        is_real = self.run.implementation != words.FLASH2 or provider.startswith(words.FLASH_ATTN)
        return is_real and (self.run.dtype, self.run.device) == (words.COURSE_DTYPE, "cuda")


def is_cpu(name: str | None) -> bool:
    """True for the name of a CPU."""
    return bool(re.search(r"\bcpus?\b", name or "", re.IGNORECASE))


@dataclass
class Folder:
    """The results of a folder, the files that are refused, and those that are none.

    A result without numbers has another `status` than ``ok``; one that a row of ``runs.csv`` says
    ran out of memory is named by the row's line. `ignored` has the keys of each file that is none.
    """

    results: dict[str, Result] = field(default_factory=dict)
    refused: dict[str, UnsoundFileError] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)


def _numbers_of(
    found: Mapping[tuple[str, str], tuple[str, Any, str]], document: Mapping[str, Any]
) -> list[float]:
    """The memory, and the time and rate of each pass, in the script's units.

    UnsoundFileError where one is missing, with the keys seen and wanted, is none, or out of range.
    """
    values = list[float]()
    for which, kind in [("", MEMORY), *((each, kind) for kind in (TIME, RATE) for each in PASSES)]:
        if (which, kind) not in found:
            wanted = ".".join(filter(None, (which, kind)))
            seen = documents.keys_of(document)
            raise UnsoundFileError("form.missing_key", key=wanted, seen=seen)
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
        values.append(value)
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
    """The relative error of rate × time that rounding explains; `EXACT` where all agree."""
    each = zip(seconds, rates, RATIOS.values(), strict=True)
    flops, total = [time * rate / ratio for time, rate, ratio in each], sum(seconds[:2])
    if max(flops) - min(flops) <= EXACT * max(flops) and abs(total - seconds[2]) <= EXACT * total:
        return EXACT
    return max(EXACT, _rounding(seconds) + _rounding(rates))


def _of_record(result: Result, document: Mapping[str, Any]) -> Result | None:
    """A result with the claims of its own record, None where it is of none of the script's runs."""
    try:
        record = parse_record(document, "it")
    except RecordError as error:
        reason = str(error).removeprefix("it: ")[:300]
        raise UnsoundFileError("form.record", reason=reason) from error
    run, environment = record.run, record.environment
    stated = words.said_in_cells({name: str(run.to_json()[name]) for name in ATTRIBUTES})
    if any(parameter.default for parameter in ATTENTION.stated([run])):
        return None  # a run that the course's script lacks
    samples = {name: record.metrics.get(f"{name}_time", NO_SAMPLES).samples for name in TIMED}
    if max(map(len, samples.values())) > MAX_SAMPLES:
        raise UnsoundFileError("form.many_samples", key="record.metrics", most=str(MAX_SAMPLES))
    stated |= {"device": str(device)} if (device := environment.get("device_name")) else {}
    status = COUNTERS if record.has_counters else record.status
    protocol, provider = record.protocol["name"], environment.get("provider") or ""
    result = replace(result, status=status, protocol=str(protocol), provider=str(provider))
    seconds = {name: [each / 1e3 for each in own] for name, own in samples.items() if own}
    return replace(result, said=stated, hinted={}, run=run, samples=seconds)


def result_of(document: Mapping[str, Any], name: str, path: str, sha256: str) -> Result | None:
    """The result in a document, None where it is none.

    UnsoundFileError where a number is missing, not finite or out of range, or its ``record`` is no
    FlashLab record, or has numbers though it states that there are none.
    """
    record, values = document.get("record", {}), documents.flat(document)
    has_run_out = "record" not in document and documents.says_out_of_memory(values)
    is_like, of = documents.is_like_a_result(document), ATTENTION.name
    if not is_like and not has_run_out:
        return None
    if not isinstance(record, dict):
        raise UnsoundFileError("form.no_mapping", key="record")
    if record.get("benchmark", of) != of:
        return None
    stated = words.said_in_cells({k: str(v) for k, v in values.items() if v is not None})
    stated.pop("file", None)  # the path of a result is its file's name: no cell says another
    hinted = {k: value for k, value in words.said_in_name(name).items() if k not in stated}
    result = Result(name, path, sha256, stated, hinted)
    if "record" in document:
        recorded = _of_record(result, document)
        if recorded is None:
            return None
        result = recorded
        if result.status != "ok" and document.get(MEMORY) is None:
            return result
        if result.status != "ok":
            raise UnsoundFileError("form.status", status=result.status)
    elif has_run_out:
        is_run = {*words.SIZES} & result.told.keys() or is_like
        return replace(result, status=words.OUT_OF_MEMORY) if is_run else None
    found = documents.numbers_in(values)
    memory, *numbers = _numbers_of(found, document)
    seconds, rates = numbers[: len(PASSES)], numbers[len(PASSES) :]
    converted = {key: factor for key, _, factor in found.values() if factor != "1"}
    result = replace(result, peak_mib=memory, error=_error(seconds, rates), converted=converted)
    times, speeds = (dict(zip(PASSES, own, strict=True)) for own in (seconds, rates))
    return replace(result, seconds=times, rates=speeds)


def read_folder(folder: Path, found: Folder | None = None) -> Folder:
    """The results in a folder, each with what is said of it, beside what is `found` already."""
    found = found or Folder()
    rows, paths, size = list[tuple[str, int, str, Said]](), [folder.name], 0
    try:
        for path in documents.paths_in(folder):
            if size > documents.MAX_BYTES:
                raise UnsoundFileError("form.too_many_bytes", most=str(documents.MAX_BYTES))
            paths.append(path)
            try:
                content = read_within(folder, path)
                size += len(content)
                is_table = PurePosixPath(path).name.lower() == documents.RUNS_CSV
                if is_table and (read := documents.read_runs_csv(content)):
                    rows += [(path, *row) for row in read[0]]
                    if problems := documents.listed(read[1], " ", " And {} more."):
                        raise UnsoundFileError("form.rows", problems=problems)
                else:
                    take(found, path, content)
            except UnsoundFileError as problem:
                found.refused[path] = UnsoundFileError(problem.code, **problem.params)
    except UnsoundFileError as enough:
        found.refused[paths[-1]] = enough
    # macOS decomposes a name's letters; tables do not.
    seen = (*paths, *found.refused, *found.ignored, *found.results)
    by_name = {normalize("NFC", name): name for name in seen}
    for table, line, file, row in rows:
        name = by_name.get(normalize("NFC", str(PurePosixPath(table).parent / file)))
        if file == words.OUT_OF_MEMORY:
            own = f"{table}/{line}"
            found.results[own] = Result(own, table, "", row, status=words.OUT_OF_MEMORY)
        elif name in found.results:
            _declare(found, found.results[name], row)
        elif name in found.ignored:
            found.refused[name] = UnsoundFileError("form.not_a_result")
        elif name is None:
            missing = {"line": str(line), "value": file[:200]}
            found.refused[table] = UnsoundFileError("form.row_missing", **missing)
    return found


def take(found: Folder, path: str, content: bytes) -> None:
    """Add the results of a file to a folder; UnsoundFileError where it cannot be read."""
    digest = hashlib.sha256(content).hexdigest()
    for name, document in documents.documents_in(path, content).items():
        try:
            is_object = isinstance(document, dict)
            if result := is_object and result_of(document, name, path, digest):
                found.results[name] = result
            else:
                found.ignored[name] = documents.keys_of(document)
        except UnsoundFileError as problem:  # whose traceback would keep the document
            found.refused[name] = UnsoundFileError(problem.code, **problem.params)


def _declare(folder: Folder, result: Result, row: Said) -> None:
    """Complete a result's statement by its row; where they contradict each other it is refused."""
    differing = {key for key in row if row[key] != result.said.get(key, row[key])}
    devices = [find_device(each.get("device")) for each in (row, result.said)]
    if devices[0] and devices[0] == devices[1]:  # by another of its names
        differing.discard("device")
    if differing:
        both = {"row": described(row), "other": described(result.said)}
        folder.refused[result.name] = UnsoundFileError("form.declared_twice", **both)
        del folder.results[result.name]
        return
    hinted = {key: value for key, value in result.hinted.items() if key not in row}
    folder.results[result.name] = replace(result, said={**result.said, **row}, hinted=hinted)
