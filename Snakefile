# FlashLab: attention benchmarks, from a list of runs to a bilingual report.
#
#   snakemake --cores 1 report/lab5.pdf                          measure here, then report
#   snakemake --cores 1 report/lab5.pdf --config dataset=h200    report a recorded dataset
#   snakemake --cores 1 records                                  measure only
#   snakemake --cores 1 counters                                 read the GPU's counters only
#   snakemake --cores 1 freeze --config name=NAME                keep the records as data/NAME
#   snakemake --cores 1 report/compare.pdf --config compare=[NAME,NAME]   compare two sets of records
#   snakemake --cores 1 report/grades.pdf --config submissions=DIR   grade a class
#   snakemake --cores 1 verify --config pdf=PATH                 check a report against its data
#
#   config -> plan -> records -> tables -> observations -> figures -> report

import os

from snakemake.utils import min_version

min_version("9.27")


report: "report/captions/workflow.rst"


include: "workflow/rules/plan.smk"


# `--sdm apptainer` runs the rules in this image; docs/clusters.md says how to build it. The path is
# relative because Snakemake refuses every call if it has a space, as a user's folders may have.
container: os.path.relpath(ROOT / "envs" / "flashlab.sif")


rule report_target:
    default_target: True
    input:
        f"report/{REPORT}.pdf",


include: "workflow/rules/records.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/observations.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/datasets.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/grades.smk"
