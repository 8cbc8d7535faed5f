"""The planned files that a call makes again although modification times do not ask for it.

They are the files that are not as their job made them, the runs that a shorter time limit ended,
and those that the user wants measured again. The rules that make them have an input that is newer
than all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from flashlab.analysis.experiment import OBSERVATIONS, OF_DATASET, table_names
from flashlab.calls.digests import read_digests
from flashlab.config import ConfigError
from flashlab.files import sha256_of
from flashlab.plan.blocks import blocks_of, broken_blocks
from flashlab.plan.planning import PlannedExperiment, PlannedRuns
from flashlab.plan.source import Source
from flashlab.records import TIMED_OUT, RecordError, read_record, time_out_message
from flashlab.runs import Run

ALL = "all"
BLOCKS = "blocks"
"""The value of `again` for the runs of blocks that are incomplete or parted (`plan.blocks`)."""

ASKED_FOR = "is to be measured again"
CHANGED = "was changed after it had been made"
MISSING = "is missing"
UNKNOWN = "has no digest"

LAID_OUT = ("layout.html", "heights.json", "figures")
"""The files of a report's layout, and the folder of the figures that are drawn after it."""

REPORT_ENDS = {"pdf": b"%%EOF", "html": b"</html>"}
"""The last bytes of a complete report. A reader may have added notes, so no digest is compared."""


def files_to_remake(
    source: Source,
    experiments: Sequence[tuple[PlannedExperiment, PlannedRuns]],
    counters: PlannedRuns,
    timeout_s: float,
    ceilings: Path | None,
) -> dict[str, str]:
    """The reason for each file that must be made again, by its path."""
    reasons = _damaged_outputs(source, [experiment for experiment, _ in experiments])
    digests = read_digests(source.records)
    if not source.is_vouched_for:
        runs = {
            process.path: run
            for planned in (*(planned for _, planned in experiments), counters)
            for run, entry in planned.items()
            for process in entry.processes
        }
        for path, run in runs.items():
            if reason := record_damage(path, run, timeout_s, digests):
                reasons[path] = reason
    if source.recorded is None and ceilings:
        reason = output_damage(ceilings, digests)
        if reason and reason != UNKNOWN:  # those that were copied alone stay
            reasons[ceilings] = reason
    asked_for = _files_asked_for(source, experiments[0][1], counters, ceilings)
    reasons |= dict.fromkeys(asked_for, ASKED_FOR)
    return {path.as_posix(): reason for path, reason in reasons.items()}


def _damaged_outputs(source: Source, experiments: Sequence[PlannedExperiment]) -> dict[Path, str]:
    """The reason for each output of the stages after the records that must be made again."""
    home, is_drawn = source.home, any(each.figures for each in experiments)
    laid_out = LAID_OUT if is_drawn else LAID_OUT[:-1]
    outputs = [home / name for name in (*OF_DATASET, OBSERVATIONS, "overview", *laid_out)]
    outputs += [
        home / "tables" / experiment.name / f"{table}.csv"
        for experiment in experiments
        for table in table_names(source.benchmark)
    ]
    digests = read_digests(home)
    reasons = {path: output_damage(path, digests) for path in outputs}
    for kind, end in REPORT_ENDS.items():
        published = Path("report", f"{source.benchmark.report}.{kind}")
        if published.exists():  # one that was never requested is not missing
            for path in (home / published.name, published):
                reasons[path] = report_damage(path, end)
    return {path: reason for path, reason in reasons.items() if reason}


def output_damage(path: Path, digests: Mapping[Path, str]) -> str | None:
    """The reason to make a stage's file or folder again; None where it is as it was made."""
    if not path.exists():
        return MISSING
    files = [path] if path.is_file() else [file for file in digests if path in file.parents]
    for file in files:
        try:
            if digests.get(file, UNKNOWN) not in (UNKNOWN, sha256_of(file)):
                return CHANGED if file == path else f"{file.name} {CHANGED}"
        except FileNotFoundError:
            return f"lacks {file.name}"
        except OSError as error:
            return f"cannot be read ({error.strerror})"
    return None if digests.keys() & files else UNKNOWN


def report_damage(path: Path, end: bytes) -> str | None:
    """The reason to make a report again; None where it is whole."""
    try:
        return None if path.read_bytes().rstrip().endswith(end) else "is cut off"
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"


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


def _files_asked_for(
    source: Source, planned: PlannedRuns, counters: PlannedRuns, ceilings: Path | None
) -> list[Path]:
    """The records and ceilings that the configuration's ``again`` is about."""
    again = source.config["again"]
    if not again:
        return []
    if source.recorded:
        return runs_asked_for(again, {})
    if again == BLOCKS:
        return [entry.path for entry in broken_blocks(blocks_of(planned))]
    both = (*planned.values(), *counters.values())
    measured = {process.path: process.run for entry in both for process in entry.processes}
    files = runs_asked_for(again, measured)
    return [*files, ceilings] if again == ALL and ceilings else files


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
                if runs
                else "--config: again: nothing is measured here: the records are recorded ones"
            )
        files |= dict.fromkeys(meant)
    return list(files)
