# config -> records: one job for each run. Where the records are recorded, nothing is measured.


include: "../cards.smk"


if PREPARED.orders:

    # On the CPU a run takes every core, so that no other job runs beside it. The first processes of
    # all runs come first, so that those of a run are spread over the session; what is compared
    # follows one another (`flashlab.plan.blocks`). Everything that decides a record's numbers is in
    # its name; it has an input only where it must be made again.
    rule measure:
        input:
            remade=remade(f"{HOME}/records/{{record}}.json"),
        output:
            f"{HOME}/records/{{record}}.json",
        log:
            f"{HOME}/logs/measure/{{record}}.log",
        priority: lambda wildcards: len(RANKS) - RANKS.get(f"{wildcards.record}.json", len(RANKS))
        conda:
            CONDA
        threads: workflow.cores if PREPARED.device == "cpu" else 1
        resources:
            **gpu_resources(),
            runtime=RUNTIME,
            mem_mb=MEMORY["measure"],
        params:
            order=lambda wildcards: json.dumps(ORDERS[f"{wildcards.record}.json"]),
        message:
            "Measuring {wildcards.record}"
        shell:
            "python -m flashlab measure --order {params.order:q} "
            "--output {output:q} > {log:q} 2>&1"

    rule ceilings:
        input:
            remade=remade(f"{HOME}/records/ceilings-{{identity}}.json"),
        output:
            f"{HOME}/records/ceilings-{{identity}}.json",
        log:
            f"{HOME}/logs/measure/ceilings-{{identity}}.log",
        priority: len(RANKS) + 1
        conda:
            CONDA
        threads: workflow.cores if PREPARED.device == "cpu" else 1
        resources:
            gpu=0 if PREPARED.device == "cpu" else 1,
            runtime=RUNTIME,
            mem_mb=MEMORY["measure"],
        params:
            device=PREPARED.device,
            device_name=f"--device-name {shlex.quote(PREPARED.device_name)}",
        message:
            "Measuring the machine's ceilings"
        shell:
            "python -m flashlab ceilings --device {params.device} {params.device_name} "
            "--output {output:q} > {log:q} 2>&1"

    # A run's name begins with its implementation, which is a word.
    ruleorder: ceilings > measure


rule records:
    input:
        RECORDS,
        PREPARED.ceilings or [],
