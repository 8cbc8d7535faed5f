# tables -> figures: the SVG files of each experiment, and those across experiments.


rule figures:
    input:
        plan=f"{PLAN}/experiments/{{experiment}}.json",
        # Its tables are another's by what they are made of.
        tables=ancient(multiext(f"{HOME}/tables/{{experiment}}/", "runs.csv", "metrics.csv")),
        records_plan=f"{PLAN}/records/{{experiment}}.json",
        records=lambda wildcards: PREPARED.records[wildcards.experiment],
        ceilings=PREPARED.ceilings or [],
        tabulating=sources("flashlab.analysis.tables"),
        languages=f"{PLAN}/languages.json",
        sources=sources("flashlab.figures.stage"),
        catalogs=catalogs("figures"),
        fonts=FONTS,
        remade=remade(f"{HOME}/figures/{{experiment}}"),
    output:
        report(
            directory(f"{HOME}/figures/{{experiment}}"),
            patterns=["{figure}.svg"],
            caption=str(ROOT.joinpath("report", "captions", "figures.rst")),
            category="Experiments",
            subcategory="{experiment}",
            labels={"experiment": "{experiment}", "figure": "{figure}"},
        ),
    log:
        f"{HOME}/logs/figures/{{experiment}}.log",
    localrule: True
    conda:
        CONDA
    params:
        tables=f"{HOME}/tables",
    message:
        "Drawing {wildcards.experiment}"
    shell:
        "python -S -m flashlab.stage figures --plan {input.plan:q} --tables {params.tables:q} "
        "--languages {input.languages:q} --output {output:q} > {log:q} 2>&1"


rule overview:
    input:
        experiments=f"{PLAN}/experiments.json",
        plans=SWEEPS,
        tables=TABLES,
        devices=DEVICES,
        ceilings=PREPARED.ceilings or [],
        languages=f"{PLAN}/languages.json",
        sources=sources("flashlab.figures.stage"),
        catalogs=catalogs("figures"),
        fonts=FONTS,
        remade=remade(f"{HOME}/overview"),
    output:
        report(
            directory(f"{HOME}/overview"),
            patterns=["{figure}.svg"],
            caption=str(ROOT.joinpath("report", "captions", "overview.rst")),
            category="Overview",
            labels={"figure": "{figure}"},
        ),
    log:
        f"{HOME}/logs/overview.log",
    localrule: True
    conda:
        CONDA
    resources:
        mem_mb=MEMORY["report"],
    params:
        tables=f"{HOME}/tables",
        comparisons=f"{HOME}/{COMPARISONS}",
        ceilings=CEILINGS,
    message:
        "Drawing the figures across experiments"
    shell:
        "python -S -m flashlab.stage overview --tables {params.tables:q} --comparisons {params.comparisons:q} "
        "{params.ceilings} --languages {input.languages:q} --output {output:q} {input.plans:q} "
        "> {log:q} 2>&1"
