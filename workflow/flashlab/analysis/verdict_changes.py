"""Which verdicts differ between a new report and the one before it.

After an upgrade, or when runs were measured again, verdicts may differ. A reader of the old report
is told which statements no longer hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flashlab.analysis.finding import Finding, read_findings
from flashlab.files import canonical, read_json, write_json
from flashlab.plan.plan_files import record_paths

CHANGED = "changed: "
"""Prefix of a line about a changed verdict."""

KEPT = "verdicts.json"


def _describe_subject(finding: Finding) -> str:
    """What a finding is about: its kind, experiment and subject, in words."""
    subject = dict(finding.subject)
    variant = [f"{name}={canonical(value)}" for name, value in subject.pop("variant", {}).items()]
    parts = [finding.kind, finding.experiment, *map(str, subject.values()), *variant]
    return " ".join(part for part in parts if part)


def verdicts_of(findings: Sequence[Finding]) -> dict[str, str]:
    """The verdicts by what they are about; where there are several, in alphabetical order."""
    found: dict[str, set[str]] = {}
    for finding in findings:
        found.setdefault(_describe_subject(finding), set()).add(finding.verdict)
    return {about: ", ".join(sorted(verdicts)) for about, verdicts in found.items()}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """A line for each verdict that differs on the same subject."""
    for about, verdict in after.items():
        if about in before and before[about] != verdict:
            yield f"{about}: {before[about]} is now {verdict}"


def _records(results: Path) -> dict[str, int]:
    """The planned records by path, each with its modification time in ns."""
    return {path.as_posix(): path.stat().st_mtime_ns for path in record_paths(results)}


def _cause(before: Mapping[str, int], after: Mapping[str, int], reported: int) -> str:
    """Why the verdicts of two reports may differ; `reported` is when the earlier one was made (ns).

    An experiment that is added or removed changes which records there are, and measures nothing if
    these exist already.
    """
    if before == after:
        return "from the same records"
    if any(made != before.get(path, min(made, reported)) for path, made in after.items()):
        return "with runs that were measured since"
    return "which had other runs"


def compare_verdicts(results: Path) -> list[str]:
    """The verdicts that differ from the last call's; the current ones are kept in their place.

    `results` is the folder of a dataset's results; the verdicts are kept in its `KEPT`. The first
    line says whether the records are the same. The list is empty if nothing changed, or if there
    was no report before.
    """
    kept = results / KEPT
    records, verdicts = _records(results), verdicts_of(read_findings(results / "findings.json"))
    try:
        before = read_json(kept)
        found = list(changes(before["verdicts"], verdicts))
        known, reported = dict(before["records"]), kept.stat().st_mtime_ns
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        found, known, reported = [], {}, 0  # no report before, or an unreadable file
    write_json(kept, {"records": records, "verdicts": verdicts})
    if not found:
        return []
    count = f"{len(found)} verdict{'s differ' if len(found) > 1 else ' differs'}"
    return [f"{count} from the report before, {_cause(known, records, reported)}:", *found]
