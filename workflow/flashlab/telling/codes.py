"""The messages for codes that data hold: how a run ended, and what warns of it."""

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
