# records -> tables: tidy CSV for each experiment.


rule tables:
    input:
        plan="results/{dataset}/plan/{experiment}.json",
        records=experiment_records,
        sources=sources("flashlab.tables"),
    output:
        runs="results/{dataset}/tables/{experiment}/runs.csv",
        passes="results/{dataset}/tables/{experiment}/passes.csv",
        samples="results/{dataset}/tables/{experiment}/samples.csv",
    log:
        "results/{dataset}/logs/tables/{experiment}.log",
    conda:
        CONDA
    message:
        "Tabulating {wildcards.experiment}"
    shell:
        "python -m flashlab tables --plan {input.plan:q} --runs {output.runs:q} "
        "--passes {output.passes:q} --samples {output.samples:q} > {log:q} 2>&1"
