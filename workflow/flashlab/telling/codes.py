"""The messages for codes that data hold: how a run ended, what warns of it."""

from __future__ import annotations

STATUSES = {
    "ok": "status.ok",
    "oom": "status.oom",
    "unsupported": "status.unsupported",
    "incorrect": "status.incorrect",
    "error": "status.error",
    "absent": "status.absent",
}
WARNINGS = {
    "drift": "warning.drift",
    "states": "warning.states",
    "processes_differ": "warning.processes_differ",
    "halves_differ": "warning.halves_differ",
    "outliers": "warning.outliers",
    "cpu_load": "warning.cpu_load",
    "throttled": "warning.throttled",
    "shared_device": "warning.shared_device",
    "interval_not_reached": "warning.interval_not_reached",
    "imported": "warning.imported",
    "sittings_differ": "warning.sittings_differ",
    "simulated": "warning.simulated",
}
