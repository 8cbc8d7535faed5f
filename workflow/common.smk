# What the rules share: the prepared plan, the look-ups by wildcard, and the shell's environment.

import json
import os
import shlex
import sys
from pathlib import Path

from flashlab import exclusive
from flashlab.config import ConfigError
from flashlab.datasets import DatasetError
from flashlab.implementations import ImplementationError
from flashlab.machine import MachineError
from flashlab.measuring.supervise import WORKFLOW_PID
from flashlab.plan import PlanError
from flashlab.prepare import DATA, LOCAL, prepare
from flashlab.sources import sources_of
from snakemake.common.configfile import load_configfile
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

OVERRIDES = workflow.config_settings.config or {}
OWN_FILES = [Path(file) for file in workflow.overwrite_configfiles]
OWN_KEYS = {key for file in OWN_FILES for key in load_configfile(file)} | OVERRIDES.keys()

try:
    PREPARED = prepare(config, [*map(Path, workflow.configfiles), *OWN_FILES], OVERRIDES, OWN_KEYS)
except (ConfigError, DatasetError, ImplementationError, MachineError, PlanError) as error:
    raise WorkflowError(str(error)) from None


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
    return json.dumps(PREPARED.orders[f"{wildcards.record}.json"])


def import_entry(wildcards):
    """What to convert into a record: the run, the protocol and the original file."""
    return json.dumps(PREPARED.imports[f"{wildcards.record}.json"])


def freeze_config(wildcards):
    """The resolved configuration, which must say under which name to freeze."""
    if "name" not in config:
        raise WorkflowError("freeze: say under which name: snakemake freeze --config name=NAME")
    return "report/config.json"
