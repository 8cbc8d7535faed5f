"""Which verdicts differ between a new report and the one before it.

After an upgrade, or when runs were measured again, verdicts may differ. A reader of the old report
is told which statements no longer hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flashlab.files import canonical, read_json, write_json
from flashlab.findings.model import Finding, read_findings
from flashlab.plan_files import planned_records, record_paths

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
    paths = record_paths(planned_records(results))
    return {path.as_posix(): path.stat().st_mtime_ns for path in paths}


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
        same = before["records"] == records
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        found, same = [], True  # no report before, or one whose verdicts cannot be read
    write_json(kept, {"records": records, "verdicts": verdicts})
    if not found:
        return []
    cause = "from the same records" if same else "with runs that were measured since"
    count = f"{len(found)} verdict{'s differ' if len(found) > 1 else ' differs'}"
    return [f"{count} from the report before, {cause}:", *found]
