"""A folder of results as a dataset's records: planned at each call, converted by a job each."""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.devices import kind_of_device
from flashlab.files import canonical
from flashlab.lab5 import results, words
from flashlab.lab5.assigning import File, Option, assign, check_arithmetic, read_numbers, stated
from flashlab.lab5.results import RUNS_CSV, FolderError, OpenRunsError, Result, listed
from flashlab.lab5.words import ATTRIBUTES, MEMORY, PASSES, SIZES, TIMED
from flashlab.labels import message
from flashlab.records import COUNTERS, Measurement, Record, RecordError, parse_record, write_record
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, printable, read_within

COURSE_PROTOCOL = {"name": "lab5", "repeats": 30}
"""The protocol of the course's script."""


def _ask(folder: Path, files: Sequence[File]) -> None:
    """OpenRunsError, with a table to fill in, where a file can be several runs."""
    unknown, text = [file.result.name for file in files if len(file.options) != 1], io.StringIO()
    rows, there = csv.writer(text, lineterminator="\n"), folder / RUNS_CSV
    rows.writerow(words.RUNS_CSV_COLUMNS)
    for file in files:
        # Nothing that the folder made of a file is stated, since it would be concluded from; nor
        # what its numbers are against.
        open_to = [{"implementation": w, **s.parameters} for w, s in file.allowed or file.options]
        said = {} if file.is_open else file.result.told
        values = [{o[name] for o in open_to} or {said.get(name, "?")} for name in ATTRIBUTES]
        cells = [str(v.pop()) if len(v) == 1 else "?" for v in values]
        row = [file.result.name, *cells[:-1], cells[-1].lower(), said.get("device", "")]
        rows.writerow(map(printable, row) if there.exists() else row)
    head, *lines = text.getvalue().splitlines()
    asked = [head, *(line for line in lines if ",?" in line)] if there.exists() else []
    todo = f"{there} needs these rows, filled in" if asked else f"fill in each ? of {there}"
    why = f"which runs {listed(unknown)} are cannot be told from names and numbers; {todo}"
    if unknown:
        why = f"{folder}: {why}, then make the same call again" + ":" * bool(asked)
        raise OpenRunsError(why, there, None if asked else text.getvalue(), *asked)


def _runs_of(
    folder: Path, measured: Sequence[Result], failed: Sequence[Result]
) -> list[tuple[Run, str, File]]:
    """The run of each measurement of a folder, once, with its file; what is special is remarked."""
    try:
        files, once = assign(read_numbers(measured)), dict[tuple[Option, str], File]()
    except FolderError as error:
        raise FolderError(f"{folder}: {error}") from error
    _ask(folder, files)
    for file in files:
        # Such as in a folder and in a copy of it.
        first = once.setdefault((file.options[0], file.result.numbers), file)
        if first is not file:
            first.remarks.append(("form.double", {"other": file.result.name}))
    for result in failed:
        if not (option := stated(result.told)):
            raise FolderError(
                f"{folder}: {result.name}: a run that ran out of memory has no numbers to tell "
                f"what it is; name its implementation, {', '.join(SIZES)} and causal in {RUNS_CSV}"
                f", in a row whose file is {result.name}"
            )
        once[option, result.name] = File(result, [], options=[option])
    chosen = list[tuple[Run, str, File]]()
    for (option, _), file in once.items():
        result, remarks = file.result, file.remarks
        remarks += [("form.exact_memory", {})] if option in file.possible else []
        remarks += [("form.converted", dict(key=k, factor=x)) for k, x in result.converted.items()]
        kind = (words.COURSE_DTYPE, "cuda") if result.is_on_gpu else ("float32", "cpu")
        chosen.append((result.run or attention_run(*option, *kind), result.name, file))
    return sorted(chosen, key=lambda own: own[:2])


def import_plan(
    folder: Path, known: Collection[str], device: str | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The orders that convert a folder's files into records, and the notices on them.

    `known` are the implementations that a report can show, `device` the name of the GPU where the
    user gives it. FolderError where a file is unsound or what is said of it contradicts its
    numbers, OpenRunsError where it can be several runs.
    """
    if not folder.is_dir():
        raise FolderError(f"{folder}: there is no such folder; name that of your JSON files")
    read = results.read_folder(folder.resolve())
    checked = [check_arithmetic(result) for result in read.results.values() if result.seconds]
    wrong = {
        line.file: f"{message('en', 'grades', line.code).format_map(line.params)} Import it as "
        "written." for line in checked if line.verdict == "fail"
    }  # fmt: skip
    if refused := [f"{name}: {problem}" for name, problem in {**read.refused, **wrong}.items()]:
        text = listed(refused, " ", " And {} more.")
        raise FolderError(f"{folder}: {text} Mend these files, or move them elsewhere.")
    left_out = [(name, "form.not_a_result", dict[str, str]()) for name in read.ignored]
    measured, failed = list[Result](), list[Result]()
    for name, result in read.results.items():
        if (who := result.told.get("implementation")) not in (None, *known):
            left_out.append((name, "form.unknown_kernel", {"kernel": str(who)}))
        elif result.status == COUNTERS:
            left_out.append((name, "form.not_measured", {"status": result.status}))
        else:
            (measured if result.status == "ok" else failed).append(result)
    if not (chosen := _runs_of(folder, measured, failed)):
        seen = listed([f"{name} has {keys}" for name, keys in read.ignored.items()], "; ")
        seen = f" ({seen}; wanted are {', '.join((*PASSES, MEMORY))})" if seen else ""
        raise FolderError(f"{folder}: there is no result of the course's script in it{seen}")
    named = [(device, "--device"), *((f.result.said.get("device"), name) for _, name, f in chosen)]
    cards = {kind_of_device(own): name for own, name in named if own}
    kinds = {f"{run.dtype} on {run.device}": name for run, name, _ in reversed(chosen)}
    for several in (kinds, cards):
        if len(several) > 1:
            each = listed(sorted(f"{file} is {kind}" for kind, file in several.items()))
            raise FolderError(f"{folder}: results of several kinds: {each}; import each by itself")
    nth, notices = Counter[tuple[Run, str]](), defaultdict[str, list[str]](list)
    entries = list[dict[str, Any]]()
    for run, name, file in chosen:
        result = file.result
        protocol = {"name": result.protocol} if result.protocol else COURSE_PROTOCOL
        metrics = {f"{name}_time": 1e3 * result.seconds[name] for name in TIMED if result.seconds}
        metrics |= {"peak_memory": result.peak_mib} if metrics else {}
        # What is left out is told of beside the first record: the report names it.
        told = [(name, *remark) for remark in file.remarks] + left_out * (not entries)
        entry = {
            "benchmark": ATTENTION.name,
            "run": run.to_json(),
            "protocol": protocol,
            "process": nth[run, str(protocol["name"])],
            "folder": str(folder),
            **{"file": name, "path": result.path, "sha256": result.sha256},
            **{"status": result.status, "is_record": result.run is not None, "metrics": metrics},
            "device_name": next((own for own, _ in named if own), None),
            "remarks": [{"file": of, "code": code, "params": params} for of, code, params in told],
        }
        nth[run, str(protocol["name"])] += 1
        digest = hashlib.sha256(canonical(entry).encode()).hexdigest()
        entries.append({**entry, "record": f"records/{run.slug}-{digest[:12]}.json"})
        for of, code, params in told:
            if code != "form.exact_memory":
                notices[str(UnsoundFileError(code, **params))].append(of)
    return entries, [printable(f"{listed(names)}: {text}") for text, names in notices.items()]


def import_record(entry: Mapping[str, Any], output: Path) -> None:
    """Write the record of a result: its numbers, no samples; FolderError where it cannot be read.

    A FlashLab record is kept as it is, a run without numbers has its status alone.
    """
    folder, source = Path(entry["folder"]), Path(entry["folder"], entry["path"])
    try:
        if entry["is_record"]:
            content = read_within(folder, entry["path"])
            document = results.documents_in(entry["path"], content)[entry["file"]]
            record = parse_record(document, str(source))
        else:
            metrics = {
                name: Measurement(value, stopped=None if name == "peak_memory" else "count")
                for name, value in entry["metrics"].items()
            }
            of = entry["benchmark"], Run.of(ATTENTION, entry["run"]), entry["status"]
            why, protocol = None if metrics else f"declared in {entry['path']}", entry["protocol"]
            at = datetime.fromtimestamp(source.stat().st_mtime, UTC).isoformat(timespec="seconds")
            record = Record(*of, why, protocol, metrics, None, (), {}, {}, at)
        warnings = (*record.warnings, {"code": "imported", "remarks": entry["remarks"]})
        environment = {**record.environment, "device_name": entry["device_name"], "imported": True}
        sources = {"file": entry["file"], "file_sha256": entry["sha256"]}
        sources = {**record.sources, **sources, "process": entry["process"]}
        complete = replace(record, warnings=warnings, environment=environment, sources=sources)
        write_record(output, complete)
    except (UnsoundFileError, RecordError) as error:
        raise FolderError(f"{source}: {error}") from error
