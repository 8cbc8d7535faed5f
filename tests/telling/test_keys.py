"""The keys of the report's messages: whole literals in the code, which grep finds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

import pytest

from flashlab.benchmarks.implementations import implementations_of
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.labels import messages
from flashlab.sources import PACKAGE, imports

KNOWN = {language: messages(language, "report") for language in ("zh_TW", "en")}
KEYS = KNOWN["en"].keys()
TEMPLATES = PACKAGE.parents[1] / "templates"
TEMPLATE = TEMPLATES.joinpath("report.html.j2").read_text(encoding="utf-8")
SCRIPTS = "".join(path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.glob("page*.js")))
MODULES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_bytes()) for name, path in MODULES.items()}
TELLING = [name for name, path in MODULES.items() if imports(path) & {"flashlab.telling.values"}]
"""The modules that say something, or are told it."""

DECLARED = {
    name
    for benchmark in BENCHMARKS.values()
    for name in (
        *(benchmark.name, *benchmark.quantities, *implementations_of(benchmark)),
        *(metric.name for metric in benchmark.metrics),
        *(parameter.name for parameter in benchmark.parameters),
    )
}
"""The names that a special message may be about."""

METHOD = re.compile(rf"({'|'.join(BENCHMARKS)})\.method\.[\w.]+")
"""Messages that are read by their beginning: a benchmark's method."""


def is_saying(node: ast.AST) -> TypeGuard[ast.Call]:
    """True if a node is a call whose first argument is the key of a message."""
    named = isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name)
    return bool(named) and node.func.id in ("say", "tell", "Statement")


def literals(value: ast.expr | None) -> set[str]:
    """The texts that a constant, a choice of constants, or a table of them can give."""
    match value:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.IfExp(body=one, orelse=other):
            return literals(one) | literals(other)
        case ast.Dict(values=each) | ast.Tuple(elts=each) | ast.List(elts=each):
            return {text for inner in each for text in literals(inner)}
        case ast.Call(func=ast.Name(id="by_code"), args=each):
            return {text for inner in each for text in literals(inner)}
        case ast.Starred(value=each):
            return literals(each)
    return set()


def put_together(tree: ast.AST) -> Iterator[ast.AST]:
    """Places that build a key; a whole one is found by `test_every_message_is_said`."""
    for node in filter(is_saying, ast.walk(tree)):
        match node.args[0]:
            case ast.JoinedStr() | ast.BinOp():
                yield node
            case ast.Call(func=ast.Attribute(attr="format" | "join")):
                yield node


def keys_in(tree: ast.AST) -> Iterator[str]:
    """The keys that are said, and those that stand in a table with others."""
    for node in ast.walk(tree):
        if is_saying(node):
            yield from literals(node.args[0])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found = literals(node.value)
            if len(found) > 1 and not found.isdisjoint(KEYS):
                yield from filter(re.compile(r"\w+(\.\w+)+").fullmatch, found)


def generals(key: str) -> Iterator[str]:
    """A key, and those that it is the special message for."""
    yield key
    while "." in key and key.partition(".")[0] in DECLARED:
        key = key.partition(".")[2]
        yield key


@pytest.mark.parametrize("module", TELLING)
def test_every_key_is_a_whole_literal_and_has_its_message(module: str) -> None:
    assert [ast.unparse(node) for node in put_together(TREES[module])] == []
    assert set(keys_in(TREES[module])) <= KEYS


def test_a_call_quotes_what_its_message_asks_for() -> None:
    """As far as it can be seen: where nothing is quoted by ``**``."""
    asked = {
        key: set(re.findall(r"\{(\w+)\}", KNOWN["en"][key] + KNOWN["zh_TW"][key])) for key in KEYS
    }
    checked = 0
    for module in TELLING:
        for node in filter(is_saying, ast.walk(TREES[module])):
            quoted = {keyword.arg for keyword in node.keywords} | {"margin"}
            if None in quoted or node.func.id == "Statement":
                continue
            for key in literals(node.args[0]):
                special = (each for each in KEYS if key in generals(each))
                assert set().union(*map(asked.__getitem__, special)) <= quoted, (module, key)
                checked += 1
    assert checked > 75


def test_every_message_is_said() -> None:
    said = set(re.findall(r"""\bsay\(\s*["']([\w.]+)["']\s*[,)]""", TEMPLATE))
    said = said.union(*(literals(node) for tree in TREES.values() for node in ast.walk(tree)
                        if isinstance(node, ast.Constant)))  # fmt: skip
    unsaid = {key for key in KEYS if said.isdisjoint(generals(key)) and not METHOD.fullmatch(key)}
    words = {key.removeprefix("interface.") for key in unsaid}
    assert {word for word in words if not re.search(rf"\b{word}\b", SCRIPTS)} == set()
    assert not re.search(r"\bsay\([^()]*~", TEMPLATE), "the template puts a key together"
