"""The time of tables and observations, of a small dataset and of one with many records.

Times `python -m flashlab tables` and `observations` from start to end, imports included.
Usage: PYTHONPATH=workflow:tests python perf/observations_speed.py [RECORDS]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from analysis.study import planted
from planted.experiments import Planter

ROOT = Path(__file__).parents[1]
SIZES = tuple(128 * i for i in range(1, 6))


def write_many(folder: Path, records: int) -> list[Path]:
    """Plans of sweeps over five sizes, two masks and two implementations: 20 records each."""
    plans, planter = [], Planter(folder)
    for index in range(records // (len(SIZES) * 4)):
        random = np.random.default_rng(index)
        dataset = planted.Planted("many")
        curves = {
            (name, mask): planted.Power(scale, 1.5)
            for name, scale in zip(planted.NAMES, random.uniform(0.05, 0.2, 2), strict=True)
            for mask in (False, True)
        }
        planted.plant(dataset, curves, SIZES, random, batch_size=index + 1)
        plans.append(planted.write_dataset(dataset, planter, random, name=f"sweep{index}"))
    return plans


def timed(name: str, *arguments: str | Path) -> float:
    """Seconds that a command took."""
    command = [
        sys.executable,
        "-m",
        "flashlab",
        name,
        *map(str, arguments),
    ]
    begin = time.monotonic()
    subprocess.run(command, check=True, env={"PYTHONPATH": str(ROOT / "workflow")})
    return time.monotonic() - begin


def main() -> None:
    """Print the time for 40 records, and for as many as asked for."""
    for records in (40, int(sys.argv[1]) if len(sys.argv) > 1 else 10_000):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            plans, output = write_many(folder, records), folder / "observations.json"
            tables = timed("tables", "--results", folder, "--output", folder / "tables")
            made = ("--tables", folder / "tables", "--output", output, *plans)
            seconds = timed("observations", *made)
            size = output.stat().st_size / 1e6
        print(
            f"{records} records: tables {tables:.1f} s, observations {seconds:.1f} s, {size:.1f} MB"
        )


if __name__ == "__main__":
    main()
