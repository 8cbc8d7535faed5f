# The plan of the call (`flashlab.plan`), which the rules read, and inputs that several of them share.

import atexit
import gc
import json
import math
import os
import shlex
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError

gc.freeze()  # no collection need go through what Snakemake has imported
atexit.register(gc.freeze)  # at its end, Python otherwise takes 0.3 s to free what ends with it

# This file's folder is beside the package, also where the pipeline is a module of another workflow.
WORKFLOW = Path(str(workflow.current_basedir)).parent
ROOT = WORKFLOW.parent
sys.path.insert(0, str(WORKFLOW))

from flashlab.analysis.experiment import OBSERVATIONS, OF_DATASET, table_names
from flashlab.benchmarks.registry import find_benchmark
from flashlab.config import Layer, config_file
from flashlab.plan import call
from flashlab.plan.plan_files import read_plan
from flashlab.plan.views import shown_file
from flashlab.plan.watching import WORKFLOW_PID
from flashlab.records import COUNTERS
from flashlab.sources import sources_of

if {"{", "}"} & set(str(ROOT)):
    raise WorkflowError(
        f"Snakemake takes braces in a path for a wildcard; rename this folder: {ROOT}"
    )

# Jobs run the package of this folder with the Python that runs Snakemake, and end with this call.
search_path = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
os.environ.update({"PATH": os.pathsep.join(search_path), WORKFLOW_PID: str(os.getpid())})
import_path = os.pathsep.join(filter(None, [str(WORKFLOW), os.environ.get("PYTHONPATH")]))
shell.prefix(f"export PYTHONPATH={shlex.quote(import_path)}; ")

BEGAN = time.time()
if not workflow.is_main_process:
    PLAN, FOLDER = read_plan(), Path()
else:
    try:
        if workflow.modifier.skip_configfile:  # a module's configuration is what it is given
            files = dict.fromkeys((*workflow.configfiles, *workflow.overwrite_configfiles))
            layers = Layer(", ".join(map(str, files)) or "the module's config", config), []
        else:
            layers = call.layers_of(
                sys.argv[1:],
                map(Path, workflow.overwrite_configfiles),
                workflow.config_settings.config_args or (),
            )
        PLAN, FOLDER = call.begin(*layers, sys.argv[1:], dry=workflow.output_settings.dryrun)
    except call.ERRORS as error:
        raise WorkflowError(str(error)) from None


configfile: str(config_file(PLAN.benchmark))


HOME, REPORT = PLAN.home, PLAN.report
VIEWS = str(FOLDER / HOME / "plan")
EXPERIMENTS = f"{VIEWS}/experiments.json"
RECORDS = PLAN.records
TABLES = expand(
    f"{HOME}/tables/{{name}}/{{table}}.csv",
    name=PLAN.experiments,
    table=table_names(find_benchmark(PLAN.benchmark)),
) + [f"{HOME}/{name}" for name in OF_DATASET]
# What the commands of the stages after the records are given.
GIVEN = f"--results {HOME}"
GIVEN += f" --ceilings {shlex.quote(PLAN.ceilings)}" if PLAN.ceilings else ""
FONTS = sorted(map(str, ROOT.glob("templates/fonts/*.ttf")))
DEVICES = str(ROOT / "data" / "devices.csv")

# What a cluster is asked for: the minutes of a measuring job, its time limit and one to start, and
# the MB of memory of one that measures and of one that reads all runs for the report.
RUNTIME = math.ceil(PLAN.config["measure"]["timeout_s"] / 60) + 1
MEMORY = PLAN.config["memory_mb"]


onstart:
    if workflow.is_main_process and workflow.local_exec:
        # The limit's timer runs for a second from the last job on, and Snakemake waits for it.
        workflow.scheduler.job_rate_limiter = None
        if any(
            str(job.rule).startswith(("measure", "ceilings"))
            for job in workflow.dag.needrun_jobs()
        ):
            from flashlab.measuring.supervise import start_server

            start_server(os.getpid())  # while the first job starts


def say(lines):
    """Print lines at the end of a call, which FlashLab's own logger says itself."""
    if "flashlab" not in workflow.output_settings.log_handler_settings:
        print(*dict.fromkeys(lines), sep="\n", end="\n" * bool(lines), file=sys.stderr)


onerror:
    old = [f for j in workflow.dag.needrun_jobs() for f in j.output if f.startswith("report/")]
    say([f"{f} is still the one from before this call." for f in old if Path(f).exists()])


onsuccess:  # in the reports' logs are characters without a glyph
    logs = [Path(HOME, "logs", f"{name}.log") for name in ("report", "page")]
    made = [log for log in logs if log.is_file() and log.stat().st_mtime >= BEGAN]
    lines = [line for log in made for line in log.read_text(encoding="utf-8").splitlines()]
    say([line for line in lines if line.startswith("warning: ")])


def redone(wildcards):
    """An input function without inputs, by which the plan's `redo` is made again.

    It is as if `--forcerun` named those files, except that none becomes a target. Jobs take it as
    input whose outputs depend on nothing else.
    """
    workflow.dag.forcefiles.update(PLAN.redo)
    return []


def sources(*modules):
    """An input function: the package's files that a stage depends on, found where it is planned."""
    return lambda wildcards: sorted({str(path) for each in modules for path in sources_of(each)})


def templates(*patterns):
    """The files of templates/ of these patterns."""
    return sorted(str(path) for each in patterns for path in ROOT.glob(f"templates/{each}"))


def labels(domain):
    """The file of a domain's texts, in both languages."""
    return str(ROOT / "templates" / "labels" / f"{domain}.toml")


# What to measure, by record. Rules beside the pipeline add the runs that they need.
ORDERS = dict(PLAN.orders)
RANKS = {file: len(ORDERS) - rank for rank, file in enumerate(ORDERS)}

# The runs of a block follow one another on one GPU of the host: each GPU is a resource of its own,
# for the job that measures on it and one that starts up meanwhile and waits for its lock. On a
# cluster, a block is a group of jobs.
GPUS = workflow.global_resources.get("gpu")
CARDS = (GPUS.value or 0) if GPUS and PLAN.device == "cuda" and workflow.local_exec else 0
for card in range(CARDS):
    workflow.register_resource(f"card{card}", 2)


def record_of(wildcards):
    return f"{HOME}/records/{wildcards.record}.json"


def block_of(wildcards):
    """The group of jobs on a cluster: a block, or a run whose counters are read."""
    order = ORDERS[record_of(wildcards)]
    return f"{order['protocol']['name']}{order['card']}"


def on_card(card):
    """An input function: the share of a card that a job takes, all of its own to read counters."""

    def share(wildcards):
        order = ORDERS[record_of(wildcards)]
        whole = 2 if order["protocol"]["name"] == COUNTERS else 1
        return whole if order["card"] % CARDS == card else 0

    return share


def gpu_resources():
    """The resources of a job that measures on a GPU: of a card, or all where it is to be alone."""
    if CARDS and PLAN.config["alone"]:
        return {"gpu": CARDS}
    cards = {f"card{card}": on_card(card) for card in range(CARDS)}
    return {"gpu": int(PLAN.device == "cuda" and not cards), **cards}
