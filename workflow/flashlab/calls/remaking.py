"""The planned files that a call makes again although modification times do not ask for it.

They are the files that are not as their job made them, the runs that a shorter time limit ended,
and those that the user wants measured again. The rules that make them have an input that is newer
than all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from flashlab.analysis.experiment import OBSERVATIONS, OF_DATASET
from flashlab.calls.digests import CHANGED, MISSING, damage, read_digests
from flashlab.config import ConfigError
from flashlab.plan.blocks import blocks_of, broken_blocks
from flashlab.plan.planning import PlannedRuns
from flashlab.plan.source import Source
from flashlab.records import TIMED_OUT, RecordError, read_record, time_out_message
from flashlab.runs import Run

ALL = "all"
BLOCKS = "blocks"
"""The value of `again` for the runs of blocks that are incomplete or parted (`plan.blocks`)."""

ASKED_FOR = "is to be measured again"

OUTPUTS = (*OF_DATASET, "tables", OBSERVATIONS, "overview", "figures")
"""The files and folders that the stages between the records and the report make."""

REPORT_ENDS = {"pdf": b"%%EOF", "html": b"</html>"}
"""The last bytes of a complete report. A reader may have added notes, so no digest is compared."""


def files_to_remake(
    source: Source, planned: Sequence[PlannedRuns], counters: PlannedRuns, ceilings: Path | None
) -> dict[str, str]:
    """The reason for each file that must be made again, by its path.

    Raises:
        ConfigError: the configuration's ``again`` names no planned run.
    """
    reasons = damaged_outputs(source.home)
    for kind, end in REPORT_ENDS.items():
        published = Path("report", f"{source.benchmark.report}.{kind}")
        if published.exists():  # one that was never requested is not missing
            for path in (source.home / published.name, published):
                reasons[path] = report_damage(path, end)
    runs = {
        process.path: run
        for every in (*planned, counters)
        for run, entry in every.items()
        for process in entry.processes
    }
    again, timeout_s = source.config["again"], source.config["measure"]["timeout_s"]
    digests = read_digests(source.home / "records")
    if source.recorded is None and ceilings:
        reasons[ceilings] = ASKED_FOR if again == ALL else damage(ceilings, digests)
    if source.recorded is None or source.imports:
        for path, run in runs.items():
            reasons[path] = record_damage(path, run, timeout_s, digests)
    if source.recorded and again:
        raise ConfigError(
            "--config: again: nothing is measured here: the records are recorded ones"
        )
    if again == BLOCKS:
        asked_for = [entry.path for entry in broken_blocks(blocks_of(planned[0]))]
    else:
        asked_for = runs_asked_for(again, runs)
    reasons |= dict.fromkeys(asked_for, ASKED_FOR)
    return {path.as_posix(): reason for path, reason in reasons.items() if reason}


def damaged_outputs(home: Path) -> dict[Path, str | None]:
    """The reason for each output of the stages after the records that must be made again.

    Those are compared that the list in the folder of the results says were made there.
    """
    digests, reasons = read_digests(home), dict[Path, str | None]()
    for path in digests:
        output = home / path.relative_to(home).parts[0]
        if output.name in OUTPUTS and (reason := damage(path, digests)):
            reasons[output] = reason if path == output else f"{path.name} {reason}"
    return reasons


def report_damage(path: Path, end: bytes) -> str | None:
    """The reason to make a report again; None where it is whole."""
    try:
        return None if path.read_bytes().rstrip().endswith(end) else "is cut off"
    except OSError:
        return MISSING


def record_damage(
    path: Path, run: Run, timeout_s: float, digests: Mapping[Path, str]
) -> str | None:
    """The reason to measure a run again; None where its record stands.

    A record of unknown origin, such as one that was copied alone, need only be the run's. One that
    is as it was made is not parsed, so that checking 10,000 records takes seconds, unless its run
    may have been ended by a time limit below `timeout_s`.
    """
    try:
        content = path.read_bytes()
        if path in digests and digests[path] != hashlib.sha256(content).hexdigest():
            return CHANGED
        if path in digests and TIMED_OUT.encode() not in content:
            return None
        record = read_record(path, run)
    except FileNotFoundError:
        return MISSING
    except (OSError, RecordError) as error:
        return f"cannot be used ({error})"
    allowed = record.protocol.get("timeout_s")
    if allowed is None or record.message != time_out_message(allowed) or allowed >= timeout_s:
        return None
    return f"ran out of time after {allowed:g} s, and {timeout_s:g} s are allowed now"


def runs_asked_for(again: str | Sequence[str], runs: Mapping[Path, Run]) -> list[Path]:
    """The record files of the runs to measure again.

    Args:
        again: ``all``, or words; a run is meant where all parts of one of the words, which spaces
            or hyphens divide, are parts of the run's name (``Flash2``, ``flash2 n1024 causal``).
        runs: the planned runs by record file.

    Raises:
        ConfigError: a word that no planned run has in its name.
    """
    if again == ALL:
        return list(runs)
    files: dict[Path, None] = {}
    for word in [again] if isinstance(again, str) else again:
        wanted = set(word.lower().replace("-", " ").split())
        meant = [path for path in runs if wanted and wanted <= set(path.stem.split("-"))]
        if not meant:
            some = ", ".join(dict.fromkeys(run.implementation for run in runs.values()))
            raise ConfigError(
                f"--config: again: no planned run is called {word!r}; give `all`, `blocks`, an "
                f"implementation ({some}), or parts of a run's name, such as "
                f"{next(iter(runs.values())).slug}"
            )
        files |= dict.fromkeys(meant)
    return list(files)
