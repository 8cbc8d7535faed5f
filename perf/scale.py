"""The growth of each stage's time and memory with the number of runs.

Plans N runs, writes their records with a fake measurement, and makes tables, observations, figures,
report. Prints the CPU seconds and the memory of each stage, in a process of its own, at each N.
Usage: PYTHONPATH=workflow:tests python perf/scale.py [N ...]
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir
from functools import partial
from pathlib import Path

from planted.records import record_of

from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.config import read_layer
from flashlab.figures.stage import draw_figures
from flashlab.plan.digests import write_digests
from flashlab.plan.make import make
from flashlab.plan.plan_files import CONFIG, Plan, write_views
from flashlab.records import write_record
from flashlab.report.render import FIGURES, write_page, write_report
from flashlab.runs import Run
from flashlab.story.stage import observe

ROOT = Path(__file__).parents[1]
LINKED = ("Snakefile", "workflow", "kernels", "profiles", "templates", "envs", "data")
NAMES = ("Pytorch", "Flash2", "SdpaCudnn", "SdpaEfficient", "Flash4")
SIZES = tuple(128 * i for i in range(1, 41))


def write_config(runs: int) -> None:
    """Experiments of 40 sizes and five implementations each."""
    block = {"num_heads": 16, "emb_dim": 1024, "causal": False}
    own, experiments = {"implementations": list(NAMES)}, []
    for batch_size in range(1, runs // (len(SIZES) * len(NAMES)) + 1):
        sweep = {"batch_size": batch_size, "seq_len": list(SIZES), **block}
        title = {"zh_TW": f"批次大小 {batch_size}", "en": f"Batch size {batch_size}"}
        named = {"name": f"batch{batch_size}", "title": title, "sweep": "seq_len"}
        experiments.append({**named, "cuda": sweep, "cpu": sweep, **own, "figures": ["time"]})
    shape = {"batch_size": 1, "seq_len": 128, **block}
    config = {"device": "cpu", "replicates": 1, "counters": "no", "experiments": experiments}
    Path("config").mkdir()
    Path("config/config.yaml").write_text(
        json.dumps({**config, "summary": {"cuda": shape, "cpu": shape, **own}})
    )


def write_records(planned: Plan) -> None:
    """The planned records, of times that grow as attention's do, by a fake measurement."""
    for name, order in planned.orders.items():
        run, shape, noise = Run.of(ATTENTION, order["run"]), order["run"], random.Random(name)
        median = 1e-12 * shape["batch_size"] * shape["seq_len"] ** 2
        median *= 1 + NAMES.index(run.implementation)
        forward, backward = (
            [factor * median * math.exp(noise.gauss(0, 0.01)) for _ in range(20)]
            for factor in (1.0, 2.5)
        )
        own = {"protocol": order["protocol"], "sources": {"process": order["process"]}}
        write_record(Path(name), record_of(run, "ok", forward, backward, 1e3 * median, **own))


def print_cost(stage: str, work: Callable[[], object]) -> None:
    """Print time and memory of some work in a process of its own, whose output goes to a file."""
    if (pid := os.fork()) == 0:
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        work()
        os._exit(0)
    _, status, used = os.wait4(pid, 0)
    if status:
        sys.exit(f"{stage} failed:\n{Path('log').read_text()[-3000:]}")
    seconds = used.ru_utime + used.ru_stime
    print(f"{stage}: {seconds:.1f} s, {used.ru_maxrss / 1024:.0f} MiB", flush=True)


def print_costs(runs: int) -> None:
    """Time and memory of each stage for this many runs, in the working folder."""
    write_config(runs)
    config = read_layer(Path("config/config.yaml"))
    dry = [sys.executable, "-m", "snakemake", "records", "--dry-run", "--quiet", "all"]
    print_cost(f"{runs} runs: dry run", lambda: os.execv(sys.executable, dry))
    planned = make(config)
    write_views(planned.views)
    write_records(planned)
    print_cost("plan, all records read", lambda: make(config))
    home = Path(planned.home)
    for path in sorted(home.joinpath("records").iterdir()):
        write_digests(path)
    print_cost("plan, all records known by their digests", lambda: make(config))
    resolved, figures = home / CONFIG, (home / FIGURES, home / "overview")
    print_cost("tables", partial(make_tables, home, None, home / "tables"))
    print_cost("observations", partial(observe, home, None, home / "observations.json"))
    print_cost("figures", partial(draw_figures, home, None, *figures))
    print_cost("report", partial(write_report, resolved, home, None, home / "lab5.pdf"))
    print_cost("page", partial(write_page, resolved, home, None, home / "lab5.html"))


if __name__ == "__main__":
    for runs in [int(argument) for argument in sys.argv[1:]] or [1000, 10_000]:
        with tempfile.TemporaryDirectory(prefix="flashlab-") as folder, chdir(folder):
            for name in LINKED:
                Path(name).symlink_to(ROOT / name)
            print_costs(runs)
