"""The growth of each stage's time and memory with the number of runs.

Plans N runs for each of eight machines, known only by their descriptions, writes the records of one
of them with a fake measurement, and makes its tables, observations, figures, report. Prints the CPU
seconds and the memory of each stage at each N, and the exponent with which its time grows. The jobs
of a stage share a process here, so that the start of the interpreter counts once.
Usage: PYTHONPATH=workflow python perf/scale.py [N ...]
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml
from project import project

from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import find_implementations
from flashlab.calls.call import PlanFiles
from flashlab.calls.digests import write_digests
from flashlab.calls.prepare import Prepared, prepare
from flashlab.config import Layer, read_layer
from flashlab.figures.kept import draw_figures
from flashlab.figures.stage import draw_overview
from flashlab.plan.machines import machine_file
from flashlab.plan.plan_files import experiment_file
from flashlab.records import Measurement, Record, write_record
from flashlab.report.layout import write_layout
from flashlab.report.render import FIGURES, HEIGHTS, LAYOUT, write_page, write_report
from flashlab.runs import Run
from flashlab.story.stage import observe

MACHINES = 8
NAMES = ("Pytorch", "Flash2", "SdpaCudnn", "SdpaEfficient", "Flash4")
SIZES = tuple(128 * i for i in range(1, 41))
SAMPLES = 20

Cost = tuple[float, float]
"""Seconds of CPU, and MiB at the peak."""


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


def cost_of(work: Callable[[], object]) -> Cost:
    """Time and memory of some work in a process of its own, whose output goes to a file."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with open("log", "w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    _, status, used = os.wait4(pid, 0)
    if status:
        sys.exit(Path("log").read_text()[-3000:])
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def dry_run() -> Cost:
    """Time and memory of Snakemake's dry run: the plan, and its own graph."""
    command = [sys.executable, "-m", "snakemake", "records", "--dry-run"]
    return cost_of(
        lambda: os.execv(sys.executable, [*command, "--config", "machine=node0", "--quiet", "all"])
    )


def plan(machine: int) -> Prepared:
    """The plan for a machine."""
    config = read_layer(Path("config/config.yaml"))
    return prepare(config, [Layer("--config", {"machine": f"node{machine}"})])


def costs_of(runs: int) -> Iterator[tuple[str, Cost]]:
    """Time and memory of each stage for this many runs."""
    with project():
        write_config(runs)
        yield "plans for eight machines", cost_of(lambda: [plan(i) for i in range(MACHINES)])
        yield "dry run, nothing measured", dry_run()
        planned = plan(0)
        PlanFiles(in_place=True).write(planned.documents)
        write_records(planned)
        yield "plan, all records read", cost_of(lambda: plan(0))
        for path in sorted(Path(planned.home, "records").iterdir()):
            write_digests(path)
        yield "plan, all records known by their digests", cost_of(lambda: plan(0))
        home = Path(planned.home)
        tables, plans = home / "tables", [experiment_file(home, e) for e in planned.experiments]
        observed, languages = home / "observations.json", home / "plan" / "languages.json"
        yield "tables", cost_of(lambda: make_tables(home, None, tables))
        yield "observations", cost_of(lambda: observe(plans, tables, None, observed))
        overview = home / "overview"
        yield (
            "overview",
            cost_of(
                lambda: draw_overview(plans, tables, home / "comparisons.csv", languages, overview)
            ),
        )
        config, report, page = (
            home / name for name in ("plan/config.json", "lab5.pdf", "lab5.html")
        )
        layout, heights, figures = (home / name for name in (LAYOUT, HEIGHTS, FIGURES))
        yield "layout", cost_of(lambda: write_layout(config, home, None, layout))
        yield (
            "figures",
            cost_of(lambda: draw_figures(plans, tables, None, languages, heights, 1, figures)),
        )
        yield "report", cost_of(lambda: write_report(config, home, None, report))
        yield "page", cost_of(lambda: write_page(config, home, None, page))


def main() -> None:
    """Print each stage's CPU seconds and MiB at each number of runs, and how the seconds grow."""
    numbers = [int(argument) for argument in sys.argv[1:]] or [1000, 10_000]
    found: dict[str, list[Cost]] = {}
    for runs in numbers:
        for stage, cost in costs_of(runs):
            print(f"{runs} runs: {stage}: {cost[0]:.1f} s, {cost[1]:.0f} MiB", flush=True)
            found.setdefault(stage, []).append(cost)
    if len(numbers) > 1:
        print("Exponents of the time:")
        for stage, costs in found.items():
            growth = math.log(costs[-1][0] / costs[0][0])
            print(f"{stage}: {growth / math.log(numbers[-1] / numbers[0]):.2f}")


if __name__ == "__main__":
    main()
