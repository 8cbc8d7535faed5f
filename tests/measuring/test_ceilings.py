from __future__ import annotations

from pathlib import Path

import pytest

from flashlab.measuring import ceilings


def test_rates_follow_from_the_times_that_stand_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "MATRIX_SIZE", {"cpu": 128})
    monkeypatch.setattr(ceilings, "COPY_BYTES", {"cpu": 2**20})
    monkeypatch.setitem(ceilings.PROTOCOL, "max_seconds", 0.05)
    found = ceilings.measure("cpu")
    matrix, copy = found["matrix_product"]["float32"], found["copy"]
    assert matrix["rate(TFLOPs/s)"] == pytest.approx(2 * 128**3 / matrix["time(s)"] / 1e12)
    assert copy["bandwidth(GB/s)"] == pytest.approx(2 * 2**20 / copy["time(s)"] / 1e9)
    assert len(matrix["samples"]) >= 20
    assert found["environment"]["threads"]
