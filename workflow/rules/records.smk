# config -> records: one job for each run. Where the records are recorded, nothing is measured.

if PREPARED.orders:

    # On the CPU a run takes every core, so that no other job is beside it. A record has no input
    # files: everything that decides its numbers is in its name.
    rule measure:
        output:
            "results/{dataset}/records/{record}.json",
        log:
            "results/{dataset}/logs/measure/{record}.log",
        conda:
            CONDA
        threads: workflow.cores if PREPARED.device == "cpu" else 1
        resources:
            gpu=0 if PREPARED.device == "cpu" else 1,
        params:
            order=measure_order,
        message:
            "Measuring {wildcards.record}"
        shell:
            "python -m flashlab measure --order {params.order:q} --output {output:q} > {log:q} 2>&1"

    rule ceilings:
        output:
            "results/{dataset}/records/ceilings-{identity}.json",
        log:
            "results/{dataset}/logs/measure/ceilings-{identity}.log",
        conda:
            CONDA
        threads: workflow.cores if PREPARED.device == "cpu" else 1
        resources:
            gpu=0 if PREPARED.device == "cpu" else 1,
        params:
            device=PREPARED.device,
        message:
            "Measuring the machine's ceilings"
        shell:
            "python -m flashlab ceilings --device {params.device} --output {output:q} > {log:q} 2>&1"

    # A run's name begins with its implementation, which is a word.
    ruleorder: ceilings > measure


rule records:
    input:
        sorted({path for paths in PREPARED.records.values() for path in paths}),
        PREPARED.ceilings or [],
