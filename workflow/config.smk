# The configuration in its layers: the file of the benchmark that the call is about, the
# --configfile files, and --config.

import gc
import sys
from dataclasses import replace
from pathlib import Path

gc.freeze()  # no collection need go through what Snakemake has imported

# This file's folder holds the package, also where the pipeline is a module of another workflow.
WORKFLOW = Path(str(workflow.current_basedir))
ROOT = WORKFLOW.parent
if str(WORKFLOW) not in sys.path:
    sys.path.insert(0, str(WORKFLOW))

from flashlab.benchmarks.registry import DEFAULT
from flashlab.config import ConfigError, Layer, config_file, override_layer, read_layer
from flashlab.calls.selection import asked_benchmark, refuse_unknown_report
from snakemake.exceptions import WorkflowError

if {"{", "}"} & set(str(ROOT)):
    raise WorkflowError(
        f"Snakemake takes braces in a path for a wildcard; rename this folder: {ROOT}"
    )

OWN_FILES = [Path(file) for file in workflow.overwrite_configfiles]


def read_base(file, benchmark):
    """The file that this call's own layers are laid over; it may be absent if there are such."""
    layer = read_layer(file) if file.exists() or not OWN_FILES else Layer(str(file), {})
    return replace(layer, keys={**layer.keys, "benchmark": benchmark}) if benchmark else layer


CONFIG_FILE = config_file(DEFAULT.name)

# A module's configuration is what the workflow that uses it gives, and that alone.
if workflow.modifier.skip_configfile:
    FILES = dict.fromkeys(map(str, [*workflow.configfiles, *OWN_FILES]))
    BASE, OWN = Layer(", ".join(FILES) or "the module's config", config), []
else:
    try:
        # Snakemake reads these too, but does not say where in a file a mistake is, and takes the
        # numbers in the nested values of --config for text.
        overrides = override_layer(workflow.config_settings.config_args or ())
        OWN = [*map(read_layer, OWN_FILES), overrides]
        if workflow.is_main_process:
            refuse_unknown_report(sys.argv[1:])
        ASKED = asked_benchmark(sys.argv[1:], OWN) if workflow.is_main_process else None
        CONFIG_FILE = config_file(ASKED or DEFAULT.name)
        BASE = read_base(CONFIG_FILE, ASKED)
    except ConfigError as error:
        raise WorkflowError(str(error)) from None


configfile: str(CONFIG_FILE)
