# tables -> figures: the SVG files of each experiment, and those across experiments.


rule figures:
    input:
        plans=[EXPERIMENTS, f"{VIEWS}/figures.json", f"{VIEWS}/languages.json"],
        tables=TABLES,
        ceilings=PLAN.ceilings or [],
        sources=sources("flashlab.figures.stage"),
        labels=labels("figures"),
        fonts=FONTS,
    output:
        figures=report(
            directory(f"{HOME}/figures"),
            patterns=["{experiment}/{figure}.svg"],
            caption=str(ROOT.joinpath("report", "captions", "figures.rst")),
            category="Experiments",
            subcategory="{experiment}",
            labels={"experiment": "{experiment}", "figure": "{figure}"},
        ),
        overview=report(
            directory(f"{HOME}/overview"),
            patterns=["{figure}.svg"],
            caption=str(ROOT.joinpath("report", "captions", "overview.rst")),
            category="Overview",
            labels={"figure": "{figure}"},
        ),
    log:
        f"{HOME}/logs/figures.log",
    localrule: True
    resources:
        mem_mb=MEMORY["report"],
    params:
        results=lambda wildcards: HOME,
        ceilings=CEILINGS,
    message:
        "Drawing the figures"
    shell:
        "python -m flashlab figures --results {params.results:q} {params.ceilings} "
        "--output {output.figures:q} --overview {output.overview:q} > {log:q} 2>&1"
