from __future__ import annotations

import ast
from pathlib import Path

import pytest
from architecture import module_name

from flashlab.report.software import STAGES
from flashlab.sources import imports, sources_of


def names(module: str) -> set[str]:
    return {module_name(path) for path in sources_of(module)}


def test_a_module_stands_on_itself_and_on_all_that_it_imports() -> None:
    assert names("flashlab.files") == {"flashlab.files"}
    costs, shape = (f"flashlab.benchmarks.attention.{name}" for name in ("costs", "shape"))
    assert names(costs) == {costs, shape}


def test_stories_do_not_stand_on_figures() -> None:
    assert not {name for name in names("flashlab.story.stage") if "flashlab.figures" in name}


@pytest.mark.parametrize(
    "stage",
    [*STAGES, "analysis.verdict_changes"],
)
def test_no_stage_after_the_records_depends_on_what_decides_their_names(stage: str) -> None:
    plan = {f"flashlab.plan.{name}" for name in ("make", "runs", "identity", "datasets")}
    deciding = plan | {"flashlab.machine", "flashlab.config", "flashlab.config.check"}
    assert names(f"flashlab.{stage}").isdisjoint(deciding)


def test_the_software_of_a_report_is_all_that_its_stages_import() -> None:
    modules = set().union(*(names(f"flashlab.{stage}") for stage in STAGES))
    for part in ("report.render", "report.content", "figures.lines", "story.attention.time"):
        assert f"flashlab.{part}" in modules


@pytest.mark.parametrize("module", ["flashlab.no_such_stage", "json", "flashlabels"])
def test_what_is_no_module_of_the_package_is_an_error(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=module):
        sources_of(module)


def test_what_is_read_of_our_files_is_what_their_syntax_trees_import(root: Path) -> None:
    for path in root.joinpath("workflow").rglob("*.py"):
        expected: set[str] = set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                expected.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.module
                expected |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        assert imports(path) == expected, path
