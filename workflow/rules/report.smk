# observations, figures, tables -> report: the PDF, and the same as an HTML page.
#
# Each is rendered beside the results and copied to report/ last, so that a report that fails
# leaves the one before it where it was.

TEXT = {
    "config": f"{VIEWS}/config.json",
    "plans": [EXPERIMENTS, f"{VIEWS}/figures.json", f"{VIEWS}/titles.json"],
    "tables": TABLES,
    "figures": [f"{HOME}/figures", f"{HOME}/overview"],
    "observations": f"{HOME}/{OBSERVATIONS}",
    "records": RECORDS,
    "stories": templates("sentences/*.j2"),
    "ceilings": PLAN.ceilings or [],
    "sources": sources("flashlab.report.render"),
    "templates": templates("report.html.j2", "report.css", "fonts/fonts.conf"),
    "labels": labels("report"),
    "fonts": FONTS,
    "remarks": PLAN.remarks,
}


rule report:
    input:
        **TEXT,
    output:
        f"{HOME}/{REPORT}.pdf",
    log:
        f"{HOME}/logs/report.log",
    localrule: True
    resources:
        mem_mb=MEMORY["report"],
    params:
        results=lambda wildcards: HOME,
        ceilings=CEILINGS,
        command="report",
    message:
        "Rendering the report"
    shell:
        "python -m flashlab {params.command} --config {input.config:q} --results {params.results:q} "
        "{params.ceilings} --output {output:q} > {log:q} 2>&1"


use rule report as page with:
    input:
        **TEXT,
        own=templates("page*.*"),
    output:
        f"{HOME}/{REPORT}.html",
    log:
        f"{HOME}/logs/page.log",
    params:
        command="page",
    message:
        "Rendering the report as an HTML page"


# `shown` changes when report/ is to show another dataset, whose report may be older than the one
# that is there.
rule publish_pdf:
    input:
        rendered=f"{HOME}/{REPORT}.pdf",
        observations=f"{HOME}/{OBSERVATIONS}",
        comparisons=f"{HOME}/{COMPARISONS}",
        shown=str(FOLDER / shown_file(REPORT)),
    output:
        report(
            f"report/{REPORT}.pdf",
            caption=str(ROOT.joinpath("report", "captions", "report.rst")),
            category="Report",
        ),
    log:
        f"{HOME}/logs/publish_pdf.log",
    localrule: True
    params:
        results=lambda wildcards: HOME,
    message:
        f"Writing report/{REPORT}.pdf"
    shell:
        "(python -m flashlab verdicts --results {params.results:q} "
        "&& cp {input.rendered:q} {output:q}) > {log:q} 2>&1"


PUBLISHED = {
    f"{REPORT}.html": [f"{HOME}/{REPORT}.html", str(FOLDER / shown_file(REPORT))],
    "compare.pdf": ["results/compare/compare.pdf"],
    "compare.html": ["results/compare/compare.html"],
}


rule publish:
    input:
        rendered=lambda wildcards: PUBLISHED[wildcards.file][0],
        shown=lambda wildcards: PUBLISHED[wildcards.file][1:],
    output:
        "report/{file}",
    log:
        f"{HOME}/logs/publish_{{file}}.log",
    wildcard_constraints:
        file="|".join(PUBLISHED),
    localrule: True
    message:
        "Writing report/{wildcards.file}"
    shell:
        "cp {input.rendered:q} {output:q} > {log:q} 2>&1"
