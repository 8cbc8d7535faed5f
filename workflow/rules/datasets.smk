# Keeping local records as a recorded dataset, and taking in results of the course's script.


include: "../datasets.smk"


if PREPARED.imports:

    # The original is no input: its name may hold braces, and its hash is in the record's name.
    rule import_record:
        input:
            remade=remade(f"{HOME}/records/{{record}}.json"),
        output:
            f"{HOME}/records/{{record}}.json",
        log:
            f"{HOME}/logs/import/{{record}}.log",
        localrule: True
        conda:
            CONDA
        params:
            entry=lambda wildcards: json.dumps(PREPARED.imports[f"{wildcards.record}.json"]),
        message:
            "Importing {wildcards.record}"
        shell:
            "python -m flashlab import --entry {params.entry:q} --output {output:q} > {log:q} 2>&1"


if PREPARED.dataset == LOCAL and PREPARED.orders:

    rule freeze:
        input:
            config=freeze_config,
            records=RECORDS,
            ceilings=PREPARED.ceilings,
            plans=expand(f"{PLAN}/records/{{experiment}}.json", experiment=PREPARED.experiments),
        log:
            f"{HOME}/logs/freeze.log",
        localrule: True
        conda:
            CONDA
        params:
            name=PREPARED.config.get("name", ""),
            data=str(DATA),
            anyway="--anyway" if PREPARED.config["freeze_anyway"] else "",
        message:
            "Freezing the local records into {params.data}"
        shell:
            "python -m flashlab freeze --name {params.name:q} --config {input.config:q} "
            "--ceilings {input.ceilings:q} --data {params.data:q} {params.anyway} {input.plans:q} "
            "> {log:q} 2>&1"


if PREPARED.orders:

    # Adds the counters to a recorded dataset of the same runs.
    rule freeze_counters:
        input:
            config=named_config,
            records=PREPARED.counters,
            plans=expand(f"{PLAN}/records/{{experiment}}.json", experiment=PREPARED.experiments),
        log:
            f"{HOME}/logs/freeze_counters.log",
        localrule: True
        conda:
            CONDA
        params:
            name=PREPARED.config.get("name", ""),
            data=str(DATA),
        message:
            "Adding the counters to the recorded dataset in {params.data}"
        shell:
            "python -m flashlab freeze-counters --name {params.name:q} --data {params.data:q} "
            "{input.plans:q} > {log:q} 2>&1"
