"""Output of Nsight Compute for a forward and a backward pass, and a program that prints it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from flashlab import nsight
from flashlab.benchmarks.counters import KERNEL_COUNTERS

MARKER = "at::cuda::<unnamed>::spin_kernel(long)"
HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
PREAMBLE = """\
==PROF== Connected to process 4242 (/usr/bin/python3.12)
==PROF== Profiling "spin_kernel": 0%....50%....100% - 7 passes
==PROF== Disconnected from process 4242
"""

COUNTED = tuple(KERNEL_COUNTERS)
"""The counters that attention reads of its kernels."""

METRICS = nsight.metrics_for(COUNTED)

Cells = tuple[tuple[str, str], ...]
"""Unit and value of each metric, in the order of `METRICS`."""


def cells(*values: str) -> Cells:
    """From ``6.90 msecond``, ``318.00 Mbyte`` and shares in percent."""
    units = (value.split() if " " in value else (value, "%") for value in values)
    return tuple((unit, number) for number, unit in units)


SPIN = cells("1,120 nsecond", "2,048 byte", "0", "1.56", "0.01", "0.1")
FLASH2_FORWARD = cells("6.90 msecond", "318.00 Mbyte", "63", "12.4", "63.5", "41.0")
FLASH2_BACKWARD = (
    cells("40.0 usecond", "268.00 Mbyte", "0", "70", "10", "80"),
    cells("17.1 msecond", "1.00 Gbyte", "51", "12.1", "52", "60"),
    cells("60.0 usecond", "132.00 Mbyte", "0", "66", "11", "82"),
)


def table(kernels: Sequence[tuple[str, Cells]]) -> str:
    """The CSV of these kernels, by name, with the lines around it."""
    lines = []
    for number, (name, cells) in enumerate(kernels):
        for metric, (unit, value) in zip(METRICS.values(), cells, strict=True):
            fixed = f'"{number}","4242","python3.12","127.0.0.1","{name}","1","7"'
            place = '"(128, 1, 1)","(512, 1, 1)","0","9.0"'
            what = f'"Command line profiler metrics","{metric}","{unit}","{value}"'
            lines.append(f"{fixed},{place},{what}")
    return PREAMBLE + "\n".join([HEADER, *lines]) + "\n"


def flash2() -> str:
    """Both passes of Flash2 at B 1, N 16384, d 128, each after its marker."""
    forward = [(MARKER, SPIN), ("void flash_fwd_kernel<Flash_fwd_traits<128>>", FLASH2_FORWARD)]
    backward = [(f"flash_bwd_kernel_{i}", cells) for i, cells in enumerate(FLASH2_BACKWARD)]
    return table([*forward, (MARKER, SPIN), *backward])


FAKE = """\
#!{python}
import json, os, sys, time
if "--version" in sys.argv:
    print("NVIDIA (R) Nsight Compute Command Line Profiler")
    print("Version 2025.3.1.0 (build 36398880) (public-release)")
    sys.exit()
order, answer = sys.argv[-2:]
open({folder!r} + "/called", "a").write(json.dumps(sys.argv) + "\\n")
{extra}
log = sys.argv[sys.argv.index("--log-file") + 1]
open(log, "w").write(open({folder!r} + "/printed.csv").read())
found = json.loads(open({folder!r} + "/answer.json").read())
if found is not None:
    open(answer, "w").write(json.dumps(found))
sys.exit({status})
"""

ANSWER = {
    "environment": {"device_name": "Abacus", "provider": "torch 2"},
    "status": "ok",
    "message": None,
    "passes": ["forward_time", "backward_time"],
}


def install(
    folder: Path,
    printed: str | None = None,
    answer: dict[str, object] | None = ANSWER,
    extra: str = "",
    status: int = 0,
) -> None:
    """Write a program `ncu` into a folder, which prints this table and answers for its child."""
    folder.mkdir(exist_ok=True)
    (folder / "printed.csv").write_text(flash2() if printed is None else printed)
    (folder / "answer.json").write_text(json.dumps(answer))
    text = FAKE.format(python=sys.executable, folder=str(folder), extra=extra, status=status)
    (folder / "ncu").write_text(text)
    (folder / "ncu").chmod(0o755)
