# submissions -> grades: checked against what is possible, in CSV and as a PDF.


include: "../grading.smk"


# Submissions are not inputs, because file names may contain anything. The order is written anew at
# every call, so every call grades afresh.
rule grades:
    input:
        order=grading_order,
        measured=GRADING.records,
        sources=sources("flashlab_grading.stage"),
        catalogs=catalogs("grades") + catalogs("course"),
    output:
        grades="results/grading/grades.csv",
        summary="results/grading/grades-summary.csv",
        document="results/grading/grades.json",
    log:
        "results/grading/logs/grades.log",
    localrule: True
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
        sources=sources("flashlab_grading.sheets"),
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
    localrule: True
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
    localrule: True
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
        # The CSV files are published with the PDF.
        grades="report/grades.csv",
    output:
        "report/grades.pdf",
    log:
        "results/grading/logs/publish_grades_pdf.log",
    localrule: True
    conda:
        CONDA
    message:
        "Writing report/grades.pdf"
    shell:
        "cp {input.rendered:q} {output:q} > {log:q} 2>&1"


# The report may have any name, so it is not an input either: the order names it.
rule verify:
    input:
        order=verification_order,
        measured=GRADING.records,
    log:
        "results/grading/logs/verify.log",
    localrule: True
    conda:
        CONDA
    message:
        "Checking a report against its own data"
    shell:
        "set -o pipefail; python -m flashlab verify --order {input.order:q} 2>&1 | tee {log:q}"
