"""One Snakemake call: the benchmark it is about, its hold on the folder, and its plan."""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from flashlab.benchmarks.implementations import ImplementationError
from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.config import (
    ConfigError,
    Layer,
    config_file,
    named_benchmark,
    override_layer,
    read_layer,
)
from flashlab.config.model import nearest
from flashlab.files import open_atomically, read_json, write_json
from flashlab.lab5.results import FolderError, OpenRunsError
from flashlab.machine import MachineError
from flashlab.plan import state
from flashlab.plan.datasets import DatasetError
from flashlab.plan.freezing import check_freezable
from flashlab.plan.make import make
from flashlab.plan.plan_files import FILE, Plan, write_views


class CallError(Exception):
    """A call that is refused: one message with the remedy."""


ERRORS = (CallError, ConfigError, DatasetError, FolderError, ImplementationError, MachineError)
"""What a call can be refused for, each with one message for the user."""

HOLDER = Path(".snakemake", "flashlab.json")
"""Host and process of the last call that held the folder."""

LOOKS = {
    *("--lint", "--summary", "-S", "--detailed-summary", "-D", "--report", "--dag", "--d3dag"),
    *("--rulegraph", "--filegraph", "--list-rules", "-l", "--list-target-rules", "--lt"),
}
"""Snakemake's options by which it reads the rules and runs no job."""

OTHERS = {"compare": "compare", "grades": "grading"}
"""The reports that belong to no single benchmark, and their folders of results."""

NEEDED = {
    "compare": (
        r"(report/compare|results/compare/).+",
        "say what to compare: snakemake report/compare.pdf --config compare=[NAME,NAME]",
    ),
    "submissions": (
        r"(report|results/grading)/grades.+",
        "say what to grade: snakemake report/grades.pdf --config submissions=DIR",
    ),
    "pdf": ("verify", "say which report: snakemake verify --config pdf=PATH"),
    "name": ("freeze.*", "say under which name: snakemake freeze --config name=NAME"),
}
"""The targets that cannot be made without a key of the configuration, and how to give it."""

_FILE = re.compile(r"(?:\./)?(?:report/([^/]+)\.(?:pdf|html)|results/([^/]+)/.+)")


def asked_benchmark(arguments: Sequence[str], own: Sequence[Layer]) -> str | None:
    """The benchmark that a call names, by its targets or in its own layers; None for neither.

    ConfigError for two of them, and for a report that there is none of.
    """
    reports = {benchmark.report: name for name, benchmark in BENCHMARKS.items()}
    known, asked = [*reports, *OTHERS], dict[str, str]()
    for before, argument in zip(["", *arguments], arguments, strict=False):
        # `--report FILE` is Snakemake's own.
        if before.startswith("--report") or not (file := _FILE.fullmatch(argument)):
            continue
        report, folder = file.groups()
        if report and report not in known:
            raise ConfigError(
                f"{argument}: there is no report {report}{nearest(report, known)}; there are "
                f"{', '.join(known)}"
            )
        if report not in OTHERS and folder not in OTHERS.values():
            named = (name for name in BENCHMARKS if folder and folder.endswith(f"-{name}"))
            asked.setdefault(reports[report] if report else next(named, DEFAULT.name), argument)
    if any({"benchmark", *BENCHMARKS} & layer.keys.keys() for layer in own):
        asked.setdefault(named_benchmark(own), "the call's configuration")
    if len(asked) > 1:
        whose = " and ".join(f"{argument} is of {name}" for name, argument in asked.items())
        raise ConfigError(
            f"One call makes the files of one benchmark, but {whose}; make a call for each, or "
            "leave one of them out"
        )
    return next(iter(asked), None)


def layers_of(
    arguments: Sequence[str], files: Iterable[Path], overrides: Iterable[str]
) -> tuple[Layer, list[Layer]]:
    """The configuration of the benchmark that a call is about, and the call's own layers.

    Snakemake reads these too, but does not say where in a file a mistake is, and takes the numbers
    in the nested values of ``--config`` for text.
    """
    own = [*map(read_layer, files), override_layer(overrides)]
    asked = asked_benchmark(arguments, own)
    file = config_file(asked or DEFAULT.name)
    if not file.exists() and len(own) == 1:
        raise ConfigError(f"{file}: is not in {Path.cwd()}; each directory needs its own config/")
    base = read_layer(file) if file.exists() else Layer(str(file), {})
    return (replace(base, keys={**base.keys, "benchmark": asked}) if asked else base), own


def hold_folder() -> int:
    """Hold the working directory until this process ends, or the file that is returned is closed.

    Snakemake's own lock, a file that a killed call leaves behind, is cleared where that call was of
    this host and its process is gone. It is what guards the folder against calls on other hosts.

    Raises:
        CallError: another call works in the folder, or results cannot be written in it.
    """

    def busy(remedy: str = "") -> CallError:
        process, host = before.get("process"), before.get("host")
        which = f"process {process}" if host == here else f"on the host {host}"
        return CallError(
            f"Another snakemake call ({which}) is working in this folder, so nothing was changed. "
            f"Wait for that one to end{remedy}; then call again."
        )

    here, before = socket.gethostname(), dict[str, Any]()
    with ExitStack() as stack:
        folder = os.open(".", os.O_RDONLY)
        stack.callback(os.close, folder)
        try:
            HOLDER.parent.mkdir(exist_ok=True)
            with suppress(OSError, ValueError):
                before = dict(read_json(HOLDER))
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_gone = True
            except BlockingIOError:
                raise busy() from None
            except OSError:  # the filesystem has no such locks
                is_gone = not psutil.pid_exists(before.get("process", 0))
            locks = HOLDER.parent / "locks"
            if any(locks.glob("*")):
                if not is_gone or before.get("host", here) != here:
                    raise busy(f", or if it was killed, remove {locks.absolute()}")
                shutil.rmtree(locks)
            write_json(HOLDER, {"host": here, "process": os.getpid()})
        except OSError as error:
            raise CallError(
                f"Results cannot be written in {Path.cwd()} ({error.filename}: {error.strerror}); "
                "make the call in a folder of your own, such as a clone."
            ) from None
        stack.pop_all()
        return folder


begun: Plan | None = None
"""The plan of the call that this process has begun."""


def begin(
    base: Layer, own: Sequence[Layer], arguments: Sequence[str], *, dry: bool
) -> tuple[Plan, Path]:
    """The plan of a call, and the folder with its views.

    It is written, and what is to be measured again put aside, unless no job is to run: a dry run
    must not touch what the rules compare, so that its views are in a temporary folder.

    Raises:
        ERRORS: the call is refused; nothing was changed.
    """
    global begun
    dry |= not LOOKS.isdisjoint(argument.partition("=")[0] for argument in arguments)
    if not dry:
        hold_folder()
    try:
        plan, folder = make(base, own), Path()
    except OpenRunsError as question:
        if question.table is not None and not dry:
            try:
                with open_atomically(question.path) as file:
                    file.write(question.table)
            except OSError as error:
                said = f"{question.path}, a table to fill in, cannot be written ({error.strerror})"
                raise CallError(f"{said}; copy its folder to where you can write") from None
        raise
    for argument in arguments:
        for key, (target, example) in NEEDED.items():
            if key not in plan.config and re.fullmatch(target, argument.removeprefix("./")):
                # Snakemake takes files that exist for sources, and would make nothing.
                raise CallError(f"{argument}: {example}")
        if argument == "freeze":  # before anything is measured, not after
            check_freezable(plan)
    if dry:
        folder = Path(tempfile.mkdtemp(prefix="flashlab-plan-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        write_views(plan.views, folder)
    else:
        state.put_aside(Path(plan.home), plan.redo)
        write_views({FILE.as_posix(): {**vars(plan), "views": {}}, **plan.views})
    for notice in plan.notices:
        print(f"Imported: {notice}", file=sys.stderr)
    surprising = [f"{path} {why}" for path, why in plan.redo.items() if why not in state.USUAL]
    for notice in [*plan.upgrades, *surprising]:
        print(f"To be made again: {notice}", file=sys.stderr)
    begun = plan
    return plan, folder
