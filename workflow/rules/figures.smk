# tables -> figures: the SVG files of each experiment.


rule figures:
    input:
        plan="results/{dataset}/plan/{experiment}.json",
        tables=multiext("results/{dataset}/tables/{experiment}/", "runs.csv", "passes.csv"),
        languages="results/{dataset}/languages.json",
        sources=sources("flashlab.figures"),
        catalogs=catalogs("figures"),
        fonts=FONTS,
    output:
        report(
            directory("results/{dataset}/figures/{experiment}"),
            patterns=["{figure}.svg"],
            caption=str(ROOT.joinpath("report", "captions", "figures.rst")),
            category="Experiments",
            subcategory="{experiment}",
            labels={"experiment": "{experiment}", "figure": "{figure}"},
        ),
    log:
        "results/{dataset}/logs/figures/{experiment}.log",
    conda:
        CONDA
    params:
        tables=tables_folder,
    message:
        "Drawing {wildcards.experiment}"
    shell:
        "python -m flashlab figures --plan {input.plan:q} --tables {params.tables:q} "
        "--languages {input.languages:q} --output {output:q} > {log:q} 2>&1"


rule overview:
    input:
        plans=expand("results/{{dataset}}/plan/{experiment}.json", experiment=PREPARED.experiments),
        tables=expand(
            "results/{{dataset}}/tables/{experiment}/passes.csv", experiment=PREPARED.experiments
        ),
        findings="results/{dataset}/findings.json",
        ceilings=PREPARED.ceilings or [],
        languages="results/{dataset}/languages.json",
        sources=sources("flashlab.figures"),
        catalogs=catalogs("figures"),
        fonts=FONTS,
    output:
        report(
            directory("results/{dataset}/overview"),
            patterns=["{figure}.svg"],
            caption=str(ROOT.joinpath("report", "captions", "overview.rst")),
            category="Overview",
            labels={"figure": "{figure}"},
        ),
    log:
        "results/{dataset}/logs/overview.log",
    conda:
        CONDA
    params:
        tables=all_tables_folder,
        ceilings=ceilings_option,
    message:
        "Drawing the figures across experiments"
    shell:
        "python -m flashlab overview --tables {params.tables:q} --findings {input.findings:q} "
        "{params.ceilings} "
        "--languages {input.languages:q} --output {output:q} {input.plans:q} > {log:q} 2>&1"
