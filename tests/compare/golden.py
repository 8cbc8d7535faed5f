"""The output of compare and bench for planted data, as kept in ``golden/``.

`PYTHONPATH=workflow:tests python tests/compare/golden.py` writes the files anew; `git diff` then
shows what has changed for a reader.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compare.recordings import Recording, keep, record, runs

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.cli import main
from flashlab.compare.bench import PASSES, Bench, Ceiling, table
from flashlab.compare.interleave import Candidate, pair_ratios
from flashlab.compare.looks import PROCESSES, look_at
from flashlab.compare.targets import Target

GOLDEN = Path(__file__).parent / "golden"
FORMS = {
    "en.txt": ("--language", "en"),
    "zh_TW.txt": ("--language", "zh_TW"),
    "md": ("--format", "markdown", "--language", "en"),
}
FAILED = {"status": "incorrect", "message": "wrong", "metrics": {}}


def _stating(recording: Recording, sources: Mapping[str, Any], **environment: Any) -> Recording:
    """The same recording with more of its surroundings stated."""
    return {
        run: [
            replace(
                each,
                environment={**each.environment, **environment},
                sources={**each.sources, **sources},
            )
            for each in records
        ]
        for run, records in recording.items()
    }


def two_sides() -> tuple[Recording, Recording]:
    """Two sides with every verdict, of five implementations and a few that one side lacks."""
    quiet = {"spread": 0.002}
    flash2, flash4 = runs(masks=(False, True)), runs(implementation="Flash4")
    mine, loud = runs((256, 1024, 4096), implementation="Mine"), runs(implementation="Loud")
    level = runs(implementation="Level")
    lost, new = runs(implementation="Lost"), runs((256,), implementation="New")
    before = (
        record(flash2, 1, **quiet)
        | record(flash4, 2, **quiet)
        | record(mine, 3, **quiet)
        | record(loud, 4, spread=0.05)
        | record(level, 12, **quiet)
        | record(lost, 5)
    )
    after = (
        record(
            flash2,
            6,
            **quiet,
            factor=lambda run: (
                1.1 + run["seq_len"] / 1e5 if run["causal"] and run["seq_len"] >= 4096 else 1
            ),
        )
        | record(flash4, 7, **quiet, factor=lambda run: 0.7, peak=12.0)
        | record(mine, 8, **quiet, factor=lambda run: 0.5, peak=8.0)
        | record(loud, 9, spread=0.05, factor=lambda run: 1.03)
        | record(level, 13, **quiet)
        | record(new, 10)
    )
    before[mine[0]] = [replace(r, **FAILED) for r in before[mine[0]]]
    after[mine[1]] = [replace(r, **{**FAILED, "status": "oom"}) for r in after[mine[1]]]
    warned = after[flash2[-1]]
    warned[1] = replace(warned[1], warnings=({"code": "throttled"},))
    after[flash2[-1]] = warned
    kernel = {"implementation_digest": "c" * 64}
    changed = {run: after[run] for run in flash2}
    return (
        _stating(before, {}, commit="1" * 40, dirty=False),
        _stating(after, {}, device_name="Slate", driver="2", commit="2" * 40, dirty=True)
        | _stating(changed, kernel, device_name="Slate", driver="2", commit="2" * 40, dirty=True),
    )


def bench(rate: float = 1.5) -> tuple[str, list[dict[str, Any]]]:
    """A bench with a kernel that is slower forward, one that is undecided, and one that is wrong.

    The text after the first process and at the end, and the data at the end. The CPU's ceiling is
    at a `rate` in TFLOP/s.
    """
    drawn = random.Random(1)

    def batches(milliseconds: float, count: int) -> list[list[float]]:
        return [[milliseconds * 1e-3 * drawn.gauss(1, 0.002)] * 3 for _ in range(count)]

    kernel = find_implementations()["Flash2"]
    run = attention_run("Flash2", Shape(1, 512, 8, 512, True), "float32", "cpu")
    candidates = [
        Candidate(Target(label, kernel), run, 60.0)
        for label in ("Flash2", "HEAD~1:kernels/mine.py", "loud.py", "wrong.py", "wide.py")
    ]
    candidates[3].status, candidates[3].message = "incorrect", "relative error: out 1.8, dqkv 0.9"
    candidates[4].status, candidates[4].message = "unsupported", "head_dim 64 is not supported"
    candidates[1].warnings = [(), ({"code": "throttled"},)]
    for each in candidates[:3]:
        each.peak_memory = 644.0
    ceiling, printed = Ceiling(rate, "of ceiling", "cpu"), []
    for process in range(PROCESSES):
        for each, forward, offset in zip(candidates, (2.0, 2.5, 2.02), (0, 0, 0.08), strict=False):
            drift = 1 + offset * (process - 1.5)
            for name, time in (("forward_time", forward * drift), ("backward_time", 6.0)):
                each.batches.setdefault(name, []).append(batches(time, 20))
                look = look_at(pair_ratios(each, candidates[0], name))
                if look is not None and each is not candidates[0]:
                    each.looks[name] = look
        if process in (0, PROCESSES - 1):
            described = Bench(candidates, [*PASSES], 0.05, ceiling).describe()
            printed.append(f"{table(described, ceiling)}\n")
    return "\n".join(printed), described


def _printed(*call: str) -> str:
    """The standard output of a command."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(call) == 0
    return printed.getvalue()


def _rounded(text: str) -> str:
    """JSON, its numbers to nine digits: processors differ in the last ones."""
    document = json.loads(text, parse_float=lambda number: float(f"{float(number):.9g}"))
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def texts() -> dict[str, str]:
    """Every text by the name of its file. Works in a folder of its own."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for side, recording in zip(("before", "after"), two_sides(), strict=True):
            keep(Path(side), itertools.chain(*recording.values()))
        for end, how in FORMS.items():
            found[f"sides.{end}"] = _printed("compare", "before", "after", *how)
    found["bench.txt"], described = bench()
    found["bench.json"] = json.dumps(described)
    return {n: _rounded(text) if n.endswith(".json") else text for n, text in found.items()}


if __name__ == "__main__":
    for name, text in texts().items():
        (GOLDEN / name).write_text(text, encoding="utf-8")
