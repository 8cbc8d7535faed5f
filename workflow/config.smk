# The configuration in its layers: config/config.yaml, the --configfile files, and --config.

import sys
from pathlib import Path

# This file's folder holds the package, also where the pipeline is a module of another workflow.
WORKFLOW = Path(str(workflow.current_basedir))
ROOT = WORKFLOW.parent
if str(WORKFLOW) not in sys.path:
    sys.path.insert(0, str(WORKFLOW))

from flashlab.config import ConfigError, Layer, merged, parse_override, read_layer
from snakemake.exceptions import WorkflowError

CONFIG_FILE = Path("config/config.yaml")
OWN_FILES = [Path(file) for file in workflow.overwrite_configfiles]


def read_base():
    """The file that this call's own layers are laid over; it may be absent if there are such."""
    if CONFIG_FILE.exists() or not OWN_FILES:
        return read_layer(CONFIG_FILE)
    return Layer(str(CONFIG_FILE), {})


def read_own_layers():
    """The layers that this call itself gives.

    Snakemake reads them too, but does not say where in a file a mistake is, and takes the numbers
    in the nested values of --config for text.
    """
    overrides = {}
    for argument in workflow.config_settings.config_args or ():
        overrides = merged(overrides, parse_override(argument))
    return [*map(read_layer, OWN_FILES), Layer("--config", overrides)]


# A module's configuration is what the workflow that uses it gives, and that alone.
if workflow.modifier.skip_configfile:
    FILES = dict.fromkeys(map(str, [*workflow.configfiles, *OWN_FILES]))
    BASE, OWN = Layer(", ".join(FILES) or "the module's config", config), []
else:
    try:
        BASE, OWN = read_base(), read_own_layers()
    except ConfigError as error:
        raise WorkflowError(str(error)) from None


configfile: "config/config.yaml"
