"""From a submission's folder or archive to its results, each with what is said of it.

An archive may be a bomb, name files outside its folder, or hold links: its members are read within
bounds, and only regular files are written, one by one, to a folder that is removed again. A
report's PDF is an archive of the attached records.
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

from flashlab.lab5.documents import MAX_BYTES, MAX_ENTRIES, MAX_FILES, SPREADSHEETS
from flashlab.lab5.results import Folder, Result, read_folder
from flashlab.report.attached import CONFIG, RECORDS, parsed, read_records
from flashlab.untrusted import MAX_FILE_BYTES, UnsoundFileError, read_bounded, readable
from flashlab_grading.model import GradingError, Line, Submission, is_same_device
from flashlab_grading.recorded import is_shipped
from flashlab_grading.report_pdf import UnsoundPdfError, attachments_of

MAX_SUBMISSIONS, MAX_ARCHIVE_BYTES = 2_000, 2**25
ZIP, REPORT = ".zip", ".pdf"
OTHERS = (".7z", ".rar", ".gz", ".zst", ".tar", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
ARCHIVES = (ZIP, REPORT, *OTHERS)
"""Archives by their names; those that are neither zip nor report are named, not looked into."""

WARNED = ("form.archive_unknown", "form.archive_nested", "form.not_utf8")
"""Problems of form that are nobody's fault: a person has to open these files."""

Member = tuple[str, bytes | UnsoundFileError]
"""The path in an archive of a file, and its bytes or why they were not read."""


def _is_hidden(path: str) -> bool:
    """True for what tools leave behind, such as ``.git`` and ``__MACOSX``."""
    return any(re.match(r"\.[^.]|__MACOSX\Z", part) for part in path.split("/"))


@contextmanager
def _damage() -> Iterator[None]:
    """UnsoundFileError in place of whatever the libraries make of hostile bytes and names."""
    try:
        yield
    except (UnsoundFileError, MemoryError):
        raise
    except Exception as error:
        reason = str(getattr(error, "strerror", "") or error)[:200] or type(error).__name__
        raise UnsoundFileError("form.archive_damaged", reason=reason) from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: PurePosixPath) -> bytes:
    """The bytes of a member; UnsoundFileError for one that is no file of a submission's own."""
    has_drive = path.parts and re.match("[A-Za-z]:", path.parts[0])
    if path.is_absolute() or ".." in path.parts or has_drive or not path.parts:
        raise UnsoundFileError("form.archive_path", value=info.filename[:200])
    if stat.S_ISLNK(info.external_attr >> 16):
        raise UnsoundFileError("form.link")
    if path.name.lower().endswith((ZIP, *OTHERS)):
        raise UnsoundFileError("form.archive_nested")
    if info.file_size > MAX_FILE_BYTES:  # the size that it states is the most that is read of it
        size, most = f"> {MAX_FILE_BYTES}", str(MAX_FILE_BYTES)
        raise UnsoundFileError("form.too_large", size=size, most=most)
    with _damage(), archive.open(info) as file:
        return file.read(MAX_FILE_BYTES)


def _in_zip(content: bytes) -> Iterator[Member]:
    """The files in a zip, with their names in the encoding that all of them have."""
    with _damage():
        for encoding in ("utf-8", SPREADSHEETS, "cp437"):
            with suppress(UnicodeDecodeError):
                archive = zipfile.ZipFile(io.BytesIO(content), metadata_encoding=encoding)
                break
        members = archive.infolist()[:MAX_ENTRIES]
    for info in members:
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if not info.is_dir() and not _is_hidden(str(path)):
            try:
                yield str(path), _member(archive, info, path)
            except UnsoundFileError as problem:
                yield info.filename, problem


def _in_report(content: bytes) -> Iterator[Member]:
    """The records of a report on attention; none of any other PDF, which is no fault."""
    with _damage(), suppress(UnsoundPdfError):
        attachments = attachments_of(content)
        if {CONFIG, RECORDS} <= attachments.keys():
            config = parsed(attachments[CONFIG], CONFIG)
            if isinstance(config, dict) and config.get("benchmark", "attention") == "attention":
                for name, record in read_records(attachments).items():
                    yield name, json.dumps(record).encode()


def _in_archive(name: str, path: Path) -> Iterator[Member]:
    """The files in an archive, under its own name; itself, where it cannot be opened."""
    kind = PurePosixPath(name).suffix.lower()
    try:
        if kind not in (ZIP, REPORT):
            raise UnsoundFileError("form.archive_unknown")
        content = read_bounded(str(path), most=MAX_ARCHIVE_BYTES)
        for member, found in (_in_zip if kind == ZIP else _in_report)(content):
            yield f"{name}/{member}", found
    except UnsoundFileError as problem:
        # A PDF is a report with its data, or nothing that anybody asked for.
        if kind != REPORT or problem.code == "form.archive_damaged":
            yield name, problem


def _read(folder: Path | None, members: Iterable[Member]) -> tuple[Folder, int]:
    """What is in a folder, if there is one, and in archives, and how many files of ours were."""
    found, shipped, size = Folder(), 0, 0
    with tempfile.TemporaryDirectory(prefix="flashlab-") as temporary:
        unpacked = Path(temporary, "archives")
        unpacked.mkdir()
        for count, (path, content) in enumerate(members):
            try:
                if isinstance(content, UnsoundFileError):
                    raise content
                size += len(content)
                if count >= MAX_FILES or size > MAX_BYTES:
                    raise UnsoundFileError("form.too_many", most=str(MAX_FILES))
                with _damage():
                    unpacked.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
                    unpacked.joinpath(path).write_bytes(content)
            except UnsoundFileError as problem:
                found.refused[path] = problem
                if problem.code == "form.too_many":
                    break
        for root in filter(None, (folder, unpacked)):
            own = read_folder(root)
            for part in ("refused", "ignored", "contradicted"):
                getattr(found, part).update(getattr(own, part))
            for file, result in own.results.items():
                if is_shipped(result.path, root.joinpath(result.path).read_bytes()):
                    shipped += 1
                else:
                    found.results[file] = result
    return found, shipped


def _submission(name: str, found: Folder, shipped: int, device: str | None) -> Submission:
    """The submission of what was read, with a line for each of its files."""
    lines = [
        Line("warn" if problem.code in WARNED else "fail", problem.code, file, problem.params)
        for file, problem in found.refused.items()
    ]
    lines += [Line("pass", "form.not_a_result", file) for file in found.ignored]
    lines += [Line("pass", "form.shipped", params={"count": str(shipped)})] if shipped else []
    lines += [] if found.results or found.refused else [Line("fail", "form.nothing")]
    measured = list[Result]()
    for file, result in found.results.items():
        measured += [result] if result.status == "ok" else []
        code = "pass" if result.status == "ok" else "not_measured"
        lines.append(Line("pass", f"form.{code}", file, {"status": result.status}))
        if file in found.contradicted:
            code = "record_differs" if result.run else "declared_twice"
            lines.append(Line("fail", f"identity.{code}", file, {}, "", found.contradicted[file]))
    named = {result.said.get("device") for result in measured} - {None}
    for other in sorted(map(str, named)):
        if device is not None and not is_same_device(other, device):
            lines.append(Line("warn", "form.other_device", "", {"device": other}, device, other))
    # A submission comes from one GPU: the device that one file names is that of the others.
    device = named.pop() if len(named) == 1 else (None if named else device)
    of_device = {"device": device} if device else {}
    once: dict[str, Result] = {}  # such as of a folder and its copy
    for r in (replace(r, said={**of_device, **r.said}) for r in measured):
        key = repr((r.said, r.seconds, r.rates, r.peak_mib, r.document.get("record")))
        if (first := once.setdefault(key, r)) is not r:
            lines.append(Line("pass", "form.double", r.name, {"other": first.name}))
    return Submission(name, [*once.values()], lines, device, [*found.contradicted])


def read_submission(folder: str, name: str, device: str | None) -> Submission:
    """The submission in ``folder/name``; `device` is used where it names none itself."""
    path = Path(folder, name)
    if path.is_symlink():
        return _submission(name, Folder(refused={"": UnsoundFileError("form.link")}), 0, device)
    archives = {name: path}
    if path.is_dir():
        files = (Path(here, file) for here, _, own in os.walk(path) for file in sorted(own))
        archives = {
            own: file for file in files
            if file.name.lower().endswith(ARCHIVES)
            and not _is_hidden(own := file.relative_to(path).as_posix())
        }  # fmt: skip
    members = itertools.chain.from_iterable(map(_in_archive, archives, archives.values()))
    return _submission(name, *_read(path if path.is_dir() else None, members), device)


def read_report(content: bytes) -> Submission:
    """The records attached to a report's PDF, as a submission."""
    members = ((f"report.pdf/{name}", record) for name, record in _in_report(content))
    return _submission("report", *_read(None, members), None)


def find_submissions(folder: str) -> tuple[list[str], list[str]]:
    """The submissions in a class's folder and the loose files beside them, sorted.

    A submission is a subfolder, a symbolic link (which is reported and not followed), or an archive
    where no folder has its name. Of loose files at most `MAX_FILES` are named.

    GradingError where the folder cannot be listed, or has none, or more than `MAX_SUBMISSIONS`.
    """
    try:
        with readable(), os.scandir(folder) as scanned:
            entries = [*itertools.islice(scanned, MAX_ENTRIES)]
        found = {e.name: e.is_dir() or e.is_symlink() for e in entries if not _is_hidden(e.name)}
        # An archive beside the folder that it was unpacked to would be that folder's copy.
        names = {n: re.sub(r"(?i)(\.tar)?\.[a-z0-9]+\Z", "", n) for n in found}
        submissions = [
            n for n in sorted(found)
            if found[n] or (n.lower().endswith(ARCHIVES) and not found.get(names[n]))
        ]  # fmt: skip
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
    return submissions, sorted(found.keys() - {*submissions})[:MAX_FILES]
