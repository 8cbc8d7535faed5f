"""Claims of records: check 5, plausibility, of their samples, and the grader's word.

Samples that are all equal, or the same noise everywhere, were written by a program; a wide spread
or a strange date is asked about. The grader's word shows when and on which device a record was
made, not that it is honest.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from flashlab_grading.model import Line, Result, Submission, Verdict

ENOUGH = 8
"""Fewest samples that are judged."""

REPEATED = 0.3e-3
"""Seconds above which a clock does not give the same time for every call."""

SPREAD = 3.0
"""Largest ratio of the upper to the lower quartile of one run's samples."""

EARLIEST = datetime(2022, 7, 1, tzinfo=UTC)
"""FlashAttention was published in May 2022; records came later."""

WITHOUT_SAMPLES = ("lab5",)
"""Protocols that time all calls together."""


def _shape_of(samples: Sequence[float]) -> tuple[float, ...]:
    """The noise of samples: relative to their median, in ascending order, to six digits."""
    median = statistics.median(samples)
    return tuple(float(f"{value / median:.6g}") for value in sorted(samples))


def _fault(samples: Sequence[float]) -> tuple[Verdict, str] | None:
    """Verdict and code where the samples of one pass are none of a measurement."""
    low = min(samples)
    if low == max(samples):
        return ("fail", "plausibility.identical") if low >= REPEATED else None
    lower, _, upper = statistics.quantiles(samples, n=4)
    if upper > SPREAD * max(lower, low):
        return "warn", "plausibility.spread"
    return None


def _has_odd_date(started: str) -> bool:
    try:
        found = datetime.fromisoformat(started)
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return not EARLIEST <= found <= datetime.now(UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        return True


def check_samples(submission: Submission) -> Iterator[Line]:
    """Lines for the records whose samples or date no measurement gives; none for the others."""
    seen: dict[tuple[float, ...], list[str]] = defaultdict(list)
    for result in submission.results:
        claim = result.claim
        if claim is None:
            continue
        if _has_odd_date(claim.started):
            yield Line("warn", "plausibility.date", result.name, {"started": claim.started})
        samples = submission.samples.get(result.name, {})
        enough = {name: values for name, values in samples.items() if len(values) >= ENOUGH}
        if not enough:
            if claim.protocol not in WITHOUT_SAMPLES and not claim.imported:
                yield Line("not_checked", "plausibility.no_samples", result.name)
            continue
        for name, values in enough.items():
            if fault := _fault(values):
                yield Line(*fault, result.name, {"pass": name})
                break
        else:
            for values in enough.values():
                if len(set(values)) >= ENOUGH:
                    seen[_shape_of(values)].append(result.name)
    for files in seen.values():
        if len(files) > 1:
            for file in dict.fromkeys(files):
                other = next((name for name in files if name != file), file)
                yield Line("fail", "plausibility.one_noise", file, {"other": other})


def check_proofs(results: Sequence[Result], nonce: str) -> Iterator[Line]:
    """A line for each record: measured after the word was given, and all on one GPU, or not."""
    gpus: set[str] = set()
    for result in results:
        name, claim = result.name, result.claim
        if claim is None or claim.nonce is None:
            yield Line("not_checked", "form.no_proof", name)
        elif claim.nonce != nonce:
            yield Line("fail", "form.other_nonce", name, found=claim.nonce)
        elif not claim.sealed and claim.run.device == "cuda" and claim.gpu_uuid is None:
            yield Line("not_checked", "form.no_gpu", name)
        elif not claim.sealed:
            yield Line("fail", "form.seal", name)
        else:
            gpu = claim.gpu_uuid or ""
            gpus.add(gpu)
            yield Line("pass", "form.pass_proof", name, found=gpu)
    gpus.discard("")
    if len(gpus) > 1:
        yield Line("warn", "form.several_gpus", params={"count": str(len(gpus))})
