"""The pipeline against the course's way: a shell loop of lab5.py over the same runs.

Both measure the lab's 34 runs and the slide's two, by protocol lab5, side by side on this machine,
from nothing: the loop with a fresh interpreter a run, the pipeline through `snakemake --cores 1
records`. Usage: python perf/shell_loop.py FOLDER, a fresh clone that may be measured in.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

CONFIGS = ("config/config.yaml", "config/record/lab5.yaml")


def planned_runs(clone: Path) -> list[list[str]]:
    """The command line of lab5.py for each run, as the pipeline plans them."""
    sys.path.insert(0, str(clone / "workflow"))
    from flashlab import machine
    from flashlab.benchmarks.implementations import find_implementations
    from flashlab.benchmarks.registry import DEFAULT
    from flashlab.config import read_layer, resolve_config
    from flashlab.plan import planning as plan

    layers = [read_layer(clone / name) for name in CONFIGS]
    resolved = resolve_config(layers, find_implementations())
    device = machine.detect_device("auto")
    experiments = plan.experiments(resolved, DEFAULT, device)
    runs = dict.fromkeys(run for e in experiments for run in e.runs("float32", device))
    return [
        [
            *("--impl", run.implementation),
            *("--batch_size", str(run["batch_size"])),
            *("--seq_len", str(run["seq_len"])),
            *("--num_heads", str(run["num_heads"])),
            *("--emb_dim", str(run["emb_dim"])),
            *(["--causal"] if run["causal"] else []),
        ]
        for run in runs
    ]


def main(clone: Path) -> None:
    """Time both and print the ratio."""
    runs = planned_runs(clone)
    begin = time.monotonic()
    for run in runs:
        command = [sys.executable, "lab5.py", *run, "--output", "benchmark_result.json"]
        subprocess.run(command, cwd=clone, check=True, stdout=subprocess.DEVNULL)
    loop = time.monotonic() - begin
    for made in ("results", ".snakemake"):
        shutil.rmtree(clone / made, ignore_errors=True)
    command = [*(sys.executable, "-m", "snakemake", "--cores", "1", "records")]
    command += ["--configfile", CONFIGS[1]]
    begin = time.monotonic()
    subprocess.run(command, cwd=clone, check=True, capture_output=True)
    pipeline = time.monotonic() - begin
    print(f"{len(runs)} runs: shell loop {loop:.1f} s, pipeline {pipeline:.1f} s, ", end="")
    print(f"ratio {pipeline / loop:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
