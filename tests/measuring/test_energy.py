"""The energy of a call, from a counter that moves in steps."""

from __future__ import annotations

import pytest

from flashlab import machine
from flashlab.measuring import energy as measuring
from flashlab.measuring.energy import SPAN_SECONDS, Reading, measure_energy, spans
from flashlab.measuring.protocols import Pass

WATTS, CALL_SECONDS, BATCH_SECONDS = 600.0, 0.001, 0.005


def readings(update_seconds: float, seconds: float = 2.0) -> list[Reading]:
    """The readings of a counter that is updated at intervals, taken after every batch."""
    found: list[Reading] = []
    shown = 0.0
    for batch in range(1, round(seconds / BATCH_SECONDS) + 1):
        now = batch * BATCH_SECONDS
        joules = WATTS * update_seconds * (now // update_seconds)
        if joules != shown:
            shown = joules
            found.append(Reading(now, joules, round(now / CALL_SECONDS)))
    return found


@pytest.mark.parametrize("update_seconds", [0.003, 0.02, 0.107])
def test_it_is_power_times_time_however_coarse_the_counter_is(update_seconds: float) -> None:
    found = spans(readings(update_seconds))
    assert found is not None
    assert found["value"] == pytest.approx(WATTS * CALL_SECONDS, rel=BATCH_SECONDS / SPAN_SECONDS)
    assert len(found["samples"]) >= 8


def test_a_counter_that_hardly_moves_gives_no_energy() -> None:
    assert spans(readings(1.5)) is None


def test_a_pass_is_run_until_the_counter_tells_its_energy(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a driver whose counter moves every 20 ms, as the calls take time."""
    now = [0.0]

    class Driver:
        NVMLError = RuntimeError

        def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
            return uuid

        def nvmlDeviceGetTotalEnergyConsumption(self, _: str) -> float:
            return 1e3 * WATTS * 0.02 * (now[0] // 0.02)

    def run() -> None:
        now[0] += CALL_SECONDS

    monkeypatch.setattr(machine, "nvml", Driver)
    monkeypatch.setattr(measuring, "gpu_uuid", lambda: "GPU-1")
    monkeypatch.setattr(measuring, "warm_up", lambda *_: 0.0)
    monkeypatch.setattr(measuring, "synchronize", lambda _: None)
    monkeypatch.setattr(measuring, "perf_counter", lambda: now[0])
    found = measure_energy(Pass(run), 1.0)
    assert found is not None
    samples = found["samples"]
    assert samples == pytest.approx([WATTS * CALL_SECONDS] * len(samples), rel=0.03)
