"""A folder of results as a dataset's records: planned at each call, converted by a job each."""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.devices import known_devices
from flashlab.files import canonical
from flashlab.lab5.assigning import File, assign, stated
from flashlab.lab5.checks import Line, check_arithmetic
from flashlab.lab5.documents import RUNS_CSV, documents_in, listed
from flashlab.lab5.possible import has_flops, workspaces_of
from flashlab.lab5.results import FolderError, Result, is_on_gpu, read_folder, result_of
from flashlab.lab5.said import ATTRIBUTES, RUNS_CSV_COLUMNS, described
from flashlab.lab5.words import COURSE_DTYPE, FLASH2, MEMORY, NAIVE, OUT_OF_MEMORY, PASSES, SIZES
from flashlab.records import COUNTERS, Measurement, Record, RecordError, parse_record, write_record
from flashlab.runs import Run
from flashlab.telling.catalogs import message
from flashlab.untrusted import UnsoundFileError, read_within

COURSE_PROTOCOL = {"name": "lab5", "repeats": 30}
"""The protocol of the course's script."""


class OpenRunsError(FolderError):
    """Files that can be several runs: `table` is the ``runs.csv`` at `path` to fill in."""

    def __init__(self, message: str, path: Path, table: str | None) -> None:
        super().__init__(message)
        self.path, self.table = path, table


def _ask(folder: Path, files: Sequence[File], has_table: bool) -> None:
    """OpenRunsError, with a table to fill in, where a file can be several runs."""
    unknown = [file.result.name for file in files if len(file.options) != 1]
    if not unknown:
        return
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(RUNS_CSV_COLUMNS)
    for file in files:
        # Nothing that the folder made of a file is stated, since it would be concluded from.
        open_to = [{"implementation": w, **s.parameters} for w, s in file.allowed or file.options]
        said = {**file.result.hinted, **file.result.said}
        said = {} if file.is_open else said  # the numbers are against it
        values = [{o[name] for o in open_to} or {said.get(name, "?")} for name in ATTRIBUTES]
        cells = [str(v.pop()) if len(v) == 1 else "?" for v in values]
        rows.writerow([file.result.name, *cells[:-1], cells[-1].lower(), said.get("device", "")])
    there, lines = folder / RUNS_CSV, text.getvalue().splitlines(keepends=True)
    asked = "".join([lines[0], *(line for line in lines if "?" in line)])
    todo = f"{there} needs these rows:\n{asked}" if has_table else f"fill in each ? of {there}"
    raise OpenRunsError(
        f"{folder}: which runs {listed(unknown)} are cannot be told from names and numbers; {todo}"
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


Remark = tuple[str, str, dict[str, str]]
"""A file, the code of a message about it, and the message's parameters."""

Chosen = tuple[Result, Run, str | None, list[tuple[str, dict[str, str]]]]
"""A result with its run, its device, and the remarks on it."""


def import_plan(
    folder: Path, known: Collection[str], device: str | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The orders that convert a folder's files into records, and the notices on them.

    Args:
        folder: the student's.
        known: the implementations that a report can show.
        device: the name of the GPU, where the user gives it.

    Raises:
        FolderError: a file is unsound, or what is said of it contradicts its numbers.
        OpenRunsError: a file can be several runs.
    """
    if not folder.is_dir():
        raise FolderError(f"{folder}: there is no such folder; name that of your JSON files")
    read = read_folder(folder.resolve())
    if refused := {**read.refused, **read.contradicted}:
        texts = [f"{name}: {problem}" for name, problem in refused.items()]
        text = listed(texts, " ", " And {} more.")
        raise FolderError(f"{folder}: {text} Mend these files, or move them elsewhere.")
    left_out: list[Remark] = [(name, "form.not_a_result", {}) for name in read.ignored]
    measured, failed = list[Result](), list[Result]()
    for result in read.results.values():
        who = result.said.get("implementation", result.hinted.get("implementation"))
        if who not in (None, *known):
            left_out.append((result.name, "form.unknown_kernel", {"kernel": str(who)}))
        elif result.status == COUNTERS:
            left_out.append((result.name, "form.not_measured", {"status": result.status}))
        else:
            (measured if result.status == "ok" else failed).append(result)
    try:
        files = assign(measured)
    except FolderError as error:
        raise FolderError(f"{folder}: {error}") from error
    _ask(folder, files, read.has_table)
    named = _device_of(files, device)
    _take_each_once(files)
    chosen = [_chosen(file, device, named) for file in files]
    chosen += [_failed(folder, result, device or named) for result in failed]
    if not chosen:
        seen = listed([f"{name} has {keys}" for name, keys in read.ignored.items()], "; ")
        raise FolderError(
            f"{folder}: there is no result of the course's script in it"
            + (f" ({seen}; wanted are {', '.join((*PASSES, MEMORY))})" if seen else "")
        )
    kinds: dict[tuple[str, str], str] = {}
    for result, run, *_ in sorted(chosen, key=lambda each: each[0].name):
        kinds.setdefault((run.dtype, run.device), result.name)
    if len(kinds) > 1:
        each = listed([f"{file} is {dtype} on {on}" for (dtype, on), file in kinds.items()])
        raise FolderError(
            f"{folder}: its results are of several kinds: {each}; import each by itself"
        )
    chosen.sort(key=lambda each: (each[1], each[0].name))
    nth, entries = Counter[tuple[Run, str]](), list[dict[str, Any]]()
    for result, run, own, remarks in chosen:
        protocol = {"name": result.protocol} if result.protocol else COURSE_PROTOCOL
        # What is left out is told of beside the first record: the report names it.
        told = [*((result.name, *remark) for remark in remarks), *(left_out if not entries else ())]
        entry = {
            "benchmark": ATTENTION.name,
            "run": run.to_json(),
            "protocol": protocol,
            "process": nth[run, str(protocol["name"])],
            "folder": str(folder),
            **{"file": result.name, "path": result.path, "sha256": result.sha256},
            **{"status": result.status, "device_name": own},
            "remarks": [
                {"file": file, "code": code, "params": params} for file, code, params in told
            ],
        }
        nth[run, str(protocol["name"])] += 1
        digest = hashlib.sha256(canonical(entry).encode()).hexdigest()
        entries.append({**entry, "record": f"records/{run.slug}-{digest[:12]}.json"})
    return entries, [*_notices(entries), *_ends(chosen, read.has_table)]


def _chosen(file: File, given: str | None, named: str | None) -> Chosen:
    """A file with its run, which is the one option that is left."""
    result, (option,) = file.result, file.options
    own = given or result.said.get("device") or named
    if option in file.possible:
        file.remarks.append(("form.exact_memory", {}))
    for key, factor in result.converted.items():
        file.remarks.append(("form.converted", {"key": key, "factor": factor}))
    kind = (COURSE_DTYPE, "cuda") if is_on_gpu(result) else ("float32", "cpu")
    return result, result.run or attention_run(*option, *kind), own, file.remarks


def _failed(folder: Path, result: Result, device: str | None) -> Chosen:
    """A result without numbers, whose run must be told."""
    said = {**result.hinted, **result.said}
    option = stated(said)
    if option is None:
        raise FolderError(
            f"{folder}: {result.name}: a run that ran out of memory has no numbers to tell what it "
            f"is; name its implementation, {', '.join(SIZES)} and causal in {RUNS_CSV}"
        )
    run = result.run or attention_run(*option, COURSE_DTYPE, "cuda")
    return result, run, said.get("device", device), []


def _notices(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each kind of remark, with the files that it is on."""
    files: dict[str, list[str]] = {}
    for remark in (remark for entry in entries for remark in entry["remarks"]):
        if remark["code"] != "form.exact_memory":
            text = str(UnsoundFileError(remark["code"], **remark["params"]))
            files.setdefault(text, []).append(remark["file"])
    return [f"{listed(names)}: {text}" for text, names in files.items()]


def _ends(chosen: Iterable[Chosen], has_table: bool) -> list[str]:
    """A line on runs that take more memory than any of the naive one, which has no such file."""
    runs = {(run.implementation, Shape.of(run)) for _, run, *_ in chosen}
    naive = {shape: costs.naive_peak_memory(shape, 0) for who, shape in runs if who == NAIVE}
    others = {shape for _, shape in runs} - naive.keys()
    most = max(naive.values(), default=float("inf"))
    ends = sorted(shape for shape in others if costs.naive_peak_memory(shape, 0) > most)
    shapes = listed([described(shape.parameters) for shape in ends])
    told = (
        f"{NAIVE} has no file for {shapes}, where another implementation has one; if it ran out of "
        f"memory, write that row into {RUNS_CSV} with {OUT_OF_MEMORY} as its file"
    )
    return [told] if ends and not has_table else []


def _take_each_once(files: list[File]) -> None:
    """Drop results that are there twice, such as in a folder and in a copy of it."""
    seen: dict[str, File] = {}
    for file in [*files]:
        r = file.result
        key = repr((file.options, r.seconds, r.rates, r.peak_mib, r.document.get("record")))
        if (first := seen.setdefault(key, file)) is not file:
            first.remarks.append(("form.double", {"other": first.result.name}))
            files.remove(file)


# A job: from one file to a record


def _refuse_wrong_numbers(run: Run, result: Result) -> None:
    line = check_arithmetic(result)
    if line.verdict != "fail" and not has_flops(result, Shape.of(run)):
        line = Line("fail", "identity.flops", params={"declared": str(run)})
    if line.verdict == "fail":
        text = message("en", "grades", line.code).format_map(line.params)
        raise RecordError(f"{text} Import the file as the script wrote it.")


def import_record(entry: Mapping[str, Any], output: Path) -> None:
    """Convert a result into a record: the same numbers, no samples; FolderError if wrong."""
    folder = Path(entry["folder"])
    source = folder / entry["path"]
    started = datetime.fromtimestamp(source.stat().st_mtime, UTC).isoformat(timespec="seconds")
    document: Mapping[str, Any] = {}
    if entry["sha256"]:
        document = documents_in(entry["path"], read_within(folder, entry["path"]))[entry["file"]]
    try:
        if "record" in document:
            record = parse_record(document, str(source))
        else:
            record = _converted(entry, document, started)
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
        raise FolderError(f"{source}: {error}") from error


def _converted(entry: Mapping[str, Any], document: Mapping[str, Any], started: str) -> Record:
    """A record of the script's numbers, no samples; without numbers that of a failed run."""
    run, metrics = Run.of(ATTENTION, entry["run"]), dict[str, Measurement]()
    result = result_of(document, entry["file"], entry["path"], entry["sha256"])
    if result and result.status == "ok":
        _refuse_wrong_numbers(run, result)
        for name in ("forward", "backward"):
            metrics[f"{name}_time"] = Measurement(result.seconds[name] * 1e3, stopped="count")
        metrics["peak_memory"] = Measurement(result.peak_mib)
    return Record(
        benchmark=ATTENTION.name,
        run=run,
        status=entry["status"],
        message=None if metrics else f"declared in {entry['path']}",
        protocol=entry["protocol"],
        metrics=metrics,
        gate=None,
        warnings=(),
        environment={"device_name": entry["device_name"]},
        sources={},
        started=started,
    )
