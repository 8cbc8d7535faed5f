# records of two sides -> comparison: its table, its sentences, and a PDF and a page of them.

from flashlab.compare.sides import comparison_plan, side_files
from flashlab.files import read_json
from flashlab.plan.value import write_views

COMPARED = "results/compare/plan.json"

COMPARED_RECORDS = []  # of both sides, and their ceilings
if "compare" in PLAN.config:
    if workflow.is_main_process:
        try:
            write_views({COMPARED: comparison_plan(PLAN)}, FOLDER)
        except call.ERRORS as error:
            raise WorkflowError(str(error)) from None
    for side in read_json(FOLDER / COMPARED)["sides"]:
        COMPARED_RECORDS += side_files(side)


rule comparison:
    input:
        plan=str(FOLDER / COMPARED),
        records=COMPARED_RECORDS,
        sources=sources("flashlab.compare.comparison"),
    output:
        "results/compare/comparison.json",
    log:
        "results/compare/logs/comparison.log",
    localrule: True
    message:
        "Comparing two sets of records"
    shell:
        "python -m flashlab comparison --plan {input.plan:q} --output {output:q} > {log:q} 2>&1"


rule comparison_figures:
    input:
        comparison="results/compare/comparison.json",
        sources=sources("flashlab.compare.forest"),
        fonts=FONTS,
    output:
        directory("results/compare/figures"),
    log:
        "results/compare/logs/figures.log",
    localrule: True
    message:
        "Drawing the comparison"
    shell:
        "python -m flashlab comparison-figures --comparison {input.comparison:q} "
        "--output {output:q} > {log:q} 2>&1"


rule comparison_pdf:
    input:
        comparison="results/compare/comparison.json",
        figures="results/compare/figures",
        sources=sources("flashlab.compare.report"),
        templates=templates("report.*", "page*.*", "sentences/*.j2"),
        labels=[labels("compare"), labels("report")],
        fonts=FONTS,
    output:
        "results/compare/compare.pdf",
    log:
        "results/compare/logs/pdf.log",
    localrule: True
    params:
        command="comparison-pdf",
    message:
        "Rendering the comparison"
    shell:
        "python -m flashlab {params.command} --comparison {input.comparison:q} "
        "--figures {input.figures:q} --output {output:q} > {log:q} 2>&1"


use rule comparison_pdf as comparison_page with:
    output:
        "results/compare/compare.html",
    log:
        "results/compare/logs/page.log",
    params:
        command="comparison-page",
    message:
        "Rendering the comparison as an HTML page"
