# A machine as data: what decides the records measured there, written by a job that runs there.


def machine_description(wildcards):
    """The file of the machine that the call names."""
    if PREPARED.machine is None:
        raise WorkflowError(
            "machine: say under which name: snakemake machine --config machine=NAME"
        )
    return PREPARED.machine


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
        machine_description,
