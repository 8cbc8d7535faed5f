"""One Snakemake call: its claim on the folder, and its plan.

Rules decide by modification time, so the plan's files are in the folder and are written only when
they change. A call that runs no job, such as a dry run, must not touch them: its plan goes to a
temporary folder, where each unchanged file keeps its modification time. A job that reads the rules
again, such as on a cluster node, gets the call's preparation.
"""

from __future__ import annotations

import atexit
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashlab.benchmarks.implementations import ImplementationError
from flashlab.calls.digests import MISSING
from flashlab.calls.exclusive import BusyError, FolderClaim
from flashlab.calls.prepare import Prepared, prepare
from flashlab.calls.remaking import ASKED_FOR
from flashlab.config import ConfigError, Layer
from flashlab.files import json_text, open_atomically, write_json
from flashlab.lab5.importing import OpenRunsError
from flashlab.lab5.results import FolderError
from flashlab.machine import MachineError
from flashlab.plan.datasets import DatasetError
from flashlab.plan.planning import PlanError

PREPARATION_ERRORS = (
    ConfigError,
    DatasetError,
    FolderError,
    ImplementationError,
    MachineError,
    PlanError,
)
"""The errors of a call's preparation, each with one message for the user."""

LOOKS = {
    *("--lint", "--summary", "-S", "--detailed-summary", "-D", "--report", "--dag", "--d3dag"),
    *("--rulegraph", "--filegraph", "--list-rules", "-l", "--list-target-rules", "--lt"),
}
"""Snakemake's options by which it reads the rules and runs no job."""

IN_PLACE = Path()
PREPARED = Path(".snakemake", "flashlab-call.json")


class PlanFiles:
    """A call's plan files, below `root`: the working folder, or a temporary one of this process."""

    def __init__(self, in_place: bool) -> None:
        self.root = IN_PLACE
        if not in_place:
            self.root = Path(tempfile.mkdtemp(prefix="flashlab-plan-"))
            atexit.register(shutil.rmtree, self.root, ignore_errors=True)

    def write(self, documents: Mapping[str, Any]) -> None:
        """Write documents by their paths; a new modification time means new content."""
        for name, document in documents.items():
            text = json_text(document).encode()
            if not Path(name).is_file() or Path(name).read_bytes() != text:
                write_json(self.root / name, document)
            elif self.root != IN_PLACE:
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(name, self.root / name)  # with its time


def keep_call(prepared: Prepared) -> None:
    """Keep this call's preparation for the jobs that read the rules again.

    The plan's documents are omitted: they are on disk already.
    """
    write_json(PREPARED, asdict(replace(prepared, documents={})))


def read_call() -> Prepared:
    """The preparation of the call that this job belongs to.

    Raises:
        FileNotFoundError: no call has, as when a job is started by hand.
    """
    return Prepared(**json.loads(PREPARED.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class BegunCall:
    """A call that has begun: its preparation, its plan's files, and its claim on the folder."""

    prepared: Prepared
    files: PlanFiles
    claim: FolderClaim


begun: BegunCall | None = None
"""The call that this process has begun."""


def begin(base: Layer, own: Sequence[Layer], arguments: Sequence[str], *, dry: bool) -> BegunCall:
    """Claim the folder unless no job is to run, prepare the call, and write its plan's files.

    Raises:
        BusyError: results cannot be written in the folder, or another call is working in it.
        PREPARATION_ERRORS: the call cannot be prepared.
    """
    global begun
    dry |= not LOOKS.isdisjoint(argument.partition("=")[0] for argument in arguments)
    try:
        claim = FolderClaim(Path(".snakemake"))
    except OSError as error:
        raise BusyError(
            f"Results cannot be written in {Path.cwd()} ({error.filename}: {error.strerror}); "
            "make the call in a folder of your own, such as a clone."
        ) from None
    if not dry:
        claim.take()
    try:
        prepared = prepare(base, own)
    except OpenRunsError as question:
        if question.table is not None and not dry:
            with open_atomically(question.path) as file:
                file.write(question.table)
        raise
    files = PlanFiles(in_place=not dry)
    files.write(prepared.documents)
    if prepared.remade:  # what must be made again has an input that is newer than all others
        remade = files.root / prepared.home / "plan" / "remade.json"
        # With the time, since to Snakemake a newer file of the same bytes is an unchanged one.
        write_json(remade, {"at": datetime.now(UTC).isoformat(), "files": prepared.remade})
    if not dry:
        keep_call(prepared)
    for notice in prepared.notices:
        print(f"Imported: {notice}", file=sys.stderr)
    usual = (MISSING, ASKED_FOR)
    surprising = {f: why for f, why in prepared.remade.items() if why not in usual}
    for notice in [*prepared.upgrades, *(f"{file} {why}" for file, why in surprising.items())]:
        print(f"{'To be made' if dry else 'Made'} again: {notice}", file=sys.stderr)
    begun = BegunCall(prepared, files, claim)
    return begun
