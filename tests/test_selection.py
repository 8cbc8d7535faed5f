"""Which benchmark a call is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from flashlab.benchmarks import registry
from flashlab.calls.selection import asked_benchmark, names_a_target, refuse_unknown_report
from flashlab.config import ConfigError, Layer


@pytest.fixture(autouse=True)
def second_benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A benchmark ``sorting`` with the report ``sorts``."""
    sorting = replace(registry.DEFAULT, name="sorting", report="sorts")
    monkeypatch.setitem(registry.BENCHMARKS, sorting.name, sorting)
    yield


def layers(**keys: str) -> list[Layer]:
    return [Layer("--config", keys)]


@pytest.mark.parametrize(
    ("arguments", "own", "expected"),
    [
        (["--cores", "1"], {}, None),
        (["report/grades.pdf"], {}, None),
        (["report/lab5.pdf"], {}, "attention"),
        (["-n", "./report/sorts.html", "report/sorts.pdf"], {}, "sorting"),
        (["results/h200-sorting/observations.json"], {}, "sorting"),
        (["results/h200/observations.json"], {}, "attention"),
        (["records"], {"benchmark": "sorting"}, "sorting"),
        (["report/sorts.pdf"], {"benchmark": "sorting"}, "sorting"),
        (["verify", "--config", "pdf=report/sorts.pdf"], {}, None),
    ],
)
def test_a_call_is_about_the_benchmark_whose_files_it_names(
    arguments: list[str], own: dict[str, str], expected: str | None
) -> None:
    assert asked_benchmark(arguments, layers(**own)) == expected


def test_a_report_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_unknown_report(["--cores", "1", "report/lab6.pdf"])
    assert "there is no report lab6 (did you mean lab5?); there are lab5" in str(caught.value)
    refuse_unknown_report(["report/lab5.html", "./report/compare.pdf", "report/grades.pdf"])
    refuse_unknown_report(["--report", "report/provenance.html", "mine/report/lab6.pdf"])


def test_a_target_is_told_from_the_value_of_an_option() -> None:
    comparison = ("report/compare.pdf", "report/compare.html")
    assert names_a_target(["--cores", "1", "./report/compare.html"], *comparison)
    assert not names_a_target(
        ["report/lab5.pdf", "--config", "pdf=report/compare.pdf"], *comparison
    )


def test_a_call_makes_the_files_of_one_benchmark() -> None:
    with pytest.raises(
        ConfigError, match=r"of 2; make a call for each: snakemake .*/lab5\.pdf && "
    ):
        asked_benchmark(["report/lab5.pdf", "report/sorts.pdf"], layers())


def test_a_report_of_another_benchmark_than_the_configured_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="asks for benchmark: attention; leave out one"):
        asked_benchmark(["report/sorts.pdf"], layers(benchmark="attention"))
