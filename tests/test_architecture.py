"""The design's floors: who may import whom, and which files a module stands on."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter

import pytest
from generated import GRADING, MODULES, imported_modules, module_name

from flashlab.report.attachments import STAGES
from flashlab.sources import PACKAGE, imports, sources_of

KERNELS = sorted((PACKAGE.parents[1] / "kernels").rglob("*.py"))
PUBLIC = """
    benchmarks.attention benchmarks.attention.costs benchmarks.attention.declaration
    benchmarks.attention.shape benchmarks.implementations config devices files forks labels
    lab5 lab5.assigning lab5.importing lab5.results lab5.words plan plan.datasets plan.experiments
    plan.make plan.runs records report.attachments report.document report.rebuild report.render
    runs telling.glyphs untrusted
"""
"""The modules that a package beside flashlab may import: readers, renderers and the plan."""


def modules(beginnings: str, *ends: str) -> set[str]:
    """The modules of the package whose names begin and end so."""
    starts = tuple(f"flashlab.{each}" for each in beginnings.split())
    return {name for name in MODULES if name.startswith(starts) and name.endswith(ends or ("",))}


def names_of(*of: str) -> set[str]:
    """Modules and all that they stand on."""
    return {module_name(path) for name in of for path in sources_of(name)}


ENDS = "measure process gate inputs prepared training.busy loop training.model"
MEASURED_BY = modules("benchmarks.", *(f".{end}" for end in ENDS.split()))
MEASURING = MEASURED_BY | modules("measuring")
COMMANDS = modules("checking hw4 compare.bench compare.interleave")
"""What measures without a plan: the commands of kernel authors and homework 4."""
WITHOUT_TORCH = {"flashlab.measuring", *modules("measuring.supervise")}
OF_GRADING = {name for name in MODULES if name.startswith(GRADING)}
GROUND = "files runs records devices syntax untrusted labels"
FLOOR = modules("benchmarks.") - MEASURED_BY | {f"flashlab.{name}" for name in GROUND.split()}

FLOORS = {
    "the ground floor stands on itself alone": (FLOOR, {*MODULES} - FLOOR),
    "an edited label, cost or reader moves no record's digest": (
        {"flashlab.measuring.child", *MEASURED_BY},
        modules("runs records benchmarks.registry")
        | modules("benchmarks.", ".declaration", ".costs"),
    ),
    "planning before what follows": ({"flashlab.plan.make"}, modules("analysis figures report")),
    "tables before figures": ({"flashlab.analysis.tables"}, modules("figures report")),
    "sentences before figures": ({"flashlab.story.stage"}, modules("figures report")),
    "figures before the report": ({"flashlab.figures.stage"}, modules("report")),
    "no later stage names records": (
        {f"flashlab.{stage}" for stage in (*STAGES, "analysis.verdict_changes")},
        modules("config machine plan.make plan.runs plan.identity plan.datasets"),
    ),
}


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_stands_on_nothing_above_it(floor: str) -> None:
    of, apart = FLOORS[floor]
    assert of and apart and names_of(*of) & apart == set()


def test_the_import_graph_has_no_circle() -> None:
    graph = {name: imported_modules(name) for name in MODULES}
    assert sum(map(len, graph.values())) > 20
    TopologicalSorter(graph).prepare()  # its CycleError names the modules


def test_no_module_of_the_analysis_holds_a_margin_of_its_own() -> None:
    code = "".join(path.read_text("utf-8") for path in PACKAGE.glob("analysis/[!r]*.py"))
    assert not [each for each in ("0.05", "1.05", "5%") if each in code.replace("95%", "")]


def test_a_module_stands_on_itself_and_on_all_that_it_imports() -> None:
    costs, shape = (f"flashlab.benchmarks.attention.{name}" for name in ("costs", "shape"))
    assert names_of(costs) == {costs, shape}
    for path in PACKAGE.rglob("*.py"):
        expected: set[str] = set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                expected.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.module
                expected |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        assert imports(path) == expected, path


def test_what_measures_and_torch_are_imported_by_what_needs_them_alone() -> None:
    others = set(MODULES) - MEASURING - COMMANDS
    measuring = MEASURING - WITHOUT_TORCH
    assert {name for name in others if imported_modules(name) & measuring} == set()
    tops = {name: {each.split(".")[0] for each in imports(p)} for name, p in MODULES.items()}
    importers = {name for name in tops if "torch" in tops[name]}
    assert "flashlab.measuring.child" in importers
    assert importers <= measuring | {"flashlab.checking.worker", "flashlab.hw4.judge"}
    program, measure = "flashlab.hw4.program", "flashlab.benchmarks.ladder.measure"
    assert not names_of(program) & importers  # its start is timed
    assert program in names_of(measure)  # its edit measures again
    assert KERNELS and not any("flashlab" in imports(path) for path in KERNELS)


def test_grading_stands_on_the_public_face_of_flashlab_alone_and_nothing_on_it() -> None:
    """Nor do the rules name it but in a file of their own, which can be left out."""
    used = {name for module in OF_GRADING for name in imported_modules(module)} - OF_GRADING
    assert used <= {f"flashlab.{name}" for name in PUBLIC.split()}
    assert not {n for n in set(MODULES) - OF_GRADING if imported_modules(n) & OF_GRADING}
    names = {name for module in OF_GRADING for name in imports(MODULES[module])}
    assert not [name for name in names if "._" in name and name.startswith("flashlab")]
    rules = PACKAGE.parent / "rules"
    text = "".join(p.read_text("utf-8") for p in {*rules.glob("*.smk")} - {rules / "grades.smk"})
    assert not [word for word in ("grading", "submissions", "reproduce") if word in text.lower()]
