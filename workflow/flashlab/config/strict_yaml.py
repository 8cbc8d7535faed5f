"""YAML read strictly: a mistake is one message with its line, its column and a remedy.

Beyond YAML's own rules, a duplicate key and a value that contains itself are mistakes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import yaml

_REWORDED = {
    "found unhashable key": "a key is text, not a list or a mapping",
    "found unconstructable recursive node": "this value contains itself through an alias (*); "
    "write the value out",
}
_QUOTE = "put text that holds : # * & ! or quotation marks in quotes, or check the indentation"


class StrictYamlError(ValueError):
    """Text that is not YAML, or that is ambiguous: the place, the mistake, and the remedy."""


def _mistake(line: int, column: int, message: str) -> StrictYamlError:
    """A mistake at a line and a column counted from 0; editors count from 1."""
    return StrictYamlError(f"line {line + 1}, column {column + 1}: {message}")


class _StrictLoader(yaml.SafeLoader):
    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:  # deep, as only then PyYAML refuses a value that contains itself
            return super().construct_object(node, deep=True)
        except (yaml.YAMLError, StrictYamlError, RecursionError):
            raise
        except Exception as error:  # such as ValueError for the date 2026-02-30
            message = "neither a date nor a number, though it is written like one; put it in quotes"
            mark = node.start_mark
            raise _mistake(mark.line, mark.column, message) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        mapping = super().construct_mapping(node, deep)
        lines: dict[Hashable, int] = {}
        for key, mark in ((self.construct_object(key), key.start_mark) for key in keys):
            if key in lines:
                message = f"the key {key} is given twice (first on line {lines[key]})"
                raise _mistake(mark.line, mark.column, f"{message}; keep one of them")
            lines[key] = mark.line + 1
        return mapping


def _reworded(error: yaml.MarkedYAMLError) -> StrictYamlError:
    """A parser's error with the line on which the enclosing collection begins, and a remedy."""
    at, begun = error.problem_mark or error.context_mark, error.context_mark
    message = error.problem or error.context or "not YAML"
    assert at, message
    if at.buffer and at.buffer[at.pointer] == "\t":
        message = "a tab; replace it with spaces"
    elif message in _REWORDED:
        message = _REWORDED[message]
    elif error.problem and error.context and begun and begun.line != at.line:
        message += f" ({error.context} that begins on line {begun.line + 1}); {_QUOTE}"
    else:
        message += f"; {_QUOTE}"
    return _mistake(at.line, at.column, message)


def parse_yaml(content: str | bytes) -> Any:
    """The value that a YAML text, in UTF-8 if in bytes, stands for; None for none.

    Raises:
        StrictYamlError: the first mistake, with its line, its column and a remedy.
    """
    before = message = ""
    try:
        text = content if isinstance(content, str) else content.decode()
        return yaml.load(text, Loader=_StrictLoader)  # a SafeLoader that refuses more
    except yaml.MarkedYAMLError as error:
        raise _reworded(error) from error
    except RecursionError as error:
        raise StrictYamlError("lists or mappings are nested too deeply") from error
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        message = "not UTF-8 text; save the file as UTF-8"
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        message = "a control character that YAML does not allow; remove it"
    raise _mistake(before.count("\n"), len(before) - before.rfind("\n") - 1, message)


def line_of(file: Path, path: Sequence[str | int]) -> int | None:
    """The line of the key or item at a path of a YAML file, or of the innermost one above it.

    None where there is neither, or no such file.
    """
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, ValueError, yaml.YAMLError):
        return None
    line = None
    for part in map(str, path):
        inside = node.value if isinstance(node, yaml.CollectionNode) else []
        pairs = inside if isinstance(node, yaml.MappingNode) else [(item, item) for item in inside]
        names = [key.value if pairs is inside else str(i) for i, (key, _) in enumerate(pairs)]
        if part not in names:
            break
        key, node = pairs[names.index(part)]
        line = key.start_mark.line + 1
    return line
