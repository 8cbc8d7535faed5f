"""The rates at which a bench calls a kernel's file and a copy of it equal, and different.

Usage: PYTHONPATH=workflow python perf/identical_bench.py [--benches 20] [--seconds 1]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.implementations import KERNELS
from flashlab.compare.bench import DEFAULT_SHAPE, DTYPE
from flashlab.compare.bench_process import Patience
from flashlab.compare.interleave import ENDING, Candidate, Progress, measure_in_turns
from flashlab.compare.targets import Target, opened_targets
from flashlab.compare.words import INCONCLUSIVE
from flashlab.measuring.devices import claimed

PASS = "forward_time"


def bench_copies(targets: list[Target], device: str, seconds: float) -> tuple[str, Candidate]:
    """The verdict after the first process, and all that was measured of the second file."""
    shape, dtype = DEFAULT_SHAPE[device], DTYPE[device]
    runs = [attention_run(t.implementation.name, shape, dtype, device) for t in targets]
    candidates = [Candidate(target, run) for target, run in zip(targets, runs, strict=True)]
    copy, provisional = candidates[1], INCONCLUSIVE
    with claimed(device) as variables:
        for progress in measure_in_turns(
            ATTENTION, candidates, [PASS], seconds, variables, Patience(None)
        ):
            if progress == Progress(ENDING, 0) and PASS in copy.looks:
                provisional = copy.looks[PASS].verdict(ATTENTION.metric(PASS))
    return provisional, copy


def main() -> None:
    """Bench FlashAttention-2's file against its copy, again and again, and count the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benches", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    device = machine.detect_device("auto")
    provisional, final = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("one.py", "copy.py")]
        for path in paths:
            shutil.copy(KERNELS / "flash2.py", path)
        for _ in range(arguments.benches):
            begin = time.monotonic()
            with opened_targets(list(map(str, paths))) as targets:
                first, copy = bench_copies(targets, device, arguments.seconds)
            look = copy.looks.get(PASS)
            verdict = f"{copy.status}: {copy.message}"
            if look is not None:
                verdict = look.verdict(ATTENTION.metric(PASS))
            provisional[first] += 1
            final[verdict] += 1
            told = f"{look.ratio:.4f} [{look.low:.4f}, {look.high:.4f}]" if look else ""
            print(
                f"{verdict} {told}, at first {first}, {time.monotonic() - begin:.1f} s", flush=True
            )
    print(f"final: {dict(final)}; provisional: {dict(provisional)}")


if __name__ == "__main__":
    main()
