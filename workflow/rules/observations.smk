# tables -> comparisons, claims and observations: what the report says, as data.

PUBLISHED = str(ROOT / "data" / "published" / "claims.yaml")


rule observations:
    input:
        experiments=f"{PLAN}/experiments.json",
        plans=SWEEPS,
        tables=expand(
            f"{HOME}/tables/{{experiment}}/{{table}}.csv",
            experiment=PREPARED.experiments,
            table=TABLES,
        ),
        claims=PUBLISHED,
        devices=DEVICES,
        ceilings=PREPARED.ceilings or [],
        sources=sources("flashlab.story.stage"),
        remade=remade(*(f"{HOME}/{name}" for name in DERIVED)),
    output:
        comparisons=f"{HOME}/{COMPARISONS}",
        claims=f"{HOME}/{CLAIMS}",
        observations=f"{HOME}/{OBSERVATIONS}",
    log:
        f"{HOME}/logs/observations.log",
    localrule: True
    conda:
        CONDA
    resources:
        mem_mb=MEMORY["report"],
    params:
        tables=lambda wildcards, input: str(Path(input.tables[0]).parents[1]),
        ceilings=CEILINGS,
    message:
        "Observing what the report says"
    shell:
        "python -S -m flashlab.stage observations --tables {params.tables:q} --claims {input.claims:q} "
        "{params.ceilings} --output {output.observations:q} {input.plans:q} > {log:q} 2>&1"
