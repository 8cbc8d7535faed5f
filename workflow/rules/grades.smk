# submissions -> grades: held against what is possible, in CSV and as a PDF.


# Submissions are not inputs: their names may hold anything. The order is written at every call,
# so that grading is always done afresh.
rule grades:
    input:
        order=grading_order,
        measured=GRADING.records,
        sources=sources("flashlab.grading.stage"),
        catalogs=catalogs("grades"),
    output:
        grades="report/grades.csv",
        summary="report/grades-summary.csv",
        document="results/grading/grades.json",
    log:
        "results/grading/logs/grades.log",
    conda:
        CONDA
    message:
        "Grading the submissions"
    shell:
        "python -m flashlab grade --order {input.order:q} --grades {output.grades:q} "
        "--summary {output.summary:q} --document {output.document:q} > {log:q} 2>&1"


rule grades_pdf:
    input:
        document="results/grading/grades.json",
        sources=sources("flashlab.grading.pages"),
        templates=[
            str(ROOT.joinpath("templates", name))
            for name in ("grades.html.j2", "grades.css", "report.css")
        ],
        catalogs=catalogs("grades"),
        fonts=FONTS,
    output:
        "report/grades.pdf",
    log:
        "results/grading/logs/pages.log",
    conda:
        CONDA
    message:
        "Setting report/grades.pdf in type"
    shell:
        "python -m flashlab grades-pdf --document {input.document:q} --output {output:q} "
        "> {log:q} 2>&1"


# The report is an input of ours, never an output, and may have any name: the order names it.
rule verify:
    input:
        order=verification_order,
        measured=GRADING.records,
    log:
        "results/grading/logs/verify.log",
    conda:
        CONDA
    message:
        "Verifying a report against its own data"
    shell:
        "set -o pipefail; python -m flashlab verify --order {input.order:q} 2>&1 | tee {log:q}"
