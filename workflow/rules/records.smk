# plan -> records: one job for each process of a run. Where they are recorded, nothing is measured.

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
        group:
            None if workflow.local_exec else block_of
        threads: workflow.cores if PLAN.device == "cpu" else 1
        resources:
            **gpu_resources(),
            runtime=RUNTIME,
            mem_mb=MEMORY["measure"],
        params:
            order=lambda wildcards: json.dumps(ORDERS[record_of(wildcards)]),
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
            "Reading {wildcards.record}"

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
