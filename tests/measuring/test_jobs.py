"""A measuring job, and the state that the jobs of one call share."""

from __future__ import annotations

import pytest

from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.cli import MEASURING, get_ready
from flashlab.plan.identity import measuring_digest


@pytest.mark.parametrize("command", MEASURING)
def test_forks_of_a_server_need_not_read_what_measures(command: str) -> None:
    measuring_digest.cache_clear()
    get_ready(command)
    read = measuring_digest.cache_info().misses
    assert read == len(BENCHMARKS)
    for benchmark in BENCHMARKS.values():
        measuring_digest(benchmark.measure)
    assert measuring_digest.cache_info().misses == read
