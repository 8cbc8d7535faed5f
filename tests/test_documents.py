"""What the documents name is there: files, modules, configuration keys, commands, links."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel
from snakemake.cli import get_argument_parser

from flashlab.__main__ import make_parser
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.config.model import configuration_of, model_at

ROOT = Path(__file__).parents[1]
PACKAGES = tuple(sorted(path.parent for path in ROOT.glob("workflow/*/__init__.py")))
MADE = ("results", "report", "plan", "records", ".snakemake", ".venv", "config/machines")
"""Folders of what is made. A document may name a file in them that the code names too."""
PLACEHOLDER = re.compile(r"[A-Z]{2,}(_[A-Z]+)*\b|<|…|\*|\.\.\.|own\.|mine|/tmp|/path|/srv|/etc")
"""What a document leaves to the reader to fill in."""
SUFFIXES = "css csv html j2 js json md pdf po py sh smk svg toml ttf txt yaml yml".split()
FILE = re.compile(rf"\.?[\w.-]+(/[\w.-]+)*(/|\.({'|'.join(SUFFIXES)}))")


@dataclass(frozen=True)
class Document:
    """A document: its prose, and the lines of its blocks of code."""

    path: Path
    prose: str
    code: tuple[str, ...]

    @property
    def spans(self) -> list[str]:
        """What is set as code in the prose."""
        return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", self.prose)]

    @property
    def commands(self) -> list[list[str]]:
        """Every command, as words."""
        found = []
        for text in (*self.code, *self.spans):
            text = re.sub(r"^(\s*[A-Z_]+=('[^']*'|\S*))*\s*(time )?", "", text)
            if re.match(r"(\./run|snakemake|python -m flashlab(_grading)?)( |$)", text):
                found.append(shlex.split(text, comments=True))
        return found


def read(path: Path) -> Document:
    """A document; of the changelog only what is not released yet, since it names what was then."""
    text = path.read_text(encoding="utf-8")
    if path.name == "CHANGELOG.md":
        text = re.split(r"^## \d", text, flags=re.MULTILINE)[0]
    prose: list[str] = []
    code: list[str] = []
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            code.append(line)
        else:
            prose.append(line)
    joined = re.sub(r"\\\n\s*", "", "\n".join(code))
    return Document(path, "\n".join(prose), tuple(joined.split("\n")))


DOCUMENTS = [
    read(path)
    for pattern in ("*.md", "docs/*.md", "config/*.md", "envs/*.md", "data/*/*.md")
    for path in sorted(ROOT.glob(pattern))
]
each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda document: document.path.relative_to(ROOT).as_posix()
)


@functools.cache
def names_of_files() -> frozenset[str]:
    """The name of every file and folder that belongs to the project, and of what it holds."""
    folders = [path for path in ROOT.iterdir() if path.name not in (".git", ".venv", "results")]
    return frozenset(
        path.name for top in folders for path in (top, *(top.rglob("*") if top.is_dir() else ()))
    )


@functools.cache
def sources() -> str:
    """The text of all that makes files."""
    files = [*ROOT.glob("workflow/**/*.py"), *ROOT.glob("workflow/**/*.smk"), ROOT / "run"]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def is_there(name: str, document: Document) -> bool:
    """Whether a path is that of a file, or of what the code makes."""
    places = (ROOT, document.path.parent, ROOT / "kernels", *PACKAGES)
    if any((place / name).exists() for place in places):
        return True
    last = name.rstrip("/").rpartition("/")[2]
    made = "/" not in name.rstrip("/") or name.startswith(MADE)
    return made and (last in names_of_files() or last in sources() or Path(last).stem in BENCHMARKS)


@each_document
def test_every_file_that_is_named_exists(document: Document) -> None:
    paths = [span for span in document.spans if FILE.fullmatch(span)]
    missing = [
        path for path in paths if not PLACEHOLDER.search(path) and not is_there(path, document)
    ]
    assert missing == []


def top_level_names(path: Path) -> Iterator[str]:
    """What a module defines or imports."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def resolves(name: str) -> bool:
    """Whether a dotted name is that of a module of ours, or of something in one."""
    parts = name.split(".")
    for package in PACKAGES:
        place = package.joinpath(*parts[1:] if parts[0] == package.name else parts)
        if place.is_dir() or place.with_suffix(".py").is_file():
            return True
        for file in (place.parent.with_suffix(".py"), place.parent / "__init__.py"):
            if file.is_file() and parts[-1] in set(top_level_names(file)):
                return True
        above = place.parent
        if above.parent.with_suffix(".py").is_file():  # a field or a method of a class
            return {above.name, place.name} <= set(top_level_names(above.parent.with_suffix(".py")))
    return False


def is_a_key(name: str) -> bool:
    """Whether a dotted name is a key of some benchmark's configuration."""
    *path, last = name.split(".")
    for benchmark in BENCHMARKS.values():
        model: type[BaseModel] = configuration_of(benchmark)
        reached = True
        for part in path:
            below = model_at(model, [part])
            reached, model = reached and below is not model, below
        if reached and last in {field.alias or key for key, field in model.model_fields.items()}:
            return True
    return False


@each_document
def test_every_module_and_key_that_is_named_exists(document: Document) -> None:
    tops = {path.stem for package in PACKAGES for path in package.iterdir()}
    tops |= {package.name for package in PACKAGES}
    keys = set(configuration_of(BENCHMARKS["attention"]).model_fields)
    unknown = [
        name
        for name in document.spans
        if re.fullmatch(r"\w+(\.\w+)+", name)
        and name.rpartition(".")[2] not in SUFFIXES
        and name.partition(".")[0] in tops | keys
        and not resolves(name)
        and not is_a_key(name)
    ]
    assert unknown == []


@functools.cache
def rules() -> frozenset[str]:
    """The rules that can be asked for."""
    text = "\n".join(path.read_text("utf-8") for path in ROOT.glob("workflow/**/*.smk"))
    return frozenset(re.findall(r"^ *rule (\w+):", text, re.MULTILINE))


def mistakes_of_snakemake(words: list[str]) -> Iterator[str]:
    """What Snakemake or the configuration would refuse of a call."""
    known = get_argument_parser()._option_string_actions
    for word in words:
        if word.startswith("-") and word.partition("=")[0] not in known:
            yield word
    # A profile or executor would be looked for.
    plugin = {"--profile", "--workflow-profile"}
    kept = [w for i, w in enumerate(words) if w not in plugin and words[i - 1] not in plugin]
    arguments, _ = get_argument_parser().parse_known_args([w for w in kept if w != "--again"])
    for setting in arguments.config or ():
        if not is_a_key(setting.partition("=")[0]):
            yield setting
    reports = {"compare", "grades", "provenance", *(b.report for b in BENCHMARKS.values())}
    for target in arguments.targets:
        stem = re.fullmatch(r"report/(\w+)\.(pdf|html|csv)", target)
        if target not in rules() and not (stem and stem[1] in reports):
            yield target


def mistakes_of_flashlab(words: list[str]) -> Iterator[str]:
    """The commands and options of a call that the command line does not have."""
    (commands,) = (a for a in make_parser()._actions if a.choices and a.nargs == "A...")
    choices = dict(commands.choices or {})
    if not words or words[0] not in choices:
        yield " ".join(words[:1])
        return
    known = choices[words[0]]._option_string_actions
    for word in words[1:]:
        option = word.strip("[]").partition("=")[0]
        if option.startswith("--") and option not in known:
            yield f"{words[0]} {option}"


def mistakes(words: list[str]) -> Iterator[str]:
    """What is wrong with a command; what is left to the reader is passed over."""
    words = [word for word in words if word not in ("…", "...")]
    if words[0] == "snakemake":
        yield from mistakes_of_snakemake(words[1:])
    elif words[0] == "python":
        yield from mistakes_of_flashlab(words[3:])
    elif words[1:]:
        usage = set(re.findall(r"\./run (\w+)", ROOT.joinpath("run").read_text("utf-8")))
        if words[1] not in {*usage, "--help"}:
            yield words[1]
        elif words[1] in ("bench", "check", "clean", "profile", "selfcheck"):
            yield from mistakes_of_flashlab(words[1:])
        elif words[1] == "report":
            named = words[2:3] if words[2:3] and words[2] in BENCHMARKS else []
            yield from mistakes_of_snakemake([w for w in words[2 + len(named) :] if w != "--again"])


@each_document
def test_every_command_can_be_called(document: Document) -> None:
    wrong = {" ".join(words): list(mistakes(words)) for words in document.commands}
    assert {call: found for call, found in wrong.items() if found} == {}


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub and GitLab make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_document
def test_every_link_leads_somewhere(document: Document) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", document.prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = document.path.parent / name if name else document.path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def test_a_document_with_mistakes_is_found_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "See `kernels/none.py`, `flashlab.statistics.NONE`, `measure.none` and [this](none.md).\n\n"
        "    ./run fly\n    ./run bench Flash2 --slowly\n    python -m flashlab none\n"
        "    snakemake --cores 1 report/none.pdf --config none=1\n"
    )
    document = read(page)
    for test in (
        test_every_file_that_is_named_exists,
        test_every_module_and_key_that_is_named_exists,
        test_every_link_leads_somewhere,
    ):
        with pytest.raises(AssertionError, match="none|NONE"):
            test(document)
    found = [list(mistakes(words)) for words in document.commands]
    assert found == [["fly"], ["bench --slowly"], ["none"], ["none=1", "report/none.pdf"]]
