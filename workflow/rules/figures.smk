# tables -> figures: the SVG files of each experiment, and those across experiments.


DRAWING = [*sources_of("flashlab.figures.stage"), *sources_of("flashlab.analysis.tables")]


def figure_inputs(wildcards):
    """All that the figures of an experiment follow from, its tables by what they are made of.

    One job makes the tables of all experiments, mostly as they were, so they are ancient: else each
    figure would be drawn again with every record. Snakemake does not look at the other inputs of a
    job that is behind one that runs; where any is newer than the figures, the tables count.
    """
    name = wildcards.experiment
    found = {
        "plan": [f"{PLAN}/experiments/{name}.json"],
        "languages": [f"{PLAN}/languages.json"],
        "records": [f"{PLAN}/records/{name}.json", *PREPARED.records[name]],
        "ceilings": [PREPARED.ceilings] if PREPARED.ceilings else [],
        "sources": list(map(str, DRAWING)),
        "catalogs": catalogs("figures"),
        "fonts": FONTS,
        "remade": remade(f"{HOME}/figures/{name}")(wildcards) or [],
    }
    folder = Path(HOME, "figures", name)
    stamps = (folder / ".snakemake_timestamp", folder)
    drawn = next((stamp.stat().st_mtime for stamp in stamps if stamp.exists()), 0)
    files = [Path(file) for each in found.values() for file in ([each] if isinstance(each, str) else each)]
    is_current = all(file.stat().st_mtime <= drawn for file in files if file.exists())
    tables = [f"{HOME}/tables/{name}/{table}.csv" for table in ("runs", "metrics")]
    return {"tables": ancient(tables) if is_current else tables, **found}


rule figures:
    input:
        unpack(figure_inputs),
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
        ceilings=CEILINGS,
    message:
        "Drawing {wildcards.experiment}"
    shell:
        "python -S -m flashlab.stage figures --plan {input.plan:q} --tables {params.tables:q} "
        "{params.ceilings} --languages {input.languages:q} --output {output:q} > {log:q} 2>&1"


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
