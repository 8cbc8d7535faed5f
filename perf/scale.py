"""How the stages grow with the number of runs, on eight machines that none of them has.

Plans N runs for each of eight described machines, writes the records of one of them by a fake
measurement, and makes the tables, the findings, the figures and the report of them. Prints the
seconds and the memory of each stage at each N, and the exponent by which its time grows.
Usage: PYTHONPATH=workflow python perf/scale.py [N ...]
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.call import IN_PLACE, PlanFiles
from flashlab.config import Layer, read_layer
from flashlab.implementations import find_implementations
from flashlab.machines import machine_file
from flashlab.prepare import Prepared, prepare
from flashlab.records import Measurement, Record, write_record
from flashlab.runs import Run

ROOT = Path(__file__).parents[1]
MACHINES = 8
NAMES = ("Pytorch", "Flash2", "SdpaCudnn", "SdpaEfficient", "Flash4")
SIZES = tuple(128 * i for i in range(1, 41))
SAMPLES = 20
LINKED = ("Snakefile", "workflow", "kernels", "profiles", "templates", "envs", "data")

Cost = tuple[float, float]
"""Seconds and MiB at the peak."""


def write_config(runs: int) -> None:
    """Experiments of 40 sizes and five implementations each, and eight machines."""
    block = {"num_heads": 16, "emb_dim": 1024, "causal": False}
    experiments = []
    for index in range(runs // (len(SIZES) * len(NAMES))):
        sweep = {"batch_size": index + 1, "seq_len": list(SIZES), **block}
        title = {"zh_TW": f"批次大小 {index + 1}", "en": f"Batch size {index + 1}"}
        experiments.append(
            {"name": f"batch{index + 1}", "title": title, "sweep": "seq_len", "cuda": sweep}
            | {"cpu": sweep, "implementations": list(NAMES), "figures": ["time"]}
        )
    shape = {"batch_size": 1, "seq_len": 128, **block}
    config = {
        **{"replicates": 1, "experiments": experiments},
        "summary": {"cuda": shape, "cpu": shape, "implementations": list(NAMES)},
    }
    Path("config").mkdir()
    Path("config/config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    packages = {"torch", *(p for one in find_implementations().values() for p in one.packages)}
    for index in range(MACHINES):
        path = machine_file(f"node{index}")
        path.parent.mkdir(exist_ok=True)
        described = {"version": 1, "device": "cuda", "device_name": "NVIDIA H200", "ncu": None}
        described |= {"gpu_uuids": [], "driver": f"580.{index}"}
        path.write_text(json.dumps({**described, "packages": dict.fromkeys(packages, "1.0")}))


def write_records(planned: Prepared) -> None:
    """The planned records, of times that grow as attention's do, by a fake measurement."""
    for name, order in planned.orders.items():
        run = Run.of(ATTENTION, order["run"])
        shape = order["run"]
        scale = 1 + NAMES.index(run.implementation)
        ms = 1e-9 * scale * shape["batch_size"] * shape["seq_len"] ** 2
        noise = random.Random(name)
        metrics = {}
        for metric, factor in (("forward_time", 1.0), ("backward_time", 2.5)):
            samples = [ms * factor * math.exp(noise.gauss(0, 0.01)) for _ in range(SAMPLES)]
            metrics[metric] = Measurement(statistics.median(samples), tuple(samples), "interval")
        metrics["peak_memory"] = Measurement(ms)
        record = Record(
            **{"benchmark": "attention", "run": run, "status": "ok", "message": None},
            **{"protocol": order["protocol"], "metrics": metrics, "gate": None, "warnings": ()},
            environment={"device_name": "NVIDIA H200", "packages": {"torch": "1.0"}},
            sources={"process": order["process"]},
            started="2026-01-02T03:04:05+00:00",
        )
        write_record(Path(planned.home, "records", name), record)


def cost_of(*command: str) -> Cost:
    """What a command takes; its output goes to a file, which is shown where it fails."""
    begin = time.monotonic()
    with open("log", "w") as log:
        process = subprocess.Popen([sys.executable, "-m", *command], stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}\n{Path('log').read_text()[-3000:]}")
    return time.monotonic() - begin, used.ru_maxrss / 1024


@contextmanager
def project() -> Iterator[None]:
    """A folder with FlashLab in it."""
    with tempfile.TemporaryDirectory(prefix="flashlab-scale-") as folder:
        for name in LINKED:
            Path(folder, name).symlink_to(ROOT / name)
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def dry_run(machine: int) -> Cost:
    """What planning for a machine and Snakemake's own graph take."""
    named = ("--config", f"machine=node{machine}")
    return cost_of("snakemake", "records", "--dry-run", *named, "--quiet", "all")


def plan() -> Prepared:
    """The plan for the first machine, with its files written."""
    config, own = read_layer(Path("config/config.yaml")), Layer("--config", {"machine": "node0"})
    prepared = prepare(config, [own])
    PlanFiles(IN_PLACE).write(prepared.documents)
    return prepared


def costs_of(runs: int) -> dict[str, Cost]:
    """What each stage takes for this many runs."""
    with project():
        write_config(runs)
        found = {"dry run, nothing measured": dry_run(0)}
        for machine in range(1, MACHINES):
            dry_run(machine)
        planned = plan()
        write_records(planned)
        found["first dry run, all measured"] = dry_run(0)
        found["later dry run, all measured"] = dry_run(0)
        home, experiments = planned.home, planned.experiments
        plans = [f"{home}/plan/experiments/{name}.json" for name in experiments]
        tables = [
            cost_of(
                *("flashlab", "tables", "--plan", f"{home}/plan/records/{name}.json"),
                *("--output", f"{home}/tables/{name}"),
            )
            for name in experiments
        ]
        found["tables, one after the other"] = (
            sum(seconds for seconds, _ in tables),
            max(memory for _, memory in tables),
        )
        claims = str(ROOT / "data" / "published" / "claims.yaml")
        found["findings"] = cost_of(
            *("flashlab", "findings", "--tables", f"{home}/tables", "--claims", claims),
            *("--output", f"{home}/findings.json", *plans),
        )
        languages = f"{home}/plan/languages.json"
        figures = [
            cost_of(
                *("flashlab", "figures", "--plan", f"{home}/plan/experiments/{name}.json"),
                *("--tables", f"{home}/tables", "--languages", languages),
                *("--output", f"{home}/figures/{name}"),
            )
            for name in planned.drawn
        ]
        found["figures, one after the other"] = (
            sum(seconds for seconds, _ in figures),
            max(memory for _, memory in figures),
        )
        found["overview"] = cost_of(
            *("flashlab", "overview", "--tables", f"{home}/tables", "--languages", languages),
            *("--findings", f"{home}/findings.json", "--output", f"{home}/overview", *plans),
        )
        found["report"] = cost_of(
            *("flashlab", "report", "--config", f"{home}/plan/config.json", "--results", home),
            *("--output", f"{home}/lab5.pdf"),
        )
    return found


def main() -> None:
    """Print a table: a row for each stage, its seconds and MiB at each number of runs."""
    numbers = [int(argument) for argument in sys.argv[1:]] or [1000, 3000, 10_000]
    found = {runs: costs_of(runs) for runs in numbers}
    print("stage | " + " | ".join(f"{runs} runs" for runs in numbers) + " | exponent")
    for stage in found[numbers[0]]:
        costs = [found[runs][stage] for runs in numbers]
        cells = " | ".join(f"{seconds:.1f} s, {memory:.0f} MiB" for seconds, memory in costs)
        grown = math.nan
        if len(numbers) > 1:
            grown = math.log(costs[-1][0] / costs[0][0]) / math.log(numbers[-1] / numbers[0])
        print(f"{stage} | {cells} | {grown:.2f}")


if __name__ == "__main__":
    main()
