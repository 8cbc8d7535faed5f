# What the rules share: the prepared plan, the look-ups by wildcard, and the shell's environment.

import json
import os
import shlex
import sys
from pathlib import Path

from flashlab import exclusive
from flashlab.config import ConfigError
from flashlab.datasets import DatasetError
from flashlab.grading.order import order_grading
from flashlab.implementations import ImplementationError, find_implementations
from flashlab.machine import MachineError
from flashlab.measuring.supervise import WORKFLOW_PID
from flashlab.plan import PlanError
from flashlab.prepare import DATA, LOCAL, prepare
from flashlab.sources import sources_of
from snakemake.exceptions import WorkflowError

ROOT = Path(workflow.basedir)
CONDA = str(ROOT.joinpath("envs", "flashlab.yaml"))
FONTS = sorted(map(str, ROOT.joinpath("templates", "fonts").glob("*.ttf")))
CLAIMS = str(ROOT.joinpath("data", "published", "claims.yaml"))
LOCALES = ROOT.joinpath("templates", "locale")

# Jobs run the package of this folder with the Python that runs Snakemake. A measuring job watches
# the call it belongs to, and ends when that ends.
SEARCH_PATH = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
os.environ.update({"PATH": os.pathsep.join(SEARCH_PATH), WORKFLOW_PID: str(os.getpid())})
IMPORT_PATH = filter(None, [str(ROOT.joinpath("workflow")), os.environ.get("PYTHONPATH")])
shell.prefix(f"export PYTHONPATH={shlex.quote(os.pathsep.join(IMPORT_PATH))}; ")

if workflow.is_main_process:
    CLAIM = exclusive.FolderClaim(Path(".snakemake"))
    CLAIM.take()

try:
    PREPARED = prepare(config, [*map(Path, workflow.configfiles), *OWN_FILES], OVERRIDES, OWN)
    GRADING = order_grading(PREPARED.config, find_implementations(), workflow.is_main_process)
except (ConfigError, DatasetError, ImplementationError, MachineError, PlanError) as error:
    raise WorkflowError(str(error)) from None

# What to measure by record: the experiments' runs, and those that grading measures again.
ORDERS = {**PREPARED.orders, **GRADING.orders}


onstart:
    if workflow.is_main_process:
        CLAIM.keep()


def sources(module):
    """The package's files that a stage stands on: an edit to one of them reruns that stage."""
    return [str(path) for path in sources_of(module)]


def catalogs(domain):
    """The message catalogs of a domain, one a language."""
    return sorted(map(str, LOCALES.glob(f"*/LC_MESSAGES/{domain}.po")))


def experiment_records(wildcards):
    """The records that an experiment's tables are made of."""
    return PREPARED.records[wildcards.experiment]


def tables_folder(wildcards, input):
    """The folder of an experiment's tables."""
    return str(Path(input.plan).parents[1].joinpath("tables", wildcards.experiment))


def all_tables_folder(wildcards):
    """The folder of all experiments' tables."""
    return f"results/{wildcards.dataset}/tables"


def ceilings_option(wildcards):
    """The option that names the device's ceilings, where there are any."""
    return f"--ceilings {shlex.quote(PREPARED.ceilings)}" if PREPARED.ceilings else ""


def results_folder(wildcards, input):
    """The folder of the dataset's results."""
    return str(Path(input.findings).parent)


def measure_order(wildcards):
    """What to measure for a record: the run and the protocol."""
    return json.dumps(ORDERS[f"{wildcards.record}.json"])


def import_entry(wildcards):
    """What to convert into a record: the run, the protocol and the original file."""
    return json.dumps(PREPARED.imports[f"{wildcards.record}.json"])


def freeze_config(wildcards):
    """The resolved configuration, which must say under which name to freeze."""
    if "name" not in config:
        raise WorkflowError("freeze: say under which name: snakemake freeze --config name=NAME")
    return "report/config.json"


def grading_order(wildcards):
    """The order to grade, which there is only where a call names a folder of submissions."""
    if GRADING.kind != "submissions":
        raise WorkflowError(
            "grades: say what to grade: snakemake report/grades.pdf --config submissions=DIR"
        )
    return GRADING.path


def verification_order(wildcards):
    """The order to verify a report, which there is only where a call names one."""
    if GRADING.kind != "pdf":
        raise WorkflowError("verify: say which report: snakemake verify --config pdf=PATH")
    return GRADING.path
