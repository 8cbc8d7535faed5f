"""Where a run stands under the measured ceilings: matrix-product rate and copy bandwidth.

A rate counts the operations that the definition gives a run, and a bandwidth the bytes that any
implementation must move (`costs`), so both shares are of what the run is worth, not of what an
implementation happens to do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flashlab import costs
from flashlab.findings.model import (
    BOOTSTRAP,
    TIMED_PASSES,
    Estimates,
    Finding,
    Ratio,
    Sweep,
    function_of,
    interval_json,
    mask_name,
    ratio,
    rounded,
)
from flashlab.records import Run
from flashlab.statistics import Estimate, Floats

BOUND_SHARE = 50.0
"""Least percentage of a ceiling at which a run is called bound by it; under it of both: neither."""


@dataclass(frozen=True)
class Ceilings:
    """A device's measured ceilings: the time of each dtype's matrix product and of a large copy.

    `drifted` names those that took decidedly longer or shorter in the last third of their calls
    than in the first: dtypes, and ``copy``.
    """

    device_name: str | None
    matrix: Mapping[str, tuple[Estimate, float]]
    copy: tuple[Estimate, float]
    drifted: frozenset[str]


def read_ceilings(document: Mapping[str, Any], estimates: Estimates) -> Ceilings:
    """The ceilings of a record by ``flashlab.measuring.ceilings``; times become milliseconds."""
    drifted = set()

    def timed(name: str, found: Mapping[str, Any]) -> Estimate:
        samples = [seconds * 1e3 for seconds in found["samples"] or [found["time(s)"]]]
        third = max(1, len(samples) // 3)
        first, last = (
            estimates.of(("ceiling", name, part), calls)
            for part, calls in (("first", samples[:third]), ("last", samples[-third:]))
        )
        if ratio(0, last, first).verdict in ("above", "below"):
            drifted.add(name)
        return estimates.of(("ceiling", name), samples)

    copy, products = document["copy"], document["matrix_product"]
    matrix = {d: (timed(d, found), 2.0 * found["size"] ** 3) for d, found in products.items()}
    copied = (timed("copy", copy), 2.0 * copy["bytes"])
    device_name = document["environment"].get("device_name")
    return Ceilings(device_name, matrix, copied, frozenset(drifted))


@dataclass(frozen=True)
class _Standing:
    """A run's shares of the two ceilings, in percent."""

    value: int
    matrix: Ratio
    copy: Ratio

    @property
    def verdict(self) -> str | None:
        """None where an interval reaches across the limit between two verdicts."""
        if rounded(self.matrix.ratio) > 100:
            return "model_error" if self.matrix.low and rounded(self.matrix.low) > 100 else None
        shares = {"compute_bound": self.matrix, "memory_bound": self.copy}
        greater = max(shares, key=lambda verdict: shares[verdict].ratio)
        if rounded(shares[greater].low or 0) >= BOUND_SHARE:
            return greater
        reaching = [rounded(share.high or 0) >= BOUND_SHARE for share in shares.values()]
        return None if any(reaching) else "neither"

    def to_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "matrix_percent": interval_json(self.matrix),
            "copy_percent": interval_json(self.copy),
        }


def _share(value: int, work: float, time: Estimate, ceiling: tuple[Estimate, float]) -> Ratio:
    """Work over time, as a percentage of a ceiling's work over its time."""
    ceiling_time, ceiling_work = ceiling

    def percent(mine: Floats, theirs: Floats) -> Floats:
        return 100 * work / ceiling_work * theirs / mine

    return function_of(value, percent, (time, ceiling_time))


def _standings(
    sweep: Sweep, ceilings: Ceilings, name: str, causal: bool, timed: str
) -> list[_Standing]:
    """Of each run that has samples."""
    found = []
    for row in sweep.pass_rows(name, causal, timed):
        if row["status"] != "ok" or row["dtype"] not in ceilings.matrix:
            continue
        run, time, value = Run.from_json(row), sweep.estimate(row), row[sweep.parameter]
        if time.resampled is None:
            continue
        flops = costs.flops(run.shape)[timed]
        moved = costs.compulsory_bytes(run.shape, run.dtype)[timed]
        found.append(
            _Standing(
                value,
                _share(value, flops, time, ceilings.matrix[run.dtype]),
                _share(value, moved, time, ceilings.copy),
            )
        )
    return found


def rooflines(sweep: Sweep, ceilings: Ceilings) -> Iterator[Finding]:
    """How near each pass comes to the ceilings; a finding for each verdict, with its values.

    Where an interval reaches across the limit between two verdicts, nothing is said of the value
    but that. A run that has no samples has no interval, and is left out.

    Nothing is said of another device than the one that the ceilings were measured on.
    """
    if {row["device_name"] for row in sweep.runs if row["status"] == "ok"} != {
        ceilings.device_name
    }:
        return
    run_dtype = sweep.runs[0]["dtype"]
    for name, causal, timed in itertools.product(sweep.implementations, sweep.masks, TIMED_PASSES):
        groups: dict[str, list[_Standing]] = {}
        undecided = []
        for standing in _standings(sweep, ceilings, name, causal, timed):
            if standing.verdict is None:
                undecided.append(standing.value)
            else:
                groups.setdefault(standing.verdict, []).append(standing)
        for verdict, found in sorted(groups.items()):
            matrix = [rounded(standing.matrix.ratio) for standing in found]
            copy = [rounded(standing.copy.ratio) for standing in found]
            yield Finding(
                kind="roofline",
                experiment=sweep.name,
                device=sweep.device,
                subject={"implementation": name, "pass": timed, "mask": mask_name(causal)},
                verdict=verdict,
                params={
                    "count": len(found),
                    "first": found[0].value,
                    "last": found[-1].value,
                    "values": [standing.value for standing in found],
                    "matrix_low": min(matrix),
                    "matrix_high": max(matrix),
                    "undecided_at": undecided,
                    "copy_low": min(copy),
                    "copy_high": max(copy),
                    "dtype": run_dtype,
                },
                evidence={
                    "table": f"tables/{sweep.name}/samples.csv",
                    "rows": {"implementation": [name], "causal": causal, "pass": timed},
                    "method": "operations over median time as a percentage of the measured "
                    "matrix-product rate, compulsory bytes over median time as one of the "
                    f"measured copy bandwidth, {BOOTSTRAP}",
                    "n": min(standing.matrix.samples for standing in found),
                    "estimates": [standing.to_json() for standing in found],
                },
                reasons=sweep.excluded([name], [causal])
                + (["above_copy_rate"] if max(copy) > 100 else [])
                + (["ceiling_drifted"] if {run_dtype, "copy"} & ceilings.drifted else []),
                warnings=sweep.warnings([name], [causal], timed),
            )
