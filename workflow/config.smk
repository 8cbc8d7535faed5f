# The configuration, checked before Snakemake reads it, whose message would name no line; then what
# --config gave, again and with its types, since Snakemake takes nested numbers for text.

from pathlib import Path

from flashlab.config import ConfigError, merged, parse_override, read_config
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

CONFIG_FILE = Path("config/config.yaml")
OWN_FILES = [Path(file) for file in workflow.overwrite_configfiles]
OVERRIDES = {}
OWN = {}

try:
    if CONFIG_FILE.exists() or not OWN_FILES:
        read_config(CONFIG_FILE)
    for argument in workflow.config_settings.config_args or ():
        OVERRIDES = merged(OVERRIDES, parse_override(argument))
    for part in (*map(read_config, OWN_FILES), OVERRIDES):
        OWN = merged(OWN, part)
except ConfigError as error:
    raise WorkflowError(str(error)) from None


configfile: "config/config.yaml"


update_config(config, OVERRIDES)
