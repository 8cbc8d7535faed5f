# config -> records: what is counted of chosen runs, one job each: on a GPU its hardware counters,
# where Nsight Compute is installed, on a CPU the operators by PyTorch's profiler.

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
            gpu=0 if PREPARED.device == "cpu" else 1,
            runtime=RUNTIME,
            mem_mb=MEMORY["measure"],
        params:
            order=counters_order,
            machine=machine_option,
        message:
            "Reading the counters of {wildcards.record}"
        shell:
            "python -m flashlab measure --order {params.order:q} {params.machine} "
            "--output {output:q} > {log:q} 2>&1"

    # A run's name begins with its implementation, which is a word.
    ruleorder: measure_counters > measure

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


rule counters:
    input:
        PREPARED.counters,
