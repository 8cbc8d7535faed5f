"""Lines and causes in words: one whole sentence each, from the catalogs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from flashlab.telling.catalogs import message, messages
from flashlab_grading.causes import PAIRWISE, Cause
from flashlab_grading.model import Line

DOMAIN = "grades"
COVERAGE = ("coverage.missing", "coverage.few_masks")
TRANSLATED = ("pass", "experiment")
"""Parameters whose values are keys of the catalog themselves."""

LISTED = "others"
"""The parameter that holds several names, with NUL between them, which no name has."""


def domain_of(key: str) -> str:
    """The catalog that a message is in: what reading a file finds is worded with the reader."""
    return "course" if key.startswith("form.") else DOMAIN


def word(key: str, language: str, /, **params: object) -> str:
    """A message in a language, with its parameters filled in."""
    return message(language, domain_of(key), key).format_map(params)


def _shown(params: Mapping[str, str], language: str, show: Callable[[str], str]) -> dict[str, str]:
    """Parameters made safe, their words translated and their lists written out."""
    found = {}
    for name, value in params.items():
        if name == LISTED:
            names = map(show, value.split("\0"))
            found[name] = word("list.separator", language).join(names)
        elif name not in TRANSLATED:
            found[name] = show(value)
        elif value:
            found[name] = word(f"{name}.{value}", language)
    return found


def sentence(line: Line, language: str, show: Callable[[str], str]) -> str:
    """A line as a sentence, its parameters made safe by `show`."""
    return word(line.code, language, **_shown(line.params, language, show))


def _experiments(lines: Iterable[Line], language: str) -> str:
    """The experiments that lines name: ``sequence length (Pytorch, Flash2), batch size …``."""
    by_experiment: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        by_experiment[line.params["experiment"]].append(line.params["implementation"])
    return word("list.separator", language).join(
        word(
            "cause.experiment",
            language,
            experiment=word(f"experiment.{experiment}", language),
            implementations=word("list.separator", language).join(implementations),
        )
        for experiment, implementations in by_experiment.items()
    )


def cause_sentence(cause: Cause, language: str, show: Callable[[str], str]) -> str:
    """A cause in words, its parameters made safe by `show`."""
    line, count = cause.line, cause.files
    if line.code in COVERAGE:
        return word("cause.coverage", language, experiments=_experiments(cause.lines, language))
    if line.code in PAIRWISE:
        others = dict.fromkeys(each.params["other"] for each in cause.lines)
        params = _shown({"others": "\0".join(others)}, language, show)
        return word(f"cause.{line.code}", language, **params)
    if line.code == "identity.implementation":
        return word("cause.labels", language, count=count, total=cause.total)
    if count > 1 and f"cause.{line.code}" in messages(language, DOMAIN):
        return word(f"cause.{line.code}", language, count=count, total=cause.total)
    told = sentence(line, language, show)
    return told + word("cause.more_files", language, count=count - 1) if count > 1 else told
