# records -> tables: tidy CSV for each experiment.


rule tables:
    input:
        plan=f"{PLAN}/records/{{experiment}}.json",
        records=lambda wildcards: PREPARED.records[wildcards.experiment],
        ceilings=PREPARED.ceilings or [],
        sources=sources("flashlab.analysis.tables"),
        remade=remade(*(f"{HOME}/tables/{{experiment}}/{t}.csv" for t in TABLES)),
    output:
        runs=f"{HOME}/tables/{{experiment}}/runs.csv",
        metrics=f"{HOME}/tables/{{experiment}}/metrics.csv",
        samples=f"{HOME}/tables/{{experiment}}/samples.csv",
    log:
        f"{HOME}/logs/tables/{{experiment}}.log",
    localrule: True
    conda:
        CONDA
    params:
        tables=subpath(output.runs, parent=True),
        ceilings=CEILINGS,
    message:
        "Tabulating {wildcards.experiment}"
    shell:
        "python -S -m flashlab.stage tables --plan {input.plan:q} {params.ceilings} --output {params.tables:q} > {log:q} 2>&1"
