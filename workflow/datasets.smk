# What the rules that keep datasets share. Only rules/datasets.smk includes this file.

from flashlab.calls.recording import check_freezable


def named_config(wildcards):
    """The resolved configuration, for a call that says under which name to freeze."""
    if "name" not in PREPARED.config:
        raise WorkflowError("freeze: say under which name: snakemake freeze --config name=NAME")
    return f"{PLAN}/config.json"


def freeze_config(wildcards):
    """The resolved configuration, where what is planned can be frozen under the name."""
    config = named_config(wildcards)
    try:  # before anything is measured, not after
        check_freezable(PREPARED, PREPARED.config["name"])
    except call.PREPARATION_ERRORS as error:
        raise WorkflowError(str(error)) from None
    return config
