"""A folder of results as a dataset's records: planned at each call, converted by a job each."""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import isclose
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.words import COURSE_DTYPE, FLASH2, NAIVE, SIZES
from flashlab.devices import known_devices
from flashlab.files import canonical
from flashlab.plan.datasets import DatasetError, run_of
from flashlab.records import Measurement, Record, RecordError, parse_record, write_record
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, read_within

from flashlab.lab5.assigning import File, assign, missing_ends
from flashlab.lab5.possible import Option, workspaces_of
from flashlab.lab5.results import (
    Folder,
    FolderError,
    Result,
    documents_in,
    is_on_gpu,
    read_folder,
    result_of,
)
from flashlab.lab5.said import ATTRIBUTES, OUT_OF_MEMORY, RUNS_CSV

COURSE_PROTOCOL = {"name": "lab5", "repeats": 30}
"""The protocol of the course's script."""

SHOWN = 5
"""Most files that a message names."""


class OpenRunsError(DatasetError):
    """Files that can be several runs: `table` is the ``runs.csv`` at `path` to fill in."""

    def __init__(self, message: str, path: Path, table: str | None) -> None:
        super().__init__(message)
        self.path, self.table = path, table


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _ask(folder: Path, files: Sequence[File], has_table: bool) -> None:
    """OpenRunsError, with a table to fill in, where a file can be several runs."""
    unknown = [file.result.name for file in files if len(file.options) != 1]
    if not unknown:
        return
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["file", "impl", *SIZES, "causal", "device"])
    for file in files:
        open_to = [{"implementation": w, **s.parameters} for w, s in file.unassumed or file.options]
        said = {**file.result.hinted, **file.result.said}
        values = [{o[name] for o in open_to} or {said.get(name, "?")} for name in ATTRIBUTES]
        cells = [str(v.pop()) if len(v) == 1 else "?" for v in values]
        rows.writerow([file.result.name, *cells[:-1], cells[-1].lower(), said.get("device", "")])
    there, lines = folder / RUNS_CSV, text.getvalue().splitlines(keepends=True)
    asked = "".join([lines[0], *(line for line in lines if "?" in line)])
    todo = f"{there} needs these rows:\n{asked}" if has_table else f"fill in each ? of {there}"
    raise OpenRunsError(
        f"{folder}: which runs {_names(unknown)} are cannot be told from names and numbers; {todo}"
        ", then make the same call again",
        there,
        None if has_table else text.getvalue(),
    )


def _device_of(files: Sequence[File], given: str | None) -> str | None:
    """The device of files that name none: the given one, that of all, or a class by workspaces."""
    named = {file.result.said.get("device") for file in files} - {None}
    if given or named:
        return given or (named.pop() if len(named) == 1 else None)
    single = [(file.options[0], int(file.result.peak_mib * costs.MIB)) for file in files]
    sizes = {workspaces_of(shape, memory) for (who, shape), memory in single if who == NAIVE}
    least = 8.0 if any(who == FLASH2 for (who, _), _ in single) else 0.0  # what flash-attn 2 needs
    devices = [d for d in known_devices() if d.cublas_workspaces in sizes]
    ccs = sorted({float(d.compute_capability) for d in devices} - {0.0})
    ccs = [cc for cc in ccs if cc >= least]
    if not ccs:
        return None
    low, high = int(ccs[0]), int(ccs[-1])
    span = str(ccs[0]) if len(ccs) == 1 else f"{low}.x" if low == high else f"{low}.x–{high}.x"
    return f"NVIDIA GPU (compute capability {span})"


def _run_of(result: Result, option: Option) -> Run:
    kind = (COURSE_DTYPE, "cuda") if is_on_gpu(result) else ("float32", "cpu")
    return result.run or attention_run(*option, *kind)


def _entry(
    folder: Path, result: Result, run: Run, device: str | None, remarks: Any, nth: Counter[Any]
) -> dict[str, Any]:
    """The order to convert a result into the record of a run."""
    protocol = {"name": result.protocol} if result.protocol else COURSE_PROTOCOL
    entry = {
        "benchmark": ATTENTION.name,
        "run": run.to_json(),
        "protocol": protocol,
        "process": nth[run, protocol["name"]],
        "folder": str(folder),
        "file": result.name,
        "path": result.path,
        "sha256": result.sha256,
        "status": result.status,
        "device_name": device,
        "remarks": [
            {"file": result.name, "code": c, "params": p, "is_refusal": False} for c, p in remarks
        ],
    }
    nth[run, protocol["name"]] += 1
    digest = hashlib.sha256(canonical(entry).encode()).hexdigest()
    return {**entry, "record": f"records/{run.slug}-{digest[:12]}.json"}


def import_plan(
    folder: Path, known: Collection[str], device: str | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The orders that convert a folder's files into records, and the notices on them.

    Args:
        known: the implementations that a report can show.
        device: the name of the GPU, where the user gives it.

    Raises:
        DatasetError: a file is unsound, or what is said of it contradicts its numbers.
        OpenRunsError: a file can be several runs.
    """
    if not folder.is_dir():
        raise DatasetError(f"{folder}: there is no such folder; name that of your JSON files")
    read = read_folder(folder.resolve())
    if refused := {**read.refused, **read.contradicted}:
        text = " ".join(f"{name}: {problem}" for name, problem in [*refused.items()][:SHOWN])
        raise DatasetError(f"{folder}: {text} Mend these files, or move them elsewhere.")
    notices: dict[str, list[str]] = {}
    if read.ignored:
        notices["This is not a result of the script, and was ignored."] = read.ignored
    measured, chosen = list[Result](), list[tuple[Result, Run, str | None, Any]]()
    for result in read.results.values():
        who = result.said.get("implementation", result.hinted.get("implementation"))
        if who not in (None, *known):
            text = (
                f"It is of {who}, of which kernels/ has no implementation; the file was left out."
            )
            notices.setdefault(text, []).append(result.name)
        elif result.status == "ok":
            measured.append(result)
        elif result.run and result.status != "counters":
            chosen.append((result, result.run, result.said.get("device"), []))
    try:
        files = assign(measured)
    except FolderError as error:
        raise DatasetError(f"{folder}: {error}") from error
    _ask(folder, files, read.has_table)
    named = _device_of(files, device)
    _take_each_once(files)
    for file in files:
        result, option = file.result, file.options[0]
        if option in file.possible:
            file.remarks.append(("form.exact_memory", {}))
        for code, params in file.remarks:
            if code != "form.exact_memory":
                notices.setdefault(str(UnsoundFileError(code, **params)), []).append(result.name)
        own = device or result.said.get("device") or named
        chosen.append((result, _run_of(result, option), own, file.remarks))
    chosen += _failed(read, folder, named)
    if not chosen:
        raise DatasetError(f"{folder}: there is no result of the course's script in it")
    kinds: dict[tuple[str, str], str] = {}
    for result, run, *_ in sorted(chosen, key=lambda each: each[0].name):
        kinds.setdefault((run.dtype, run.device), result.name)
    if len(kinds) > 1:
        listed = ", ".join(f"{file} is {dtype} on {on}" for (dtype, on), file in kinds.items())
        raise DatasetError(
            f"{folder}: its results are of several kinds: {listed}; import each by itself"
        )
    ends = missing_ends({(r.implementation, Shape.of(r)) for _, r, *_ in chosen})
    if ends and not read.has_table:
        text = (
            f"no file for {len(ends)} runs that another implementation has; if they ran out of "
            f"memory, say so in {RUNS_CSV} with {OUT_OF_MEMORY} as their file"
        )
        notices[text] = [NAIVE]
    nth = Counter[Any]()
    chosen.sort(key=lambda each: (each[1], each[0].name))
    entries = [_entry(folder, *each, nth) for each in chosen]
    return entries, [f"{_names(names)}: {text}" for text, names in notices.items()]


def _take_each_once(files: list[File]) -> None:
    """Drop results that are there twice, such as in a folder and in a copy of it."""
    seen: dict[str, File] = {}
    for file in [*files]:
        r = file.result
        key = repr((file.options, r.seconds, r.rates, r.peak_mib, r.document.get("record")))
        if (first := seen.setdefault(key, file)) is not file:
            first.remarks.append(("form.double", {"other": first.result.name}))
            files.remove(file)


def _failed(
    read: Folder, folder: Path, device: str | None
) -> Iterator[tuple[Result, Run, str | None, Any]]:
    """The runs that rows of runs.csv say ran out of memory."""
    for line, said in read.failed_rows:
        if any(name not in said for name in ATTRIBUTES):
            raise DatasetError(
                f"{folder / RUNS_CSV}: line {line}: fill in impl, all sizes and causal"
            )
        run = attention_run(said["implementation"], Shape.of(said), COURSE_DTYPE, "cuda")
        yield Result("", "", "", said, status="oom"), run, said.get("device", device), []


# A job: from one file to a record


def _refuse_wrong_numbers(source: Path, run: Run, result: Result) -> None:
    seconds, rates = result.seconds, result.rates
    for name, flops in costs.flops(Shape.of(run)).items():
        if not isclose(seconds[name] * rates[name] * 1e12, flops, rel_tol=result.error):
            raise DatasetError(
                f"{source}: {name}: time × rate is not the {flops:.9g} FLOPs of {run}"
            )
    if not isclose(
        seconds["forward_backward"], seconds["forward"] + seconds["backward"], rel_tol=result.error
    ):
        raise DatasetError(f"{source}: forward_backward is not the sum of the other two times")


def import_record(entry: Mapping[str, Any], output: Path) -> None:
    """Convert a result into a record: the same numbers, no samples; DatasetError if wrong."""
    folder = Path(entry["folder"])
    source = folder / (entry["path"] or RUNS_CSV)
    started = datetime.fromtimestamp(source.stat().st_mtime, UTC).isoformat(timespec="seconds")
    document: Mapping[str, Any] = {}
    if entry["path"]:
        document = documents_in(entry["path"], read_within(folder, entry["path"]))[entry["file"]]
    try:
        if "record" in document:
            record = parse_record(document, str(source))
        else:
            record = _converted(entry, document, source, started)
        imported = {"code": "imported", "remarks": entry["remarks"]}
        environment = {"device_name": entry["device_name"], "imported": True}
        kept = {"file": entry["file"], "file_sha256": entry["sha256"], "process": entry["process"]}
        write_record(
            output,
            replace(
                record,
                warnings=(*record.warnings, imported),
                environment={**record.environment, **environment},
                sources={**record.sources, **kept},
            ),
        )
    except (UnsoundFileError, RecordError) as error:
        raise DatasetError(f"{source}: {error}") from error


def _converted(
    entry: Mapping[str, Any], document: Mapping[str, Any], source: Path, started: str
) -> Record:
    run, metrics = run_of(entry), {}
    if document and (result := result_of(document, entry["file"], entry["path"], entry["sha256"])):
        _refuse_wrong_numbers(source, run, result)
        for name in ("forward", "backward"):
            metrics[f"{name}_time"] = Measurement(result.seconds[name] * 1e3, stopped="count")
        metrics["peak_memory"] = Measurement(result.peak_mib)
    return Record(
        benchmark=ATTENTION.name,
        run=run,
        status=entry["status"],
        message=None if metrics else f"declared in {RUNS_CSV}",
        protocol=entry["protocol"],
        metrics=metrics,
        gate=None,
        warnings=(),
        environment={"device_name": entry["device_name"]},
        sources={},
        started=started,
    )
