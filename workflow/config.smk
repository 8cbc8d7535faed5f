# The configuration: config/config.yaml, the --configfile files, and --config merged into them.

import sys
from pathlib import Path

# This file's folder holds the package, also where the pipeline is a module of another workflow.
WORKFLOW = Path(str(workflow.current_basedir))
ROOT = WORKFLOW.parent
if str(WORKFLOW) not in sys.path:
    sys.path.insert(0, str(WORKFLOW))

from flashlab.config import ConfigError, merged, parse_override, read_config
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

CONFIG_FILE = Path("config/config.yaml")
OWN_FILES = [Path(file) for file in workflow.overwrite_configfiles]
OVERRIDES = {}
OWN = {}


def check_config_files():
    """Read the files before Snakemake does, which does not say where in them a mistake is."""
    if CONFIG_FILE.exists() or not OWN_FILES:
        read_config(CONFIG_FILE)
    for file in OWN_FILES:
        OWN.update(merged(OWN, read_config(file)))


def read_overrides():
    """Read --config with its types: Snakemake takes the numbers in nested values for text."""
    for argument in workflow.config_settings.config_args or ():
        OVERRIDES.update(merged(OVERRIDES, parse_override(argument)))
    OWN.update(merged(OWN, OVERRIDES))


# A module's configuration is what the workflow that uses it gives, and that alone.
if not workflow.modifier.skip_configfile:
    try:
        check_config_files()
        read_overrides()
    except ConfigError as error:
        raise WorkflowError(str(error)) from None


configfile: "config/config.yaml"


update_config(config, OVERRIDES)
