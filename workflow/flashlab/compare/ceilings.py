"""The ceiling that a bench sets rates against: measured here before, else the vendor's figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flashlab.devices import find_device
from flashlab.files import read_json
from flashlab.identity import ceilings_name

RECORDS = Path("results", "local", "records")
"""Where a report's call keeps the ceilings that it has measured."""


@dataclass(frozen=True)
class Ceiling:
    """A rate in TFLOP/s that no implementation is expected to exceed, and the column's heading."""

    rate: float
    heading: str


def find_ceiling(device: str, device_name: str, dtype: str) -> Ceiling | None:
    """The device's ceiling for a dtype; None where none was measured and none is stated.

    That measured by a large matrix product (``./run report``), or the vendor's peak rate.
    """
    measured = RECORDS / ceilings_name(device)
    if measured.is_file():
        product = read_json(measured)["matrix_product"].get(dtype)
        return Ceiling(product["rate(TFLOPs/s)"], "of ceiling") if product else None
    known = find_device(device_name)
    peak = known and known.peak_tflops.get("float16" if dtype == "bfloat16" else dtype)
    return Ceiling(peak, "of peak") if peak else None
