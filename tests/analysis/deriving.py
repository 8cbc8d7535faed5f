"""What is planted, and what holds of every finding that is derived from it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kind import Given, Kind
from flashlab.analysis.ratios import Ratio, ratio
from flashlab.analysis.registry import KINDS
from flashlab.benchmarks.model import Benchmark
from flashlab.statistics import Estimate
from flashlab.telling.teller import Teller
from flashlab.telling.values import Measured, Number, Value, from_json, to_json

LANGUAGES = ("zh_TW", "en")
NO_CLAIMS: Mapping[str, Any] = {"benchmark": "attention", "sources": {}, "claims": []}
VERDICTS = {name: kind.verdicts for name, kind in KINDS.items()}

Plant = Callable[..., Any]
"""Writes what is planted as records and tables, and reads it as an experiment."""


def _numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d[\d,.]*\d|\d", text))


def _values(facts: Any) -> Iterator[Value]:
    """The values that facts hold to be told."""
    if isinstance(facts, Value):
        yield facts
    elif isinstance(facts, Mapping | list | tuple):
        for each in facts.values() if isinstance(facts, Mapping) else facts:
            yield from _values(each)


def check(findings: Iterable[Finding], benchmark: Benchmark) -> None:
    """Every finding has a verdict of its kind, and is told with the same numbers in each language.

    It is the same after JSON, which has nothing but its fields and known values.

    A message that is missing, or that quotes what its statement does not have, is an error.
    """
    tellers = [Teller(language, benchmark) for language in LANGUAGES]
    for finding in findings:
        document = json.loads(json.dumps(finding.to_json()))
        assert finding.verdict in VERDICTS[finding.kind]
        assert Finding.from_json(document).to_json() == document
        for statement in finding.statements:
            texts = [teller.tell(statement) for teller in tellers]
            assert texts == [teller.tell(from_json(to_json(statement))) for teller in tellers]
            assert _numbers(texts[0]) == _numbers(texts[1]), texts
        for value in _values(finding.facts):
            assert all(map(str.strip, (teller.tell(value) for teller in tellers)))


def derived(
    kind: Kind, *experiments: Any, metric: str | None = None, **given: Any
) -> list[Finding]:
    """The findings of a kind in experiments, and on all of them as a dataset; each is checked.

    Of those that are about a metric alone, where one is named.
    """
    known = Given(
        **{"estimates": Estimates(experiments), "ceilings": None, "published": NO_CLAIMS, **given}
    )
    found = [
        f
        for experiment in experiments
        for _, derive in kind.of_experiment
        for f in derive(experiment, known)
    ]
    found += [f for _, derive in kind.of_dataset for f in derive(experiments, known)]
    assert {finding.kind for finding in found} <= {kind.name}
    check(found, experiments[0].benchmark)
    return [finding for finding in found if metric in (None, finding.metric)]


def the_one(kind: Kind, *experiments: Any, metric: str = "forward_time", **given: Any) -> Finding:
    """The only finding of a kind about a metric."""
    (found,) = derived(kind, *experiments, metric=metric, **given)
    return found


def at_first(experiment: Experiment, estimates: Estimates) -> dict[str, Estimate]:
    """The forward time of each implementation at N = 128."""
    return {
        run["implementation"]: estimates.of_metric(experiment, run, "forward_time")
        for run in experiment.runs
        if run["seq_len"] == 128
    }


def of_both(experiment: Experiment, estimates: Estimates) -> Ratio:
    """Flash2 over Pytorch there."""
    of = at_first(experiment, estimates)
    return ratio(128, of["Flash2"], of["Pytorch"])


def quoted(finding: Finding) -> dict[str, Any]:
    """What a finding's statements quote, by name; numbers as such."""
    return {
        name: value.value if isinstance(value, Measured | Number) else value
        for statement in finding.statements
        for name, value in statement.values.items()
    }


def keys(finding: Finding) -> list[str]:
    """The keys of a finding's statements."""
    return [statement.key for statement in finding.statements]


def verdicts(finding: Finding) -> list[str]:
    """The verdict at each value, as the evidence has it."""
    return [estimate["verdict"] for estimate in finding.estimates]


def claims_document(**claim: Any) -> dict[str, Any]:
    """A file of published claims with one claim, about attention on CUDA."""
    text = {"zh_TW": "快", "en": "fast"}
    usual = {"id": "claim", "source": "paper", "place": text, "says": text, "device": "Abacus"}
    return {
        "benchmark": "attention",
        "dtype": "float16",
        "device": "cuda",
        "sources": {"paper": {"title": text, "statistic": "mean_of_30", "protocol": "lab5"}},
        "claims": [{**usual, "bound_to_device": False, **claim}],
    }


def excluded_run(name: str, seq_len: int, status: str) -> Reason:
    """The reason that names a planted run without numbers."""
    run = {"implementation": name, "causal": False, "seq_len": seq_len}
    return Reason("excluded", run, status)
