"""The two protocols by which a pass is timed: `lab5`, the course's mean, and `sampled`.

`lab5` takes the mean of back-to-back calls. `sampled` times every call alone until the 95% interval
of the median, which allows for dependent calls, is narrow enough or the time is spent, and keeps
every sample in order. Its calls come in batches of random length: any call may be the last, whose
result is compared with the reference. Inputs change from batch to batch, at random too.

What decides a time is bound here when this is imported, which is before any kernel is: a kernel
that replaces `time.perf_counter` or a method of CUDA's events changes nothing.
"""

from __future__ import annotations

import random
import resource
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns
from typing import Any

import torch

from flashlab.measuring import clocks
from flashlab.measuring.failures import IncorrectError
from flashlab.measuring.supervised import timed_section
from flashlab.statistics import median_interval

Event = torch.cuda.Event
_record, _query, _elapsed_ms = Event.record, Event.query, Event.elapsed_time
_current_stream, _wait_for_device = torch.cuda.current_stream, torch.cuda.synchronize
_wait_for_stream, _spin = torch.cuda.Stream.synchronize, torch.cuda._sleep
_usage = resource.getrusage

BATCH, MAX_BATCH, PERIOD = 8, 32, {"cuda": 4e-2, "cpu": 2e-3}
"""Mean and most calls of a batch; it ends after so many seconds of a device, too, on average: a
GPU's clock would rise in more pauses."""

RENEWED = 0.5
"""Share of batches with other inputs: to copy them moves the time of the call that follows."""

MIN_CALLS, MIN_LONG_CALLS, LONG_CALL_SECONDS = 20, 10, 0.02
"""Fewest calls of a pass, whatever the time spent, twice as many as any interval needs; and of one
whose calls last longer than that: twice as many would take seconds on a CPU."""

ENOUGH_CALLS = 500
"""Before so many calls a pass does not stop early: a state of the clock that lasts for 100 calls on
average is taken for the only one in 82% of passes of 20 calls, 14% of 200, and 1% of 500."""

GROWTH = 1.1
"""Factor by which the samples grow between two looks at the interval: more looks take time from the
calls, and stop more often by chance."""

HEAD_START, LONG_HEAD_START, MAX_HEAD_START = 8, 32, 512
"""Fewest flushes queued before a batch, those before one of a long pass, which takes longer to be
timed again than they do, and most; a launch blocks behind 1,024 others."""

WARM_UP_CALLS = {"cuda": 10, "cpu": 4}
WARM_UP_SECONDS = 0.02

HELD_CYCLES, CHECKED_HELD_CYCLES = 500_000, 20_000_000
"""Cycles for which a stream is held up: about 0.3 ms, until the call behind it is launched; and
10 ms, until its result is read as well, which takes longer for a new kernel or a busy machine."""

LATE_SECONDS, LATE = 30e-6, 0.05
"""The most that a device may finish after the current stream, beyond an idle device's wait: in
seconds, and as a share of the pass."""

REMEMBERED = 1.5
"""The largest ratio of a pass's time on numbers never seen to that on the same again, or to its
median time."""

SURE_CALLS, SURE_TIMINGS = 100, 3
"""Calls after which a pass is refused for its times: a busy machine disturbs a few; and how often
it is timed before. A short pass on two cores takes twice or thrice as long for seconds once the
system wakes its other thread on another core, as it does when a timing ends: the next agrees."""

LONG_PASS_SECONDS = 1e-3
"""Seconds from which on a pass may meet the power limit, so that its clock is left to settle."""

WINDOW_SECONDS, AGREEING_WINDOWS, SETTLED, MAX_SETTLE_SECONDS = 0.02, 3, 0.01, 0.6
"""The clock has settled once the medians of so many windows (s) agree within a share; at most so
many seconds are waited for that."""


@dataclass(frozen=True)
class Timing:
    """One pass as timed: its time in seconds, every sample, and why sampling stopped.

    `clocks` is the state of the GPU meanwhile (`measuring.clocks`), `faults` the page faults on a
    CPU (`Sampler.faults`); None where they are not known.
    """

    seconds: float
    samples: tuple[float, ...]
    stopped: str
    clocks: Mapping[str, Any] | None = None
    faults: Mapping[str, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """The timing as a metric of a record, in ms."""
        kept = {"samples": [seconds * 1e3 for seconds in self.samples], "stopped": self.stopped}
        return {"unit": "ms", "value": self.seconds * 1e3, **kept}


@dataclass
class Pass:
    """A pass that runs over and over.

    `run` runs it once, without synchronisation of its own, and gives its result; `before` prepares
    a call outside the clock. `renew` puts other inputs into the storage that it reads, where it is
    told so numbers never seen. `check` raises IncorrectError for a result that is wrong. It warms
    up for `warm_up_seconds` at least. `calls` is how often it has run here, and `seconds` how long
    a call took to warm up.
    """

    run: Callable[[], Any]
    before: Callable[[], Any] = lambda: None
    renew: Callable[[bool], Any] = lambda _: None
    check: Callable[[Any], Any] = lambda _: None
    warm_up_seconds: float = WARM_UP_SECONDS
    calls: int = 0
    seconds: float = 0.0


@contextmanager
def right_before(calls: int) -> Iterator[None]:
    """Adds to an IncorrectError raised within that the kernel was right, so many calls before."""
    try:
        yield
    except IncorrectError as error:
        message = f"right at first, wrong after {calls} calls: {error}"
        raise IncorrectError(message, error.compared) from error


def synchronize(device: str) -> None:
    """Wait until the device has done all that was launched on it."""
    if device == "cuda":
        _wait_for_device()


class Sampler:
    """Times batches of calls, on other inputs now and then, and compares the last result of each.

    On a GPU each call is launched before the GPU comes to it: its sample would otherwise hold the
    wait for the launch. So each batch waits behind as many flushes as keep the GPU busy meanwhile;
    where it waited, it is timed again behind twice as many. `besides` is the seconds that calls
    were prepared for.
    """

    def __init__(self, timed: Pass, device: str) -> None:
        self.timed, self._device = timed, device
        self._chance = random.Random()  # a kernel may seed the module's
        self.begin()
        if device == "cuda":
            at = torch.cuda.get_device_properties(torch.cuda.current_device())
            # Twice the L2 cache: to overwrite it leaves nothing of the inputs there.
            self._flush = torch.empty(2 * at.L2_cache_size, dtype=torch.int8, device="cuda")
            is_long = timed.seconds >= LONG_PASS_SECONDS
            self._head_start = LONG_HEAD_START if is_long else HEAD_START
        with right_before(timed.calls):
            timed.renew(False)  # what it is compared with is made outside of its time

    def begin(self) -> None:
        """Count what is spent besides the calls, and on page faults, from 0."""
        self.besides, self._spent = 0.0, [0.0, 0.0, 0.0]

    def __call__(self, is_new: bool = False) -> list[float]:
        """Seconds of each call of a batch; on numbers never seen of one, which is not compared."""
        with right_before(self.timed.calls):
            if is_new or self._chance.random() < RENEWED:
                self.timed.renew(is_new)
            batch = self._cuda_batch if self._device == "cuda" else self._cpu_batch
            samples, last = batch(1 if is_new else self._length())
            if not is_new:
                self.timed.check(last)
        self.timed.calls += len(samples)
        return samples

    def _length(self) -> int:
        """Calls of a batch: without memory, so that any call may be the last."""
        share = max(1 / BATCH, self.timed.seconds / PERIOD[self._device])
        length = 1
        while length < MAX_BATCH and self._chance.random() > share:
            length += 1
        return length

    def _prepare(self) -> None:
        begin = perf_counter()
        self.timed.before()
        self.besides += perf_counter() - begin

    def _cuda_batch(self, length: int) -> tuple[list[float], Any]:
        stream = _current_stream()
        while True:
            events = [(Event(enable_timing=True), Event(enable_timing=True)) for _ in range(length)]
            waited, last = False, None
            for _ in range(self._head_start):
                self._flush.zero_()
            for start, end in events:
                last = None
                self._prepare()
                self._flush.zero_()
                _record(start, stream)
                last = self.timed.run()
                waited |= _query(start)
                _record(end, stream)
            _wait_for_device()
            if not waited or self._head_start >= MAX_HEAD_START:
                return [_elapsed_ms(start, end) / 1e3 for start, end in events], last
            self._head_start *= 2

    def _cpu_batch(self, length: int) -> tuple[list[float], Any]:
        run, samples, result = self.timed.run, list[float](), None
        for left in reversed(range(length)):
            self._prepare()
            before, start = _usage(resource.RUSAGE_SELF), perf_counter_ns()
            result = run()
            if left:
                result = None  # as it is timed: to free a result takes time too
            samples.append((perf_counter_ns() - start) / 1e9)
            now = _usage(resource.RUSAGE_SELF)
            for i, name in enumerate(("ru_minflt", "ru_stime", "ru_utime")):
                self._spent[i] += getattr(now, name) - getattr(before, name)
        return samples, result

    def faults(self, calls: int) -> dict[str, float] | None:
        """Page faults ``per_call`` of so many, the kernel's ``system_share`` of all CPU time."""
        faults, system, user = self._spent
        if self._device == "cuda":
            return None
        share = system / (system + user) if system + user else 0.0
        return {"per_call": round(faults / calls, 1), "system_share": round(share, 3)}


def _wait_twice() -> float:
    """Wait for the current stream, then for the device: the seconds of the second wait."""
    _wait_for_stream(_current_stream())
    begin = perf_counter()
    _wait_for_device()
    return perf_counter() - begin


def _call(timed: Pass, device: str, is_new: bool) -> tuple[float, float]:
    """Seconds of one call, on other inputs or the same, and of the second wait (`_wait_twice`).

    A GPU's stream is held up until the call is launched, after other inputs once more: to launch
    these takes time too, by which a call on them would seem to take longer.
    """
    hold = _spin if device == "cuda" else lambda _: None
    if is_new:
        hold(HELD_CYCLES)
        timed.renew(True)
    timed.before()
    hold(HELD_CYCLES)
    if device == "cpu":
        begin = perf_counter()
        timed.run()
        return perf_counter() - begin, 0.0
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    _record(start)
    timed.run()
    _record(end)
    wait = _wait_twice()
    return _elapsed_ms(start, end) / 1e3, wait


def _doubt(seconds: list[float], late: float) -> str | None:
    """The reason to take a pass for incorrect, by its calls' times; None if there is none.

    Those with an even index had new inputs, the others the same again; the device was `late` by so
    many seconds after their stream.
    """
    if late > LATE_SECONDS + LATE * statistics.median(seconds):
        return (
            f"works on after the current stream has finished, for {late * 1e3:.3g} ms: let the "
            "current stream wait for its streams"
        )
    new, same = min(seconds[::2]), statistics.median(seconds[1::2])
    if new > REMEMBERED * same:
        return (
            f"takes {new * 1e3:.3g} ms on new inputs, and {same * 1e3:.3g} on the same ones again: "
            "it keeps its answers"
        )
    return None


def warm_up(timed: Pass, device: str) -> float:
    """Call a pass until its first calls' set-up is done, on new inputs every other time.

    Returns the seconds that the calls took without the first, which may compile. IncorrectError as
    the device works on after the current stream has finished, or calls on new inputs take so much
    longer that answers must have been kept.
    """
    least_calls = WARM_UP_CALLS[device]
    seconds, waits = list[float](), list[float]()
    is_cuda = device == "cuda"
    idle = statistics.median(_wait_twice() for _ in range(least_calls)) if is_cuda else 0.0
    begin, doubt = perf_counter(), None
    while doubt or len(waits) < least_calls or perf_counter() - begin < timed.warm_up_seconds:
        spent, wait = _call(timed, device, len(waits) % 2 == 0)
        seconds.append(spent)
        waits.append(wait)
        if least_calls <= len(waits) <= SURE_CALLS:
            doubt = _doubt(seconds, statistics.median(waits) - idle)
        if doubt and len(waits) >= SURE_CALLS:
            raise IncorrectError(doubt)
    timed.calls += len(waits)
    timed.seconds = statistics.median(seconds)
    return sum(seconds[1:])


def check_held(timed: Pass, device: str) -> None:
    """Check a call that was launched before its inputs were there, and is read as it ends.

    A GPU's stream is held up meanwhile. What works on another stream takes the inputs before, or
    is not done when the current stream is.
    """
    with right_before(timed.calls):
        if device == "cuda":
            _spin(CHECKED_HELD_CYCLES)
        timed.renew(True)
        timed.before()
        result = timed.run()
        timed.calls += 1
        timed.check(result)


def kept(sample: Sampler, usual: float) -> str | None:
    """Why calls are refused that take longer on numbers never seen than `usual`, in seconds.

    A busy machine disturbs a few: the fastest decides.
    """
    new = list[float]()
    while len(new) < SURE_CALLS:
        new += sample(is_new=True)
        if min(new) <= REMEMBERED * usual:
            return None
    return (
        f"takes {min(new) * 1e3:.3g} ms on numbers never seen, and {usual * 1e3:.3g} as it is "
        "timed: it keeps its answers"
    )


def settle(sample: Callable[[], list[float]], warmed_seconds: float) -> None:
    """Time a long pass, for nothing, until the GPU's clock has settled.

    A long pass of matrix products meets the power limit, and the clock falls within some tenths of
    a second. It has settled where the last windows agree. It has run for so many seconds already.
    """
    medians: list[float] = []
    end = perf_counter() + MAX_SETTLE_SECONDS - warmed_seconds
    while (start := perf_counter()) < end:
        window: list[float] = []
        while perf_counter() - start < WINDOW_SECONDS:
            window += sample()
            if window[0] < LONG_PASS_SECONDS:
                return
        medians.append(statistics.median(window))
        last = medians[-AGREEING_WINDOWS:]
        if len(last) == AGREEING_WINDOWS and max(last) <= (1 + SETTLED) * min(last):
            return


def sampled(timed: Pass, protocol: Mapping[str, Any], device: str, settled: bool = True) -> Timing:
    """Time a pass by the `sampled` protocol, and check results of it meanwhile.

    The protocol's ``relative_interval`` is the half-width of the median's 95% interval to reach as
    a share of it, ``max_seconds`` after which to stop in any case, and the device ``cuda`` (CUDA
    events, L2 flushed before each call) or ``cpu`` (perf_counter_ns). A long pass is timed only
    after a GPU's clock has `settled`. Of the median there are at least `MIN_CALLS` samples whatever
    the time spent, or `MIN_LONG_CALLS` of long calls.

    IncorrectError as of `warm_up` and `SURE_TIMINGS` that are `kept`, or where a result is wrong.
    """
    warmed_seconds = warm_up(timed, device)
    sample = Sampler(timed, device)
    if device == "cuda" and settled:
        settle(sample, warmed_seconds)
    for _ in range(SURE_TIMINGS):
        timing = _sample(sample, protocol, device)
        if not (doubt := kept(sample, timing.seconds)):
            break
    if doubt:
        raise IncorrectError(doubt)
    check_held(timed, device)
    return timing


def _sample(sample: Sampler, protocol: Mapping[str, Any], device: str) -> Timing:
    """Time calls until the interval of their median is narrow enough, or the time is spent."""
    sample.begin()
    with timed_section(is_filled=device == "cpu") as (samples, besides):
        watch, next_look, begin = clocks.Watch(device), float(ENOUGH_CALLS), perf_counter()
        while True:
            samples += sample()
            watch.look()
            spent = perf_counter() - begin
            is_spent = spent >= protocol["max_seconds"]
            is_long = spent > LONG_CALL_SECONDS * len(samples)
            fewest = MIN_LONG_CALLS if is_long else MIN_CALLS
            if len(samples) < (fewest if is_spent else next_look):
                continue
            interval = median_interval(samples)
            is_reached = interval.relative_half_width <= protocol["relative_interval"]
            if is_spent or is_reached:
                break
            next_look = GROWTH * len(samples)
        besides.append(sample.besides)
    stopped = "interval" if is_reached else "time"
    known = watch.seen(), sample.faults(len(samples))
    return Timing(interval.median, tuple(samples), stopped, *known)


def lab5(timed: Pass, protocol: Mapping[str, Any], device: str) -> Timing:
    """Time a pass as the course's script does: the mean of ``repeats`` back-to-back calls.

    max(2, repeats // 100) warm-up calls, then other inputs, and the calls between two waits for the
    device, which work on other streams does not escape. The last result is checked (`sampled`).
    """
    repeats, result = protocol["repeats"], None
    warm_up_calls = max(2, repeats // 100)
    timed.before()
    for _ in range(warm_up_calls):
        timed.run()
    timed.renew(False)
    timed.before()
    synchronize(device)
    with timed_section(is_filled=True) as (samples, _):
        begin = perf_counter_ns()
        for left in reversed(range(repeats)):
            result = timed.run()
            if left:
                result = None
        synchronize(device)
        samples.append((perf_counter_ns() - begin) / 1e9)
    timed.calls += warm_up_calls + repeats
    with right_before(timed.calls):
        timed.check(result)
    return Timing(samples[0] / repeats, (), "count")


PROTOCOLS = {"sampled": sampled, "lab5": lab5}
