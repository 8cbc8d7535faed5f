# Shared by the rules for comparisons: the two sides. Only rules/compare.smk includes this file.
#
# Of the pipeline it uses the configuration, the plan and its folder, and the rule that measures.

import sys

from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.sides import SideError, find_side, planned_side
from flashlab.files import read_json
from flashlab.plan.plan_files import planned_documents
from flashlab.records import RecordError
from flashlab.calls.selection import names_a_target

COMPARED = PREPARED.config.get("compare")
COMPARED_BENCHMARK = find_benchmark(PREPARED.config["benchmark"])
COMPARISON_PLAN = str(PLAN_ROOT / "results" / "compare" / "plan.json")


def compared_side(name):
    """A side of the comparison; the records of `local` are planned by this call."""
    if name == LOCAL:
        planned = planned_documents(PREPARED.documents)
        ceilings = PREPARED.ceilings and Path(PREPARED.ceilings)
        return planned_side(name, COMPARED_BENCHMARK, planned, ceilings)
    return find_side(name, COMPARED_BENCHMARK)


def plan_comparison():
    """Write the plan of a comparison; a call that compares nothing leaves an earlier plan."""
    try:
        sides = [compared_side(name) for name in COMPARED]
    except (*call.PREPARATION_ERRORS, RecordError, SideError) as error:
        raise WorkflowError(str(error)) from None
    document = {
        "sides": [side.to_json() for side in sides],
        "languages": PREPARED.config["languages"],
    }
    CALL.files.write({"results/compare/plan.json": document})


if COMPARED and workflow.is_main_process:
    if PREPARED.dataset != LOCAL:
        raise WorkflowError(
            "--config: compare: it names both sides; leave out dataset= and import="
        )
    plan_comparison()


NOT_COMPARED = (
    "compare: say what to compare: snakemake report/compare.pdf --config compare=[NAME,NAME]"
)

if not COMPARED and workflow.is_main_process:
    if names_a_target(sys.argv[1:], "report/compare.pdf", "report/compare.html"):
        raise WorkflowError(NOT_COMPARED)


def comparison_plan(wildcards):
    """The plan of the comparison; only a call that names the two sides has one."""
    if not COMPARED:
        raise WorkflowError(NOT_COMPARED)
    return COMPARISON_PLAN


def compared_records(wildcards):
    """The records of both sides, and their ceilings."""
    if not COMPARED:
        return []
    plan = read_json(Path(COMPARISON_PLAN))
    files = {path for side in plan["sides"] for path in (*side["files"], side["ceilings"])}
    return sorted(files - {None})
