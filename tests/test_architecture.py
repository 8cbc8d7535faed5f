"""The design's floors: who may import whom."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from architecture import COMMAND, GRADING, MODULES, PAGE, imported_modules, module_name, renewed

from flashlab.sources import PACKAGE, imports, sources_of

MEASURED_BY = {
    name
    for name in MODULES
    if name.startswith("flashlab.benchmarks.")
    and name.endswith(
        (".measure", ".gate", ".inputs", ".prepared", ".training.busy", ".loop", ".training.model")
    )
}
MEASURING = MEASURED_BY | {name for name in MODULES if name.startswith("flashlab.measuring")}
COMMANDS = {
    name
    for name in MODULES
    if name.startswith(
        (
            "flashlab.checking",
            "flashlab.compare.bench",
            "flashlab.compare.command",
            "flashlab.compare.interleave",
            "flashlab.compare.profile",
            "flashlab.compare.targets",
            "flashlab.hw4",
        )
    )
}
"""The packages that measure without a plan: the commands of kernel authors and homework 4."""
HW4_JUDGE = {"flashlab.hw4.judge"}
CHECKING_WORKER = {"flashlab.checking.worker"}
TORCHLESS_MEASURING = {
    "flashlab.measuring",
    "flashlab.measuring.devices",
    "flashlab.measuring.supervise",
    "flashlab.measuring.supervised",
}
OF_GRADING = {name for name in MODULES if name.startswith(GRADING)}
FACE = {
    *(f"flashlab.benchmarks.attention{part}" for part in ("", ".costs", ".declaration", ".shape")),
    *("flashlab.benchmarks.implementations", "flashlab.config"),
    "flashlab.lab5",
    *(f"flashlab.lab5.{part}" for part in ("assigning", "checks", "documents", "importing")),
    *(f"flashlab.lab5.{part}" for part in ("possible", "results", "said", "words")),
    *("flashlab.devices", "flashlab.files", "flashlab.forks"),
    *("flashlab.records", "flashlab.runs"),
    "flashlab.plan",
    *(f"flashlab.plan.{part}" for part in ("datasets", "experiments", "make", "runs", "value")),
    *(f"flashlab.report.{part}" for part in ("attached", "page", "rebuild", "render")),
    *("flashlab.labels", "flashlab.telling.glyphs", "flashlab.untrusted"),
}
"""The modules that a package beside flashlab may import: readers, renderers and the plan."""
KERNELS = sorted((PACKAGE.parents[1] / "kernels").rglob("*.py"))


def names_torch(path: Path) -> bool:
    return any(name == "torch" or name.startswith("torch.") for name in imports(path))


def test_the_import_graph_has_no_circle() -> None:
    graph = {name: imported_modules(name) for name in MODULES}
    assert sum(map(len, graph.values())) > 20
    TopologicalSorter(graph).prepare()  # its CycleError names the modules


def names_of(module: str) -> set[str]:
    return {module_name(path) for path in sources_of(module)}


def test_the_ground_floor_depends_on_nothing_above_it() -> None:
    floor = {"flashlab.files", "flashlab.runs", "flashlab.records", "flashlab.devices"}
    floor |= {"flashlab.kernel_sources", "flashlab.syntax"}
    floor |= {"flashlab.untrusted", "flashlab.labels"}
    floor |= {name for name in MODULES if name.startswith("flashlab.benchmarks.")}
    floor -= MEASURED_BY
    above = {name for module in floor for name in names_of(module)} - floor
    assert above == set()


@pytest.mark.parametrize("module", sorted(MEASURED_BY))
def test_what_measures_depends_on_no_declaration_and_no_reader_of_records(module: str) -> None:
    """So that an edited label, cost or reader moves no record's digest."""
    used = names_of(module) | names_of("flashlab.measuring.child")
    assert not {name for name in used if name.endswith((".declaration", ".costs", ".records"))}
    assert (
        not {"flashlab.runs", "flashlab.benchmarks.registry", "flashlab.analysis.experiment"} & used
    )


@pytest.mark.parametrize(
    ("stage", "later"),
    [
        ("plan.make", ["analysis", "figures", "report"]),
        ("analysis.tables", ["figures", "report"]),
        ("story.stage", ["figures", "report"]),
        ("figures.stage", ["report"]),
    ],
)
def test_no_stage_depends_on_a_later_one(stage: str, later: list[str]) -> None:
    below = {module_name(path).split(".")[1] for path in sources_of(f"flashlab.{stage}")
             if path != PACKAGE / "__init__.py"}  # fmt: skip
    assert below.isdisjoint(later)
    assert "benchmarks" in below


def test_what_measures_is_imported_by_what_needs_no_plan_alone() -> None:
    others = set(MODULES) - MEASURING - COMMANDS
    assert {name for name in others if imported_modules(name) & MEASURING} == set()


def test_grading_is_imported_by_nothing_beside_it() -> None:
    """The command line names its functions, and imports them as they are called."""
    importers = {name for name in set(MODULES) - OF_GRADING if imported_modules(name) & OF_GRADING}
    assert importers == set()


def test_grading_stands_on_the_public_face_of_flashlab_alone() -> None:
    used = {name for module in OF_GRADING for name in imported_modules(module)} - OF_GRADING
    assert used <= FACE
    private = [
        (module, alias.name)
        for module in OF_GRADING
        for node in ast.walk(ast.parse(MODULES[module].read_bytes()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert private == []


@pytest.mark.parametrize("word", ["grading", "submissions", "reproduce", "pdf="])
def test_the_pipeline_does_not_mention_grading(root: Path, word: str) -> None:
    """All of it is in one file of rules, so that it can be read, changed or left out alone."""
    pipeline = {*root.joinpath("workflow", "rules").glob("*.smk")}
    pipeline -= {root / "workflow" / "rules" / "grades.smk"}
    pipeline |= {MODULES[f"flashlab.plan.{name}"] for name in ("make", "runs", "value")}
    mentions = {path.name for path in pipeline if word in path.read_text(encoding="utf-8").lower()}
    assert mentions == set()


def test_only_measuring_the_check_and_kernels_import_torch() -> None:
    importers = {name for name, path in MODULES.items() if names_torch(path)}
    assert importers <= MEASURING - TORCHLESS_MEASURING | CHECKING_WORKER | HW4_JUDGE
    assert "flashlab.measuring.child" in importers
    assert all(names_torch(path) for path in KERNELS if path.parent.name == "kernels")


def test_torch_is_not_even_loaded_by_anything_but_the_measuring_process(root: Path) -> None:
    with_torch = MEASURING | CHECKING_WORKER | HW4_JUDGE
    torchless = sorted(set(MODULES) - with_torch | TORCHLESS_MEASURING)
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    assert 'torch' not in sys.modules, name"
    )
    subprocess.run(
        [sys.executable, "-c", code, *torchless],
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
        check=True,
    )


def test_kernels_import_nothing_of_the_package() -> None:
    assert KERNELS
    for path in KERNELS:
        assert not any(name.split(".")[0] == "flashlab" for name in imports(path))


def test_the_page_on_the_architecture_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == renewed(page), f"docs/architecture.md is stale; renew it with: {COMMAND}"
