"""The project's files agree: versions, packages, imports, and all that a document names."""

from __future__ import annotations

import ast
import contextlib
import functools
import pkgutil
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from faults import read_faults
from generated import COMMAND, PAGES, ROOT
from planted.calls import python

from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.cli import make_parser
from flashlab.config.model import CONFIGURATION, configuration_of, model_at
from flashlab.version import __version__


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_package_project_citation_and_changelog_name_the_same_version() -> None:
    citation = yaml.safe_load(text("CITATION.cff"))
    released = re.search(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.M)
    assert released and released.groups() == (citation["version"], citation["date-released"])
    project = tomllib.loads(text("pyproject.toml"))["project"]
    assert project["version"] == __version__ == citation["version"]


def test_the_image_has_the_packages_that_run_would_install_and_nothing_that_git_ignores() -> None:
    (packages,) = re.findall(r"packages='python3-venv (.+?)'", text("run"))
    assert {"python3-venv", *packages.split()} <= {*text("Containerfile").split()}
    git, image = (
        {line for line in text(name).splitlines() if line and not line.startswith("#")}
        for name in (".gitignore", ".containerignore")
    )
    # Git matches at any depth what does not begin with a slash.
    ignored = {each[1:] if each[0] == "/" else f"**/{each}" for each in git}
    assert image == {".git", *(each.rstrip("/") for each in ignored)}


OURS = {path.stem for at in ("perf", "tests", "workflow") for path in ROOT.glob(f"{at}/*")}


@pytest.mark.parametrize("script", sorted(ROOT.glob("perf/*.py")), ids=lambda path: path.stem)
def test_a_script_of_perf_finds_what_it_imports_of_ours(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    for node in ast.walk(tree := ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in OURS:
            for name in node.names:
                pkgutil.resolve_name(f"{node.module}.{name.name}")
    assert ast.get_docstring(tree)


LARGE = {
    *("torch", "numpy", "scipy", "pandas", "matplotlib", "seaborn", "weasyprint", "jinja2"),
    *("pikepdf", "pydantic", "jsonschema", "rich"),
}
RULES = "".join(path.read_text("utf-8") for path in ROOT.glob("workflow/rules/*.smk"))
RULES_IMPORT = ", ".join({*re.findall(r"^from (flashlab\S*) import", RULES, re.MULTILINE)})
"""What the rules import at every call of Snakemake."""


@pytest.mark.parametrize(
    ("module", "large", "most"),
    [
        ("flashlab.__main__", "", 170),
        (RULES_IMPORT, "pydantic", 350),
        ("flashlab.story.stage", "numpy pandas scipy", 900),
        # scipy.stats, which nothing of it needs, would be 300 modules and half a second more
        ("flashlab.report.render", "numpy pandas scipy jinja2 weasyprint", 1500),
    ],
    ids=["a command", "the rules", "the story", "the report"],
)
def test_a_call_loads_no_more_than_it_needs(module: str, large: str, most: int) -> None:
    """Most of the time of a short job."""
    said, errors = python(ROOT, "-c", f"import sys, {module}; print(*sys.modules)").communicate()
    loaded = said.split()
    assert {name.partition(".")[0] for name in loaded} & LARGE == {*large.split()}, errors
    assert len(loaded) <= most


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_what_a_document_holds_of_the_code_is_current(page: Path) -> None:
    said = page.read_text(encoding="utf-8")
    assert said == PAGES[page](said), f"renew it with: {COMMAND}"
    assert "| TODO |" not in said, "say what the key is for, there"


def test_every_fault_can_be_planted() -> None:
    assert [problem for fault in read_faults() if (problem := fault.problem())] == []


# Names in the documents exist: files, modules, configuration keys, commands, links

PATTERNS = ("[!C]*.md", "CONTR*.md", "docs/*.md", "config/*.md", "envs/*.md", "data/*/*.md")
DOCUMENTS = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]
"""All but the changelog, which names what was."""
PACKAGES = (ROOT / "workflow", *(path.parent for path in ROOT.glob("workflow/*/__init__.py")))
MADE = r"(results|report|plan|records|\.snakemake|\.venv)/"
"""Folders of what is made: a document may name a file in them that the code names too."""
PLACEHOLDER = re.compile(r"[A-Z]{2,}|[<…*]|\.\.|mine|^/")  # left to the reader
EXAMPLES = {"n128.json", "b16_n512_h32_e2048_causal.json"}
FILE = re.compile(r"\.?[\w.-]+(/[\w.-]+)*(/|\.(css|csv|gz|html|j2|js|json|md|pdf|po|py|smk|yaml))")
BLOCK = re.compile(r"^```.*?^```$|^ {4}.*?$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:[A-Z_]+=(?:'[^']*'|\S*) )*(\./run|snakemake|python -m flashlab)(| .*)$")
MODELS = [configuration_of(benchmark) for benchmark in BENCHMARKS.values()]
REPORTS = {benchmark.report for benchmark in BENCHMARKS.values()}
COMMANDS = next(dict(a.choices or {}) for a in make_parser()._actions if a.nargs == "A...")


@functools.cache
def code() -> str:
    """The text of all that makes files, and the names of the project's files."""
    paths = (path for pattern in ("*.py", "*.smk") for path in ROOT.glob(f"workflow/**/{pattern}"))
    names = (path.name for path in ROOT.glob("[!r.]*/**/*"))
    return "\n".join([text("run"), *(path.read_text("utf-8") for path in paths), *names])


def is_a_file(name: str, document: Path) -> bool:
    """True if a path is that of a file, or of an output of the code."""
    if any((at / name).exists() for at in (ROOT, document.parent, ROOT / "kernels", *PACKAGES)):
        return True
    *folders, last = name.rstrip("/").split("/")
    is_named = Path(last).stem in REPORTS or re.search(rf"\b{re.escape(last)}\b", code())
    return bool(is_named and (not folders or re.match(MADE, name)))


def is_a_key(name: str) -> bool:
    """True if a dotted name is a key of some benchmark's configuration."""
    *path, last = name.split(".")
    fields = [each for of in MODELS for each in model_at(of, path).model_fields.items()]
    return last in {field.alias or key for key, field in fields}


def is_a_module(name: str) -> bool:
    """True if a dotted name is that of a module or package of ours, or of something in one."""
    for whole in (name, f"flashlab.{name}", f"flashlab_grading.{name}"):
        with contextlib.suppress(ImportError, AttributeError):
            return pkgutil.resolve_name(whole) is not None
    return False


def options_of(program: str, command: str) -> set[str]:
    """The options of a command of ours or of Snakemake; none if there is no such command."""
    if program == "snakemake" or (program == "./run" and command in ("report", "record")):
        from snakemake.cli import get_argument_parser

        own = {"--import", "--device"} if command == "report" else set()
        return {*get_argument_parser()._option_string_actions, "--again", "--quick", *own}
    if program == "./run" and command not in ("bench", "check"):
        found = re.search(rf"\./run {command}\b(.*)", text("run"))
        return {"--help", *re.findall(r"--\w+", found[1])} if found else set()
    return {*COMMANDS[command]._option_string_actions} if command in COMMANDS else set()


def mistakes_of_a_call(program: str, words: list[str]) -> Iterator[str]:
    """The commands, options, targets and keys of a call that do not exist."""
    options = options_of(program, words[0]) if words else {"--help"}
    given = (word for word in words if word.startswith("--")) if options else words[:1]
    yield from (word for word in given if word.split("=")[0] not in options)
    if "--config" in options:
        keys = [w for w in words if re.match("(?!gpu|mem_mb|slurm_)[a-z_]+=", w)]
        yield from (key for key in keys if not is_a_key(key.split("=")[0]))
        made = (w for w in words if re.fullmatch(r"report/\w+\.pdf", w))
        yield from (w for w in made if not is_a_file(w, ROOT))


def mistakes(path: Path) -> Iterator[str]:
    """The names in a document that do not exist, and what a merge left in it."""
    page = path.read_text("utf-8").replace("\\\n", " ")
    yield from re.findall("^[<>]{7} .*$", page, re.MULTILINE)
    prose = BLOCK.sub("", page)
    lines = [line.strip() for block in BLOCK.findall(page) for line in block.split("\n")]
    spans = [" ".join(span.split()) for span in re.findall("`([^`]+)`", prose)]
    tops = {inside.stem for package in PACKAGES for inside in package.iterdir()}
    tops |= set(CONFIGURATION.model_fields)
    for span in spans:
        if FILE.fullmatch(span):
            known = span in EXAMPLES or PLACEHOLDER.search(span) or is_a_file(span, path)
        else:
            dotted = re.fullmatch(r"(\w+)(\.\w+)+", span)
            known = not dotted or dotted[1] not in tops or is_a_module(span) or is_a_key(span)
        yield from [] if known else [span]
    for call in filter(None, map(CALL.match, [*spans, *lines])):
        yield from mistakes_of_a_call(call[1], shlex.split(call[2], comments=True))
    for target in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", prose):
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        headings = re.findall("^#+ (.*)$", file.read_text("utf-8"), re.M) if anchor else [""]
        anchors = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
        yield from [] if file.exists() and anchor in anchors else [target]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_document_names_is_there(path: Path) -> None:
    assert list(mistakes(path)) == []


def test_a_document_with_mistakes_is_found_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "See `kernels/none.py`, `flashlab.statistics.NONE`, `measure.none` and [this](none.md).\n\n"
        "    ./run fly\n    ./run bench Flash2 --slowly\n    python -m flashlab none\n"
        "    snakemake --cores 1 report/none.pdf --config none=1\n"
    )
    assert list(mistakes(page)) == [
        *("kernels/none.py", "flashlab.statistics.NONE", "measure.none", "fly", "--slowly"),
        *("none", "none=1", "report/none.pdf", "none.md"),
    ]
