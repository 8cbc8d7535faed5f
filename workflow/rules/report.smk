# findings, figures, tables -> report: the PDF, and the same as an HTML page.

REPORT_INPUTS = {
    "config": "report/config.json",
    "plans": expand(
        "results/{dataset}/plan/{experiment}.json",
        dataset=PREPARED.dataset,
        experiment=PREPARED.experiments,
    ),
    "tables": expand(
        "results/{dataset}/tables/{experiment}/{table}.csv",
        dataset=PREPARED.dataset,
        experiment=PREPARED.experiments,
        table=["runs", "passes", "samples"],
    ),
    "figures": expand(
        "results/{dataset}/figures/{experiment}",
        dataset=PREPARED.dataset,
        experiment=PREPARED.drawn,
    ),
    "overview": f"results/{PREPARED.dataset}/overview",
    "findings": f"results/{PREPARED.dataset}/findings.json",
    "records": sorted({path for paths in PREPARED.records.values() for path in paths}),
    "ceilings": PREPARED.ceilings or [],
    "published": str(ROOT.joinpath("data", "published", "gpus.csv")),
    "sources": sources("flashlab.report"),
    "templates": [
        str(ROOT.joinpath("templates", name))
        for name in ("report.html.j2", "report.css", "fonts/fonts.conf")
    ],
    "catalogs": catalogs("report"),
    "fonts": FONTS,
    "remarks": PREPARED.remarks,
}


rule report:
    input:
        **REPORT_INPUTS,
    output:
        report(
            "report/lab5.pdf",
            caption=str(ROOT.joinpath("report", "captions", "report.rst")),
            category="Report",
        ),
    log:
        f"results/{PREPARED.dataset}/logs/report.log",
    conda:
        CONDA
    params:
        results=results_folder,
        ceilings=ceilings_option,
    message:
        "Setting report/lab5.pdf in type"
    shell:
        "python -m flashlab report --config {input.config:q} --results {params.results:q} "
        "{params.ceilings} "
        "--output {output:q} > {log:q} 2>&1"


rule page:
    input:
        **REPORT_INPUTS,
        own=[str(ROOT.joinpath("templates", name)) for name in ("page.css", "page.js")],
    output:
        "report/lab5.html",
    log:
        f"results/{PREPARED.dataset}/logs/page.log",
    conda:
        CONDA
    params:
        results=results_folder,
        ceilings=ceilings_option,
    message:
        "Writing report/lab5.html"
    shell:
        "python -m flashlab page --config {input.config:q} --results {params.results:q} "
        "{params.ceilings} "
        "--output {output:q} > {log:q} 2>&1"
