# tables -> findings: what the report says, as data.


rule findings:
    input:
        plans=expand("results/{{dataset}}/plan/{experiment}.json", experiment=PREPARED.experiments),
        tables=expand(
            "results/{{dataset}}/tables/{experiment}/{table}.csv",
            experiment=PREPARED.experiments,
            table=["runs", "passes", "samples"],
        ),
        sources=sources("flashlab.findings"),
    output:
        "results/{dataset}/findings.json",
    log:
        "results/{dataset}/logs/findings.log",
    conda:
        CONDA
    params:
        tables=all_tables_folder,
    message:
        "Deriving the findings"
    shell:
        "python -m flashlab findings --tables {params.tables:q} --output {output:q} "
        "{input.plans:q} > {log:q} 2>&1"
