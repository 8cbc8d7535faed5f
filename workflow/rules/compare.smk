# records of two sides -> comparison: its table, its sentences, and a PDF and a page of them.

from flashlab.compare.sides import comparison_plan
from flashlab.files import read_json
from flashlab.plan.plan_files import write_views

COMPARED = "results/compare/plan.json"

COMPARED_RECORDS = []  # of both sides, and their ceilings
if "compare" in PLAN.config:
    if workflow.is_main_process:
        try:
            write_views({COMPARED: comparison_plan(PLAN)}, FOLDER)
        except call.ERRORS as error:
            raise WorkflowError(str(error)) from None
    COMPARED_RECORDS += read_json(FOLDER / COMPARED)["files"]


rule comparison:
    input:
        plan=str(FOLDER / COMPARED),
        records=COMPARED_RECORDS,
        sources=sources("flashlab.compare.report"),
        templates=templates("report.*", "page*.*", "sentences/*.j2"),
        labels=[labels("compare"), labels("report"), labels("figures")],
        fonts=FONTS,
    output:
        "results/compare/comparison.json",
        "results/compare/compare.pdf",
        "results/compare/compare.html",
    log:
        "results/compare/logs/comparison.log",
    localrule: True
    params:
        folder=subpath(output[0], parent=True),
    message:
        "Comparing two sets of records"
    shell:
        "python -m flashlab comparison --plan {input.plan:q} --output {params.folder:q} > {log:q} 2>&1"
