# Keeping local records as a recorded dataset, and taking in results of the course's script.

from flashlab.benchmarks.registry import find_benchmark
from flashlab.plan.datasets import dataset_folder, refuse_overlap
from flashlab.records import COUNTERS
from flashlab.runs import Run


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
    except call.PREPARATION_ERRORS as error:
        raise WorkflowError(str(error)) from None
    return f"{PLAN}/config.json"


if PREPARED.imports:

    # The original is no input: its name may hold braces, and its hash is in the record's name.
    rule import_record:
        input:
            remade=remade(f"{HOME}/records/{{record}}.json"),
        output:
            f"{HOME}/records/{{record}}.json",
        log:
            f"{HOME}/logs/import/{{record}}.log",
        localrule: True
        conda:
            CONDA
        params:
            entry=import_entry,
        message:
            "Importing {wildcards.record}"
        shell:
            "python -m flashlab import --entry {params.entry:q} --output {output:q} > {log:q} 2>&1"


if PREPARED.dataset == LOCAL and PREPARED.orders:

    rule freeze:
        input:
            config=freeze_config,
            records=sorted({path for paths in PREPARED.records.values() for path in paths}),
            ceilings=PREPARED.ceilings,
            plans=expand(f"{PLAN}/records/{{experiment}}.json", experiment=PREPARED.experiments),
        log:
            f"{HOME}/logs/freeze.log",
        localrule: True
        conda:
            CONDA
        params:
            name=PREPARED.config.get("name", ""),
            data=str(DATA),
        message:
            "Freezing the local records into {params.data}"
        shell:
            "python -m flashlab freeze --name {params.name:q} --config {input.config:q} "
            "--ceilings {input.ceilings:q} --data {params.data:q} {input.plans:q} > {log:q} 2>&1"


if PREPARED.orders:

    # Adds the counters to a recorded dataset of the same runs.
    rule freeze_counters:
        input:
            config=freeze_config,
            records=PREPARED.counters,
            plans=expand(f"{PLAN}/records/{{experiment}}.json", experiment=PREPARED.experiments),
        log:
            f"{HOME}/logs/freeze_counters.log",
        localrule: True
        conda:
            CONDA
        params:
            name=PREPARED.config.get("name", ""),
            data=str(DATA),
        message:
            "Adding the counters to the recorded dataset in {params.data}"
        shell:
            "python -m flashlab freeze-counters --name {params.name:q} --data {params.data:q} "
            "{input.plans:q} > {log:q} 2>&1"
