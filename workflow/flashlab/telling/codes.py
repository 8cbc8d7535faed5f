"""The messages for codes that data hold: how a run ended, what warns of it, a verdict."""

from __future__ import annotations


def by_code(*keys: str) -> dict[str, str]:
    """Messages by the codes that they are for, with which their keys end."""
    return {key.rpartition(".")[2]: key for key in keys}


STATUSES = by_code(
    *("status.ok", "status.oom", "status.unsupported", "status.incorrect", "status.error"),
    *("status.absent", "status.implausible"),
)
WARNINGS = by_code(
    *("warning.drift", "warning.states", "warning.processes_differ", "warning.halves_differ"),
    *("warning.outliers", "warning.cpu_load", "warning.throttled", "warning.shared_device"),
    *("warning.interval_not_reached", "warning.imported", "warning.sittings_differ"),
    *("warning.inputs_differ", "warning.simulated", "warning.implausible"),
    *("warning.cards_differ", "warning.dips"),
)
VERDICTS = by_code(
    *("verdict.one_best", "verdict.one_suffices", "verdict.changes", "verdict.inconclusive"),
    *("verdict.better", "verdict.worse", "verdict.equivalent", "verdict.mixed", "verdict.crosses"),
    *("verdict.none_in_range", "verdict.less", "verdict.more", "verdict.equal", "verdict.withheld"),
    *("verdict.limit_found", "verdict.none", "verdict.power_law", "verdict.curved", "verdict.flat"),
    *("verdict.imprecise", "verdict.covaried", "verdict.too_few_sizes", "verdict.monotone"),
    *("verdict.broken", "verdict.unstable", "verdict.outlier", "verdict.as_operations"),
    *("verdict.above", "verdict.below", "verdict.explained", "verdict.unexplained"),
    *("verdict.level", "verdict.reached", "verdict.rising", "verdict.uneven", "verdict.falls"),
    *("verdict.rises", "verdict.helps", "verdict.hurts", "verdict.no_difference"),
    *("verdict.compute_bound", "verdict.memory_bound", "verdict.neither", "verdict.model_error"),
    *("verdict.launch_bound", "verdict.matrix_bound", "verdict.unfused"),
    *("verdict.elementwise", "verdict.products", "verdict.fused", "verdict.wrong"),
    *("verdict.implausible",),
    *("verdict.within", "verdict.differs", "verdict.agrees", "verdict.unstated", "verdict.single"),
    *("verdict.repeated", "verdict.varied", "verdict.unknown", "verdict.one", "verdict.several"),
    *("verdict.counted", "verdict.partly", "verdict.uncounted", "verdict.confirmed"),
    *("verdict.host_bound", "verdict.busy", "verdict.between"),
    *("verdict.contradicted", "verdict.ambiguous", "verdict.other_device", "verdict.not_tested"),
)
"""Verdicts of findings, as they are counted."""
