"""The plan of a call as one frozen value, and the files that it is written to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab.files import json_text, open_atomically, write_json

FILE = Path("results", "plan.json")
"""The plan of the last call in a folder: a job that reads the rules again, on a node, reads it."""


@dataclass(frozen=True)
class Plan:
    """What a call makes: runs, their files and order, and what of them is not as it should be.

    Paths are relative to the working directory. `home` is the folder of the results, `report` the
    stem of the report's name. `experiments` have the files of their records and of their
    `counters`. `orders` are what to measure, in that order, and `imports` what to convert, by
    record; both are empty where records are recorded. `views` are what single stages read, by path.
    `redo` are the planned files that are missing, damaged or asked for `again`, each with the
    reason; `notices` say how imported files were read, and `upgrades` why runs that were measured
    before are measured again. `config` is the resolved configuration.
    """

    benchmark: str
    report: str
    dataset: str
    home: str
    device: str
    device_name: str
    config: Mapping[str, Any]
    experiments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counters: Sequence[str] = ()
    ceilings: str | None = None
    orders: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    imports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    redo: Mapping[str, str] = field(default_factory=dict)
    notices: Sequence[str] = ()
    upgrades: Sequence[str] = ()
    views: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def records(self) -> list[str]:
        """The files of all records and counters, each once."""
        return sorted({file for files in self.experiments.values() for file in files})

    def view(self, name: str) -> Any:
        """What stages read in a file of `flashlab.plan.plan_files`; nothing of one not planned."""
        return self.views.get(f"{self.home}/{name}", {})

    def write(self) -> None:
        """Write the plan, and each view that has changed: its new time means new content."""
        write_views({FILE.as_posix(): {**vars(self), "views": {}}, **self.views})


def write_views(views: Mapping[str, Any], folder: Path = Path()) -> None:
    """Write documents below a folder.

    In the working directory one that is there already is left as it is. For a dry run, elsewhere,
    it keeps the modification time that it has here.
    """
    for path, document in views.items():
        here, target, text = Path(path), folder / path, json_text(document)
        is_there = here.is_file() and here.read_bytes() == text.encode()
        if folder == Path():
            if not is_there:
                write_json(here, document)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_there:
            shutil.copy2(here, target)
        else:
            with open_atomically(target, durable=False) as file:
                file.write(text)


def read_plan() -> Plan:
    """The plan of the call that a job belongs to."""
    return Plan(**json.loads(FILE.read_text(encoding="utf-8")))
