# submissions -> grades: checked against what is possible, in CSV and as a PDF.

ORDER, GRADING = FOLDER / "results" / "grading" / "order.json", {}
if {"submissions", "pdf", "reproduce"} & PLAN.config.keys():
    from flashlab_grading.submissions import new_order  # reads with pandas

    try:
        GRADING = new_order(PLAN.config, FOLDER) if workflow.is_main_process else read_json(ORDER)
    except call.ERRORS as error:
        raise WorkflowError(str(error)) from None
    ORDERS.update(GRADING.get("orders", {}))


# Submissions are not inputs, because file names may contain anything. The order is written anew at
# every call, so every call grades afresh.
rule grades:
    input:
        order=str(ORDER),
        measured=[*GRADING.get("orders", ())],
        sources=sources("flashlab_grading.sheets"),
        templates=templates("grades.html.j2", "grades.css", "report.css"),
        labels=[labels("grades"), labels("course")],
        fonts=FONTS,
    output:
        grades="results/grading/grades.csv",
        summary="results/grading/grades-summary.csv",
        pdf="results/grading/grades.pdf",
    log:
        "results/grading/logs/grades.log",
    localrule: True
    message:
        "Grading the submissions"
    shell:
        "python -m flashlab grade --order {input.order:q} --grades {output.grades:q} "
        "--summary {output.summary:q} --pdf {output.pdf:q} > {log:q} 2>&1"


use rule publish as publish_grades with:
    input:
        rendered=rules.grades.output,
    output:
        "report/grades.csv",
        "report/grades-summary.csv",
        "report/grades.pdf",
    log:
        "results/grading/logs/publish_grades.log",
    message:
        "Writing report/grades.pdf, report/grades.csv and report/grades-summary.csv"


# The report may have any name, so it is not an input either: the order names it.
rule verify:
    input:
        order=str(ORDER),
    log:
        "results/grading/logs/verify.log",
    localrule: True
    message:
        "Checking a report against its own data"
    shell:
        "set -o pipefail; python -m flashlab verify --order {input.order:q} 2>&1 | tee {log:q}"
