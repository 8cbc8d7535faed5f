"""How many times as fast an implementation is with packed inputs as with separate ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flashlab.analysis.experiment import INPUTS_DIFFER, Experiment, chosen_metrics
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import COMPARED, Given, Kind
from flashlab.analysis.kinds.comparison import COMPARISON, compare_pairs


def packings(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """Each implementation with packed inputs against itself with separate ones, totals too."""
    pairs, metrics = sorted(experiment.packed.items()), chosen_metrics(experiment.benchmark)
    for finding in compare_pairs("packed", experiment, given, pairs, metrics):
        # That the inputs differ is what it is about, and no doubt.
        warnings = [code for code in finding.warnings if code != INPUTS_DIFFER]
        yield replace(finding, warnings=warnings)


PACKED = Kind(
    label="kind.packed",
    verdicts=COMPARISON.verdicts,
    of_experiment=[(COMPARED, packings)],
    told="in full",
)
