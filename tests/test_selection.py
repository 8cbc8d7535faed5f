"""Which benchmark a call is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from flashlab.benchmarks import registry
from flashlab.config import ConfigError, Layer
from flashlab.plan.call import asked_benchmark


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
        asked_benchmark(["--cores", "1", "report/lab6.pdf"], ())
    assert "there is no report lab6 (did you mean lab5?); there are lab5" in str(caught.value)
    others = ["--report", "report/provenance.html", "mine/report/lab6.pdf", "./report/compare.pdf"]
    assert asked_benchmark(others, ()) is None


def test_a_call_is_about_one_benchmark() -> None:
    both = r"lab5\.pdf is of attention and report/sorts\.pdf is of sorting; make a call for each"
    with pytest.raises(ConfigError, match=both):
        asked_benchmark(["report/lab5.pdf", "report/sorts.pdf"], layers())
    with pytest.raises(ConfigError, match="the call's configuration is of attention"):
        asked_benchmark(["report/sorts.pdf"], layers(benchmark="attention"))
