# What the rules for grading share: the order of this call. Only rules/grades.smk includes this file.
#
# Of the pipeline it uses the configuration, the plan's folder, and the rule that measures.

import sys

from flashlab_grading.order import ORDER, kept_order, order_grading
from flashlab.calls.selection import names_a_target


def order_call():
    """What this call grades and measures again."""
    try:
        return order_grading(PREPARED.config, PLAN_ROOT)
    except call.PREPARATION_ERRORS as error:
        raise WorkflowError(str(error)) from None


GRADING = order_call() if workflow.is_main_process else kept_order()
ORDERS.update(GRADING.get("orders", {}))


GRADED = ("report/grades.pdf", "report/grades.csv", "report/grades-summary.csv")
NOT_GRADED = "grades: say what to grade: snakemake report/grades.pdf --config submissions=DIR"

if GRADING.get("kind") != "submissions" and workflow.is_main_process:
    if names_a_target(sys.argv[1:], *GRADED):
        raise WorkflowError(NOT_GRADED)


def grading_order(wildcards):
    """The order to grade; only a call that names a folder of submissions has one."""
    if GRADING.get("kind") != "submissions":
        raise WorkflowError(NOT_GRADED)
    return str(PLAN_ROOT / ORDER)


def verification_order(wildcards):
    """The order to verify a report; only a call that names a report has one."""
    if GRADING.get("kind") != "pdf":
        raise WorkflowError("verify: say which report: snakemake verify --config pdf=PATH")
    return str(PLAN_ROOT / ORDER)
