"""The grader's word: records measured for it pass, others do not, and changed ones fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flashlab.plan.planning import protocol_of
from flashlab.proof import seal_of
from flashlab_grading.grade import check_alone
from flashlab_grading.submissions import read_submission

WORD = "2026-11-21 lab5"


def sealed_record(own: Any, name: str, nonce: str | None = WORD, gpu: str = "GPU-1") -> Any:
    protocol = {"name": "lab5", **({"nonce": nonce} if nonce else {})}
    environment = {"device_name": "NVIDIA H200", "gpu_uuid": gpu}
    record = own.record(name, protocol=protocol, environment=environment)
    record["environment"]["seal"] = seal_of(record)
    return record


def seal(own: Any, **options: Any) -> None:
    for name, document in own.documents.items():
        document["record"] = sealed_record(own, name, **options)


def codes(folder: Path, nonce: str | None) -> set[str]:
    checked = check_alone(read_submission(str(folder), "ann", None), nonce)
    return {f"{line.verdict} {line.code}" for line in checked.lines if line.check == "form"}


PASSED = "pass form.pass"


@pytest.mark.parametrize(
    ("is_sealed", "nonce", "told"),
    [
        (True, WORD, "pass form.pass_proof"),
        (True, None, PASSED),
        (True, "another", "fail form.other_nonce"),
        (False, WORD, "not_checked form.no_proof"),
    ],
)
def test_records_measured_for_the_word_pass_and_no_others(
    is_sealed: bool, nonce: str | None, told: str, sound: Any, tmp_path: Path
) -> None:
    if is_sealed:
        seal(sound)
    sound.write(tmp_path / "ann")
    assert codes(tmp_path, nonce) == {PASSED, told}


@pytest.mark.parametrize("changed", ["sample", "started", "gpu", "nonce"])
def test_a_record_changed_afterwards_fails(changed: str, sound: Any, tmp_path: Path) -> None:
    seal(sound, nonce=None if changed == "nonce" else WORD)
    record = next(iter(sound.documents.values()))["record"]
    if changed == "sample":
        record["metrics"]["forward_time"]["samples"] = [1.0]
    elif changed == "started":
        record["started"] = "2026-11-22T08:00:00+00:00"
    elif changed == "gpu":
        record["environment"]["gpu_uuid"] = "GPU-2"
    else:
        record["protocol"]["nonce"] = WORD
    sound.write(tmp_path / "ann")
    assert "fail form.seal" in codes(tmp_path, WORD)


def test_a_record_without_its_gpu_cannot_be_checked(sound: Any, tmp_path: Path) -> None:
    seal(sound)
    for document in sound.documents.values():
        del document["record"]["environment"]["gpu_uuid"]
    sound.write(tmp_path / "ann")
    assert codes(tmp_path, WORD) == {"pass form.pass", "not_checked form.no_gpu"}


def test_records_of_several_gpus_are_asked_about_and_a_wild_protocol_is_no_proof(
    sound: Any, tmp_path: Path
) -> None:
    seal(sound)
    (name, first), *others = sound.documents.items()
    first["record"] = sealed_record(sound, name, gpu="GPU-2")
    wild: list[Any] = [[], {"nonce": []}, {"nonce": 1}, "text", None]
    for protocol, (_, document) in zip(wild, others, strict=False):
        document["record"]["protocol"] = protocol
    sound.write(tmp_path / "ann")
    told = {"warn form.several_gpus", "not_checked form.no_proof"}
    assert codes(tmp_path, WORD) == {"pass form.pass", "pass form.pass_proof", *told}
    checked = check_alone(read_submission(str(tmp_path), "ann", None), WORD)
    assert sum(line.code == "form.no_proof" for line in checked.lines) == len(wild)


def test_another_word_is_another_protocol_and_none_is_the_old_one() -> None:
    config = {"measure": {"protocol": "lab5", "lab5": {"repeats": 30}, "timeout_s": 300}}
    plain = protocol_of(config, "cuda")
    assert plain == {"name": "lab5", "repeats": 30, "timeout_s": 300}
    assert protocol_of({**config, "nonce": "a"}, "cuda") == {**plain, "nonce": "a"}
