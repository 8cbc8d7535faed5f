"""The finding as a typed value: what it is about, its verdict, its evidence, how it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab.analysis.experiment import Variant
from flashlab.files import read_json
from flashlab.telling.values import Statement, from_json, to_json


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
    """One thing that is decided, with all that is decided about it; a report only renders it.

    `experiment` is None for what concerns the dataset as a whole. `subject` names what it is about:
    ``implementation``, ``baseline`` or ``other``, ``metric``, ``variant`` (a mapping), and what
    single kinds need. `statements` tell it, one after the other; a verdict that is only counted has
    none. `facts` are what conclusions, tables and figures take from it, by names of its kind;
    `estimates` are its evidence. `rank` is its place among the conclusions of page one, None for
    all other findings; `told` says whether its section tells it in prose.
    `device` names the device, on which alone it is made.
    """

    kind: str
    experiment: str | None
    subject: Mapping[str, Any]
    verdict: str
    statements: Sequence[Statement] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    estimates: Sequence[Mapping[str, Any]] = ()
    reasons: Sequence[Reason] = ()
    warnings: Sequence[str] = ()
    rank: int | None = None
    told: bool = False
    device: str = ""

    def to_json(self) -> dict[str, Any]:
        """The finding as it stands in findings.json."""
        reasons = [
            {key: value for key, value in vars(reason).items() if value is not None}
            for reason in self.reasons
        ]
        told = {"statements": to_json(self.statements), "facts": to_json(self.facts)}
        lists = {"estimates": list(self.estimates), "warnings": list(self.warnings)}
        return {**vars(self), **told, **lists, "reasons": reasons}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Finding:
        """Inverse of `to_json`."""
        told = {name: from_json(document[name]) for name in ("statements", "facts")}
        reasons = [Reason(**reason) for reason in document["reasons"]]
        return cls(**{**document, **told, "reasons": reasons})

    @property
    def implementations(self) -> frozenset[str]:
        """The implementations that it is about; none where it is about all alike."""
        keys = ("implementation", "baseline", "other")
        return frozenset(self.subject[key] for key in keys if key in self.subject)

    @property
    def metric(self) -> str | None:
        """The metric that it is about, None where it concerns none or several."""
        return self.subject.get("metric")

    @property
    def variant(self) -> Variant | None:
        """The variant that it is about, None where it concerns none or several."""
        variant = self.subject.get("variant")
        return None if variant is None else tuple(variant.items())

    def is_about(self, **subject: Any) -> bool:
        """Whether its subject holds these entries."""
        return subject.items() <= dict(self.subject).items()


def read_findings(path: Path) -> list[Finding]:
    """The findings of a dataset."""
    return [Finding.from_json(document) for document in read_json(path)]
