# records -> tables: tidy CSV of each experiment, and every ratio. Samples are read nowhere else.


rule tables:
    input:
        redone,
        plans=[EXPERIMENTS, f"{VIEWS}/records.json"],
        records=RECORDS,
        ceilings=PLAN.ceilings or [],
        sources=sources("flashlab.analysis.stage"),
    output:
        TABLES,
    log:
        f"{HOME}/logs/tables.log",
    localrule: True
    resources:
        mem_mb=MEMORY["report"],
    params:
        results=lambda wildcards: HOME,
        ceilings=CEILINGS,
    message:
        "Tabulating the records"
    shell:
        "python -m flashlab tables --results {params.results:q} {params.ceilings} "
        "--output {params.results:q}/tables > {log:q} 2>&1"
