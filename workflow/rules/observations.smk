# tables -> observations: the report's statements, as data.


rule observations:
    input:
        plan=EXPERIMENTS,
        tables=TABLES,
        devices=DEVICES,
        ceilings=PLAN.ceilings or [],
        sources=sources("flashlab.story.stage"),
    output:
        f"{HOME}/{OBSERVATIONS}",
    log:
        f"{HOME}/logs/observations.log",
    localrule: True
    resources:
        mem_mb=MEMORY["report"],
    params:
        results=lambda wildcards: HOME,
        ceilings=CEILINGS,
    message:
        "Observing what the report says"
    shell:
        "python -m flashlab observations --results {params.results:q} {params.ceilings} "
        "--output {output:q} > {log:q} 2>&1"
