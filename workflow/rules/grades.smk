# submissions -> grades: held against what is possible, in CSV and as a PDF.


# Submissions are not inputs: their names may hold anything. The order is written at every call,
# so that grading is always done afresh.
rule grades:
    input:
        order=grading_order,
        measured=GRADING.records,
        sources=sources("flashlab.grading.stage"),
        catalogs=catalogs("grades") + catalogs("course"),
    output:
        grades="results/grading/grades.csv",
        summary="results/grading/grades-summary.csv",
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
        "results/grading/grades.pdf",
    log:
        "results/grading/logs/pages.log",
    conda:
        CONDA
    message:
        "Rendering the grades"
    shell:
        "python -m flashlab grades-pdf --document {input.document:q} --output {output:q} "
        "> {log:q} 2>&1"


rule publish_grades:
    input:
        grades="results/grading/grades.csv",
        summary="results/grading/grades-summary.csv",
    output:
        grades="report/grades.csv",
        summary="report/grades-summary.csv",
    log:
        "results/grading/logs/publish_grades.log",
    conda:
        CONDA
    message:
        "Writing report/grades.csv and report/grades-summary.csv"
    shell:
        "(cp {input.grades:q} {output.grades:q} && cp {input.summary:q} {output.summary:q}) "
        "> {log:q} 2>&1"


rule publish_grades_pdf:
    input:
        rendered="results/grading/grades.pdf",
        # The same in CSV is published with it.
        grades="report/grades.csv",
    output:
        "report/grades.pdf",
    log:
        "results/grading/logs/publish_grades_pdf.log",
    conda:
        CONDA
    message:
        "Writing report/grades.pdf"
    shell:
        "cp {input.rendered:q} {output:q} > {log:q} 2>&1"


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
