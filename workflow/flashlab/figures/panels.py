"""An experiment as the figures across experiments show it: the ratios in its findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PASSES = ("forward", "backward")


@dataclass(frozen=True)
class Panel:
    """An experiment as the overview sees it: its plan, and the ratios of its findings."""

    plan: Mapping[str, Any]
    findings: list[Mapping[str, Any]]

    @property
    def sweep(self) -> str:
        """The parameter that varies."""
        return str(self.plan["sweep"])

    @property
    def values(self) -> list[int]:
        """The values of the sweep, in order."""
        return sorted({run[self.sweep] for run in self.plan["runs"]})

    def ratios(self, kind: str, name: str, timed: str, mask: str) -> list[Mapping[str, Any]]:
        """The estimates of the finding about this implementation, pass and mask; empty if none."""
        for finding in self.findings:
            subject = finding["subject"]
            if (
                finding["kind"] == kind
                and subject["implementation"] == name
                and subject["mask"] == mask
                and subject.get("pass", "") == timed
            ):
                estimates: list[Mapping[str, Any]] = finding["evidence"]["estimates"]
                return estimates
        return []

    @property
    def has_ratios(self) -> bool:
        """Whether any run has a ratio to the baseline's."""
        return any(
            finding["kind"] in ("speedup", "memory_ratio") and finding["evidence"]["estimates"]
            for finding in self.findings
        )

    def status(self, name: str, mask: str, value: int) -> str:
        """Why a run has no numbers, as the findings that leave it out say; empty if it has."""
        prefix = f"excluded: {name} {mask} {self.sweep}={value}: "
        for finding in self.findings:
            for reason in finding["reasons"]:
                if reason.startswith(prefix):
                    return str(reason.removeprefix(prefix))
        return ""

    @property
    def masks(self) -> list[str]:
        """``full``, ``causal`` or both."""
        causal = {run["causal"] for run in self.plan["runs"]}
        return ["causal" if mask else "full" for mask in sorted(causal)]

    @property
    def compared(self) -> list[Mapping[str, Any]]:
        """The implementations that are held against the baseline, as the plan lists them."""
        return [e for e in self.plan["implementations"] if e["name"] != self.plan["baseline"]]


def panels_of(
    plans: Sequence[Mapping[str, Any]], findings: Sequence[Mapping[str, Any]]
) -> list[Panel]:
    """The experiments in which something is held against the baseline."""
    found = []
    for plan in plans:
        mine = [f for f in findings if f["experiment"] == plan["name"]]
        compares = any(f["kind"] in ("speedup", "memory_ratio") for f in mine)
        if plan["sweep"] and compares:
            found.append(Panel(plan, mine))
    return found


def all_compared(panels: Sequence[Panel]) -> list[Mapping[str, Any]]:
    """Every compared implementation once, in the plan's order of styles."""
    by_name = {entry["name"]: entry for panel in panels for entry in panel.compared}
    return sorted(by_name.values(), key=lambda entry: entry["style"])
