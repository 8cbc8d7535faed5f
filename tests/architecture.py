"""Writes the generated part of docs/architecture.md: the packages' jobs and who imports whom.

A package's job is the first line of its docstring. Usage, from the repository's root:
python tests/architecture.py
"""

from __future__ import annotations

import ast
from pathlib import Path

import networkx

from flashlab.sources import PACKAGE, imported_files

COMMAND = "python tests/architecture.py"
PAGE = PACKAGE.parents[1] / "docs" / "architecture.md"
BEGIN = f"<!-- Generated from the code. Renew it with: {COMMAND} -->\n"
END = "<!-- End of the generated part. -->\n"

GRADING = "flashlab_grading"


def module_name(path: Path) -> str:
    """The dotted name of a file of ours."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): path
    for package in (PACKAGE, PACKAGE.parent / GRADING)
    for path in sorted(package.rglob("*.py"))
}


def imported_modules(name: str) -> set[str]:
    """The modules that a module imports directly, without the package's own name."""
    return {module_name(path) for path in imported_files(MODULES[name])} - {"flashlab", name}


SIDES = {
    "benchmarks.model": {"model", "shape", "settings"},
    "benchmarks.measure": {"measure", "gate", "prepared", "busy", "loop"},
    "measuring.supervise": {"supervise"},
}
"""Packages with a lower and an upper floor: a name for the modules that are on another one."""


def part_of(name: str) -> str:
    """The package or top-level module that a module belongs to, such as `report`."""
    if name.startswith(GRADING):
        return GRADING
    part, last = name.split(".")[1], name.split(".")[-1]
    sides = (side for side, modules in SIDES.items() if last in modules)
    return next((side for side in sides if side.split(".")[0] == part), part)


def draw() -> str:
    """A Mermaid flowchart with an arrow from each package and module to those that it imports.

    What imports nothing stands last, before it what imports only that, and so on. An arrow is left
    out where a longer path leads to the same place. The dots keep Mermaid from taking a name for
    one of its keywords, such as `call`.
    """
    graph = networkx.DiGraph(
        (part_of(other), part_of(name))
        for name in set(MODULES) - {"flashlab"}
        for other in imported_modules(name)
        if part_of(other) != part_of(name)
    )
    names = [name for layer in networkx.topological_generations(graph) for name in sorted(layer)]
    imported = networkx.transitive_reduction(graph).pred
    lines = [
        f"    .{name} --> {' & '.join(f'.{other}' for other in sorted(imported[name]))}"
        for name in reversed(names)
        if imported[name]
    ]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def listing() -> str:
    """Each package of the diagram with its job."""
    jobs = []
    for name, path in MODULES.items():
        short = name.removeprefix("flashlab.")
        if path.name == "__init__.py" and name != "flashlab" and "." not in short:
            text = ast.get_docstring(ast.parse(path.read_bytes()))
            assert text, f"{path} has no docstring"
            jobs.append(f"- `{short}`: {text.splitlines()[0]}")
    return "\n".join(jobs).replace("``", "`")


def generated() -> str:
    """The generated part, without its markers."""
    return "\n\n".join(
        [
            "An arrow points to what is imported. It is left out where a longer path leads there.\n"
            "`cli` names each command's function, and imports it only when that command runs.",
            draw(),
            listing(),
        ]
    )


def renewed(page: str) -> str:
    """The page with its generated part made anew."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    assert found, f"{PAGE} must hold the lines {BEGIN.strip()} and {END.strip()}"
    return f"{before}{BEGIN}\n{generated()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
