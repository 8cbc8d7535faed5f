"""The barrier protocol of the Hopper kernels in a model, under random schedules and planted faults.

Each role (producer, consumers) is a generator that yields before every step that another role can
see, so that a scheduler can interleave them in any order. A load by the copy engine is a role of
its own, which completes at any time after it was started. A buffer knows whether it is being
written and who still reads it; what the barriers are to prevent is an error here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import pytest

Step = Generator[Callable[[], bool] | None, None, None]
"""A role. It yields None before a step, or a condition that must hold before it goes on."""


class ProtocolError(Exception):
    """What the barriers are there to prevent: a deadlock, or a buffer used at the wrong time."""


@dataclass
class Barrier:
    """An mbarrier: its phase completes after so many arrivals."""

    arrivals: int
    completed: int = 0
    pending: int = 0

    def arrive(self) -> None:
        self.pending += 1
        if self.pending == self.arrivals:
            self.pending, self.completed = 0, self.completed + 1

    def has_passed(self, parity: int) -> bool:
        """What mbarrier.try_wait.parity answers: whether the current phase's parity differs."""
        return self.completed % 2 != parity


@dataclass
class Buffer:
    """Shared memory: what it holds, and who uses it now."""

    holds: object = None
    is_loading: bool = False
    readers: int = 0


@dataclass
class Machine:
    """The roles of one program, run in a random order."""

    rng: random.Random
    roles: list[Step] = field(default_factory=list)

    def run(self) -> None:
        """Until every role has ended; ProtocolError where none can go on."""
        waiting: dict[int, Callable[[], bool] | None] = {}
        roles = dict(enumerate(self.roles))
        self.roles.clear()
        waiting = dict.fromkeys(roles)
        serial = len(roles)
        while roles:
            ready = [key for key in roles if (c := waiting[key]) is None or c()]
            if not ready:
                raise ProtocolError("every role waits")
            key = self.rng.choice(ready)
            try:
                waiting[key] = next(roles[key])
            except StopIteration:
                del roles[key], waiting[key]
            for role in self.roles:  # loads that this step has started
                roles[serial], waiting[serial] = role, None
                serial += 1
            self.roles.clear()

    def load(self, buffer: Buffer, value: object, full: Barrier) -> None:
        """Start a load, which ends some time later and then arrives."""

        def copy() -> Step:
            yield None
            buffer.holds, buffer.is_loading = value, False
            full.arrive()

        if buffer.is_loading or buffer.readers:
            raise ProtocolError(f"{value} is loaded over {buffer.holds}, which is in use")
        buffer.is_loading = True
        self.roles.append(copy())


def read(buffer: Buffer, value: object) -> Step:
    """Read a buffer over some steps, as a product that runs on its own does."""
    if buffer.is_loading or buffer.holds != value:
        raise ProtocolError(f"{value} is read, and the buffer has {buffer.holds}")
    buffer.readers += 1
    yield None
    if buffer.is_loading or buffer.holds != value:
        raise ProtocolError(f"{value} was replaced by {buffer.holds} while it was read")
    buffer.readers -= 1


# --- The rings of kernels/flashlab/pipeline.py ----------------------------------------------------


def wait_full(ring: list[Barrier], i: int) -> Step:
    barrier, parity = ring[i % len(ring)], (i // len(ring)) & 1
    yield lambda: barrier.has_passed(parity)


def wait_empty(ring: list[Barrier], i: int, ahead: int = 1) -> Step:
    barrier, parity = ring[i % len(ring)], (i // len(ring) + ahead) & 1
    yield lambda: barrier.has_passed(parity)


def release(ring: list[Barrier], i: int) -> Step:
    yield None
    ring[i % len(ring)].arrive()


@dataclass
class Ring:
    """Buffers with the two barriers of each."""

    size: int
    consumers: int

    def __post_init__(self) -> None:
        self.buffers = [Buffer() for _ in range(self.size)]
        self.full = [Barrier(1) for _ in range(self.size)]
        self.empty = [Barrier(self.consumers) for _ in range(self.size)]

    def load(self, machine: Machine, i: int, value: object, ahead: int = 1) -> Step:
        yield from wait_empty(self.empty, i, ahead)
        machine.load(self.buffers[i % self.size], value, self.full[i % self.size])

    def read(self, i: int, value: object) -> Step:
        yield from read(self.buffers[i % self.size], value)


# --- hopper_forward -------------------------------------------------------------------------------

Tile = tuple[int, ...]
"""How many blocks of keys each consumer sees; the last sees most."""


def forward_producer(
    m: Machine, q: list[Ring], k: Ring, v: Ring, tiles: list[Tile], fault: str
) -> Step:
    i = 0
    ahead = 0 if fault == "the producer waits for the wrong phase" else 1
    for r, tile in enumerate(tiles):
        n = tile[-1]
        yield from k.load(m, i, (r, n - 1), ahead)
        for ring in q:
            yield from ring.load(m, r, r)
        for j in range(n):
            if j + 1 < n:
                yield from k.load(m, i + 1, (r, n - 2 - j))
            yield from v.load(m, i, (r, n - 1 - j))
            i += 1


def forward_consumer(c: int, q: Ring, k: Ring, v: Ring, tiles: list[Tile], fault: str) -> Step:
    i = 0
    for r, tile in enumerate(tiles):
        n = tile[c]
        for _ in range(tile[-1] - n):
            if fault != "blocks that a consumer skips stay unreleased":
                for ring in (k, v):
                    yield from wait_full(ring.full, i)
                    yield from release(ring.empty, i)
            i += 1
        yield from wait_full(q.full, r)
        yield from wait_full(k.full, i)
        yield from q.read(r, r)
        yield from k.read(i, (r, n - 1))
        yield from release(k.empty, i)
        for j in range(1, n):
            yield from wait_full(k.full, i + 1)
            if fault == "K is released before it is read":
                yield from release(k.empty, i + 1)
            yield from k.read(i + 1, (r, n - 1 - j))
            if fault != "K is released before it is read":
                yield from release(k.empty, i + 1)
            yield from wait_full(v.full, i)
            yield from v.read(i, (r, n - j))
            yield from release(v.empty, i)
            i += 1
        yield from release(q.empty, r)
        if fault == "Q is read after its release":
            yield from q.read(r, r)
        if fault != "V is read without waiting":
            yield from wait_full(v.full, i)
        yield from v.read(i, (r, 0))
        yield from release(v.empty, i)
        i += 1


def run_forward(seed: int, consumers: int, ring: int, fault: str = "") -> None:
    rng = random.Random(seed)
    machine = Machine(rng)
    tiles = [
        tuple(sorted(rng.randint(1, 4) for _ in range(consumers))) for _ in range(rng.randint(1, 4))
    ]
    q = [Ring(1, 1) for _ in range(consumers)]
    k, v = Ring(ring, consumers), Ring(ring, consumers)
    machine.roles = [forward_producer(machine, q, k, v, tiles, fault)]
    machine.roles += [forward_consumer(c, q[c], k, v, tiles, fault) for c in range(consumers)]
    machine.run()


# --- keys_kernel of hopper_backward, where it adds up dQ: both consumers read the dS of both ---


def keys_producer(m: Machine, k: Ring, q: Ring, do: Ring, blocks: list[int]) -> Step:
    i = 0
    for r, n in enumerate(blocks):
        yield from q.load(m, i, i)
        yield from k.load(m, r, r)
        for j in range(n):
            yield from do.load(m, i, i)
            i += 1
            if j + 1 < n:
                yield from q.load(m, i, i)


def keys_consumer(
    c: int, k: Ring, q: Ring, do: Ring, ds: list[list[Buffer]], ds_full: list[Barrier],
    blocks: list[int], fault: str,
) -> Step:  # fmt: skip
    def share_of_dq(i: int) -> Step:
        if fault != "dS is taken without waiting":
            yield from wait_full(ds_full, i)
        for half in ds[i % 2]:
            yield from read(half, i)

    i = 0
    for r, n in enumerate(blocks):
        yield from wait_full(k.full, r)
        for j in range(n):
            yield from wait_full(q.full, i)
            if j > 0 or fault == "the first block takes a share of dQ":
                yield from share_of_dq(i - 1)
            yield from q.read(i, i)
            yield from wait_full(do.full, i)
            yield from do.read(i, i)
            half = ds[i % 2][c]
            if half.readers:
                raise ProtocolError("dS is written while the other consumer reads it")
            yield None
            half.holds = i
            ds_full[i % 2].arrive()
            yield from release(do.empty, i)
            yield from q.read(i, i)
            yield from release(q.empty, i)
            i += 1
        if fault == "K is released before the last share of dQ":
            yield from release(k.empty, r)
        yield from share_of_dq(i - 1)
        yield from k.read(r, r)
        if fault != "K is released before the last share of dQ":
            yield from release(k.empty, r)


def run_keys(seed: int, ring: int, fault: str = "") -> None:
    rng = random.Random(seed)
    machine = Machine(rng)
    blocks = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    k, q, do = Ring(1, 2), Ring(ring, 2), Ring(2, 2)
    ds = [[Buffer(), Buffer()], [Buffer(), Buffer()]]
    ds_full = [Barrier(1 if fault == "one consumer completes dS" else 2) for _ in range(2)]
    machine.roles = [keys_producer(machine, k, q, do, blocks)]
    machine.roles += [keys_consumer(c, k, q, do, ds, ds_full, blocks, fault) for c in range(2)]
    machine.run()


# --- hopper_backward_wide: consumer 0 hands P to consumer 1 ---


def wide_producer(m: Machine, k: Ring, v: Ring, q: Ring, do: Ring, blocks: list[int]) -> Step:
    i = 0
    for r, n in enumerate(blocks):
        yield from k.load(m, r, r)
        yield from v.load(m, r, r)
        for _ in range(n):
            yield from q.load(m, i, i)
            yield from do.load(m, i, i)
            i += 1


def sum_up(
    keys: Ring, blocks: list[int], prepare: Callable[[int], Step], product: Callable[[int], Step]
) -> Step:
    """A consumer's tiles: each block of queries is prepared before the product of the one before.

    `keys` holds the tile's K or V, and at its end the result.
    """
    i = 0
    for r, n in enumerate(blocks):
        yield from wait_full(keys.full, r)
        yield from prepare(i)
        for _ in range(1, n):
            yield from prepare(i + 1)
            yield from product(i)
            i += 1
        yield from product(i)
        i += 1
        yield from keys.read(0, r)
        yield from release(keys.empty, r)


def wide_dv(k: Ring, q: Ring, do: Ring, p: Ring, blocks: list[int]) -> Step:
    def hand_on(i: int) -> Step:
        yield from wait_full(q.full, i)
        yield from q.read(i, i)
        yield from release(q.empty, i)
        yield from wait_empty(p.empty, i)
        if p.buffers[i % 2].readers:
            raise ProtocolError("P is written while the other consumer reads it")
        yield None
        p.buffers[i % 2].holds = i
        yield from release(p.full, i)

    def product(i: int) -> Step:
        yield from wait_full(do.full, i)
        yield from do.read(i, i)
        yield from release(do.empty, i)

    yield from sum_up(k, blocks, hand_on, product)


def wide_dk(v: Ring, q: Ring, do: Ring, p: Ring, blocks: list[int], fault: str) -> Step:
    def take_over(i: int) -> Step:
        yield from wait_full(do.full, i)
        yield from do.read(i, i)
        yield from release(do.empty, i)
        if fault != "P is taken without waiting":
            yield from wait_full(p.full, i)
        yield from p.read(i, i)
        yield from release(p.empty, i)

    def product(i: int) -> Step:
        yield from wait_full(q.full, i)
        if fault == "Q is released before dK":
            yield from release(q.empty, i)
        yield from q.read(i, i)
        if fault != "Q is released before dK":
            yield from release(q.empty, i)

    yield from sum_up(v, blocks, take_over, product)


def run_wide(seed: int, fault: str = "") -> None:
    rng = random.Random(seed)
    machine = Machine(rng)
    blocks = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    k, v, q, do, p = Ring(1, 1), Ring(1, 1), Ring(2, 2), Ring(2, 2), Ring(2, 1)
    machine.roles = [
        wide_producer(machine, k, v, q, do, blocks),
        wide_dv(k, q, do, p, blocks),
        wide_dk(v, q, do, p, blocks, fault),
    ]
    machine.run()


def test_the_wide_backward_protocol_holds_under_any_schedule() -> None:
    for seed in range(60):
        run_wide(seed)


@pytest.mark.parametrize("fault", ["P is taken without waiting", "Q is released before dK"])
def test_a_fault_planted_in_the_wide_backward_is_found(fault: str) -> None:
    with pytest.raises(ProtocolError):
        for seed in range(300):
            run_wide(seed, fault)


@pytest.mark.parametrize(("consumers", "ring"), [(1, 3), (2, 2), (2, 3), (3, 3)])
def test_the_forward_protocol_holds_under_any_schedule(consumers: int, ring: int) -> None:
    for seed in range(60):
        run_forward(seed, consumers, ring)


@pytest.mark.parametrize("ring", [2, 3])
def test_the_backward_protocol_holds_under_any_schedule(ring: int) -> None:
    for seed in range(60):
        run_keys(seed, ring)


@pytest.mark.parametrize(
    "fault",
    [
        "the producer waits for the wrong phase",
        "blocks that a consumer skips stay unreleased",
        "K is released before it is read",
        "Q is read after its release",
        "V is read without waiting",
    ],
)
def test_a_fault_planted_in_the_forward_is_found(fault: str) -> None:
    with pytest.raises(ProtocolError):
        for seed in range(300):
            run_forward(seed, 2, 2, fault)


@pytest.mark.parametrize(
    "fault",
    [
        "dS is taken without waiting",
        "the first block takes a share of dQ",
        "one consumer completes dS",
        "K is released before the last share of dQ",
    ],
)
def test_a_fault_planted_in_the_backward_is_found(fault: str) -> None:
    with pytest.raises(ProtocolError):
        for seed in range(300):
            run_keys(seed, 2, fault)
