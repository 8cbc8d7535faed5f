"""What a measuring job does, and what the jobs of one call share."""

from __future__ import annotations

import pytest

from flashlab.__main__ import COMMANDS
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.cli import Command
from flashlab.plan.identity import measuring_digest

MEASURING = [command for command in COMMANDS if command.name in ("measure", "ceilings")]


@pytest.mark.parametrize("command", MEASURING, ids=[command.name for command in MEASURING])
def test_forks_of_a_server_need_not_read_what_measures(command: Command) -> None:
    measuring_digest.cache_clear()
    command.get_ready()
    read = measuring_digest.cache_info().misses
    assert read == len(BENCHMARKS)
    for benchmark in BENCHMARKS.values():
        measuring_digest(benchmark.measure)
    assert measuring_digest.cache_info().misses == read
