# The description of a machine, as far as records depend on it, written by a job that runs there.


rule describe_machine:
    input:
        remade=remade("config/machines/{machine}.json"),
    output:
        "config/machines/{machine}.json",
    log:
        f"{HOME}/logs/machines/{{machine}}.log",
    conda:
        CONDA
    threads: workflow.cores if PREPARED.device == "cpu" else 1
    resources:
        gpu=1 if PREPARED.device == "cuda" else 0,
        runtime=RUNTIME,
        mem_mb=MEMORY["measure"],
    params:
        device=PREPARED.device,
    message:
        "Describing the machine {wildcards.machine}"
    shell:
        "python -m flashlab describe-machine --device {params.device} --output {output:q} "
        "> {log:q} 2>&1"


rule machine:
    input:
        PREPARED.machine or [],
