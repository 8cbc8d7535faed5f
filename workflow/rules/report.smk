# findings, figures, tables -> report: the PDF.


rule report:
    input:
        config="report/config.json",
        plans=expand(
            "results/{dataset}/plan/{experiment}.json",
            dataset=PREPARED.dataset,
            experiment=PREPARED.experiments,
        ),
        tables=expand(
            "results/{dataset}/tables/{experiment}/{table}.csv",
            dataset=PREPARED.dataset,
            experiment=PREPARED.experiments,
            table=["runs", "passes"],
        ),
        figures=expand(
            "results/{dataset}/figures/{experiment}",
            dataset=PREPARED.dataset,
            experiment=PREPARED.drawn,
        ),
        findings=f"results/{PREPARED.dataset}/findings.json",
        ceilings=PREPARED.ceilings or [],
        sources=sources("flashlab.report"),
        templates=sorted(
            str(path) for path in ROOT.joinpath("templates").glob("*.*") if path.is_file()
        ),
        catalogs=catalogs("report"),
        fonts=FONTS,
        remarks=PREPARED.remarks,
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
