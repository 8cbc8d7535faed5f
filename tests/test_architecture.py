"""The design's floors: who may import whom, and which files a module stands on."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from architecture import COMMAND, GRADING, MODULES, PAGE, imported_modules, module_name, renewed

from flashlab.report.attachments import STAGES
from flashlab.sources import PACKAGE, imports, sources_of


def modules(*beginnings: str) -> set[str]:
    """The modules of the package whose names begin so."""
    return {n for n in MODULES if n.startswith(tuple(f"flashlab.{each}" for each in beginnings))}


def names_of(module: str) -> set[str]:
    """A module and all that it stands on."""
    return {module_name(path) for path in sources_of(module)}


ENDS = (".measure", ".gate", ".inputs", ".prepared", ".training.busy", ".loop", ".training.model")
MEASURED_BY = {name for name in modules("benchmarks.") if name.endswith(ENDS)}
MEASURING = MEASURED_BY | modules("measuring")
COMMANDS = modules("checking", "hw4") | modules(
    *(f"compare.{name}" for name in ("bench", "command", "interleave", "targets"))
)
"""The packages that measure without a plan: the commands of kernel authors and homework 4."""
WITHOUT_TORCH = {"flashlab.measuring", *modules("measuring.devices", "measuring.supervise")}
OF_GRADING = {name for name in MODULES if name.startswith(GRADING)}
PUBLIC = """
    benchmarks.attention benchmarks.attention.costs benchmarks.attention.declaration
    benchmarks.attention.shape benchmarks.implementations config devices files forks labels
    lab5 lab5.assigning lab5.checks lab5.documents lab5.importing lab5.results
    lab5.words plan plan.datasets plan.experiments plan.make plan.runs plan.value
    records report.attachments report.document report.rebuild report.render runs
    telling.glyphs untrusted
"""
"""The modules that a package beside flashlab may import: readers, renderers and the plan."""
GROUND = "files runs records devices kernel_sources syntax untrusted labels"
KERNELS = sorted((PACKAGE.parents[1] / "kernels").rglob("*.py"))


def names_torch(path: Path) -> bool:
    return any(name.split(".")[0] == "torch" for name in imports(path))


def test_the_import_graph_has_no_circle() -> None:
    graph = {name: imported_modules(name) for name in MODULES}
    assert sum(map(len, graph.values())) > 20
    TopologicalSorter(graph).prepare()  # its CycleError names the modules


def test_the_ground_floor_depends_on_nothing_above_it() -> None:
    floor = {f"flashlab.{name}" for name in GROUND.split()} | modules("benchmarks.") - MEASURED_BY
    assert {name for module in floor for name in names_of(module)} == floor


@pytest.mark.parametrize("module", sorted({"flashlab.measuring.child", *MEASURED_BY}))
def test_what_measures_depends_on_no_declaration_and_no_reader_of_records(module: str) -> None:
    """So that an edited label, cost or reader moves no record's digest."""
    used = names_of(module)
    assert not {name for name in used if name.endswith((".declaration", ".costs", ".records"))}
    assert not {"flashlab.runs", "flashlab.benchmarks.registry"} & used


DECIDING = {f"plan.{name}" for name in ("make", "runs", "identity", "datasets")} | {"machine"}
"""What decides the names of records."""


@pytest.mark.parametrize(
    ("stage", "apart"),
    [
        ("plan.make", {"analysis", "figures", "report"}),
        ("analysis.tables", {"figures", "report"}),
        ("story.stage", {"figures", "report"}),
        ("figures.stage", {"report"}),
        *((stage, {"config", *DECIDING}) for stage in (*STAGES, "analysis.verdict_changes")),
    ],
)
def test_no_stage_depends_on_a_later_one_or_after_the_records_on_their_names(
    stage: str, apart: set[str]
) -> None:
    below = names_of(f"flashlab.{stage}")
    assert f"flashlab.{stage}" in below and len(below) > 10
    forbidden = {f"flashlab.{each}" for each in apart}
    assert {n for n in below if n in forbidden or n.rpartition(".")[0] in forbidden} == set()


def test_a_module_stands_on_itself_and_on_all_that_it_imports() -> None:
    assert names_of("flashlab.files") == {"flashlab.files"}
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
    with pytest.raises(ModuleNotFoundError, match=r"flashlab\.no_such_stage"):
        sources_of("flashlab.no_such_stage")


def test_what_measures_is_imported_by_what_needs_no_plan_alone() -> None:
    others = set(MODULES) - MEASURING - COMMANDS
    assert {name for name in others if imported_modules(name) & MEASURING} == set()


def test_only_measuring_the_check_and_kernels_import_torch() -> None:
    importers = {name for name, path in MODULES.items() if names_torch(path)}
    allowed = MEASURING - WITHOUT_TORCH | {"flashlab.checking.worker", "flashlab.hw4.judge"}
    assert importers <= allowed
    assert "flashlab.measuring.child" in importers
    assert all(names_torch(path) for path in KERNELS if path.parent.name == "kernels")


def test_grading_stands_on_the_public_face_of_flashlab_alone_and_nothing_on_it() -> None:
    """The command line names its functions, and imports them as they are called."""
    used = {name for module in OF_GRADING for name in imported_modules(module)} - OF_GRADING
    assert used <= {f"flashlab.{name}" for name in PUBLIC.split()}
    assert not {n for n in set(MODULES) - OF_GRADING if imported_modules(n) & OF_GRADING}
    names = {name for module in OF_GRADING for name in imports(MODULES[module])}
    assert not [name for name in names if "._" in name and name.startswith("flashlab")]


def test_the_pipeline_does_not_mention_grading() -> None:
    """All of it is in one file of rules, so that it can be read, changed or left out alone."""
    rules = PACKAGE.parent / "rules"
    pipeline = {*rules.glob("*.smk")} - {rules / "grades.smk"}
    pipeline |= {MODULES[f"flashlab.plan.{name}"] for name in ("make", "runs", "value")}
    text = "".join(path.read_text(encoding="utf-8").lower() for path in pipeline)
    assert not [w for w in ("grading", "submissions", "reproduce", "pdf=") if w in text]


def test_kernels_import_nothing_of_the_package() -> None:
    assert KERNELS
    for path in KERNELS:
        assert not any(name.split(".")[0] == "flashlab" for name in imports(path))


def test_the_page_on_the_architecture_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == renewed(page), f"docs/architecture.md is stale; renew it with: {COMMAND}"
