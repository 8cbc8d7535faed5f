# What the rules that keep datasets share. Only rules/datasets.smk includes this file.

from flashlab.benchmarks.registry import find_benchmark
from flashlab.plan.datasets import dataset_folder, refuse_overlap
from flashlab.records import COUNTERS
from flashlab.runs import Run


def freeze_config(wildcards):
    """The resolved configuration, for a call that says under which name to freeze."""
    if "name" not in PREPARED.config:
        raise WorkflowError("freeze: say under which name: snakemake freeze --config name=NAME")
    benchmark = find_benchmark(PREPARED.config["benchmark"])
    orders = [order for order in PREPARED.orders.values() if order["protocol"]["name"] != COUNTERS]
    planned = [(Run.of(benchmark, order["run"]), order["protocol"]["name"]) for order in orders]
    try:  # before anything is measured, not after
        refuse_overlap(dataset_folder(DATA, PREPARED.config["name"], benchmark), planned)
    except call.PREPARATION_ERRORS as error:
        raise WorkflowError(str(error)) from None
    return f"{PLAN}/config.json"
