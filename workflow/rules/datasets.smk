# Keeping local records as a recorded dataset, and taking in results of the course's script.

from flashlab.plan.freezing import lacking

if PLAN.imports:

    # The original is no input: its name may hold braces, and its hash is in the record's name.
    rule import_record:
        input:
            redone,
        output:
            f"{HOME}/records/{{record}}.json",
        log:
            f"{HOME}/logs/import/{{record}}.log",
        localrule: True
        params:
            entry=lambda wildcards, output: json.dumps(PLAN.imports[output[0]]),
        message:
            "Importing {wildcards.record}"
        shell:
            "python -m flashlab import --entry {params.entry:q} --output {output:q} > {log:q} 2>&1"


if PLAN.orders:

    rule freeze:
        input:
            lambda wildcards: [*(left := lacking(PLAN)), *[PLAN.ceilings] * bool(left)],
        log:
            f"{HOME}/logs/freeze.log",
        localrule: True
        message:
            "Freezing the local records"
        shell:
            "python -m flashlab freeze > {log:q} 2>&1"
