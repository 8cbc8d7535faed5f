# config -> records: counters of chosen runs, one job each: on a GPU hardware counters, where Nsight
# Compute is installed, on a CPU the operators by PyTorch's profiler.


if PREPARED.orders:

    rule measure_counters:
        input:
            remade=remade(f"{HOME}/records/counters-{{record}}.json"),
        output:
            f"{HOME}/records/counters-{{record}}.json",
        log:
            f"{HOME}/logs/measure/counters-{{record}}.log",
        conda:
            CONDA
        threads: workflow.cores if PREPARED.device == "cpu" else 1
        resources:
            **gpu_resources("counters-{record}.json", amount=2),
            runtime=RUNTIME,
            mem_mb=MEMORY["measure"],
        params:
            order=lambda wildcards: json.dumps(ORDERS[f"counters-{wildcards.record}.json"]),
        message:
            "Reading the counters of {wildcards.record}"
        shell:
            "python -m flashlab measure --order {params.order:q} "
            "--output {output:q} > {log:q} 2>&1"

    # A run's name begins with its implementation, which is a word.
    ruleorder: measure_counters > measure


rule counters:
    input:
        PREPARED.counters,
