# observations, figures, tables -> report: the PDF, and the same as an HTML page.
#
# Each is rendered beside the results and copied to report/ last, so that a report that fails
# leaves the one before it where it was.

TEXT = {
    "plans": expand(f"{VIEWS}/{{of}}.json", of=("config", "experiments", "figures", "titles")),
    "tables": TABLES,
    "figures": [f"{HOME}/figures", f"{HOME}/overview"],
    "observations": f"{HOME}/{OBSERVATIONS}",
    "records": RECORDS,
    "ceilings": PLAN.ceilings or [],
    "sources": sources("flashlab.report.render"),
    "templates": templates("sentences/*.j2", "report.html.j2", "report.css", "fonts/fonts.conf"),
    "labels": labels("report"),
    "fonts": FONTS,
    "remarks": PLAN.remarks,
}
RENDERED = f"--config {VIEWS}/config.json {GIVEN} --output {HOME}/{REPORT}"


use rule tables as report with:
    input:
        **TEXT,
    output:
        f"{HOME}/{REPORT}.pdf",
    log:
        f"{HOME}/logs/report.log",
    params:
        command=f"report {RENDERED}.pdf && python -m flashlab verdicts --results {HOME}",
    message:
        "Rendering the report"


use rule tables as page with:
    input:
        **TEXT,
        own=templates("page*.*"),
    output:
        f"{HOME}/{REPORT}.html",
    log:
        f"{HOME}/logs/page.log",
    params:
        command=f"page {RENDERED}.html",
    message:
        "Rendering the report as an HTML page"


PUBLISHED = {f"{REPORT}.{kind}": f"{HOME}/{REPORT}.{kind}" for kind in ("pdf", "html")}
PUBLISHED |= {f"compare.{kind}": f"results/compare/compare.{kind}" for kind in ("pdf", "html")}


# `shown` changes when report/ is to show another dataset, whose report may be older than the one
# that is there.
rule publish:
    input:
        rendered=lambda wildcards: PUBLISHED[wildcards.file],
        shown=str(FOLDER / shown_file(REPORT)),
    output:
        report(
            "report/{file}",
            caption=str(ROOT.joinpath("report", "captions", "report.rst")),
            category="Report",
        ),
    log:
        f"{HOME}/logs/publish_{{file}}.log",
    wildcard_constraints:
        file="|".join(PUBLISHED),
    localrule: True
    message:
        "Writing report/{wildcards.file}"
    shell:
        "cp {input.rendered:q} report/ > {log:q} 2>&1"
