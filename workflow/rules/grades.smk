# submissions -> grades: checked against what is possible, in CSV and as a PDF.


include: "../grading.smk"


# Submissions are not inputs, because file names may contain anything. The order is written anew at
# every call, so every call grades afresh.
rule grades:
    input:
        order=grading_order,
        measured=[each["path"] for each in GRADING.get("measured", ())],
        sources=sources("flashlab_grading.sheets"),
        templates=[
            str(ROOT.joinpath("templates", name))
            for name in ("grades.html.j2", "grades.css", "report.css")
        ],
        labels=[labels("grades"), labels("course")],
        fonts=FONTS,
    output:
        grades="results/grading/grades.csv",
        summary="results/grading/grades-summary.csv",
        pdf="results/grading/grades.pdf",
    log:
        "results/grading/logs/grades.log",
    localrule: True
    conda:
        CONDA
    message:
        "Grading the submissions"
    shell:
        "python -m flashlab grade --order {input.order:q} --grades {output.grades:q} "
        "--summary {output.summary:q} --pdf {output.pdf:q} > {log:q} 2>&1"


rule publish_grades:
    input:
        "results/grading/grades.csv",
        "results/grading/grades-summary.csv",
        "results/grading/grades.pdf",
    output:
        GRADED,
    log:
        "results/grading/logs/publish_grades.log",
    localrule: True
    conda:
        CONDA
    message:
        "Writing report/grades.pdf, report/grades.csv and report/grades-summary.csv"
    shell:
        "cp {input:q} report/ > {log:q} 2>&1"


# The report may have any name, so it is not an input either: the order names it.
rule verify:
    input:
        order=verification_order,
    log:
        "results/grading/logs/verify.log",
    localrule: True
    conda:
        CONDA
    message:
        "Checking a report against its own data"
    shell:
        "set -o pipefail; python -m flashlab verify --order {input.order:q} 2>&1 | tee {log:q}"
