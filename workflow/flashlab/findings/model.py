"""The finding as a typed value: what it is about, its verdict, its evidence, where it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from flashlab.files import read_json
from flashlab.sweep import Row, Sweep, Variant


@dataclass(frozen=True)
class Reason:
    """Something to know about a verdict: a code, and the run that it is about, if one is.

    `run` holds the implementation and the parameters that tell the run; `status` is what became of
    it.
    """

    code: str
    run: Mapping[str, Any] | None = None
    status: str | None = None


@dataclass(frozen=True)
class Finding:
    """One statement, with all that is decided about it; a report only renders it.

    `experiment` is None for what concerns the dataset as a whole. `subject` names what it is about:
    ``implementation``, ``baseline`` or ``other``, ``metric``, ``variant`` (a mapping), and what
    single kinds need. `sentences` are the keys of the messages that tell it, one after the other,
    and `params` what they quote, as printed. `evidence` names the table, its rows, the number of
    samples, the estimates with their intervals, and the method. `device` is the device's name, on
    which alone the statement is made. `front` is the rank among the statements of page one, None
    for one that does not stand there; `told` says whether its section tells it in prose.
    """

    kind: str
    experiment: str | None
    device: str
    subject: Mapping[str, Any]
    verdict: str
    sentences: Sequence[str]
    params: Mapping[str, Any]
    evidence: Mapping[str, Any]
    reasons: Sequence[Reason] = ()
    warnings: Sequence[str] = ()
    front: int | None = None
    told: bool = False

    def to_json(self) -> dict[str, Any]:
        """The finding as it stands in findings.json."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        reasons = [
            {key: value for key, value in asdict(reason).items() if value is not None}
            for reason in self.reasons
        ]
        lists = {"sentences": list(self.sentences), "warnings": list(self.warnings)}
        return {**found, **lists, "reasons": reasons}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Finding:
        """Inverse of `to_json`."""
        reasons = tuple(Reason(**reason) for reason in document["reasons"])
        return cls(**{**document, "reasons": reasons})

    @property
    def implementations(self) -> frozenset[str]:
        """The implementations that it is about."""
        keys = ("implementation", "baseline", "other")
        return frozenset(self.subject[key] for key in keys if key in self.subject)

    @property
    def metric(self) -> str | None:
        """The metric that it is about, None where it concerns none or several."""
        found: str | None = self.subject.get("metric")
        return found

    @property
    def variant(self) -> Variant | None:
        """The variant that it is about, None where it concerns none or several."""
        found = self.subject.get("variant")
        return None if found is None else tuple(found.items())

    @property
    def estimates(self) -> Sequence[Mapping[str, Any]]:
        """The estimates of its evidence."""
        found: Sequence[Mapping[str, Any]] = self.evidence["estimates"]
        return found

    def is_about(self, **subject: Any) -> bool:
        """Whether its subject holds these entries."""
        return subject.items() <= dict(self.subject).items()


def read_findings(path: Path) -> list[Finding]:
    """The findings of a dataset."""
    return [Finding.from_json(document) for document in read_json(path)]


@dataclass(frozen=True)
class Evidence:
    """Where a finding's figures come from: the table's rows, the method, and the estimates."""

    table: str
    rows: Mapping[str, Any]
    method: str
    n: int
    estimates: Sequence[Mapping[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The evidence as it stands in a finding."""
        return {**asdict(self), "rows": dict(self.rows), "estimates": list(self.estimates)}


def rows_of(implementations: Sequence[str], variant: Variant = (), **others: Any) -> dict[str, Any]:
    """The rows of a table that evidence names, by the values of their columns."""
    return {"implementation": list(implementations), **dict(variant), **others}


def subject_of(
    implementation: str, variant: Variant | None = None, **others: Any
) -> dict[str, Any]:
    """What a finding is about."""
    found = {"implementation": implementation, **others}
    return found if variant is None else {**found, "variant": dict(variant)}


def excluded(
    sweep: Sweep, implementations: Sequence[str], variants: Sequence[Variant]
) -> list[Reason]:
    """A reason for each of these runs that has no numbers: which one, and its status."""
    return [
        Reason("excluded", run_words(sweep, row), row["status"])
        for row in sweep.of_series(implementations, variants)
        if row["status"] != "ok"
    ]


def run_words(sweep: Sweep, row: Row) -> dict[str, Any]:
    """What tells a run from the others of its sweep."""
    return {
        "implementation": row["implementation"],
        **dict(sweep.variant_of(row)),
        sweep.parameter.name: sweep.value_of(row),
    }
