"""Conclusions: what to do, by how much and why, for page one and for every section.

They are derived last, from all other findings, and only quote them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flashlab.analysis.conclusions.alternative_conclusions import alternative_conclusions
from flashlab.analysis.conclusions.front_conclusions import front_conclusions
from flashlab.analysis.conclusions.quoting import Known
from flashlab.analysis.conclusions.section_conclusions import section_conclusions
from flashlab.analysis.conclusions.step_conclusions import ladder_of, step_conclusions
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding


def conclude(
    findings: Sequence[Finding], sweeps: Sequence[Sweep], estimates: Estimates
) -> list[Finding]:
    """The conclusions; `sweeps` are the headline's and the sections', in the report's order."""
    known = Known(findings, sweeps)
    if any(sweep.has_alternatives for sweep in sweeps):
        found = [*alternative_conclusions(known, estimates)]
    else:
        front = step_conclusions if ladder_of(known) else front_conclusions
        found = [*front(known), *section_conclusions(known)]
    page_one = [finding for finding in found if finding.experiment is None]
    ranked = [replace(finding, rank=rank) for rank, finding in enumerate(page_one)]
    return [*ranked, *(finding for finding in found if finding.experiment is not None)]
