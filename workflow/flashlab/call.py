"""The plan of one Snakemake call, written only by the call that works in the folder.

Rules decide by time of change, so the plan's files lie in the folder and are written only where
they changed. A dry run, and a call that is refused because another one is at work, must not touch
them: their plan goes to a temporary folder, each file with the time of change of the one that it
equals. A job that reads the rules again, on a node of a cluster too, gets what the call prepared.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from flashlab.files import json_text, open_atomically, write_json, write_json_if_changed
from flashlab.prepare import Prepared

IN_PLACE = Path()
PREPARED = Path(".snakemake", "flashlab-call.json")


def plan_root(in_place: bool) -> Path:
    """Where this call's plan goes: into the folder, or below one that ends with the process."""
    if in_place:
        return IN_PLACE
    folder = Path(tempfile.mkdtemp(prefix="flashlab-plan-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class PlanFiles:
    """The plan's files of a call, below `root`; in place they are taken back if no job has run.

    Snakemake reads the rules for much else, too (``--lint``, ``--summary``, ``--report``); a plan
    that no job has run by must not decide what the next call reruns.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._before: dict[Path, tuple[bytes, os.stat_result] | None] = {}

    def write(self, documents: Mapping[str, Any]) -> None:
        """Write documents by their paths, so that a file's time of change means a change."""
        for name, document in documents.items():
            own = Path(name).absolute()  # Snakemake changes the working directory before it ends
            before = (own.read_bytes(), own.stat()) if own.is_file() else None
            if self._root == IN_PLACE:
                self._before[own] = before
                write_json_if_changed(own, document)
                continue
            path = self._root / name
            write_json(path, document)
            if before and before[0] == json_text(document).encode():
                _set_times(path, before[1])

    def keep(self) -> None:
        """Leave the plan in the folder: the first job is about to run."""
        self._before.clear()

    def take_back(self) -> None:
        """Make the folder's plan what it was before `write`, unless it is kept."""
        for path, before in self._before.items():
            if before is None:
                path.unlink(missing_ok=True)
                continue
            content, status = before
            if path.read_bytes() != content:
                with open_atomically(path, binary=True) as file:
                    file.write(content)
            _set_times(path, status)


def _set_times(path: Path, status: os.stat_result) -> None:
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def remaking_file(prepared: Prepared, root: Path) -> Path:
    """The file that is newer than everything that must be made again."""
    return root / "results" / prepared.dataset / "plan" / "remade.json"


def write_remaking(prepared: Prepared, root: Path) -> None:
    """Write `remaking_file`, where there is anything to make again, with the reasons."""
    if prepared.remade:
        write_json(remaking_file(prepared, root), dict(sorted(prepared.remade.items())))


def keep_call(prepared: Prepared) -> None:
    """Keep what this call prepared for the jobs that read the rules again.

    The plan's documents are left out: they are written already.
    """
    write_json(PREPARED, asdict(replace(prepared, documents={})))


def read_call() -> Prepared:
    """What the call that this job belongs to has prepared.

    Raises:
        FileNotFoundError: no call has; a job was started by hand.
    """
    return Prepared(**json.loads(PREPARED.read_text(encoding="utf-8")))


def notices(remade: Mapping[str, str], unsurprising: Iterable[str]) -> list[str]:
    """A line for each file that is made again for another reason than an unsurprising one."""
    known = set(unsurprising)
    return [f"{path} {reason}" for path, reason in remade.items() if reason not in known]
