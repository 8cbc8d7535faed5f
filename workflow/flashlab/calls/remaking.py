"""Which planned files to make again that modification times alone would not reveal.

From modification times Snakemake cannot tell that an intermediate file is missing or damaged, that
a run hit a time limit that has been raised since, or that the user wants a run measured again. So
each call looks for such files, and the rules that make them have an input that is newer than
everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.calls.made import made_line
from flashlab.config import ConfigError
from flashlab.records import RecordError, read_record, time_out_message
from flashlab.runs import Run

ALL = "all"
BLOCKS = "blocks"
"""Asks for the runs of each block that is not of one card and a few minutes (`plan.blocks`)."""

ASKED_FOR = "is to be measured again"
MISSING = "is missing"

_ENDINGS = {
    ".csv": (b"\n",),
    ".html": (b"</html>", b"</html>\n"),
    ".pdf": (b"%%EOF", b"%%EOF\n", b"%%EOF\r", b"%%EOF\r\n"),  # notes may be added to a report
    ".svg": (b"</svg>", b"</svg>\n"),
}
"""How a complete file of each kind ends."""


def damage(path: Path, log: str = "") -> str | None:
    """What is wrong with a file or folder that a stage has made; None if it is intact.

    A complete file is not cut off and, except for a PDF, has no NUL bytes, which a power failure
    leaves. An empty folder has lost its files. A file that the `log` of its job names is as the job
    made it.
    """
    if path.is_dir():
        inside = sorted(path.iterdir())
        if not inside:
            return "is empty"
        return next((f"{p.name} {found}" for p in inside if (found := damage(p, log))), None)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return _fault(path, content) or _change(path, content, log)


def _change(path: Path, content: bytes, log: str) -> str | None:
    """That a file is not as it was when its job noted its digest in the log; None otherwise."""
    for name in (path.name, f"{path.parent.name}/{path.name}"):  # in a folder of the job's own
        if f"made {name} " in log and made_line(name, content) not in log:
            return "was changed after it had been made"
    return None


def _fault(path: Path, content: bytes) -> str | None:
    """What is wrong with a file's content, whoever wrote it."""
    if path.suffix == ".json":
        try:
            json.loads(content)
        except (ValueError, RecursionError):
            return "is not JSON"
        return None
    if path.suffix != ".pdf" and b"\0" in content:
        return "holds NUL bytes"
    endings = _ENDINGS.get(path.suffix)
    return "is cut off" if endings and not content.endswith(endings) else None


def missing_figures(folder: Path, figures: Iterable[str]) -> str | None:
    """Which of an experiment's figures are missing from their folder; None if none are."""
    if not folder.is_dir():
        return MISSING
    lacking = [name for name in figures if not (folder / f"{name}.svg").is_file()]
    return f"lacks {', '.join(lacking)}" if lacking else None


def _time_limit(path: Path, run: Run) -> float | None:
    """After how many seconds a record's run was ended; None where it was not."""
    record = read_record(path, run)
    allowed = record.protocol.get("timeout_s")
    ended = allowed is not None and record.message == time_out_message(allowed)
    return allowed if ended else None


def read_log(path: Path) -> str:
    """The log of a job; empty where there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def record_damage(
    path: Path, run: Run, timeout_s: float, intact: dict[str, Any], log: Path
) -> str | None:
    """Why a run must be measured again: its record is missing or not as made, or time ran out.

    Running out of time counts where less time was allowed than `timeout_s`. The `log` of the job
    that made the record has its digest. A record that is not damaged is added to `intact`, and not
    read until somebody writes to it: checking 10,000 records takes seconds.
    """
    name = path.as_posix()
    try:
        status = path.stat()
        state = [status.st_size, status.st_ctime_ns, status.st_ino]  # mtime can be set at will
        if name not in intact or intact[name]["state"] != state:
            limit = _time_limit(path, run)
            if change := _change(path, path.read_bytes(), read_log(log)):
                return change
            intact[name] = {"state": state, "limit": limit}
    except FileNotFoundError:
        return MISSING
    except RecordError as error:
        return f"cannot be used ({error})"
    ended_after = intact[name]["limit"]
    if ended_after is not None and ended_after < timeout_s:
        return f"ran out of time after {ended_after:g} s, and {timeout_s:g} s are allowed now"
    return None


def runs_asked_for(again: str | Sequence[str], runs: Mapping[str, Run]) -> dict[str, str]:
    """The record files of the runs to measure again, with the reason.

    Args:
        again: ``all``, or words; a run is meant where all parts of one of the words, which spaces
            or hyphens divide, are parts of the run's name (``Flash2``, ``flash2 n1024 causal``).
        runs: the planned runs by record file.

    Raises:
        ConfigError: a word that no planned run has in its name.
    """
    if again == ALL:
        return dict.fromkeys(runs, ASKED_FOR)
    found: dict[str, str] = {}
    for word in [again] if isinstance(again, str) else again:
        wanted = set(word.lower().replace("-", " ").split())
        meant = [path for path in runs if wanted and wanted <= set(Path(path).stem.split("-"))]
        if not meant:
            some = ", ".join(dict.fromkeys(run.implementation for run in runs.values()))
            raise ConfigError(
                f"--config: again: no planned run is called {word!r}; give `all`, `blocks`, an "
                f"implementation ({some}), or parts of a run's name, such as "
                f"{next(iter(runs.values())).slug}"
                if runs
                else "--config: again: nothing is measured here: the records are recorded ones"
            )
        found |= dict.fromkeys(meant, ASKED_FOR)
    return found
