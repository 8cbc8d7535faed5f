# plan -> records: one job for each process of a run. Where they are recorded, nothing is measured.

from flashlab.records import COUNTERS

# What to measure, by record. Rules beside the pipeline add the runs that they need.
ORDERS = dict(PLAN.orders)
RANKS = {file: len(ORDERS) - rank for rank, file in enumerate(ORDERS)}

# The runs of a block follow one another on one GPU of the host: each GPU is a resource of its own,
# for the job that measures on it and one that starts up meanwhile and waits for its lock. On a
# cluster, a block is a group of jobs.
GPUS = workflow.global_resources.get("gpu")
CARDS = (GPUS.value or 0) if GPUS and PLAN.device == "cuda" and workflow.local_exec else 0
for card in range(CARDS):
    workflow.register_resource(f"card{card}", 2)


def record_of(wildcards):
    return f"{HOME}/records/{wildcards.record}.json"


def order_of(wildcards):
    return json.dumps(ORDERS[record_of(wildcards)])


def block_of(wildcards):
    """The group of jobs on a cluster: a block, or a run whose counters are read."""
    what = COUNTERS if wildcards.record.startswith(f"{COUNTERS}-") else "block"
    return f"{what}{ORDERS[record_of(wildcards)]['card']}"


def on_card(card):
    """An input function: the share of a card that a job takes, all of its own to read counters."""

    def share(wildcards):
        own = ORDERS[record_of(wildcards)]["card"] % CARDS == card
        return (2 if wildcards.record.startswith(f"{COUNTERS}-") else 1) if own else 0

    return share


def gpu_resources():
    """The resources of a job that measures on a GPU: of a card, or all where it is to be alone."""
    if CARDS and PLAN.config["alone"]:
        return {"gpu": CARDS}
    cards = {f"card{card}": on_card(card) for card in range(CARDS)}
    return {"gpu": int(PLAN.device == "cuda" and not cards), **cards}


if PLAN.orders:

    # On the CPU a run takes every core, so that no other job runs beside it. Everything that decides
    # a record's numbers is in its name.
    rule measure:
        input:
            redone,
        output:
            f"{HOME}/records/{{record}}.json",
        log:
            f"{HOME}/logs/measure/{{record}}.log",
        wildcard_constraints:
            record=f"(?!ceilings-|{COUNTERS}-).+",
        priority: lambda wildcards: RANKS.get(record_of(wildcards), 0)
        group: None if workflow.local_exec else block_of
        threads: workflow.cores if PLAN.device == "cpu" else 1
        resources:
            **gpu_resources(),
            runtime=RUNTIME,
            mem_mb=MEMORY["measure"],
        params:
            order=order_of,
        message:
            "Measuring {wildcards.record}"
        shell:
            "python -m flashlab measure --order {params.order:q} "
            "--output {output:q} > {log:q} 2>&1"

    # On a GPU hardware counters, where Nsight Compute is installed; on a CPU PyTorch's operators.
    use rule measure as measure_counters with:
        wildcard_constraints:
            record=f"{COUNTERS}-.+",
        message:
            "Reading the counters of {wildcards.record}"

    rule ceilings:
        input:
            redone,
        output:
            PLAN.ceilings,
        log:
            f"{HOME}/logs/measure/ceilings.log",
        priority: len(RANKS) + 1
        threads: workflow.cores if PLAN.device == "cpu" else 1
        resources:
            gpu=int(PLAN.device == "cuda"),
            runtime=RUNTIME,
            mem_mb=MEMORY["measure"],
        params:
            device=PLAN.device,
            device_name=PLAN.device_name,
        message:
            "Measuring the machine's ceilings"
        shell:
            "python -m flashlab ceilings --device {params.device} "
            "--device-name {params.device_name:q} --output {output:q} > {log:q} 2>&1"


rule records:
    input:
        RECORDS,
        PLAN.ceilings or [],


rule counters:
    input:
        PLAN.counters,
