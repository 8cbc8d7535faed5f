# observations, figures, tables -> report: the PDF, and the same as an HTML page.
#
# Each is rendered beside the results and copied to report/ last, so that a report that fails
# leaves the one before it where it was.

from flashlab.plan.documents import shown_file

PAGE_TEMPLATES = [
    str(path)
    for pattern in ("page*.*", "uplot/uPlot.*", "uplot/LICENSE")
    for path in sorted(ROOT.glob(f"templates/{pattern}"))
]


TEXT = {
    "config": f"{PLAN}/config.json",
    "experiments": f"{PLAN}/experiments.json",
    "titles": f"{PLAN}/titles.json",
    "plans": PLANS,
    "tables": TABLES,
    "figures": f"{HOME}/figures",
    "overview": f"{HOME}/overview",
    "observations": f"{HOME}/{OBSERVATIONS}",
    "records": RECORDS,
    "stories": sorted(map(str, ROOT.glob("templates/story/*.j2"))),
    "ceilings": PREPARED.ceilings or [],
    "devices": DEVICES,
    "published": sorted(map(str, ROOT.glob("data/published/*.csv"))),
    "sources": sources("flashlab.report.render"),
    "templates": [
        str(ROOT.joinpath("templates", name))
        for name in ("report.html.j2", "heat.html.j2", "report.css", "fonts/fonts.conf")
    ],
    "labels": labels("report"),
    "fonts": FONTS,
    "remarks": PREPARED.remarks,
}


rule report:
    input:
        **TEXT,
        remade=remade_report("pdf", f"{HOME}/{REPORT}.pdf"),
    output:
        f"{HOME}/{REPORT}.pdf",
    log:
        f"{HOME}/logs/report.log",
    localrule: True
    conda:
        CONDA
    resources:
        mem_mb=MEMORY["report"],
    params:
        results=subpath(input.observations, parent=True),
        ceilings=CEILINGS,
    message:
        "Rendering the report"
    shell:
        "python -m flashlab report --config {input.config:q} --results {params.results:q} "
        "{params.ceilings} --output {output:q} > {log:q} 2>&1"


rule page:
    input:
        **TEXT,
        own=PAGE_TEMPLATES,
        remade=remade_report("html", f"{HOME}/{REPORT}.html"),
    output:
        f"{HOME}/{REPORT}.html",
    log:
        f"{HOME}/logs/page.log",
    localrule: True
    conda:
        CONDA
    resources:
        mem_mb=MEMORY["report"],
    params:
        results=subpath(input.observations, parent=True),
        ceilings=CEILINGS,
    message:
        "Rendering the report as an HTML page"
    shell:
        "python -m flashlab page --config {input.config:q} --results {params.results:q} "
        "{params.ceilings} --output {output:q} > {log:q} 2>&1"


# `shown` changes when report/ is to show another dataset, whose report may be older than the one
# that is there.
rule publish_pdf:
    input:
        rendered=f"{HOME}/{REPORT}.pdf",
        observations=f"{HOME}/{OBSERVATIONS}",
        comparisons=f"{HOME}/{COMPARISONS}",
        shown=str(PLAN_ROOT / shown_file(REPORT)),
        remade=remade_report("pdf", f"report/{REPORT}.pdf"),
    output:
        report(
            f"report/{REPORT}.pdf",
            caption=str(ROOT.joinpath("report", "captions", "report.rst")),
            category="Report",
        ),
    log:
        f"{HOME}/logs/publish_pdf.log",
    localrule: True
    conda:
        CONDA
    params:
        results=subpath(input.observations, parent=True),
    message:
        f"Writing report/{REPORT}.pdf"
    shell:
        "(python -m flashlab verdicts --results {params.results:q} "
        "&& cp {input.rendered:q} {output:q}) > {log:q} 2>&1"


rule publish_page:
    input:
        rendered=f"{HOME}/{REPORT}.html",
        shown=str(PLAN_ROOT / shown_file(REPORT)),
        remade=remade_report("html", f"report/{REPORT}.html"),
    output:
        f"report/{REPORT}.html",
    log:
        f"{HOME}/logs/publish_page.log",
    localrule: True
    conda:
        CONDA
    message:
        f"Writing report/{REPORT}.html"
    shell:
        "cp {input.rendered:q} {output:q} > {log:q} 2>&1"
