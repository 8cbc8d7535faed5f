"""YAML read strictly: a mistake is one message with its line, its column and a remedy.

Beyond YAML's own rules, a duplicate key and a value that contains itself are mistakes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import yaml

_MERGE = "tag:yaml.org,2002:merge"


class StrictYamlError(ValueError):
    """Text that is not YAML, or that is ambiguous: where, what is wrong, and what to do."""


def _mistake(line: int, column: int, message: str) -> StrictYamlError:
    """A mistake at a place counted from 0; editors count from 1."""
    return StrictYamlError(f"line {line + 1}, column {column + 1}: {message}")


class _StrictLoader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        # A collection has no end before it is complete, and an alias can name it before that.
        if node is not None and node.end_mark is None:
            message = "this alias (*) is part of the value that it stands for; write the value out"
            raise _mistake(mark.line, mark.column, message)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (yaml.YAMLError, StrictYamlError, RecursionError):
            raise
        except Exception as error:  # such as ValueError for the date 2026-02-30
            mark = node.start_mark
            message = "neither a date nor a number, though it is written like one; put it in quotes"
            raise _mistake(mark.line, mark.column, message) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key, mark = self.construct_object(key_node, deep=True), key_node.start_mark
            if not isinstance(key, Hashable):
                raise _mistake(mark.line, mark.column, "a key is text, not a list or a mapping")
            if key in lines:
                message = f"the key {key} is given twice (first on line {lines[key] + 1})"
                raise _mistake(mark.line, mark.column, f"{message}; keep one of them")
            lines[key] = mark.line
        return super().construct_mapping(node, deep)


def _syntax_mistake(error: yaml.MarkedYAMLError) -> StrictYamlError:
    """The parser's error, and where what it belongs to begins, if that is on another line."""
    at = error.problem_mark or error.context_mark
    if at is None:
        return StrictYamlError(str(error))
    message = error.problem or error.context or "not YAML"
    begun = error.context_mark
    if error.problem and error.context and begun and begun.line != at.line:
        message += f" ({error.context} that begins on line {begun.line + 1})"
    if at.buffer and at.buffer[at.pointer] == "\t":
        return _mistake(at.line, at.column, "a tab; replace it with spaces")
    remedy = "put text that holds : # * & ! or quotation marks in quotes, or check the indentation"
    return _mistake(at.line, at.column, f"{message}; {remedy}")


def _place(before: str) -> tuple[int, int]:
    """Line and column that follow a text, counted from 0."""
    return before.count("\n"), len(before) - before.rfind("\n") - 1


def parse_yaml(text: str) -> Any:
    """The value that a YAML text stands for; None for none.

    Raises:
        StrictYamlError: the first mistake, with its line, its column and a remedy.
    """
    try:
        # The loader is a SafeLoader that refuses more.
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.reader.ReaderError as error:
        message = "a control character that YAML does not allow; remove it"
        raise _mistake(*_place(text[: error.position]), message) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_mistake(error) from error
    except RecursionError as error:
        raise StrictYamlError("lists or mappings are nested too deeply") from error


def read_yaml(file: Path) -> Any:
    """The value that a YAML file stands for; None for an empty one.

    Raises:
        StrictYamlError: the first mistake, as `parse_yaml` states it, or text that is not UTF-8.
        OSError: the file cannot be read.
    """
    content = file.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = _place(content[: error.start].decode("utf-8"))
        raise _mistake(*place, "not UTF-8 text; save the file as UTF-8") from error
    return parse_yaml(text)


def line_of(file: Path, path: Sequence[str | int]) -> int | None:
    """The line of the key or item at a path of a YAML file, or of the innermost one above it.

    None where there is neither, or no such file.
    """
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, ValueError, yaml.YAMLError):
        return None
    line = None
    for part in path:
        if isinstance(node, yaml.MappingNode):
            items = {key.value: (key, value) for key, value in node.value}
        else:
            inside = node.value if isinstance(node, yaml.SequenceNode) else []
            items = {str(i): (item, item) for i, item in enumerate(inside)}
        if str(part) not in items:
            break
        key, node = items[str(part)]
        line = key.start_mark.line + 1
    return line
