# records -> tables: tidy CSV for each experiment.


rule tables:
    input:
        plan=f"{PLAN}/records/{{experiment}}.json",
        records=experiment_records,
        sources=sources("flashlab.tables"),
        remade=remade(
            *(f"{HOME}/tables/{{experiment}}/{t}.csv" for t in ("runs", "passes", "samples"))
        ),
    output:
        runs=f"{HOME}/tables/{{experiment}}/runs.csv",
        passes=f"{HOME}/tables/{{experiment}}/passes.csv",
        samples=f"{HOME}/tables/{{experiment}}/samples.csv",
    log:
        f"{HOME}/logs/tables/{{experiment}}.log",
    conda:
        CONDA
    message:
        "Tabulating {wildcards.experiment}"
    shell:
        "python -m flashlab tables --plan {input.plan:q} --runs {output.runs:q} "
        "--passes {output.passes:q} --samples {output.samples:q} > {log:q} 2>&1"
