# tables -> findings: what the report says, as data.


rule findings:
    input:
        plans=expand("results/{{dataset}}/plan/{experiment}.json", experiment=PREPARED.experiments),
        tables=expand(
            "results/{{dataset}}/tables/{experiment}/{table}.csv",
            experiment=PREPARED.experiments,
            table=["runs", "passes", "samples"],
        ),
        claims=CLAIMS,
        ceilings=PREPARED.ceilings or [],
        sources=sources("flashlab.findings"),
    output:
        "results/{dataset}/findings.json",
    log:
        "results/{dataset}/logs/findings.log",
    conda:
        CONDA
    params:
        tables=all_tables_folder,
        ceilings=ceilings_option,
    message:
        "Deriving the findings"
    shell:
        "python -m flashlab findings --tables {params.tables:q} --claims {input.claims:q} "
        "{params.ceilings} --output {output:q} {input.plans:q} > {log:q} 2>&1"
