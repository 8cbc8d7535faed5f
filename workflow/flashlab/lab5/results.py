"""The results in somebody's folder: documents found within bounds, their numbers, what is said.

Nothing in a folder is trusted: it may be deep, hold more than anyone would hand in, or links. A
file may hold several results: as a list or an object in JSON, as lines of JSON, or as a table.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import islice
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any
from unicodedata import normalize

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.devices import find_device
from flashlab.lab5 import words
from flashlab.lab5.words import ATTRIBUTES, MEMORY, PASSES, RATE, TIME, TIMED, Said, described
from flashlab.records import COUNTERS, Measurement, RecordError, parse_record
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, decoded, opened, parse_json, printable, read_within

RUNS_CSV, KINDS = "runs.csv", (".csv", ".tsv", ".json", ".jsonl", ".ndjson")


class FolderError(Exception):
    """A folder whose files cannot be assigned to runs: the reason and the remedy, on `lines`."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(printable, lines)))


class OpenRunsError(FolderError):
    """Files that can be several runs: `table` is the ``runs.csv`` at `path` to fill in."""

    def __init__(self, message: str, path: Path, table: str | None, *rows: str) -> None:
        super().__init__(message, *rows)
        self.path, self.table = path, table


MAX_ENTRIES, MAX_FILES, MAX_DEPTH, MAX_BYTES = 100_000, 10_000, 8, 128 * 1024**2
"""Most directory entries that are listed, files that are read, nested folders, and bytes in all."""

MAX_ROWS, MAX_COLUMNS = 20_000, 100
"""Most rows and columns of a table."""

BEGIN = 4096
"""Bytes that are read of a file whose name is not a result's, to see if it is one."""

OWN = {MEMORY: ("", MEMORY)} | {f"{p}.{kind}": (p, kind) for kind in (TIME, RATE) for p in PASSES}
"""The pass (or ``""``) and the kind of each number, by the script's own keys."""


def listed(texts: Sequence[str], sep: str = ", ", more: str = " and {} more", most: int = 5) -> str:
    """The first texts, and how many more there are."""
    left = more.format(len(texts) - most) if len(texts) > most else ""
    return sep.join(texts[:most]) + left


def _is_result(folder: Path, path: str) -> bool:
    """True if a file is to be read: by its name, or because it begins like the script's JSON."""
    if (kind := PurePosixPath(path).suffix.lower()) in KINDS:
        return True
    with suppress(UnsoundFileError, OSError), opened(str(folder / path)) as descriptor:
        content = os.read(descriptor, BEGIN)
        is_json = content[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
        return kind != ".ipynb" and is_json and any(f'"{x}'.encode() in content for x in PASSES)
    return (folder / path).is_dir()  # by a link; a damaged or special file nobody has to read


def paths_in(folder: Path) -> Iterator[str]:
    """What may be a result, each ``runs.csv``, links to folders elsewhere, ``FOLDER/*`` of closed.

    UnsoundFileError where there are more entries, files or levels than anyone hands in.
    """
    entries, files, closed, root = 0, 0, list[OSError](), folder.resolve()
    for here, inner, names in os.walk(folder, onerror=closed.append):
        below = Path(here).relative_to(folder)
        if (entries := entries + len(inner) + len(names)) > MAX_ENTRIES:
            raise UnsoundFileError("form.too_many", most=str(MAX_ENTRIES))
        inner[:] = sorted(name for name in inner if name[0] != "." and name != "__MACOSX")
        if inner and len(below.parts) == MAX_DEPTH:
            raise UnsoundFileError("form.too_deep", most=str(MAX_DEPTH))
        linked = (n for n in inner if not Path(here, n).resolve().is_relative_to(root))
        for name in sorted((*names, *linked)):
            if name[0] != "." and _is_result(folder, path := (below / name).as_posix()):
                if (files := files + 1) > MAX_FILES:
                    raise UnsoundFileError("form.too_many", most=str(MAX_FILES))
                yield path
    yield from ((Path(each.filename).relative_to(folder) / "*").as_posix() for each in closed)


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values of an object by their keys, those of a pass by ``PASS.KEY``.

    Those of other objects in it that hold nothing else are by their own keys, where it has none.
    """
    found: dict[str, Any] = {}
    for key, value in document.items():
        if not isinstance(value, (dict, list)):
            found[key] = value
        elif isinstance(value, dict) and words.pass_of(key):
            found |= {f"{key}.{k}": v for k, v in value.items()}
        elif isinstance(value, dict) and _is_plain(value) and not is_like_a_result(value):
            found = {**value, **found}
    return found


def _is_plain(document: Mapping[str, Any]) -> bool:
    return not any(isinstance(value, (dict, list)) for value in document.values())


def numbers_in(values: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, Any, str]]:
    """The key, value and factor of each number, by pass (or ``""``) and kind: the script's own."""
    ordered = sorted([*values][::-1], key=OWN.__contains__)  # the last is kept; else the first
    numbers = ((key, words.number_of(key)) for key in ordered)
    return {of[:2]: (key, values[key], of[2]) for key, of in numbers if of}


def says_out_of_memory(values: Mapping[str, Any]) -> bool:
    """True if a document without numbers says, in any text, that it ran out of memory."""
    found = any(type(v) in (int, float) and isfinite(v) for _, v, _ in numbers_in(values).values())
    texts = [value for value in values.values() if isinstance(value, str)]
    return not found and any(map(words.IS_OUT_OF_MEMORY.search, texts))


def is_like_a_result(document: Mapping[str, Any]) -> bool:
    """True if a document has any key of a result."""
    exact = {*PASSES, MEMORY, "record"} & document.keys()
    return bool(exact) or any(which for which, _ in numbers_in(document))


def keys_of(document: Any) -> str:
    """The keys of a document, for a message, and of objects in it."""
    if not isinstance(document, dict):
        return {list: "a list"}.get(type(document), type(document).__name__)
    return listed([key[:40] for key in {**document, **flat(document)}], most=10) or "nothing"


def _results_within(path: str, document: Any, above: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The results in a list or an object, each with what the objects above it say of it."""
    parts: dict[str, Any] = {}
    if isinstance(document, list):
        parts = {str(i): part for i, part in enumerate(document, start=1)}
    elif isinstance(document, dict):
        plain = flat(document)
        if is_like_a_result(document) or (_is_plain(document) and says_out_of_memory(plain)):
            yield path, {**above, **document}
            return
        parts, above = document, {**above, **plain}
    for key, part in parts.items():
        yield from _results_within(f"{path}/{key}", part, above)


def _parsed(content: bytes) -> Any:
    """A document, or the list of one on each line."""
    try:
        return parse_json(content)
    except UnsoundFileError as problem:
        lines = [line for line in decoded(content).splitlines() if line.strip()]
        are_objects = len(lines) > 1 and all(line.lstrip()[0] == "{" for line in lines[:2])
        if problem.code != "form.not_json" or not are_objects:
            raise
    if len(lines) > MAX_ROWS:
        raise UnsoundFileError("form.too_many", most=str(MAX_ROWS))
    return [parse_json(line.encode()) for line in lines]


def table_rows(content: bytes) -> tuple[str, list[str], list[tuple[int, list[str]]]]:
    """The delimiter, the headings, and the rows of CSV with their lines, without empty ones."""
    text = decoded(content, "cp950")  # Big5, of spreadsheets in Taiwan that write no UTF-8
    if "\0" in text:
        raise UnsoundFileError("form.csv", reason="it contains a NUL character")
    first = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    if first.count(delimiter) >= MAX_COLUMNS:
        raise UnsoundFileError("form.csv_columns", most=str(MAX_COLUMNS))
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        found = [(table.line_num, [*map(str.strip, row)]) for row in islice(table, MAX_ROWS + 2)]
    except csv.Error as error:
        raise UnsoundFileError("form.csv", reason=str(error)) from error
    if len(found) > MAX_ROWS + 1:
        raise UnsoundFileError("form.too_many", most=str(MAX_ROWS))
    (_, header), *rows = [row for row in found if any(row[1])] or [(0, [])]
    return delimiter, header, rows


def documents_in(path: str, content: bytes) -> dict[str, Any]:
    """The documents in a file by their paths: ``path``, or ``path/KEY`` for one of several.

    UnsoundFileError where the file cannot be read.
    """
    if PurePosixPath(path).suffix.lower() not in (".csv", ".tsv"):
        document = _parsed(content)
        return dict(_results_within(path, document, {})) or {path: document}
    delimiter, header, rows = table_rows(content)
    found, numbers = dict[str, Any](), {*filter(words.number_of, header)}
    if not is_like_a_result(dict.fromkeys(header, "")):
        return {path: dict.fromkeys(header, "")}
    for line, cells in rows:
        if len(cells) > len(header):
            raise UnsoundFileError("form.csv", reason=f"line {line} has more than the header")
        # pandas writes its index under no heading
        row: dict[str, Any] = {h: c for h, c in zip(header, cells, strict=False) if h and c}
        for name in numbers & row.keys():
            with suppress(ValueError):  # between semicolons a comma may stand for the point
                row[name] = float(row[name].replace(",", "." if delimiter == ";" else ","))
        found[f"{path}/{line}"] = row
    return found


def read_runs_csv(content: bytes) -> tuple[list[tuple[int, str, Said]], list[str]] | None:
    """The line, the file and the statement of each row, and the problems of the others.

    A file is a path below the folder, with slashes, or `OUT_OF_MEMORY` for words that say so. None
    for a table of results. UnsoundFileError where the whole file cannot be read.
    """
    _, header, rows = table_rows(content)
    if {"forward", "backward"} <= {which for which, _ in numbers_in(dict.fromkeys(header, ""))}:
        return None
    columns = [words.column_of(name) for name in header]
    if {"record", "sha256"} <= {*columns}:  # the pipeline's own table of runs
        return [], []
    lacking = [name for name in words.RUNS_CSV_COLUMNS[:-1] if name not in columns]
    if "file" in lacking or (len(lacking) == len(words.ATTRIBUTES) and "device" not in columns):
        raise UnsoundFileError("form.csv_lacking", columns=", ".join(lacking))
    if twice := {name for name in columns if name and columns.count(name) > 1}:
        raise UnsoundFileError("form.csv_twice", columns=", ".join(sorted(twice))[:200])
    found, problems = list[tuple[int, str, Said]](), list[str]()
    for line, cells in rows:
        try:
            if len(cells) != len(header):
                raise UnsoundFileError("form.row_fields")
            said = words.said_in_cells(dict(zip(header, cells, strict=True)))
            text = str(said.pop("file", ""))
            path = PurePosixPath(text.replace("\\", "/"))
            if path.is_absolute() or not path.parts or any(part[0] == "." for part in path.parts):
                raise UnsoundFileError("form.row_file", value=text[:200])
            is_gone = words.IS_OUT_OF_MEMORY.fullmatch(text)
            found.append((line, words.OUT_OF_MEMORY if is_gone else str(path), said))
        except UnsoundFileError as problem:
            problems.append(f"Line {line}: {problem}")
    return found, problems


# Results


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
    for wanted, (which, kind) in OWN.items():
        if (which, kind) not in found:
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
    record, values, of = document.get("record", {}), flat(document), ATTENTION.name
    has_run_out = "record" not in document and says_out_of_memory(values)
    is_like = is_like_a_result(document)
    if not isinstance(record, dict):
        raise UnsoundFileError("form.no_mapping", key="record")
    if not (is_like or has_run_out) or record.get("benchmark", of) != of:
        return None
    stated = words.said_in_cells({k: str(v) for k, v in values.items() if v is not None})
    stated.pop("file", None)  # the path of a result is its file's name: no cell says another
    hinted = {k: value for k, value in words.said_in_name(name).items() if k not in stated}
    result = Result(name, path, sha256, stated, hinted)
    if "record" in document:
        if (recorded := _of_record(result, document)) is None:
            return None
        result = recorded
        if result.status != "ok" and document.get(MEMORY) is None:
            return result
        if result.status != "ok":
            raise UnsoundFileError("form.status", status=result.status)
    elif has_run_out:
        is_run = {*words.SIZES} & result.told.keys() or is_like
        return replace(result, status=words.OUT_OF_MEMORY) if is_run else None
    found = numbers_in(values)
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
        for path in paths_in(folder):
            if size > MAX_BYTES:
                raise UnsoundFileError("form.too_many_bytes", most=str(MAX_BYTES))
            paths.append(path)
            try:
                if path != (path := path.encode(errors="replace").decode()):
                    raise UnsoundFileError("form.name")
                content = read_within(folder, path)
                size += len(content)
                is_table = PurePosixPath(path).name.lower() == RUNS_CSV
                if is_table and (read := read_runs_csv(content)):
                    rows += [(path, *row) for row in read[0]]
                    if problems := listed(read[1], " ", " And {} more."):
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
            missing = UnsoundFileError("form.row_missing", line=str(line), value=file[:200])
            found.refused[f"{table}/{line}"] = missing
    return found


def take(found: Folder, path: str, content: bytes) -> None:
    """Add the results of a file to a folder; UnsoundFileError where it cannot be read."""
    digest = hashlib.sha256(content).hexdigest()
    for name, document in documents_in(path, content).items():
        try:
            if isinstance(document, dict) and (result := result_of(document, name, path, digest)):
                found.results[name] = result
            else:
                found.ignored[name] = keys_of(document)
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
