"""Submissions read from folders or zips, checked apart, and compared; and what a call grades.

Of an archive, which may be a bomb, name files outside its folder, or hold links, only regular files
are written, within bounds, to a folder that is removed again. Each submission is read and checked
in a process of its own: one that takes all memory or time has a line about that.

Submissions and their files may have any names, so Snakemake never sees them: each call writes one
order, which the rules have as input, and which its jobs read that read the rules again. It has its
own time, so every call grades afresh.
"""

from __future__ import annotations

import io
import itertools
import multiprocessing
import os
import random
import re
import stat
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd
import psutil

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.config import ConfigError
from flashlab.devices import kind_of_device
from flashlab.files import write_json
from flashlab.forks import forked
from flashlab.lab5.assigning import Line, Option, assign, check_results
from flashlab.lab5.results import KINDS, MAX_BYTES, MAX_ENTRIES, Folder, Result, read_folder
from flashlab.plan.experiments import protocol_of
from flashlab.plan.make import planned_device
from flashlab.plan.runs import Namer
from flashlab.records import Record, read_record
from flashlab.runs import Run
from flashlab.untrusted import MAX_FILE_BYTES, UnsoundFileError, read_bounded
from flashlab_grading import checks
from flashlab_grading.checks import PASSES, Submission
from flashlab_grading.copies import check_own_copies, copies_of, published_times, recorded, times_of

MAX_SUBMISSIONS, MAX_ARCHIVE_BYTES = 2_000, 2**25
ARCHIVES = (".zip", ".7z", ".rar", ".gz", ".zst", ".tar", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
"""Archives by their names; those that are no zip are named, not looked into."""

WARNED = ("form.archive_unknown", "form.archive_nested", "form.not_utf8")
"""Problems of form that are nobody's fault: a person has to open these files."""


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


def _unpack(name: str, file: Path, target: Path, found: Folder, left: Counter[str]) -> None:
    """Write a zip's files below `target`, and note what is refused.

    No more bytes are written than are `left` to all zips. What is too large, and by its name no
    result, is left out, as in a folder.
    """
    if not name.lower().endswith(".zip"):
        raise UnsoundFileError("form.archive_unknown")
    content = read_bounded(str(file), most=MAX_ARCHIVE_BYTES)
    with _damage():
        for encoding in ("utf-8", "cp950", "cp437"):  # that which all of its names have
            with suppress(UnicodeDecodeError):
                archive = zipfile.ZipFile(io.BytesIO(content), metadata_encoding=encoding)
                break
        members = archive.infolist()[:MAX_ENTRIES]
    for info in members:
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if info.is_dir() or _is_hidden(str(path)):
            continue
        if left["bytes"] <= 0:
            raise UnsoundFileError("form.too_many_bytes", most=str(MAX_BYTES))
        try:
            has_drive = re.match("[A-Za-z]:", str(path))
            if path.is_absolute() or ".." in path.parts or has_drive or not path.parts:
                raise UnsoundFileError("form.archive_path", value=info.filename[:200])
            if stat.S_ISLNK(info.external_attr >> 16):
                raise UnsoundFileError("form.link")
            if path.name.lower().endswith(ARCHIVES):
                raise UnsoundFileError("form.archive_nested")
            if info.file_size > MAX_FILE_BYTES:  # it states the most that is read of it
                if path.suffix.lower() not in KINDS:
                    continue
                most = str(MAX_FILE_BYTES)
                raise UnsoundFileError("form.too_large", size=f"> {most}", most=most)
            with _damage(), archive.open(info) as member:
                to = target / name / path
                to.parent.mkdir(parents=True, exist_ok=True)
                left["bytes"] -= 4096 + to.write_bytes(member.read(MAX_FILE_BYTES))  # as on a disk
        except UnsoundFileError as problem:
            found.refused[f"{name}/{info.filename}"] = problem


def submission_of(name: str, found: Folder, device: str | None) -> Submission:
    """The submission of what was read, with a line for each of its files.

    `device` is used where it names none itself.
    """
    lines = [
        Line("warn" if problem.code in WARNED else "fail", problem.code, file, problem.params)
        for file, problem in found.refused.items()
    ]
    lines += [Line("pass", "form.not_a_result", file) for file in found.ignored]
    shipped = {digest for *_, digest in recorded()}  # which is nobody's own
    own = [result for result in found.results.values() if result.sha256 not in shipped]
    if ours := len(found.results) - len(own):
        lines.append(Line("pass", "form.shipped", params={"count": str(ours)}))
    if not own and not found.refused:
        lines.append(Line("fail", "form.nothing"))
    measured, failed = ([r for r in own if (r.status == "ok") is is_ok] for is_ok in (True, False))
    lines += [Line("pass", "form.pass", r.name) for r in measured]
    lines += [Line("pass", "form.not_measured", r.name, {"status": r.status}) for r in failed]
    named = sorted({str(r.said["device"]) for r in measured if "device" in r.said})
    for other in named:
        if device is not None and kind_of_device(other) != kind_of_device(device):
            lines.append(Line("warn", "form.other_device", "", {"device": other}, device, other))
    # A submission comes from one GPU: the device that one file names is that of the others.
    device = named[0] if len(named) == 1 else None if named else device
    of_device, once = {"device": device} if device else {}, dict[str, Result]()
    for r in (replace(r, said={**of_device, **r.said}) for r in measured):
        first = once.setdefault(f"{r.said}{r.numbers}", r)
        if first is not r:  # such as of a folder and its copy
            lines.append(Line("pass", "form.double", r.name, {"other": first.name}))
    submission = Submission(name, [*once.values()], device, failed=failed)
    submission.add(lines)
    return submission


def check_submission(folder: str, name: str, device: str | None) -> Submission:
    """The submission in ``folder/name``, a folder with what its zips hold, or a zip: checked."""
    path, found = Path(folder, name), Folder()
    below = (Path(here, file) for here, _, own in os.walk(path) for file in sorted(own))
    archives = {file.relative_to(path).as_posix(): file for file in below} or {name: path}
    left = Counter({"bytes": MAX_BYTES})
    with tempfile.TemporaryDirectory(prefix="flashlab-") as unpacked:
        if path.is_symlink():
            found.refused[""], archives, path = UnsoundFileError("form.link"), {}, Path(unpacked)
        for own, file in archives.items():
            if own.lower().endswith(ARCHIVES) and not _is_hidden(own):
                try:
                    _unpack(own, file, Path(unpacked), found, left)
                except UnsoundFileError as problem:
                    found.refused[own] = problem
        for root in filter(Path.is_dir, (path, Path(unpacked))):
            read_folder(root, found)
    return check_alone(submission_of(name, found, device))


def find_submissions(folder: str) -> tuple[list[str], list[str]]:
    """The submissions in a class's folder and the loose files beside them, sorted.

    A submission is a subfolder, a symbolic link (which is reported and not followed), or an archive
    where no folder has its name. Of loose files at most `MAX_SUBMISSIONS` are named.

    ConfigError where the folder cannot be listed, or has none, or more than `MAX_SUBMISSIONS`.
    """
    try:
        with os.scandir(folder) as scanned:
            entries = [e for e in itertools.islice(scanned, MAX_ENTRIES) if not _is_hidden(e.name)]
    except OSError as error:
        raise ConfigError(f"{folder} cannot be graded: {error.strerror}") from error
    folders = {e.name for e in entries if e.is_dir() or e.is_symlink()}
    files = {e.name for e in entries} - folders
    archives = {name for name in files if name.lower().endswith(ARCHIVES)}
    # An archive beside the folder that it was unpacked to would be that folder's copy.
    copies = {n for n in archives if re.sub(r"(?i)(\.tar)?\.[a-z0-9]+\Z", "", n) in folders}
    submissions = sorted((folders | archives) - copies)
    if not 0 < len(submissions) <= MAX_SUBMISSIONS:
        raise ConfigError(
            f"{folder} has {len(submissions) or 'no'} subfolders; each submission is one, and at "
            f"most {MAX_SUBMISSIONS} are graded. To check a single one: ./run selfcheck {folder}"
        )
    return submissions, sorted(files - {*submissions})[:MAX_SUBMISSIONS]


# Checked apart


MAX_SECONDS, MAX_MEMORY, POLL_SECONDS = 60.0, 1024**3, 0.05
"""Longest time for one submission, of which forty records take less than a second; and most bytes
that a process may take beyond those it starts with."""


def _answer(output: Connection, function: Callable[..., object], *arguments: Any) -> None:
    try:
        output.send(function(*arguments))
    except (ConfigError, ImportError) as error:
        output.send(error)
    except Exception as error:  # that nobody foresaw, of which many cannot be sent
        output.send(UnsoundFileError("form.failed", reason=repr(error)[:200]))
        raise


def apart(seconds: float, function: Callable[..., object], *arguments: Any) -> Any:
    """A function's result or error, in a fork; UnsoundFileError if it took too much or failed."""
    received, output = multiprocessing.Pipe(duplex=False)
    process = forked(_answer, output, function, *arguments)
    output.close()
    ends, limit = time.monotonic() + seconds, f"{MAX_MEMORY // 1024**2} MiB"
    most = psutil.Process().memory_info().rss + MAX_MEMORY  # a fork starts with as much
    try:
        while not received.poll(POLL_SECONDS):
            with suppress(psutil.NoSuchProcess):
                if time.monotonic() > ends:
                    limit = f"{seconds:g} s"
                if time.monotonic() > ends or psutil.Process(process.pid).memory_info().rss > most:
                    process.kill()
        found = received.recv()
    except EOFError:  # also of what ends without an answer
        raise UnsoundFileError("form.budget", limit=limit) from None
    finally:
        process.kill()
        process.join()
        received.close()
    if isinstance(found, Exception):
        raise found
    return found


def check_alone(own: Submission) -> Submission:
    """Run every check on a submission that needs no other, and leave it without its samples."""
    lines, files = check_results(own.results)
    times = times_of(own.results, assign(files))
    step = float(times["clock"].max()) if len(times) else 0.0
    found = [checks.check_physics(file, step) for file in files]
    refuted = {line.file for line in found if line.verdict == "fail"}
    found += checks.check_samples(own.results)
    found += [] if step else check_own_copies(file.result for file in files)
    found += checks.check_plausibility([f for f in files if f.result.name not in refuted], step)
    known = {file.result.name for file in files}
    doubted = [r for r in (*own.results, *own.failed) if r.name not in known]
    own.add([*lines, *found, *checks.check_coverage(files, doubted)])
    against = {x.file for x in found if x.verdict == "fail" or x.check == "plausibility"}
    own.times = times.assign(is_sound=times["is_sound"] & ~times["file"].isin(against))
    own.results = [replace(result, samples={}) for result in own.results]
    return own


def check_apart(folder: str, names: Iterable[str], device: str | None) -> Iterator[Submission]:
    """Each submission of a folder, read and checked apart, in order; `device` is the class's."""
    for name in names:
        try:
            yield apart(MAX_SECONDS, check_submission, folder, name, device)
        except UnsoundFileError as problem:
            line = Line("fail", problem.code, params=problem.params)
            yield check_alone(Submission(name, lines=[replace(line, submission=name)]))


def grade_checked(checked: Iterable[Submission], published: pd.DataFrame) -> list[Submission]:
    """Compare submissions with one another, and with recorded datasets (`published_times`)."""
    owns = [*checked]
    times = pd.concat([published, *(x.times.assign(owner=x.name) for x in owns)], ignore_index=True)
    outliers = [*checks.class_outliers(times[times["is_sound"]])]
    for own in owns:
        own.add([*(x for x in outliers if x.submission == own.name), *copies_of(times, own.name)])
    return owns


def grade(folder: str, names: Iterable[str], device: str | None) -> list[Submission]:
    """Submissions of a class, checked apart and compared, also with what is published."""
    return grade_checked(check_apart(folder, names, device), published_times("*"))


# What a call grades, and measures again


ORDER, RECORDS, LOCAL = Path("results/grading/order.json"), Path("results/local/records"), "local"


def choose(
    results: Iterable[tuple[bool, Result]], here: str, count: int, seed: int
) -> list[Option]:
    """A sample of `count` runs declared to be of the device `here`, alike for a seed and class.

    Each result comes with whether its submission is accused: those runs come first, and the seed
    decides within both. Runs that are mostly launches and kernels that are not here are left out.
    """
    known, runs = find_implementations(), dict[Option, bool]()
    for is_accused, result in results:
        run, longest = checks.declared(result, here), max(result.seconds[name] for name in PASSES)
        if run and run[0] in known and longest >= checks.LAUNCH_SECONDS:
            runs[run] = is_accused or runs.get(run, False)
    chosen = sorted(runs)
    random.Random(seed).shuffle(chosen)
    return sorted(chosen, key=lambda run: not runs[run])[:count]


def new_order(config: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Write the order for ``submissions=DIR`` or ``pdf=PATH`` below `root`, with what it measures.

    Returns it. Its `orders` are those to measure, by the record's path.

    ConfigError if the folder or file does not exist or cannot be read, or if ``reproduce`` is given
    without submissions, with a recorded dataset, or for results of other devices than this.
    """
    folder, pdf, count = map(config.get, ("submissions", "pdf", "reproduce"))
    is_elsewhere, results = config.get("dataset") != LOCAL or "import" in config, []
    for reason, is_so in {
        f"submissions: there is no folder {folder}": folder and not Path(folder).is_dir(),
        f"pdf: there is no file {pdf}": pdf and not Path(pdf).is_file(),
        "give either submissions=DIR or pdf=PATH": folder and pdf,
        "reproduce: it measures runs of submissions=DIR, and that on this machine: give it, and "
        "leave out dataset= and import=": count and (is_elsewhere or not folder),
    }.items():
        if is_so:
            raise ConfigError(f"--config: {reason}")
    device, here = planned_device(config)
    dtype = ATTENTION.dtypes[device] if config["dtype"] == "auto" else config["dtype"]
    # The course's own protocol, because its results are what is compared.
    protocol = protocol_of({"measure": {**config["measure"], "protocol": "lab5"}}, device)
    whose, seed = (config["grading"].get(key) for key in ("device", "seed"))
    for own in grade(str(folder), find_submissions(str(folder))[0], whose) if count else ():
        sound = {x.file for x in own.lines if (x.check, x.verdict) == ("arithmetic", "pass")}
        accusing = {x.check for x in own.lines if x.verdict == "fail"} - {"form", "coverage"}
        results += [(bool(accusing), result) for result in own.results if result.name in sound]
    namer = Namer(ATTENTION, find_implementations(), RECORDS, here)
    runs = [attention_run(*own, dtype, device) for own in choose(results, here, count or 0, seed)]
    if count and not runs:
        raise ConfigError(
            "--config: reproduce: no submission has a declared run of 0.3 ms or more on this "
            f"machine's device, {here}. Leave out reproduce=, or run this where the results are "
            "from; runs.csv, or grading: {device: …} for a whole class, names their device"
        )
    entries = [namer.entry(run, protocol) for run in runs]
    document = {
        **{"called_ns": time.time_ns(), "here": here, "languages": config["languages"]},
        **{"submissions": folder, "pdf": pdf, "device": whose, "seed": seed},
        "orders": {entry.path.as_posix(): namer.order(entry) for entry in entries},
    }
    write_json(root / ORDER, document)
    return document


def measured_of(order: Mapping[str, Any]) -> dict[Option, Record]:
    """The measurements made for an order; RecordError if one is missing or of another run."""
    runs = [(Run.of(ATTENTION, own["run"]), Path(path)) for path, own in order["orders"].items()]
    return {(run.implementation, Shape.of(run)): read_record(path, run) for run, path in runs}


def grade_order(order: Mapping[str, Any]) -> tuple[list[Submission], list[str]]:
    """The submissions that an order names, held against what it measured, and the loose files."""
    names, loose = find_submissions(order["submissions"])
    graded, measured = grade(order["submissions"], names, order["device"]), measured_of(order)
    for own in graded:
        refuted = {line.file for line in own.lines if line.verdict == "fail"}
        sound = [result for result in own.results if result.name not in refuted]
        own.add(checks.check_reproduction(sound, measured, order["here"]))
    return graded, loose
