# observations, tables -> layout: the report's text in pages, and the heights of its figures.

TEXT = {
    "config": f"{PLAN}/config.json",
    "experiments": f"{PLAN}/experiments.json",
    "titles": f"{PLAN}/titles.json",
    "plans": PLANS,
    "tables": TABLES,
    "overview": f"{HOME}/overview",
    "observations": f"{HOME}/{OBSERVATIONS}",
    "stories": sorted(map(str, ROOT.glob("templates/story/*.j2"))),
    "ceilings": PREPARED.ceilings or [],
    "devices": DEVICES,
    "published": sorted(map(str, ROOT.glob("data/published/*.csv"))),
    "sources": sources("flashlab.report.layout"),
    "templates": [
        str(ROOT.joinpath("templates", name))
        for name in ("report.html.j2", "heat.html.j2", "report.css", "fonts/fonts.conf")
    ],
    "labels": labels("report"),
    "fonts": FONTS,
    "remarks": PREPARED.remarks,
}


rule layout:
    input:
        **TEXT,
        remade=remade(f"{HOME}/{LAYOUT}", f"{HOME}/{HEIGHTS}"),
    output:
        text=f"{HOME}/{LAYOUT}",
        heights=f"{HOME}/{HEIGHTS}",
    log:
        f"{HOME}/logs/layout.log",
    localrule: True
    conda:
        CONDA
    resources:
        mem_mb=MEMORY["report"],
    params:
        results=subpath(input.observations, parent=True),
        ceilings=CEILINGS,
    message:
        "Laying out the report"
    shell:
        "python -m flashlab layout --config {input.config:q} --results {params.results:q} "
        "{params.ceilings} --output {output.text:q} > {log:q} 2>&1"
