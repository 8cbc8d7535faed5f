"""The mutual disturbance of runs with short calls on several GPUs of one host.

Measures the same runs on one GPU alone, then on as many as asked for at once, by Snakemake as for a
report, and prints for each run the median alone, the median at once, and the ratio. Under the
protocol `lab5` a time includes the host's launches; under `sampled` it is the GPU's alone.
Usage: PYTHONPATH=workflow python perf/several_gpus.py [GPUS [DEVICE]]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import yaml
from project import project

PROCESSES = 3
PROTOCOLS = ("lab5", "sampled")
METRICS = ("forward_time", "backward_time")
NAMES = ["Pytorch", "Flash2", "SdpaCudnn"]
SHAPE = {"batch_size": 16, "seq_len": 128, "num_heads": 16, "emb_dim": 1024, "causal": False}
MARGIN = 0.05

Medians = dict[tuple[str, str, str], float]
"""The mean of the processes' medians in ms, by protocol, run and metric."""


def write_config(protocol: str, device: str) -> None:
    """Two short sequences of each implementation."""
    sweep = {**SHAPE, "seq_len": [128, 256]}
    experiment = {"name": "short", "sweep": "seq_len", "cuda": sweep, "cpu": sweep}
    experiment |= {"title": {"zh_TW": "短", "en": "Short"}, "implementations": NAMES}
    config = {
        "device": device,
        "measure": {"protocol": protocol},
        "replicates": PROCESSES,
        "counters": "no",
        "summary": {"cuda": SHAPE, "cpu": SHAPE, "implementations": NAMES},
        "experiments": [{**experiment, "figures": ["time"]}],
    }
    Path("config").mkdir(exist_ok=True)
    Path("config/config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True))


def measure(gpus: int, device: str) -> tuple[Medians, int]:
    """The medians on so many GPUs at once, and on how many the runs were measured."""
    samples = defaultdict(list)
    used = set()
    with project():
        for protocol in PROTOCOLS:
            write_config(protocol, device)
            command = [sys.executable, "-m", "snakemake", "records", "--cores", str(os.cpu_count())]
            with open("log", "w") as log:
                done = subprocess.run(
                    [*command, "--resources", f"gpu={gpus}"], stdout=log, stderr=log, check=False
                )
            if done.returncode:
                sys.exit(Path("log").read_text()[-3000:])
        for path in Path("results/local/records").iterdir():
            if path.name.startswith("ceilings-"):
                continue
            record = json.loads(path.read_text())["record"]
            run = f"{record['run']['implementation']} N{record['run']['seq_len']}"
            used.add(record["environment"]["gpu_uuid"])
            for metric in METRICS if record["status"] == "ok" else ():
                measured = record["metrics"][metric]["value"]
                samples[record["protocol"]["name"], run, metric].append(measured)
    return {key: statistics.fmean(values) for key, values in samples.items()}, len(used)


def main() -> None:
    """Print a row for each run and metric, and how many are within the margin."""
    gpus = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    device = sys.argv[2] if len(sys.argv) > 2 else "cuda"
    alone, _ = measure(1, device)
    together, used = measure(gpus, device)
    print(f"protocol, run, metric: alone ms, on {used} of {gpus} GPUs at once ms, ratio")
    ratios = defaultdict(list)
    for key in sorted(alone.keys() & together.keys()):
        ratio = together[key] / alone[key]
        ratios[key[0]].append(ratio)
        print(f"{', '.join(key)}: {alone[key]:.4f}, {together[key]:.4f}, {ratio:.3f}")
    for protocol, found in ratios.items():
        near = sum(abs(ratio - 1) <= MARGIN for ratio in found)
        middle = statistics.median(found)
        print(
            f"{protocol}: {near} of {len(found)} within 5%, median ratio {middle:.3f}, "
            f"largest {max(found):.3f}"
        )


if __name__ == "__main__":
    main()
