# observations, tables -> layout: the report's text in pages, and the heights of its figures.

TEXT = {
    "config": f"{VIEWS}/config.json",
    "experiments": f"{VIEWS}/experiments.json",
    "titles": f"{VIEWS}/titles.json",
    "plans": PLANS,
    "tables": TABLES,
    "overview": f"{HOME}/overview",
    "observations": f"{HOME}/{OBSERVATIONS}",
    "stories": sorted(map(str, ROOT.glob("templates/story/*.j2"))),
    "ceilings": PLAN.ceilings or [],
    "devices": DEVICES,
    "published": sorted(map(str, ROOT.glob("data/published/*.csv"))),
    "sources": sources("flashlab.report.layout"),
    "templates": [
        str(ROOT.joinpath("templates", name))
        for name in ("report.html.j2", "heat.html.j2", "report.css", "fonts/fonts.conf")
    ],
    "labels": labels("report"),
    "fonts": FONTS,
    "remarks": PLAN.remarks,
}


rule layout:
    input:
        **TEXT,
    output:
        text=f"{HOME}/layout.html",
        heights=f"{HOME}/heights.json",
    log:
        f"{HOME}/logs/layout.log",
    localrule: True
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
