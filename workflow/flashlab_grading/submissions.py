"""From a submission's folder or archive to its results, each with what is said of it.

An archive may be a bomb, name files outside its folder, or hold links: its members are read within
bounds, and only those that may be results are written, one by one, to a folder that is removed
again. A report's PDF is an archive of the attached records.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from flashlab.lab5.checks import Line, samples_of
from flashlab.lab5.results import MAX_BYTES, MAX_DEPTH, MAX_FILES, Folder, Result, read_folder
from flashlab.report.attached import CONFIG, RECORDS, parsed, read_records
from flashlab.untrusted import MAX_FILE_BYTES, UnsoundFileError, read_bounded, readable
from flashlab_grading.model import GradingError, Submission, is_same_device
from flashlab_grading.recorded import is_shipped
from flashlab_grading.report_pdf import UnsoundPdfError, attachments_of

MAX_SUBMISSIONS, MAX_ENTRIES, MAX_ARCHIVE_BYTES = 2_000, 100_000, 2**25

ENCODINGS = ("utf-8", "cp950")
"""Encodings in which programs in Taiwan write the names in a zip file, and do not say so."""

ZIP, REPORT, LEFT_BY_TOOLS = ".zip", ".pdf", "__MACOSX"
UNKNOWN = (".7z", ".rar", ".gz", ".zst", ".tar", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
"""Archives that others unpack: a submission like that is named, not looked into."""

WARNED = ("form.archive_unknown", "form.archive_nested", "form.not_utf8")
"""Problems of form that are nobody's fault: a person has to open these files."""

Member = tuple[str, bytes | UnsoundFileError]
"""The path in an archive of a file, and its bytes or why they were not read."""


def is_archive(name: str) -> bool:
    """True for a file named like an archive, of a kind that can be opened or not."""
    return name.lower().endswith((ZIP, REPORT, *UNKNOWN))


@contextmanager
def _damage() -> Iterator[None]:
    """UnsoundFileError in place of whatever the libraries make of hostile bytes."""
    try:
        yield
    except (UnsoundFileError, MemoryError):
        raise
    except Exception as error:
        reason = str(error)[:200] or type(error).__name__
        raise UnsoundFileError("form.archive_damaged", reason=reason) from error


def _refuse_member(info: zipfile.ZipInfo, path: PurePosixPath) -> None:
    has_drive = path.parts and re.match("[A-Za-z]:", path.parts[0])
    if path.is_absolute() or ".." in path.parts or has_drive or not path.parts:
        raise UnsoundFileError("form.archive_path", value=info.filename[:200])
    if stat.S_ISLNK(info.external_attr >> 16):
        raise UnsoundFileError("form.link")
    if len(path.parts) > MAX_DEPTH:
        raise UnsoundFileError("form.too_deep", most=str(MAX_DEPTH))
    if is_archive(path.name) and not path.name.lower().endswith(REPORT):
        raise UnsoundFileError("form.archive_nested")
    if info.flag_bits & 0x1:
        raise UnsoundFileError("form.unreadable", reason="encrypted")
    if info.file_size > MAX_FILE_BYTES:
        size, most = f"> {MAX_FILE_BYTES}", str(MAX_FILE_BYTES)
        raise UnsoundFileError("form.too_large", size=size, most=most)


def _in_zip(content: bytes) -> Iterator[Member]:
    """The files of a zip that may be results, its names decoded as all of them can be."""
    for encoding in ENCODINGS:
        with _damage(), suppress(UnicodeDecodeError):
            archive = zipfile.ZipFile(io.BytesIO(content), metadata_encoding=encoding)
            break
    for info in archive.infolist()[:MAX_ENTRIES]:
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if info.is_dir() or any(
            (p[0] == "." and p != "..") or p == LEFT_BY_TOOLS for p in path.parts
        ):
            continue
        try:
            _refuse_member(info, path)
            if path.suffix.lower() in (".json", ".csv"):
                with _damage(), archive.open(info) as file:
                    yield str(path), file.read(MAX_FILE_BYTES + 1)
        except UnsoundFileError as problem:
            yield info.filename, problem


def records_of(content: bytes) -> dict[str, bytes]:
    """The records of a report on attention; none of any other PDF, which is no fault."""
    with _damage():
        try:
            attachments = attachments_of(content)
        except UnsoundPdfError:
            return {}
        if not {CONFIG, RECORDS} <= attachments.keys():
            return {}
        config = parsed(attachments[CONFIG], CONFIG)
        if not isinstance(config, dict) or config.get("benchmark", "attention") != "attention":
            return {}
        records = read_records(attachments)
        return {name: json.dumps(record).encode() for name, record in records.items()}


def _members_of(path: Path) -> Iterator[Member]:
    """The files in an archive that may be results; UnsoundFileError if it cannot be opened."""
    if not path.name.lower().endswith((ZIP, REPORT)):
        raise UnsoundFileError("form.archive_unknown")
    content = read_bounded(str(path), most=MAX_ARCHIVE_BYTES)
    yield from _in_zip(content) if path.name.lower().endswith(ZIP) else records_of(content).items()


def _read_members(prefix: str, members: Iterator[Member], found: Folder) -> None:
    """Add what is in an archive to `found`, under the archive's path."""
    size = 0
    with tempfile.TemporaryDirectory(prefix="flashlab-") as folder:
        for count, (path, content) in enumerate(members):
            target = Path(folder, path)
            try:
                if isinstance(content, UnsoundFileError):
                    raise content
                size += len(content)
                if count >= MAX_FILES or size > MAX_BYTES:
                    raise UnsoundFileError("form.too_many", most=str(MAX_FILES))
                with readable():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content)
            except (UnsoundFileError, ValueError) as problem:
                is_known = isinstance(problem, UnsoundFileError)
                named = UnsoundFileError("form.archive_path", value=path[:200])
                found.refused[f"{prefix}/{path}"] = problem if is_known else named
        _add(found, read_folder(Path(folder)), f"{prefix}/", Path(folder))


def _add(found: Folder, own: Folder, prefix: str, folder: Path) -> None:
    """Add what was read of a folder to `found`; the project's own files are left out."""
    for name, result in own.results.items():
        path = f"{prefix}{result.path}"
        if is_shipped(path, Path(folder, result.path).read_bytes()):
            found.ignored.append("")
        else:
            found.results[prefix + name] = replace(result, name=prefix + name, path=path)
    found.refused |= {prefix + name: problem for name, problem in own.refused.items()}
    found.ignored += [prefix + name for name in own.ignored]
    found.contradicted |= {prefix + name: text for name, text in own.contradicted.items()}


def _read_all(path: Path) -> Folder:
    """Everything in a submission: a folder with the archives in it, or one archive."""
    found = Folder()
    if path.is_symlink():
        raise UnsoundFileError("form.link")
    if not path.is_dir():
        _read_members(path.name, _members_of(path), found)
        return found
    _add(found, read_folder(path), "", path)
    for here, inner, names in os.walk(path):
        inner[:] = sorted(n for n in inner if n[0] != "." and n != LEFT_BY_TOOLS)
        for archive in (Path(here, name) for name in sorted(names) if is_archive(name)):
            name = archive.relative_to(path).as_posix()
            try:
                _read_members(name, _members_of(archive), found)
            except UnsoundFileError as problem:
                # A PDF is a report with its data, or nothing that anybody asked for.
                if not name.lower().endswith(REPORT) or problem.code == "form.archive_damaged":
                    found.refused[name] = problem
    return found


def _once(results: Iterable[Result]) -> tuple[list[Result], list[Line]]:
    """Each measurement once, such as of a folder and its copy, with a note on each further one."""
    first: dict[str, Result] = {}
    lines = []
    for r in results:
        key = repr((r.said, r.seconds, r.rates, r.peak_mib, r.document.get("record")))
        if (other := first.setdefault(key, r)) is not r:
            lines.append(Line("pass", "form.double", r.name, {"other": other.name}))
    return [*first.values()], lines


def read_submission(folder: str, name: str, device: str | None) -> Submission:
    """The submission in ``folder/name``; `device` is used where it names none itself."""
    try:
        return _submission(name, _read_all(Path(folder, name)), device)
    except UnsoundFileError as problem:
        return Submission(name, lines=(_refused("", problem),))


def read_report(content: bytes) -> Submission:
    """The records attached to a report's PDF, as a submission."""
    found = Folder()
    _read_members("report.pdf", iter(records_of(content).items()), found)
    return _submission("report", found, None)


def _refused(name: str, problem: UnsoundFileError) -> Line:
    verdict = "warn" if problem.code in WARNED else "fail"
    return Line(verdict, problem.code, name, problem.params)


def _submission(name: str, found: Folder, device: str | None) -> Submission:
    lines = [_refused(file, problem) for file, problem in found.refused.items()]
    lines += [Line("pass", "form.not_a_result", file) for file in found.ignored if file]
    if shipped := found.ignored.count(""):
        lines.append(Line("pass", "form.shipped", params={"count": str(shipped)}))
    measured, samples = list[Result](), dict[str, dict[str, list[float]]]()
    for file, result in found.results.items():
        try:
            if result.status != "ok":
                lines.append(Line("pass", "form.not_measured", file, {"status": result.status}))
                continue
            samples[file] = samples_of(result)
            measured.append(result)
            lines.append(Line("pass", "form.pass", file))
        except UnsoundFileError as problem:
            lines.append(_refused(file, problem))
    if not found.results and not lines:
        lines.append(Line("fail", "form.nothing"))
    for file in found.contradicted:
        code = "record_differs" if found.results[file].run else "declared_twice"
        lines.append(Line("fail", f"identity.{code}", file, {}, "", found.contradicted[file]))
    named = {result.said.get("device") for result in measured} - {None}
    for other in sorted(map(str, named)):
        if device is not None and not is_same_device(other, device):
            lines.append(Line("warn", "form.other_device", "", {"device": other}, device, other))
    # A submission comes from one GPU: the device that one file names is that of the others.
    device = named.pop() if len(named) == 1 else (None if named else device)
    of_device = {"device": device} if device else {}
    results, notes = _once(replace(r, said={**of_device, **r.said}) for r in measured)
    kept = {file: samples[file] for file in (result.name for result in results)}
    return Submission(name, (*results,), (*lines, *notes), device, kept, (*found.contradicted,))


def find_submissions(folder: str) -> tuple[list[str], list[str]]:
    """The submissions in a class's folder and the loose files beside them, sorted.

    A submission is a subfolder, a symbolic link (which is reported and not followed), or an archive
    where no folder has its name. Of loose files at most `MAX_FILES` are named.

    GradingError where the folder cannot be listed, or has none, or more than `MAX_SUBMISSIONS`.
    """
    try:
        with readable(), os.scandir(folder) as scanned:
            found = {
                entry.name: entry.is_dir() or entry.is_symlink()
                for entry in itertools.islice(scanned, MAX_ENTRIES)
                if not entry.name.startswith(".") and entry.name != LEFT_BY_TOOLS
            }
        folders = {name for name, is_folder in found.items() if is_folder}
        # An archive beside the folder that it was unpacked to would be that folder's copy.
        archives = {
            name
            for name in found.keys() - folders
            if is_archive(name)
            and re.sub(r"(\.tar)?\.[a-z0-9]+\Z", "", name, flags=re.I) not in folders
        }
        submissions = folders | archives
        if len(submissions) > MAX_SUBMISSIONS:
            raise UnsoundFileError("form.too_many", most=str(MAX_SUBMISSIONS))
    except UnsoundFileError as problem:
        text = f"config: submissions: {folder} cannot be graded: {problem}"
        raise GradingError(text) from problem
    if not submissions:
        raise GradingError(
            f"{folder} has no subfolders; each submission is one. To check a single submission: "
            f"./run selfcheck {folder}"
        )
    loose = {name for name in found.keys() - submissions if not is_archive(name)}
    return sorted(submissions), sorted(loose)[:MAX_FILES]
