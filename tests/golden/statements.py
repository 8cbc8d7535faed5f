"""What is said of planted data: each message that a finding or a conclusion has, at least once.

The recorded reports say what happens to be true of them. Here the other messages are told of data
in which they hold: of attention, of sorting where they are the general ones, and of every code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from golden.verdicts import comparison_rows
from planted.experiments import SIZES, Planter
from planted.sorting import sorting

from flashlab.analysis.ceilings import read_ceilings
from flashlab.analysis.comparison_rows import read_comparisons
from flashlab.analysis.comparisons import comparisons, comparisons_csv
from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import COMPARISONS, Experiment
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.registry import KINDS
from flashlab.benchmarks.attention.declaration import (
    ATTENTION,
    attention_run,
    exact_peak_memory,
)
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.report.statements import MOST_NAMED, NAMING, REASONS, told_reasons
from flashlab.telling.codes import STATUSES, VERDICTS, WARNINGS
from flashlab.telling.teller import Teller
from flashlab.telling.values import Statement, Value, in_turn, say

NAIVE = (30, 60, 120, 240)
SLOW = (300, 600, 1200, 2400)
FAST = (10, 20, 40, 80)
STILL = {"spread": 0.001}
NOISE = {"count": 12, "spread": 0.3}
EIGHT = tuple(128 * 2**i for i in range(8))
MASKED = ("Pytorch", True), ("Flash2", True)


def pair(*times: Any, naive: Sequence[Any] = NAIVE) -> dict[Any, Any]:
    return {"Pytorch": naive[: len(times)], "Flash2": times}


def three(flash2: Sequence[Any], flash4: Sequence[Any], naive: Any = SLOW, **more: Any) -> Any:
    return {"Pytorch": naive, "Flash2": flash2, "Flash4": flash4, **more}


TIMES: Mapping[str, tuple[dict[Any, Any], dict[str, Any]]] = {
    "as much faster everywhere": (pair(*FAST), {}),
    "faster at the only value": (pair(10), {}),
    "ever faster": (pair(20, 32, 50, 80), {}),
    "ever less so": (pair(10, 25, 65, 160), {}),
    "most in between": (pair(20, 20, 40, 160), {}),
    "least in between": (pair(10, 40, 80, 80), {}),
    "slower": (pair(60, 130, 300, 700), {}),
    "slower at the only value": (pair(60), {}),
    "the same": (pair(*NAIVE), {}),
    "the same at the only value": (pair(30), {}),
    "not known": (pair(28, 57, 115, 230), NOISE),
    "not known at the only value": (pair(28), NOISE),
    "here faster, there slower": (pair(10, 60, 240, 480), {}),
    "means alone": (
        {n: [{"forward": [t * 1e-5], "means": True} for t in times]
         for n, times in (("Pytorch", NAIVE), ("Flash2", FAST))}, {},
    ),
    "one alone": ({"Pytorch": ("oom",) * 4, "Flash2": FAST}, {}),
    "no numbers": ({"Pytorch": ("error",) * 4, "Flash2": ("oom",) * 4}, {}),
    "never at the same value": ({"Pytorch": (30, 60, "oom", "oom"),
                                 "Flash2": ("error", "error", 40, 80)}, {}),
    "one best of three": (three(FAST, (12, 24, 48, 96)), {}),
    "one best by far": (three(FAST, (30, 60, 120, 240)), {}),
    "one suffices": (three((10.1, 20, 40, 80), (10, 24, 48, 96)), {}),
    "it changes": (three((10, 20, 60, 120), (15, 30, 40, 80)), {}),
    "it changes and changes": (
        three((10, 30, 40, 120, 160, 480, 640, 1920), (15, 20, 60, 80, 240, 320, 960, 1280),
              [300 * 2**i for i in range(8)]), {"values": EIGHT},
    ),
    "nobody knows": (three((10, 20, 40, 80), (10.2, 20.4, 41, 82)), NOISE),
    "no two at the same value": (three((10, "oom", "oom", "oom"), ("oom", 20, "oom", "oom"),
                                       ("oom", "oom", 1200, "oom")), {}),
    "one to avoid": (three(FAST, (12, 24, 48, 96), SdpaMath=(900, 1800, 1000, 2000)), {}),
    "two to avoid": (three(FAST, (12, 24, 48, 96), Flex=(400, 700, 1300, 2600),
                           SdpaMath=(900, 1800, 1000, 2000)), {}),
}  # fmt: skip
"""Times of attention in units of 10 µs, and their inverses as rates of sorting."""


MASKS: Mapping[str, tuple[dict[Any, Any], dict[str, Any]]] = {
    "masks help": ({**pair(*FAST), MASKED[0]: (10, 20, 40, 80), MASKED[1]: (5, 10, 20, 40)}, {}),
    "masks hurt": ({**pair(*FAST), MASKED[0]: (60, 120, 240, 480), MASKED[1]: (15, 30, 60, 120)},
                   {}),
    "masks change nothing": ({**pair(*FAST), MASKED[0]: NAIVE, MASKED[1]: FAST}, {}),
    "masks help here": ({**pair(*FAST), MASKED[0]: (15, 60, 240, 120), MASKED[1]: (5, 20, 80, 40)},
                        {}),
    "masks are not known": ({**pair(*FAST), MASKED[0]: NAIVE, MASKED[1]: FAST}, NOISE),
    "masks at the only value": ({**pair(10), MASKED[0]: [15], MASKED[1]: [15]}, {}),
    "masks that are lacking": ({**pair(*FAST), MASKED[0]: ("oom",) * 4, MASKED[1]: [9, *FAST[1:]]},
                               {}),
    "masks of three": ({**three(FAST, (12, 24, 48, 96)), MASKED[0]: (150, 300, 600, 1200),
                        MASKED[1]: (6, 11, 21, 41), ("Flash4", True): (6, 12, 24, 48)}, {}),
}  # fmt: skip
"""The same with causal masking, and as sorting with a variant."""


def peaks(*shares: float) -> dict[Any, Any]:
    """Flash2 with these shares of Pytorch's peak."""
    runs = pair(*FAST[: len(shares)])
    return {
        "Pytorch": [{"forward": t, "peak": 100.0} for t in runs["Pytorch"]],
        "Flash2": [{"forward": t, "peak": 100.0 * s} for t, s in zip(FAST, shares, strict=False)],
    }


def counted(milliseconds: float, **counters: float) -> dict[str, Any]:
    times = [milliseconds / 1e3 * factor for factor in np.linspace(0.999, 1.001, 15)]
    return {"forward": times, "counters": counters}


def modelled(excess: float) -> dict[Any, Any]:
    """Peaks of the model on an H200, the baseline's with some MiB more."""
    runs: dict[Any, Any] = {}
    for name, provider in (("Pytorch", "torch 2.11.0"), ("Flash2", "flash-attn 2.8.3")):
        for size in (512, 1024):
            run = attention_run(name, Shape(16, size, 32, 2048, False), "float16", "cuda")
            peak = exact_peak_memory(run, provider, "NVIDIA H200")
            assert peak is not None
            environment = {"provider": provider, "device_name": "NVIDIA H200", "packages": {}}
            more = excess if name == "Pytorch" and size == 1024 else 0.0
            cell = {"forward": size / 10, "peak": peak + more, "environment": environment}
            runs.setdefault(name, {})[size] = cell
    return runs


WIDE = {"batch_size": 16, "num_heads": 32, "emb_dim": 2048}
ON_GPU: dict[str, Any] = {
    "sizes": lambda n: {"seq_len": n, **WIDE}, "dtype": "float16", "device": "cuda"
}  # fmt: skip
SPECIAL: Mapping[str, tuple[dict[Any, Any], dict[str, Any]]] = {
    "less memory": (peaks(0.5, 0.25, 0.25, 0.25), {}),
    "less memory at the only value": (peaks(0.5), {}),
    "more memory": (peaks(2, 2, 4, 4), {}),
    "more memory at the only value": (peaks(2), {}),
    "as much memory": (peaks(1, 1, 1, 1), {}),
    "as much memory at the only value": (peaks(1), {}),
    "here less memory, there more": (peaks(0.5, 0.5, 2, 2), {}),
    "the model's memory": (modelled(0.0), ON_GPU),
    "not the model's memory": (modelled(1.0), ON_GPU),
    "ran out of memory": ({"Pytorch": (30, 60, 120, "oom"), "Flash2": FAST}, {}),
    "a single size": ({"Pytorch": (30, "error", "error", "error"), "Flash2": FAST}, {}),
    "small falls": ({"Pytorch": (100, 200, 180, 150), "Flash2": (100, 101, 99, 100)}, {}),
    "the batch varies along": (pair(*FAST), {
        "sizes": lambda n: {"seq_len": n, "batch_size": 2048 // n}}),
    "heads of equal work": ({"Pytorch": (30, 30, 30, 40), "Flash2": (20, 15, 15, 10)}, {
        "name": "heads", "sweep": "num_heads", "values": (1, 2, 4, 8),
        "sizes": lambda h: {"num_heads": h}}),
    "a level time": (pair(10, 10.1, 10, 40), {}),
    "rates that are reached": ({"Pytorch": (30, 60, 240, 960), "Flash2": (10, 20, 80, 320)}, {}),
    "rates that fall": ({"Pytorch": (30, 60, 120, 240), "Flash2": (10, 20, 160, 900)}, {}),
    "rates that jump down": ({"Pytorch": (30, 120, 480, 1920), "Flash2": (10, 40, 320, 1280)}, {}),
    "as the operations say": (pair((10, 25), (20, 50), (40, 100), (80, 200)), {}),
    "slower in one part": ({"Pytorch": NAIVE, "Flash2": ((2, 18), (4, 56), (8, 90), (16, 180)),
                            "Flash4": ((4, 6), (8, 12), (16, 24), (32, 48))}, {}),
    "an error of the gate": ({"Pytorch": [{}], "Flash2": ["incorrect"]}, {}),
    "processes": ({"Pytorch": [[3, 3.1, 3.2]] * 2, "Flash2": [[1, 1.01, 1.02], [1]]}, {}),
    "operators": ({"Pytorch": {
        128: counted(1, product_share=30.0, elementwise_share=40.0, allocated_bytes=1e4),
        256: counted(1, product_share=0.0, softmax_share=0.0, fused_share=100.0, operators=1,
                     elementwise_share=0.0),
        512: counted(1, operator_time=0.5, operators=20)}, "Flash2": [1.0]}, {}),
    "one fused operator": ({"Pytorch": [counted(1, product_share=0.0, softmax_share=0.0,
                           fused_share=100.0, operators=1, elementwise_share=0.0)],
                            "Flash2": [1.0]}, {}),
    "an idle operator": ({"Pytorch": [counted(1, operator_time=0.5, operators=20)],
                          "Flash2": ["oom"]}, {}),
    "counters that could not be read": ({"Pytorch": ({"counters": "ERR"}, counted(1))}, {}),
    "counters of a GPU that could not be read": ({"Pytorch": ({"counters": "ERR"}, counted(1))},
                                                 ON_GPU),
    "kernels": ({
        "Pytorch": {256: counted(1, kernels=10, busy_time=0.4), 512: counted(1, dram_bytes=3.5e9),
                    1024: counted(1)},
        "Flash2": {1024: counted(1, matrix_activity=70.0)}}, {**ON_GPU, "ceilings": 1.0}),
    "idle kernels": ({"Pytorch": {1024: counted(1, kernels=10, busy_time=0.4)},
                      "Flash2": {1024: 50}}, {**ON_GPU, "ceilings": 1.0}),
    "over the ceiling": ({"Pytorch": {1024: counted(0.1, busy_time=0.1)}, "Flash2": {1024: 5}},
                         {**ON_GPU, "ceilings": 10.0}),
    "near the ceiling": ({"Pytorch": {1024: counted(0.2, busy_time=0.2)}, "Flash2": {1024: 40}},
                         {**ON_GPU, "ceilings": 1.6}),
}  # fmt: skip
"""What only attention has: memory, masks, heads, passes, counters, ceilings."""


Said = set[tuple[Any, ...]]


def _is_new(finding: Finding, said: Said) -> bool:
    """Whether a finding says anything that was not said before."""
    told = _statements_in([*finding.statements, *finding.facts.values()])
    new = {(each.key, *each.about) for each in told} - said
    said |= new
    return bool(new and finding.statements)


def _statements_in(told: Any) -> Iterator[Statement]:
    if isinstance(told, Statement):
        yield told
    if isinstance(told, Value):
        told = vars(told)
    if isinstance(told, Mapping):
        told = list(told.values())
    if isinstance(told, list | tuple):
        for each in told:
            yield from _statements_in(each)


def _ceilings(rate: float) -> dict[str, Any]:
    """Of an imagined device: so many times 100 TFLOP/s, and 4 TB/s; the rate falls soon."""
    samples = [1e-3 * (1 if i < 20 else 1.1) for i in range(50)]
    return {
        "device": "cuda",
        "matrix_product": {"float16": {"samples": samples, "time(s)": 1e-3, "size": 3684}},
        "copy": {"samples": [1e-3 / rate] * 30, "time(s)": 1e-3, "bytes": 2 * 2**30},
        "environment": {"device_name": "Abacus"},
    }


def _derived(experiment: Any, ceilings: float | None = None) -> list[Finding]:
    estimates = Estimates([experiment])
    found = read_ceilings(_ceilings(ceilings), estimates) if ceilings else None
    published = {"benchmark": experiment.benchmark.name, "sources": {}, "claims": []}
    return derive([experiment], estimates, published, found)


PlantedExperiment = tuple[Benchmark, str, Experiment, float | None]
"""A benchmark, a title, what was planted, and the ceilings of the device (`_ceilings`)."""


def _sorting_experiments(planter: Planter) -> Iterator[PlantedExperiment]:
    """Times as rates, of sorting that has the masks' variant where there are masks."""
    for number, (title, (runs, options)) in enumerate({**TIMES, **MASKS}.items()):
        if any(isinstance(cell, dict) for row in runs.values() for cell in row):
            continue
        flags = ["fused"] if title in MASKS else []
        benchmark = replace(sorting(*flags), naive="Pytorch")
        BENCHMARKS[benchmark.name] = benchmark
        noise = {**STILL, **{name: options[name] for name in NOISE.keys() & options.keys()}}
        rates: dict[Any, Any] = {}
        for key, row in runs.items():
            name, on = key if isinstance(key, tuple) else (key, False)
            found = [cell if isinstance(cell, str) else 1e3 / cell for cell in row]
            rates[name, tuple((flag, on) for flag in flags)] = found
        yield benchmark, title, planter.sorts(rates, f"sorting{number}", **noise), None
        del BENCHMARKS[benchmark.name]


def _attention_experiments(planter: Planter) -> Iterator[PlantedExperiment]:
    for number, (title, (runs, options)) in enumerate({**TIMES, **MASKS, **SPECIAL}.items()):
        usual = {"name": f"attention{number}", "sweep": "seq_len", "values": SIZES, **STILL}
        given = {**usual, **options}
        ceilings = given.pop("ceilings", None)
        yield ATTENTION, title, planter.experiment(runs, **given), ceilings


def _codes(language: str) -> Iterator[str]:
    """The words for every code."""
    teller = Teller(language, ATTENTION)
    tables = {"status": STATUSES, "warning": WARNINGS, "verdict": VERDICTS, "reason": REASONS}
    tables["kind"] = {name: kind.label for name, kind in KINDS.items()}
    for name, table in tables.items():
        yield from ("", f"## {name}", "")
        yield from (f"{code}: {teller.tell(say(key))}" for code, key in table.items())
    run = {"implementation": "Flash2", "seq_len": 128, "causal": True}
    for code in NAMING:
        for count in (1, MOST_NAMED + 2):
            reasons = [Reason(code, {**run, "seq_len": 128 + i}, "oom") for i in range(count)]
            yield teller.tell(in_turn(told_reasons(ATTENTION, reasons)))


PlantedCase = tuple[Benchmark, str, Sequence[Finding]]
"""A title of planted data, and the findings that say of it what was not said before."""


def planted_cases() -> list[PlantedCase]:
    """All planted data of which anything new is said."""
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        planter = Planter(Path(folder))
        for every in (_sorting_experiments, _attention_experiments):
            said: Said = set()
            for benchmark, title, experiment, ceilings in every(planter):
                findings = _derived(experiment, ceilings)
                if new := [finding for finding in findings if _is_new(finding, said)]:
                    cases.append((benchmark, title, new))
    return cases


def planted_texts(cases: Sequence[PlantedCase]) -> dict[str, str]:
    """What is said of planted data, by language."""
    texts = {}
    for language in ("zh_TW", "en"):
        lines: list[str] = []
        for benchmark, title, findings in cases:
            teller = Teller(language, benchmark)
            lines += ["", f"## {benchmark.name}: {title}", ""]
            lines += [f"{f.kind}, {f.verdict}: {teller.tell(in_turn(f.statements))}"
                      for f in findings]  # fmt: skip
        texts[language] = "\n".join([*lines[1:], *_codes(language), ""])
    return texts


def planted_verdicts() -> str:
    """What is decided of planted data, with the title as its experiment."""
    rows: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        planter, table = Planter(Path(folder)), Path(folder, COMPARISONS)
        for experiments in (_sorting_experiments, _attention_experiments):
            for benchmark, title, experiment, _ in experiments(planter):
                found = comparisons([experiment], Estimates([experiment]))
                table.write_text(comparisons_csv(found), encoding="utf-8")
                name = f"{benchmark.name}: {title}"
                rows += comparison_rows(
                    replace(r, experiment=name) for r in read_comparisons(table)
                )
    return "".join(f"{row}\n" for row in rows)
