# records -> tables: tidy CSV of each experiment, and every ratio. Samples are read nowhere else.


# The stages from here to the report are called alike, by the command that each has as a parameter.
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
        command=f"tables {GIVEN} --output {HOME}/tables",
    message:
        "Tabulating the records"
    shell:
        "(python -m flashlab {params.command}) > {log:q} 2>&1"
