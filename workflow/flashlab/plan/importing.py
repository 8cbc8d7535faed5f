"""Importing a folder of results of the course's script: a plan of its records, and making them."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from math import isclose
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.assembling import FolderError, OpenFolderError, assemble
from flashlab.course.files import Budget, EnoughReadError, documents_in, files_in
from flashlab.course.folder import CourseFolder, Remark, read_folder
from flashlab.course.results import Numbers, result_of
from flashlab.course.runs_csv import RUNS_CSV
from flashlab.course.words import FLASH2, NAIVE, SIZES
from flashlab.files import canonical
from flashlab.plan.datasets import DatasetError, run_of
from flashlab.records import Measurement, Record, RecordError, parse_record, write_record
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, read_within

COURSE_PROTOCOL = {"name": "lab5", "repeats": 30}
"""The protocol of the course's script."""


class OpenRunsError(DatasetError):
    """Files that can be several runs: `table` is the text of the ``runs.csv`` at `path` to fill in.

    None where the folder has one already.
    """

    def __init__(self, message: str, path: Path, table: str | None) -> None:
        super().__init__(message)
        self.path = path
        self.table = table


def _read(folder: Path) -> CourseFolder:
    try:
        return read_folder(files_in(str(folder.resolve()), Budget()))
    except EnoughReadError as enough:
        path, problem = enough.args
        raise DatasetError(f"{folder / path}: {problem}") from enough


def import_plan(
    folder: Path, known: Collection[str], device: str | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The manifest's entries of a folder's files, before conversion, and the notices on them.

    Each entry holds the converted record's file name, which carries a hash of all that decides it,
    and the folder and the file that it is made from. Each notice is one line. `known` are the
    implementations that a report can show, `device` is the name of the GPU where the user gives it.

    Raises:
        DatasetError: a file is unsound, or its declaration contradicts itself or its numbers.
        OpenRunsError: something has to be asked.
    """
    if not folder.is_dir():
        raise DatasetError(f"{folder}: there is no such folder; name that of your JSON files")
    read = _read(folder)
    try:
        runs, remarks = assemble(read, known, device)
    except OpenFolderError as question:
        there = folder / RUNS_CSV
        lines = question.table.splitlines(keepends=True)
        asked = [line for line in lines[1:] if "?" in line]
        what = (
            f"{there} needs these rows, with each ? filled in:\n{''.join(lines[:1] + asked)}"
            if there.exists()
            else f"{there} lists all files; fill in each ? there"
        )
        table = None if there.exists() else question.table
        text = f"{folder}: {question}. {what}, then make the same call again"
        raise OpenRunsError(text, there, table) from question
    except FolderError as error:
        raise DatasetError(f"{folder}: {error}") from error
    entries, processes = [], Counter[tuple[Run, str]]()
    for result in sorted(runs, key=lambda result: (result.run, result.file)):
        file = read.files.get(result.file)
        claim = file.read.claim if file else None
        protocol = {"name": claim.protocol} if claim and claim.protocol else COURSE_PROTOCOL
        key = result.run, str(protocol["name"])
        entry = {
            "benchmark": ATTENTION.name,
            "run": result.run.to_json(),
            "protocol": protocol,
            "process": processes[key],
            "folder": str(folder),
            "file": result.file,
            "path": file.path if file else result.file,
            "sha256": file.sha256 if file else "",
            "status": result.status,
            "device_name": result.device_name,
            "remarks": [*map(asdict, result.remarks)],
        }
        processes[key] += 1
        digest = hashlib.sha256(canonical(entry).encode()).hexdigest()
        entries.append({**entry, "record": f"records/{result.run.slug}-{digest[:12]}.json"})
    return entries, [*_notices(remarks)]


SHOWN = 3
"""Most files that a notice names."""


def _notices(remarks: Sequence[Remark]) -> Iterator[str]:
    """One line for each kind of remark, with the names of all files that it is about."""
    files: dict[str, list[str]] = {}
    for remark in remarks:
        files.setdefault(remark.text, []).append(remark.file)
    for text, named in files.items():
        more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        yield f"{', '.join(named[:SHOWN])}{more}: {text}"


def _refuse_wrong_numbers(source: Path, run: Run, numbers: Numbers) -> None:
    """DatasetError where the times do not add up, or the rates are not those of the run."""
    seconds, rates = numbers.seconds, numbers.rates
    for name, flops in costs.flops(Shape.of(run)).items():
        claimed = seconds[name] * rates[name] * 1e12
        if not isclose(claimed, flops, rel_tol=numbers.product_error(name)):
            raise DatasetError(
                f"{source}: {name}: time and rate make {claimed:.9g} FLOPs, but it is {run}, which "
                f"takes {flops:.9g}; import the file as the course's script wrote it"
            )
    total = seconds["forward"] + seconds["backward"]
    if not isclose(seconds["forward_backward"], total, rel_tol=numbers.sum_error):
        raise DatasetError(
            f"{source}: the forward_backward time is not the sum of the other two; import the file "
            "as the course's script wrote it"
        )


def _converted(entry: Mapping[str, Any], numbers: Numbers | None, started: str) -> Record:
    """A record of the script's numbers, no samples; without numbers that of a failed run."""
    metrics = {}
    if numbers:
        metrics = {
            **{
                f"{name}_time": Measurement(numbers.seconds[name] * 1e3, stopped="count")
                for name in ("forward", "backward")
            },
            "peak_memory": Measurement(numbers.peak_mib),
        }
    return Record(
        benchmark=ATTENTION.name,
        run=run_of(entry),
        status=entry["status"],
        message=None if numbers else f"declared in {RUNS_CSV}",
        protocol=entry["protocol"],
        metrics=metrics,
        gate=None,
        warnings=(),
        environment={"device_name": entry["device_name"]},
        sources={},
        started=started,
    )


def import_record(entry: Mapping[str, Any], output: Path) -> None:
    """Convert one result of the course's script into a record: the same numbers, no samples.

    A record of FlashLab stays as it is but for its number among the processes of its run.

    Raises:
        DatasetError: the times do not add up, or the rates do not follow from them and the run,
            within rounding.
    """
    folder = Path(entry["folder"])
    source = folder / (entry["path"] or RUNS_CSV)
    started = datetime.fromtimestamp(source.stat().st_mtime, UTC).isoformat(timespec="seconds")
    try:
        if not entry["path"]:
            record = _converted(entry, None, started)
        else:
            content = read_within(folder, entry["path"])
            document = documents_in(entry["path"], content)[entry["file"]]
            if "record" in document:
                record = parse_record(document, str(source))
            else:
                numbers = result_of(document).numbers
                _refuse_wrong_numbers(source, run_of(entry), numbers)
                record = _converted(entry, numbers, started)
        imported = {"code": "imported", "remarks": entry["remarks"]}
        write_record(
            output,
            replace(
                record,
                warnings=(*record.warnings, imported),
                environment={
                    **record.environment,
                    "device_name": entry["device_name"],
                    "imported": True,
                },
                sources={
                    **record.sources,
                    "file": entry["file"],
                    "file_sha256": entry["sha256"],
                    "process": entry["process"],
                },
            ),
        )
    except UnsoundFileError as problem:
        raise DatasetError(f"{source}: {problem}") from problem
    except RecordError as error:
        raise DatasetError(str(error)) from error


HEADLINE = Shape(16, 1024, 32, 2048, False)
"""The shape of the lab's headline table."""

Found = Mapping[Shape, Collection[str]]
"""The implementations that were measured at each shape."""


def _sweep(measured: Found, name: str) -> list[Shape]:
    """The largest sweep of one size with all else equal, in order; empty where it does not vary.

    The one with the most runs, without a mask where several have as many.
    """
    groups: dict[Shape, list[Shape]] = defaultdict(list)
    for shape in sorted(measured):
        groups[Shape.of({**asdict(shape), name: 0})].append(shape)

    def size(group: list[Shape]) -> tuple[int, int, bool]:
        return len(group), sum(len(measured[shape]) for shape in group), not group[0].causal

    best = max(groups.values(), key=size)
    return best if len(best) > 1 else []


def _masked(measured: Found) -> list[Shape]:
    """The largest sweep of sequence lengths that were measured with both masks."""
    both = {shape: measured[shape] for shape in measured if replace(shape, causal=True) in measured}
    both = {shape: names for shape, names in both.items() if not shape.causal}
    return (_sweep(both, "seq_len") or [min(both)]) if both else []


def experiments_of(measured: Found, device: str) -> dict[str, Any]:
    """The configuration that reports these runs: the lab's experiments on a kind of device.

    One whose parameter does not vary stays in the list, since the others are numbered by it.
    """
    names = {name for each in measured.values() for name in each}
    order = [name for name in (NAIVE, FLASH2) if name in names]
    order += sorted(names - {*order})
    swept = {name: _sweep(measured, name) for name in SIZES}
    if not any(swept.values()):
        swept["seq_len"] = [max(measured, key=lambda shape: (len(measured[shape]), shape))]
    blocks = {name: shapes for name, shapes in swept.items() if shapes}
    experiments = []
    for name in ("seq_len", "causal", "batch_size", "num_heads", "emb_dim"):
        shapes = _masked(measured) if name == "causal" else blocks.get(name, [])
        experiment: dict[str, Any] = {"use": name, "implementations": order}
        if shapes:
            varied = "seq_len" if name == "causal" else name
            block = {**shapes[0].parameters, varied: [getattr(shape, varied) for shape in shapes]}
            masks = {"causal": [False, True]} if name == "causal" else {}
            experiment[device] = {**block, **masks}
        if name == "causal" and not {NAIVE, FLASH2} <= names:  # the lab's figures are of these two
            experiment["figures"] = [{"metric": "rate", "implementations": [o]} for o in order]
        experiments.append(experiment)
    often = [shape for shapes in blocks.values() for shape in shapes]
    base = max(measured, key=lambda s: (s == HEADLINE, len(measured[s]), often.count(s), s))
    return {
        "baseline": order[0],
        "summary": {"cuda": base.parameters, "cpu": base.parameters, "implementations": order},
        "experiments": experiments,
    }
