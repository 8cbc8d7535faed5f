"""Writes what two documents hold of the code: ``python tests/generated.py``.

docs/architecture.md has the packages' jobs and who imports whom, where a package's job is the first
line of its docstring. config/README.md has the keys of a configuration with their defaults, beside
what each is for, which is written there by hand. The test suite holds both against what this makes.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from flashlab.config.model import CONFIGURATION
from flashlab.sources import PACKAGE, imported_files

ROOT = PACKAGE.parents[1]
COMMAND = "python tests/generated.py"
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
    "benchmarks.measure": {"measure", "process", "gate", "prepared", "busy", "loop"},
    "hw4.judge": {"judge"},
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


def drawing() -> str:
    """A Mermaid flowchart with an arrow from each package and module to those that it imports.

    What imports nothing stands last, before it what imports only that, and so on. An arrow is left
    out where a longer path leads to the same place. The dots keep Mermaid from taking a name for
    one of its keywords, such as `call`.
    """
    import networkx  # which takes long, and no other test needs

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


def jobs() -> str:
    """Each package of the diagram with its job."""
    lines = []
    for path in (path for path in MODULES.values() if path.name == "__init__.py"):
        name = module_name(path).removeprefix("flashlab.")
        if name != "flashlab" and "." not in name:
            text = ast.get_docstring(ast.parse(path.read_bytes()))
            assert text, f"{path} has no docstring"
            lines.append(f"- `{name}`: {text.splitlines()[0]}")
    return "\n".join(lines).replace("``", "`")


def architecture(page: str) -> str:
    """The page on the design with its generated part made anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"it must hold the lines {BEGIN.strip()} and {END.strip()}"
    return f"{before}{begin}\n{drawing()}\n\n{jobs()}\n\n{end}{after}"


def written(default: object) -> str:
    """A default as a call would give it."""
    if default is None or default is PydanticUndefined:
        return ""
    if isinstance(default, BaseModel):
        default = default.model_dump(exclude_none=True)
    text = default if isinstance(default, str) else json.dumps(default).replace('"', "")
    return f"`{text}`" if text not in ("[]", "{}") else ""


def keys(readme: str) -> str:
    """The README with a row for every key: its default, and what it is as far as the text says."""
    before, heading, rest = readme.partition("## All keys\n\n")
    rows, _, after = rest.partition("\n\n")
    said = dict(re.findall(r"^\| `(\w+)` \| (.*?) \| .*\|$", rows, re.MULTILINE))
    lines = [
        f"| `{name}` | {said.get(name, 'TODO')} | {written(field.default)} |\n"
        for name, field in CONFIGURATION.model_fields.items()
    ]
    table = "| key | what it is | default |\n|---|---|---|\n" + "".join(lines)
    return f"{before}{heading}{table}\n{after}"


PAGES = {ROOT / "docs" / "architecture.md": architecture, ROOT / "config" / "README.md": keys}

if __name__ == "__main__":
    for page, renewed in PAGES.items():
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
