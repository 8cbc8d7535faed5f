# What the rules share: the call's plan, and inputs that several of them have.

import atexit
import gc
import json
import math
import os
import shlex
import sys
import time

from flashlab.analysis.experiment import COMPARISONS, OBSERVATIONS, OF_DATASET, table_names
from flashlab.benchmarks.registry import find_benchmark
from flashlab.calls import call
from flashlab.calls.watching import own_jobs
from flashlab.calls.digests import MISSING
from flashlab.calls.remaking import REPORT_ENDS
from flashlab.measuring.supervise import start_server
from flashlab.plan.source import DATA, LOCAL
from flashlab.sources import sources_of

BEGAN = time.time()
atexit.register(gc.freeze)  # at its end, Python otherwise takes 0.3 s to free what ends with it
CONDA = str(ROOT / "envs" / "flashlab.yaml")
FONTS = sorted(map(str, ROOT.glob("templates/fonts/*.ttf")))
DEVICES = str(ROOT / "data" / "devices.csv")

# Jobs run the package of this folder with the Python that runs Snakemake. A measuring job watches
# the call it belongs to, and ends when that ends; on a cluster, the one that runs on the node.
search_path = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
os.environ.update({"PATH": os.pathsep.join(search_path)})
LEADS_ALLOCATION = own_jobs(workflow.is_main_process)
import_path = os.pathsep.join(filter(None, [str(WORKFLOW), os.environ.get("PYTHONPATH")]))
shell.prefix(f"export PYTHONPATH={shlex.quote(import_path)}; ")

if workflow.is_main_process:
    try:
        CALL = call.begin(BASE, OWN, sys.argv[1:], dry=workflow.output_settings.dryrun)
    except (call.BusyError, *call.PREPARATION_ERRORS) as error:
        raise WorkflowError(str(error)) from None
    PREPARED, PLAN_ROOT = CALL.prepared, CALL.files.root
else:
    PREPARED, PLAN_ROOT = call.read_call(), call.IN_PLACE
    if LEADS_ALLOCATION and PREPARED.orders:
        # Slurm ends what a job has started with the job; what is started here serves all of them.
        start_server(os.getpid())

HOME = PREPARED.home
REPORT = PREPARED.report
PLAN = str(PLAN_ROOT / HOME / "plan")
PLANS = expand(f"{PLAN}/experiments/{{experiment}}.json", experiment=PREPARED.experiments)
SWEEPS = expand(f"{PLAN}/sweeps/{{experiment}}.json", experiment=PREPARED.experiments)
TABLES = expand(
    f"{HOME}/tables/{{experiment}}/{{table}}.csv",
    experiment=PREPARED.experiments,
    table=table_names(find_benchmark(PREPARED.config["benchmark"])),
) + [f"{HOME}/{name}" for name in OF_DATASET]
RECORDS = sorted({path for paths in PREPARED.records.values() for path in paths})

# What a cluster is asked for: the minutes of a measuring job, its time limit and one to start, and
# the MB of memory of one that measures and of one that reads all runs for the report.
RUNTIME = math.ceil(PREPARED.config["measure"]["timeout_s"] / 60) + 1
MEMORY = PREPARED.config["memory_mb"]

# What to measure, by record file name. Rules beside the pipeline add the runs that they need.
ORDERS = dict(PREPARED.orders)

# Options of commands that only some calls give.
CEILINGS = f"--ceilings {shlex.quote(PREPARED.ceilings)}" if PREPARED.ceilings else ""


onstart:
    if workflow.is_main_process:
        if workflow.local_exec:
            # The limit's timer runs for a second from the last job on, and Snakemake waits for it.
            workflow.scheduler.job_rate_limiter = None


onerror:
    # With FlashLab's own logger, its summary says so.
    if "flashlab" not in workflow.output_settings.log_handler_settings:
        for report in sorted(Path("report").glob("*.pdf")):
            if report.stat().st_mtime < BEGAN:
                print(f"{report} is still the one from before this call.", file=sys.stderr)


onsuccess:
    # FlashLab's own logger says so itself: in the reports' logs are characters without a glyph.
    if "flashlab" not in workflow.output_settings.log_handler_settings:
        logs = [Path(HOME, "logs", f"{name}.log") for name in ("report", "page")]
        made = [log for log in logs if log.is_file() and log.stat().st_mtime >= BEGAN]
        lines = [line for log in made for line in log.read_text(encoding="utf-8").splitlines()]
        for line in dict.fromkeys(lines):
            if line.startswith("warning: "):
                print(line, file=sys.stderr)


def sources(module):
    """An input function: the package's files that a stage depends on, found where it is planned."""
    return lambda wildcards: [str(path) for path in sources_of(module)]


def labels(domain):
    """The file of a domain's texts, in both languages."""
    return str(ROOT / "templates" / "labels" / f"{domain}.toml")


def remade(*outputs):
    """An input function: a file newer than all others where one of `outputs` must be made again.

    One that is missing needs no such input: it is made where a job that runs takes it as input.
    """

    def newer_input(wildcards):
        reasons = {PREPARED.remade.get(output.format(**wildcards), MISSING) for output in outputs}
        return f"{PLAN}/remade.json" if reasons - {MISSING} else []

    return newer_input


def remade_report(kind, output):
    """An input function, as of `remade`, for a report: whatever it is made of is an input of it."""
    reports = {f"{folder}/{REPORT}.{each}" for folder in (HOME, "report") for each in REPORT_ENDS}
    others = reports - {f"{HOME}/{REPORT}.{kind}", output}

    def newer_input(wildcards):
        must_run = PREPARED.remade.keys() - others and Path(output).exists()
        return f"{PLAN}/remade.json" if must_run else []

    return newer_input
