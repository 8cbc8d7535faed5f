# tables -> figures: the SVG files of each experiment, and those across experiments.


use rule tables as figures with:
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
    params:
        command=f"figures {GIVEN} --output {HOME}/figures --overview {HOME}/overview",
    message:
        "Drawing the figures"
