# records of two sides -> comparison: its table, its sentences, and a PDF and a page of them.


include: "../comparing.smk"


rule comparison:
    input:
        plan=comparison_plan,
        records=compared_records,
        sources=sources("flashlab.compare.comparison"),
    output:
        "results/compare/comparison.json",
    log:
        "results/compare/logs/comparison.log",
    localrule: True
    conda:
        CONDA
    message:
        "Comparing two sets of records"
    shell:
        "python -m flashlab comparison --plan {input.plan:q} --output {output:q} > {log:q} 2>&1"


rule comparison_figures:
    input:
        comparison="results/compare/comparison.json",
        sources=sources("flashlab.compare.forest_plot"),
        fonts=FONTS,
    output:
        directory("results/compare/figures"),
    log:
        "results/compare/logs/figures.log",
    localrule: True
    conda:
        CONDA
    message:
        "Drawing the comparison"
    shell:
        "python -m flashlab comparison-figures --comparison {input.comparison:q} "
        "--output {output:q} > {log:q} 2>&1"


COMPARISON_INPUTS = {
    "comparison": "results/compare/comparison.json",
    "figures": "results/compare/figures",
    "sources": sources("flashlab.compare.report"),
    "templates": [
        str(ROOT.joinpath("templates", name))
        for name in (
            "compare.html.j2",
            "report.css",
            "compare.css",
            "compare-screen.css",
        )
    ],
    "labels": labels("compare"),
    "stories": sorted(map(str, ROOT.glob("templates/sentences/*.j2"))),
    "fonts": FONTS,
}


rule comparison_pdf:
    input:
        **COMPARISON_INPUTS,
    output:
        "results/compare/compare.pdf",
    log:
        "results/compare/logs/pdf.log",
    localrule: True
    conda:
        CONDA
    message:
        "Rendering the comparison"
    shell:
        "python -m flashlab comparison-pdf --comparison {input.comparison:q} "
        "--figures {input.figures:q} --output {output:q} > {log:q} 2>&1"


rule comparison_page:
    input:
        **COMPARISON_INPUTS,
    output:
        "results/compare/compare.html",
    log:
        "results/compare/logs/page.log",
    localrule: True
    conda:
        CONDA
    message:
        "Rendering the comparison as an HTML page"
    shell:
        "python -m flashlab comparison-page --comparison {input.comparison:q} "
        "--figures {input.figures:q} --output {output:q} > {log:q} 2>&1"


rule publish_comparison:
    input:
        "results/compare/compare.{kind}",
    output:
        "report/compare.{kind}",
    log:
        "results/compare/logs/publish_{kind}.log",
    wildcard_constraints:
        kind="pdf|html",
    localrule: True
    conda:
        CONDA
    message:
        "Writing report/compare.{wildcards.kind}"
    shell:
        "cp {input:q} {output:q} > {log:q} 2>&1"
