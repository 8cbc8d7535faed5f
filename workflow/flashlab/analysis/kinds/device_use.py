"""How much of a time the device works, and whether its power limit holds it back.

Of runs whose measuring tells it (`benchmarks.model.Occupied`); of others nothing is found.
"""

from __future__ import annotations

from collections.abc import Iterator

from flashlab.analysis.experiment import Experiment
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.ratios import rounded

HOST_BOUND = 0.8
"""Largest share of a time for which the device is busy where the host is what limits it."""

BUSY = 0.95
"""Least share where the device is."""

POWER_LIMITED = 0.5
"""Least share of the looks at a device in which its power limit held it, to say that it does."""


def verdict_of(share: float) -> str:
    """What limits a run in which the device is busy for this share of the time."""
    if share <= HOST_BOUND:
        return "host_bound"
    return "busy" if share >= BUSY else "between"


def device_uses(experiment: Experiment, _: Given) -> Iterator[Finding]:
    """A finding for each run of which it is known how long the device was busy."""
    occupied, known = experiment.benchmark.occupied, experiment.benchmark.metrics
    names = [occupied.whole, occupied.busy, occupied.kernels] if occupied else []
    if occupied is None or not {metric.name for metric in known}.issuperset(names):
        return
    for run in (run for run in experiment.ordered if run["status"] == "ok"):
        whole, busy, kernels = (experiment.metric_row(run, name)["value"] for name in names)
        if busy is None or kernels is None:
            continue
        share = min(1.0, busy / whole)
        looks = [process["power_limited"] for process in experiment.processes_of(run)]
        limited = [look for look in looks if look is not None]
        yield Finding(
            "device_use",
            experiment.name,
            {
                "implementation": run["implementation"],
                "metric": occupied.whole,
                "variant": dict(experiment.variant_of(run)),
            },
            verdict_of(share),
            facts={
                "whole": rounded(whole),
                "busy": rounded(busy),
                "share": rounded(share),
                "kernels": round(kernels),
                "power_limited": bool(limited) and min(limited) >= POWER_LIMITED,
            },
            estimates=[{"value": experiment.value_of(run), "estimate": rounded(share)}],
        )


DEVICE_USE = Kind(
    label="kind.device_use",
    verdicts=("host_bound", "busy", "between"),
    of_experiment=[(EXPERIMENTS, device_uses)],
)
