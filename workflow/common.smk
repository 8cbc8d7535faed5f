# What the rules share: the call's plan, look-ups by wildcard, and the shell's environment.

import atexit
import json
import math
import os
import shlex
import sys
import time
from pathlib import Path

from flashlab.calls import allocations, call, exclusive
from flashlab.benchmarks.registry import find_benchmark
from flashlab.config import ConfigError
from flashlab.plan.datasets import DatasetError, dataset_folder, refuse_overlap
from flashlab.plan.implementations import ImplementationError
from flashlab.machine import MachineError
from flashlab.plan.planning import PlanError
from flashlab.plan.plan_files import shown_file
from flashlab.measuring.start import start_warm_parent
from flashlab.plan.prepare import REPORTS, prepare, prepare_description
from flashlab.plan.source import DATA, LOCAL
from flashlab.plan.published import ClaimsError
from flashlab.records import COUNTERS
from flashlab.plan.remaking import ASKED_FOR, MISSING
from flashlab.config.model import MAX_PROCESSES
from flashlab.runs import Run
from flashlab.sources import sources_of
from flashlab.analysis.experiment import TABLES
from snakemake.exceptions import WorkflowError

# What the call's preparation raises with one message for the user.
PREPARATION_ERRORS = (
    ClaimsError,
    ConfigError,
    DatasetError,
    ImplementationError,
    MachineError,
    PlanError,
)

BEGAN = time.time()
CONDA = str(ROOT.joinpath("envs", "flashlab.yaml"))
FONTS = sorted(map(str, ROOT.joinpath("templates", "fonts").glob("*.ttf")))
CLAIMS = str(ROOT.joinpath("data", "published", "claims.yaml"))
DEVICES = str(ROOT.joinpath("data", "devices.csv"))
PUBLISHED = sorted(map(str, ROOT.joinpath("data", "published").glob("*.csv")))
LOCALES = ROOT.joinpath("templates", "locale")

# Jobs run the package of this folder with the Python that runs Snakemake. A measuring job watches
# the call it belongs to, and ends when that ends; on a cluster, the one that runs on the node.
SEARCH_PATH = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
os.environ.update({"PATH": os.pathsep.join(SEARCH_PATH)})
OWNS_JOBS = allocations.own_jobs(workflow.is_main_process)
IMPORT_PATH = filter(None, [str(WORKFLOW), os.environ.get("PYTHONPATH")])
shell.prefix(f"export PYTHONPATH={shlex.quote(os.pathsep.join(IMPORT_PATH))}; ")


def prepare_call():
    """The plan of this call, with its files written."""
    root = call.plan_root(in_place=CLAIM.held)
    # A machine is described before any run can be planned for it. While it reads the rules,
    # Snakemake itself does not know the targets yet.
    only_describes = "machine" in sys.argv[1:]
    try:
        prepared = (prepare_description if only_describes else prepare)(BASE, OWN)
    except PREPARATION_ERRORS as error:
        raise WorkflowError(str(error)) from None
    plan_files = call.PlanFiles(root)
    atexit.register(plan_files.take_back)
    plan_files.write(prepared.documents)
    call.write_remaking(prepared, root)
    if CLAIM.held:
        call.keep_call(prepared)
    for notice in call.notices(prepared.remade, unsurprising=[MISSING, ASKED_FOR]):
        print(f"Made again: {notice}", file=sys.stderr)
    return prepared, root, plan_files


if workflow.is_main_process:
    try:
        CLAIM = exclusive.FolderClaim(Path(".snakemake"))
    except OSError as error:
        raise WorkflowError(
            f"Results cannot be written in {Path.cwd()} ({error.filename}: {error.strerror}); "
            "make the call in a folder of your own, such as a clone."
        ) from None
    if not workflow.output_settings.dryrun:
        CLAIM.take()
    PREPARED, PLAN_ROOT, PLAN_FILES = prepare_call()
else:
    PREPARED, PLAN_ROOT = call.read_call(), call.IN_PLACE
    if OWNS_JOBS and PREPARED.orders and allocations.is_in_allocation():
        # Slurm ends what a job has started with the job; what is started here serves all of them.
        start_warm_parent()

HOME = PREPARED.home
REPORT = PREPARED.report
PLAN = str(PLAN_ROOT / HOME / "plan")
SHOWN = str(PLAN_ROOT / shown_file(REPORT))
REMAKING = str(call.remaking_file(PREPARED, PLAN_ROOT))

# The minutes that a measuring job may take on a cluster: its time limit, and one to start.
RUNTIME = math.ceil(PREPARED.config["measure"]["timeout_s"] / 60) + 1

# The MB of memory of a job that measures, and of one that reads all runs for the report.
MEMORY = PREPARED.config["memory_mb"]

# What to measure, by record file name. Rules beside the pipeline add the runs that they need.
ORDERS = dict(PREPARED.orders)


onstart:
    if workflow.is_main_process:
        if not CLAIM.held:
            raise WorkflowError(
                "Another snakemake call was working in this folder when this one began. "
                "Nothing was changed; wait for that one to end, then call again."
            )
        PLAN_FILES.keep()


onerror:
    # With FlashLab's own logger, its summary says so.
    if "flashlab" not in workflow.output_settings.log_handler_settings:
        for report in sorted(Path("report").glob("*.pdf")):
            if report.stat().st_mtime < BEGAN:
                print(f"{report} is still the one from before this call.", file=sys.stderr)


def sources(module):
    """An input function: the package's files that a stage depends on.

    An edit to one of them reruns that stage. They are looked for only where a call plans the stage.
    """

    def source_files(wildcards):
        return [str(path) for path in sources_of(module)]

    return source_files


def catalogs(domain):
    """The message catalogs of a domain, one a language."""
    return sorted(map(str, LOCALES.glob(f"*/LC_MESSAGES/{domain}.po")))


def remade(*outputs):
    """An input function: a file newer than all others where one of `outputs` must be made again.

    One that is missing needs no such input: it is made where a job that runs takes it as input.
    """

    def newer_input(wildcards):
        reasons = {PREPARED.remade.get(output.format(**wildcards), MISSING) for output in outputs}
        return [REMAKING] if reasons - {MISSING} else []

    return newer_input


def remade_report(kind, output):
    """An input function, as of `remade`, for a report: whatever it is made of is an input of it."""
    reports = {f"{folder}/{REPORT}.{each}" for folder in (HOME, "report") for each in REPORTS}
    others = reports - {f"{HOME}/{REPORT}.{kind}", output}

    def newer_input(wildcards):
        must_run = PREPARED.remade.keys() - others and Path(output).exists()
        return [REMAKING] if must_run else []

    return newer_input


def experiment_records(wildcards):
    """The records that an experiment's tables are made of."""
    return PREPARED.records[wildcards.experiment]


def written_tables_folder(wildcards, output):
    """The folder that an experiment's tables are written to."""
    return str(Path(output.runs).parent)


def all_tables_folder(wildcards, input):
    """The folder of all experiments' tables."""
    return str(Path(input.tables[0]).parents[1])


def results_folder(wildcards, input):
    """The folder of the dataset's results."""
    return str(Path(input.findings).parent)


def machine_option(wildcards):
    """The option that names the file of the machine that the plan is made for, if one is named."""
    return f"--machine {shlex.quote(PREPARED.machine)}" if PREPARED.machine else ""


def machine_description(wildcards):
    """The file of the machine that the call names."""
    if PREPARED.machine is None:
        raise WorkflowError(
            "machine: say under which name: snakemake machine --config machine=NAME"
        )
    return PREPARED.machine


def ceilings_option(wildcards):
    """The option that names the device's ceilings, where there are any."""
    return f"--ceilings {shlex.quote(PREPARED.ceilings)}" if PREPARED.ceilings else ""


def measure_order(wildcards):
    """What to measure for a record: the run and the protocol."""
    return json.dumps(ORDERS[f"{wildcards.record}.json"])


def measure_priority(wildcards):
    """The higher the earlier among the processes of its run."""
    return MAX_PROCESSES - ORDERS[f"{wildcards.record}.json"]["process"]


def counters_order(wildcards):
    """Which counters to read for a record: the run and the protocol."""
    return json.dumps(ORDERS[f"counters-{wildcards.record}.json"])


def import_entry(wildcards):
    """What to convert into a record: the run, the protocol and the original file."""
    return json.dumps(PREPARED.imports[f"{wildcards.record}.json"])


def freeze_config(wildcards):
    """The resolved configuration, for a call that says under which name to freeze."""
    if "name" not in PREPARED.config:
        raise WorkflowError("freeze: say under which name: snakemake freeze --config name=NAME")
    benchmark = find_benchmark(PREPARED.config["benchmark"])
    orders = [order for order in PREPARED.orders.values() if order["protocol"]["name"] != COUNTERS]
    planned = [(Run.of(benchmark, order["run"]), order["protocol"]["name"]) for order in orders]
    try:  # before anything is measured, not after
        refuse_overlap(dataset_folder(DATA, PREPARED.config["name"], benchmark), planned)
    except PREPARATION_ERRORS as error:
        raise WorkflowError(str(error)) from None
    return f"{PLAN}/config.json"
