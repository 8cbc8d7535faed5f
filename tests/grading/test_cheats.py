"""Every alteration of one submission is told by the check that alone catches it, or noted."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import CAUSAL, FLASH, LONG, digits, graded, later, noise, rescaled, rewritten

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.devices import find_device, known_devices
from flashlab.lab5.assigning import File, check_results, known_workspaces
from flashlab.lab5.results import Result
from flashlab.lab5.words import MEMORY, RATE, TIME
from flashlab_grading.checks import OWN_CHECKS, check_coverage, check_physics
from flashlab_grading.copies import SLIDE

FAST, NAIVE = FLASH.replace("512", "1024"), FLASH.replace("flash2", "pytorch")


@later
def times(own: Any, factor: float, passed: str, key: str) -> None:
    """A number of a file multiplied."""
    own.document(FLASH)[passed][key] *= factor


@later
def held(own: Any, text: str, mib: float) -> None:
    """So much more peak memory."""
    own.document(text)[MEMORY] += mib


@later
def declared(own: Any, text: str, column: int, cell: str) -> None:
    """Another cell in the row of a file."""
    own.rows[own.file(text)][column] = cell


@later
def record(own: Any, samples: tuple[float, ...] = (), rows: Any = None, **run: Any) -> None:
    """A record of one file: its forward samples over its time, and what it claims of its run."""
    own.add_record(FLASH, samples or noise(0), noise(1))["run"].update(run)
    own.rows = rows and own.rows


@later
def workspaces(own: Any, mib: float, every: int = 1) -> None:
    """A setting of cuBLAS that all files share, or every other one."""
    for name in [n for n, run in own.runs.items() if run.implementation == "Pytorch"][::every]:
        held_there = costs.naive_peak_memory(Shape.of(own.runs[name]), int(mib * costs.MIB))
        own.documents[name][MEMORY] = held_there / costs.MIB


@later
def only(own: Any, name: str, *row: str, document: Any = FLASH) -> None:
    """One file, of these contents or another's, and its row, if any."""
    own.documents = {name: own.document(document) if isinstance(document, str) else document}
    own.rows = {name: [name, *row]} if row else None


def with_another_label(own: Any) -> None:
    """Twins in FLOPs and memory: (B, H, E) and (B/2, 2H, 2E); a digit is changed, too."""
    own.documents["twin.json"] = own.jittered(5e-8).document(CAUSAL)
    own.rows["twin.json"] = ["twin.json", "Flash2", "8", "512", "64", "4096", "true", ""]


OF_SLIDE = "Flash2", "32", "1024", "32", "2048", "false", "NVIDIA GeForce RTX 3070"
MISSING, OPEN = "fail coverage.missing", "not_checked identity.open"
FULL, MASKED = "Flash2 B·H=512 N=512 d=64 full", "Flash2 B·H=256 N=1024 d=64 causal"
BOTH = "forward_backward"
NO_FLOPS = "not_checked identity.no_flops, not_checked physics.no_flops"
ALTERED: dict[str, tuple[Any, ...]] = {
    "a key left out": (lambda own: own.document(FLASH).pop("backward"), "fail form.missing_key"),
    "a rate": (times(1.01, "backward", RATE), f"fail arithmetic.flops, {NO_FLOPS}"),
    "a sum": (times(0.99, BOTH, TIME), times(1 / 0.99, BOTH, RATE), "fail arithmetic.sum"),
    "512 bytes more": (held(FLASH, 2**-11), "fail identity.memory"),
    "another GPU's workspace": (held(NAIVE, 16.25 - 64), "fail identity.workspace"),
    "another implementation": (declared(FLASH, 1, "Pytorch"), "fail identity.implementation"),
    "the other mask": (declared(NAIVE, 6, "true"), "fail identity.flops"),
    "a GPU's memory on a CPU": (
        lambda own: own.name_device("AMD EPYC (2 CPUs)"),
        "warn identity.cuda_memory, not_checked physics.cpu",
    ),
    "beyond the ceiling": (rescaled(FAST, by=0.2), "fail physics.rate"),
    "beyond memory": (rescaled("pytorch-b16-n1024-h32-e2048-full", by=0.12), "fail physics.bytes"),
    "in one pass": (rescaled(LONG, by=2.5, names=["forward"]), "pass plausibility.pass"),
    "the same under 1 ms": (rescaled(CAUSAL, by=3), "warn plausibility.order"),
    "a slow pass": (rescaled("flash2-b64", by=3, names=["backward"]), "warn plausibility.ratio"),
    "another label": (with_another_label, "fail copies.within"),
    "a constant rate": (
        lambda own: own.derive(FLASH, lambda t: t / 4, own.document(FAST)),
        "fail copies.proportional",
    ),
    "a record of the other": (record(implementation="Pytorch"), "fail identity.implementation"),
    "a record of as many FLOPs": (record(batch_size=4, seq_len=1024), "fail identity.shape"),
    "a record of no shape": (record(num_heads=False), "fail form.record"),
    "a record of shared keys": (record(num_kv_heads=8), "pass form.not_a_result"),
    "a record and a row that differ": (  # of as many FLOPs, and as much memory
        record(rows=True, seq_len=256, batch_size=64), "fail form.declared_twice"
    ),
    "samples of another time": (record((1.1,) * 20), "fail arithmetic.samples"),
    "too many samples": (record((1.1,) * 20_001), "fail form.many_samples"),
    "no noise": (lambda own: own.add_records(lambda i: [1] * 21), "fail plausibility.identical"),
    "one noise": (lambda own: own.add_records(lambda i: noise(1)), "fail plausibility.one_noise"),
    # Honest but odd, or what cannot be checked: noted, and not accused.
    "runs out of memory": (
        lambda own: own.documents.update(
            (own.file(text), {"error": "CUDA out of memory"})
            for text in ("pytorch-b64", "pytorch-b8")
        ),
        "not_checked coverage.doubted",
    ),
    "a record in bfloat16": (record(dtype="bfloat16"), "not_checked identity.no_model"),
    "rounded memory": (workspaces(16.25), rewritten(lambda x: round(x, 1), MEMORY),
        "pass identity.rounded_memory, warn identity.workspace_of_another"),
    "times to six decimals": (rewritten(lambda x: round(x, 6), TIME), "pass arithmetic.rounded"),
    "workspaces of 8 MiB": (workspaces(8), "pass identity.workspace_unusual"),
    "another GPU's workspaces": (workspaces(16.25), "warn identity.workspace_of_another"),
    "a mixture of them": (workspaces(16.25, 2), "fail identity.workspace"),
    "a digit": (digits(1, text=FLASH), f"not_checked arithmetic.coarse, {NO_FLOPS}"),
    "a kernel of one's own": (declared(FLASH, 1, "Mine"), "not_checked identity.no_model"),
    "a wrong name alone": (only("baseline.json"), f"{MISSING}, {OPEN}"),
    "memory of nothing": (
        held(FLASH, 2**-11), only("0.json", "Flash2", *[""] * 6),
        f"{MISSING}, not_checked identity.partly_unknown",
    ),
    "the implementation alone": (
        lambda own: own.rows.update({k: [*row[:2], *[""] * 6] for k, row in own.rows.items()}),
        "pass identity.pass",
    ),
    "nothing at all": (lambda own: own.say_nothing(), OPEN),
    # FlashAttention at (B, N, full) has the FLOPs and the memory of that at (B/2, 2N, causal).
    "heads and width": (
        only("a.json", "Flash2", "", "", "32", "2048", "", ""),
        f"{MISSING}, {OPEN} {FULL} | {MASKED}",
    ),
    "the course's slide": (
        only("slide.json", *OF_SLIDE, document=json.loads(SLIDE.read_bytes())),
        f"{MISSING}, pass identity.pass, pass physics.pass",
    ),
    "a name of another run": (only("pytorch_b16_n512_h32_e2048_full.json"), MISSING),
}  # fmt: skip
DAILY = {"times to six decimals": pytest.mark.scheduled}  # 8 s


@pytest.mark.parametrize("altered", [pytest.param(a, marks=DAILY.get(a, ())) for a in ALTERED])
def test_what_is_altered_is_told_by_its_check_and_no_other(
    altered: str, sound: Any, tmp_path: Path
) -> None:
    *changes, expected = ALTERED[altered]
    for change in changes:
        change(sound)
    sound.write(tmp_path / "ann")
    lines, wanted = graded(tmp_path).lines(), {*expected.split(", ")}
    told = {f"{line.verdict} {line.code}" for line in lines}
    alarms = ("fail", "warn")
    assert {x for x in told if x.startswith(alarms)} == {x for x in wanted if x.startswith(alarms)}
    assert wanted <= told | {f"{line.verdict} {line.code} {line.found}" for line in lines}


def test_a_sound_submission_passes_every_check(sound: Any, tmp_path: Path) -> None:
    sound.write(tmp_path / "ann")
    found = graded(tmp_path)
    assert found.alarms() == []
    assert [found.of("ann")[check] for check in OWN_CHECKS] == ["pass"] * 6
    assert {line.check for line in found.lines("not_checked")} == {"copies"}
    assert [own.badges for own in found.submissions] == [("available", "functional")]


SECONDS = {"forward": 1.0, "backward": 2.5, BOTH: 3.5}


def result(
    said: dict[str, Any], seconds: dict[str, float], rates: dict[str, float], mib: float = 1.0
) -> Result:
    return Result("a.json", "a.json", "", said, seconds=seconds, rates=rates, peak_mib=mib)


@pytest.mark.parametrize(
    ("shape", "excess", "code"),
    [((2, 1024, 2, 256, False), 0, "pass"), ((16, 1024, 1, 64, False), 0, "pass"),
     ((2, 1024, 2, 256, False), costs.MIB, "no_model"),  # as an H200 held it
     ((16, 1024, 1, 64, False), costs.MIB, "memory"),
     ((32, 2048, 32, 2048, False), 4 * costs.MIB, "rounded_memory"),  # 35136 as 35140
     ((1, 16384, 1, 64, True), 490733568, "no_model")],
)  # fmt: skip
def test_a_run_is_not_accused_where_its_memory_is_not_exact(
    shape: tuple[int, int, int, int, bool], excess: int, code: str
) -> None:
    of = Shape(*shape)
    peak = costs.naive_peak_memory(of, max(known_workspaces())) + excess
    rates = dict.fromkeys(SECONDS, costs.forward_flops(of) / 1e12)
    said = {"implementation": "Pytorch", **of.parameters}
    lines, _ = check_results([result(said, SECONDS, rates, peak / costs.MIB)])
    assert lines[-1].code == f"identity.{code}"


H100 = "NVIDIA H100 PCIe"
SHORT = Shape(2**18, 16, 1, 8, False)
"""Short heads and rows, whose time is that of moving their bytes."""


@pytest.mark.parametrize(
    ("share", "step", "verdict"), [(1.01, 0, "pass"), (0.99, 0, "fail"), (0.99, 1e-3, "pass")]
)
def test_a_pass_is_refuted_only_below_the_time_of_its_compulsory_bytes(
    share: float, step: float, verdict: str
) -> None:
    """The L2 cache holds some of each tensor, and a clock's step may be missing of the time."""
    gpu = find_device(H100)
    assert gpu
    tensors = costs.compulsory_tensors(SHORT)["backward"]
    assert min(tensors[:8]) > gpu.l2_bytes
    least = sum(max(0, x - gpu.l2_bytes) for x in tensors) / (1.1e9 * gpu.bandwidth)
    seconds = {"forward": least, "backward": share * least, BOTH: 2 * least}
    own = result({"device": H100}, seconds, dict.fromkeys(seconds, 1.0))
    assert check_physics(File(own, [], options=[("Flash2", SHORT)]), step).verdict == verdict


@pytest.mark.parametrize(
    ("name", "code"), [(H100, "pass"), ("", "pass_unknown"), ("AMD EPYC (2 CPUs)", "cpu")]
)
@pytest.mark.parametrize(("share", "is_possible"), [(0.99, True), (1.01, False)])
def test_no_rate_is_above_the_devices_ceiling(
    name: str, code: str, share: float, is_possible: bool
) -> None:
    known = [find_device(name)] if name == H100 else known_devices()
    ceiling = 1.25 * max(gpu.peak_tflops["float16"] for gpu in known if gpu)
    own = result({"device": name}, SECONDS, {**SECONDS, "backward": share * ceiling})
    assert check_physics(File(own, [])).code == f"physics.{code if is_possible else 'rate'}"


MASKS = [(1, n, 8, 512, causal) for n in (128, 256, 512) for causal in (True, False)]
B = [(b, 512, 8, 512, True) for b in (1, 2, 4)]
SWEEPS: dict[str, tuple[list[tuple[int, int, int, int, bool]], str, str]] = {
    "three batches": (B, "batch_size", "pass"),
    "two": (B[:2], "batch_size", "missing"),
    "another length": ([*B[:2], (4, 256, 8, 512, True)], "batch_size", "missing"),
    "masks": (MASKS, "causal", "pass"),
    "masks at one shape": (MASKS[:2], "causal", "few_masks"),
    "one mask": (MASKS[::2], "causal", "missing"),
}


@pytest.mark.parametrize("sweep", SWEEPS)
def test_three_values_with_all_else_equal_are_an_experiment(sweep: str) -> None:
    shapes, experiment, expected = SWEEPS[sweep]
    options = [("Flash2", Shape(*shape)) for shape in shapes]
    files = [File(result({}, {}, {}), [], options=[option]) for option in options]
    several = File(result({}, {}, {}), [], options=options)
    unsure = "possible" if expected == "pass" else "missing"
    for own, wanted in ((files, expected), ([several], unsure)):
        codes = {x.params["experiment"]: x.code for x in [*check_coverage(own, ())][5:]}
        assert codes[experiment].removeprefix("coverage.") in (wanted, "few_masks")
    unnamed = [result({}, {}, {})] * 3
    assert not [x for x in check_coverage(files, unnamed) if x.verdict == "fail"], "may be of any"
    tied = [File(f.result, [], options=f.options, unassumed=f.options) for f in files]
    assert [*check_coverage(tied, ())] == [*check_coverage(files, ())]


KEYS = [(name, key) for name in SECONDS for key in (TIME, RATE)]
WILD = [None, True, "1", [], {}, -1.0, 0, 1e308, 10**30, "=1+1", "\u202e", [[]], {"a": 1}, 1e-300]


def alter(document: Any, chance: random.Random) -> None:
    """One number by a factor, a digit or a unit; another value, or another number's; a key less."""
    (a, b), (c, d) = chance.sample(KEYS, 2)
    factor = chance.choice([chance.uniform(0.5, 2), 1 + chance.uniform(1e-5, 1e-3), 1e3, 1e-3])
    other = chance.choice([document[a][b] * factor, chance.choice(WILD), document[c][d]])
    holder, key = chance.choice([(document, MEMORY), (document, a), (document[a], b)])
    if isinstance(holder[key], dict) or chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = other if holder is not document else holder[key] * factor


def test_nothing_altered_passes_and_nothing_crashes(sound: Any, tmp_path: Path) -> None:
    """400 altered files, each beside its declaration."""
    chance = random.Random(0)
    original, rows = sound.documents, sound.rows
    sound.documents, sound.rows = {}, {}
    for i in range(400):
        source, file = chance.choice([*original]), f"{i:03}.json"
        sound.documents[file] = copy.deepcopy(original[source])
        alter(sound.documents[file], chance)
        sound.rows[file] = [file, *rows[source][1:]]
    sound.write(tmp_path / "eve")
    lines = graded(tmp_path).lines()
    told = {x.file for x in lines if x.verdict == "fail" or x.code == "form.double"}
    assert sound.documents.keys() <= told
