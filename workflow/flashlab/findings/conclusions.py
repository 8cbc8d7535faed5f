"""Conclusions: what to do, by how much and why, for page one and for every section.

They are derived last, from all other findings, and only quote them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flashlab.findings.alternatives import alternative_conclusions
from flashlab.findings.conclusion_parts import Known
from flashlab.findings.front_conclusions import front_conclusions
from flashlab.findings.model import Finding
from flashlab.findings.ratios import Estimates
from flashlab.findings.section_conclusions import section_conclusions
from flashlab.findings.step_conclusions import ladder_of, step_conclusions
from flashlab.sweep import Sweep


def conclude(
    findings: Sequence[Finding], sweeps: Sequence[Sweep], estimates: Estimates
) -> list[Finding]:
    """The conclusions; `sweeps` are the headline's and the sections', in the report's order."""
    known = Known(findings, sweeps)
    if ladder_of(known):
        steps = enumerate(step_conclusions(known))
        front = [replace(finding, front=rank) for rank, finding in steps]
        return [*front, *section_conclusions(known)]
    if any(sweep.has_alternatives for sweep in sweeps):
        return [*alternative_conclusions(known, estimates)]
    return [*front_conclusions(known), *section_conclusions(known)]
