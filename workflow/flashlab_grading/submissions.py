"""From a submission's folder to its results: read, parsed, and joined with their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from flashlab.course.declaration import is_same_device
from flashlab.course.files import Found
from flashlab.course.folder import CourseFile, Remark, read_folder
from flashlab_grading.files import files_of, records_of
from flashlab_grading.model import Line, Result, Submission, Verdict
from flashlab_grading.recorded import is_shipped

WARNED = ("form.archive_unknown", "form.archive_nested", "form.not_utf8")
"""Problems of form that are nobody's fault: a person has to open these files."""


def _line(remark: Remark) -> Line:
    refused: Verdict = "warn" if remark.code in WARNED else "fail"
    verdict = refused if remark.is_refusal else "pass"
    return Line(verdict, remark.code, remark.file, remark.params)


def _result(file: CourseFile, device: str | None) -> Result:
    said = file.declaration
    return Result.of(
        file.name,
        file.read,
        replace(said, device_name=said.device_name or device),
        recorded=file.recorded,
        declared_again=file.declared_again,
    )


def read_submission(folder: str, name: str, device_name: str | None) -> Submission:
    """The submission in ``folder/name``; `device_name` is used where it names no device itself."""
    return _read(name, files_of(str(Path(folder, name))), device_name)


def read_report(content: bytes) -> Submission:
    """The records attached to a report's PDF, as a submission."""
    return _read("report", records_of(content).items(), None)


def _read(name: str, files: Iterable[Found], device_name: str | None) -> Submission:
    shipped: list[str] = []

    def own() -> Iterator[Found]:
        for path, content in files:
            if isinstance(content, bytes) and is_shipped(path, content):
                shipped.append(path)
            else:
                yield path, content

    found = read_folder(own())
    lines = [_line(remark) for remark in found.remarks]
    if shipped:
        lines.append(Line("pass", "form.shipped", params={"count": str(len(shipped))}))
    told = any(not line.is_note or line.code == "form.not_measured" for line in lines)
    if not found.files and not told:
        lines.append(Line("fail", "form.nothing"))
    named = {file.declaration.device_name for file in found.files.values()} - {None}
    for other in sorted(map(str, named)):
        if device_name is not None and not is_same_device(other, device_name):
            texts = {"device": other}, device_name, other
            lines.append(Line("warn", "form.other_device", "", *texts))
    # A submission comes from one GPU: the device that one file names is that of the others.
    device = named.pop() if len(named) == 1 else (None if named else device_name)
    results = tuple(_result(file, device) for file in found.files.values())
    samples = {file.name: file.read.samples for file in found.files.values()}
    return Submission(name, results, tuple(lines), device, samples)
