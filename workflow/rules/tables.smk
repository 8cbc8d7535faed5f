# records -> tables: tidy CSV of each experiment, and every ratio.
#
# Each record is read once, and samples nowhere else. What is made of one experiment alone takes its
# tables as ancient: this job makes those of all experiments again, mostly as they were.


rule tables:
    input:
        experiments=f"{PLAN}/experiments.json",
        records_plans=expand(f"{PLAN}/records/{{experiment}}.json", experiment=PREPARED.experiments),
        plans=SWEEPS,
        records=RECORDS,
        ceilings=PREPARED.ceilings or [],
        sources=sources("flashlab.analysis.stage"),
        remade=remade(f"{HOME}/tables", *[f"{HOME}/{name}" for name in OF_DATASET]),
    output:
        TABLES,
    log:
        f"{HOME}/logs/tables.log",
    localrule: True
    conda:
        CONDA
    resources:
        mem_mb=MEMORY["report"],
    params:
        results=lambda wildcards, input: str(Path(input.experiments).parents[1]),
        tables=subpath(output[0], ancestor=2),
        ceilings=CEILINGS,
    message:
        "Tabulating the records"
    shell:
        "python -m flashlab tables --results {params.results:q} {params.ceilings} "
        "--output {params.tables:q} > {log:q} 2>&1"
