"""Whether the records of a dataset agree in what they must agree in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.environment import MUST_AGREE, environments

Plant = Callable[..., Sweep]
HERE = {"device_name": "Abacus", "driver": "1.0", "provider": "beads 3", "packages": {"torch": "2"}}


def measured(environment: Mapping[str, Any] = HERE, **changes: Any) -> dict[str, Any]:
    return {"environment": {**environment, **changes}}


def by_field(*sweeps: Sweep) -> dict[tuple[str, ...], Finding]:
    """The findings by field, and by implementation for a field of one."""
    return {tuple(finding.subject.values()): finding for finding in environments(sweeps)}


def test_records_of_one_environment_agree_in_every_field(sweep: Plant) -> None:
    names, sizes = ("Pytorch", "Flash2"), (128, 256)
    found = by_field(sweep({(name, False, n): measured() for name in names for n in sizes}))
    providers = {("provider", name) for name in names}
    assert found.keys() == {(field,) for field in MUST_AGREE} | providers
    assert {finding.verdict for finding in found.values()} == {"agrees"}
    assert found["device_name",].estimates == [{"value": "Abacus"}]
    assert (found["dtype",].evidence.n, found["provider", "Flash2"].evidence.n) == (4, 2)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"device_name": "Difference engine"}, "device_name"),
        ({"driver": "2.0"}, "driver"),
        ({"packages": {"torch": "3"}}, "torch"),
    ],
)
def test_a_record_of_another_environment_is_named(
    sweep: Plant, change: dict[str, Any], field: str
) -> None:
    runs = {("Flash2", False, 128): measured(), ("Flash2", False, 256): measured(**change)}
    found = by_field(sweep(runs))
    assert [key for key, each in found.items() if each.verdict != "agrees"] == [(field,)]
    assert (found[field,].verdict, found[field,].params["count"]) == ("differs", 2)
    for estimate in found[field,].estimates:
        assert len(estimate["records"]) == 1


def test_the_protocol_must_agree(sweep: Plant) -> None:
    runs = {
        ("Flash2", False, 128): measured(),
        ("Flash2", False, 256): {**measured(), "protocol": {"name": "lab5"}},
    }
    assert by_field(sweep(runs))["protocol",].verdict == "differs"


def test_what_some_records_do_not_state_is_unstated_and_not_a_difference(sweep: Plant) -> None:
    runs = {("Flash2", False, 128): measured(), ("Flash2", False, 256): measured(driver=None)}
    found = by_field(sweep(runs))["driver",]
    assert (found.verdict, [each["value"] for each in found.estimates]) == ("unstated", ["", "1.0"])


def test_what_no_record_states_is_the_same_in_all(sweep: Plant) -> None:
    """A machine without a GPU has no driver."""
    runs = {("Flash2", False, n): measured(driver=None) for n in (128, 256)}
    assert by_field(sweep(runs))["driver",].verdict == "agrees"


def test_each_implementation_has_one_provider_of_its_own(sweep: Plant) -> None:
    runs: dict[Any, Any] = {
        ("Pytorch", False, 128): measured(provider="abacus"),
        ("Flash2", False, 128): measured(),
        ("Flash2", False, 256): measured(provider="beads 4"),
        ("Failed", False, 128): "unsupported",  # it is not known who would have run it
    }
    found = by_field(sweep(runs))
    verdicts = {key[1]: each.verdict for key, each in found.items() if key[0] == "provider"}
    assert verdicts == {"Flash2": "differs", "Pytorch": "agrees"}


def test_sweeps_are_checked_together_and_a_record_of_two_counts_once(sweep: Plant) -> None:
    runs = {("Flash2", False, 128): measured()}
    one, same = sweep(runs), sweep(runs, name="again")
    other = sweep({("Flash2", False, 256): measured(driver="2.0")}, name="other")
    assert by_field(one, same)["driver",].evidence.n == 1
    assert by_field(one, other)["driver",].verdict == "differs"
