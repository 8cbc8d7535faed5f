# What the rules for grading share: the order of this call. Only rules/grades.smk includes this file.
#
# Of the pipeline it uses the configuration, the plan's folder, and the rule that measures.

from flashlab.grading.order import keep_order, kept_order, order_grading


def order_call():
    """What this call grades and measures again, kept for the jobs that read the rules again."""
    try:
        ordered = order_grading(PREPARED.config, PLAN_ROOT)
    except PREPARATION_ERRORS as error:
        raise WorkflowError(str(error)) from None
    if CLAIM.held:
        keep_order(ordered)
    return ordered


GRADING = order_call() if workflow.is_main_process else kept_order()
ORDERS.update(GRADING.orders)


def grading_order(wildcards):
    """The order to grade; only a call that names a folder of submissions has one."""
    if GRADING.kind != "submissions":
        raise WorkflowError(
            "grades: say what to grade: snakemake report/grades.pdf --config submissions=DIR"
        )
    return GRADING.path


def verification_order(wildcards):
    """The order to verify a report; only a call that names a report has one."""
    if GRADING.kind != "pdf":
        raise WorkflowError("verify: say which report: snakemake verify --config pdf=PATH")
    return GRADING.path
