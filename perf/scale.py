"""The growth of each stage's time and memory with the number of runs.

Plans N runs, writes their records with a fake measurement, and makes tables, observations, figures,
report. Prints the CPU seconds and the memory of each stage, in a process of its own, at each N.
Usage: PYTHONPATH=workflow python perf/scale.py [N ...]
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.config import read_layer
from flashlab.figures.stage import draw_figures
from flashlab.plan.digests import write_digests
from flashlab.plan.make import make
from flashlab.plan.plan_files import experiment_file
from flashlab.plan.value import Plan, write_views
from flashlab.records import Measurement, Record, write_record
from flashlab.report.render import FIGURES, write_page, write_report
from flashlab.runs import Run
from flashlab.story.stage import observe

ROOT = Path(__file__).parents[1]
LINKED = ("Snakefile", "workflow", "kernels", "profiles", "templates", "envs", "data")
NAMES = ("Pytorch", "Flash2", "SdpaCudnn", "SdpaEfficient", "Flash4")
SIZES = tuple(128 * i for i in range(1, 41))
SAMPLES = 20

Cost = tuple[float, float]
"""Seconds of CPU, and MiB at the peak."""


def write_config(runs: int) -> None:
    """Experiments of 40 sizes and five implementations each."""
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
    summary = {"cuda": shape, "cpu": shape, "implementations": list(NAMES)}
    config = {"device": "cpu", "replicates": 1, "counters": "no", "summary": summary}
    Path("config").mkdir()
    Path("config/config.yaml").write_text(json.dumps({**config, "experiments": experiments}))


def write_records(planned: Plan) -> None:
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
            environment={"device_name": "a CPU", "packages": {"torch": "1.0"}},
            sources={"process": order["process"]},
            started="2026-01-02T03:04:05+00:00",
        )
        write_record(Path(name), record)


def cost_of(work: Callable[[], object]) -> Cost:
    """Time and memory of some work in a process of its own, whose output goes to a file."""
    if (pid := os.fork()) == 0:
        log, status = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)
    _, status, used = os.wait4(pid, 0)
    if status:
        sys.exit(Path("log").read_text()[-3000:])
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def costs_of(runs: int) -> Iterator[tuple[str, Cost]]:
    """Time and memory of each stage for this many runs, in the working folder."""
    write_config(runs)
    config = read_layer(Path("config/config.yaml"))
    dry = [sys.executable, "-m", "snakemake", "records", "--dry-run", "--quiet", "all"]
    yield "dry run, nothing measured", cost_of(lambda: os.execv(sys.executable, dry))
    planned = make(config)
    write_views(planned.views)
    write_records(planned)
    yield "plan, all records read", cost_of(lambda: make(config))
    home = Path(planned.home)
    for path in sorted(home.joinpath("records").iterdir()):
        write_digests(path)
    yield "plan, all records known by their digests", cost_of(lambda: make(config))
    tables, plans = home / "tables", [experiment_file(home, name) for name in planned.experiments]
    resolved, languages = home / "plan" / "config.json", home / "plan" / "languages.json"
    figures = (plans, tables, None, languages, home / FIGURES, home / "overview")
    stages: dict[str, tuple[Callable[..., object], tuple[object, ...]]] = {
        "tables": (make_tables, (home, None, tables)),
        "observations": (observe, (plans, tables, None, home / "observations.json")),
        "figures": (draw_figures, figures),
        "report": (write_report, (resolved, home, None, home / "lab5.pdf")),
        "page": (write_page, (resolved, home, None, home / "lab5.html")),
    }
    for stage, (function, arguments) in stages.items():
        yield stage, cost_of(partial(function, *arguments))


def main() -> None:
    """Print each stage's CPU seconds and MiB at each number of runs."""
    for runs in [int(argument) for argument in sys.argv[1:]] or [1000, 10_000]:
        with tempfile.TemporaryDirectory(prefix="flashlab-") as folder:
            for name in LINKED:
                Path(folder, name).symlink_to(ROOT / name)
            os.chdir(folder)
            for stage, (seconds, size) in costs_of(runs):
                print(f"{runs} runs: {stage}: {seconds:.1f} s, {size:.0f} MiB", flush=True)
            os.chdir(ROOT)


if __name__ == "__main__":
    main()
