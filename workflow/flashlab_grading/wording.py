"""Lines and causes in words: one whole sentence each, from the catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flashlab.telling.catalogs import message, messages
from flashlab_grading.causes import Cause
from flashlab_grading.model import Line

DOMAIN = "grades"
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


def _experiments(cause: Cause, language: str) -> str:
    """The experiments that a cause names: ``sequence length (Pytorch, Flash2), batch size …``."""
    by_experiment: dict[str, list[str]] = {}
    for experiment, implementation in cause.experiments:
        by_experiment.setdefault(experiment, []).append(implementation)
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
    if cause.key and cause.key in messages(language, DOMAIN):
        params = _shown(cause.params, language, show)
        return word(cause.key, language, experiments=_experiments(cause, language), **params)
    told = sentence(cause.line, language, show)
    if cause.files > 1:
        told += word("cause.more_files", language, count=cause.files - 1)
    return told
