"""What a parameter decides and what to use: an experiment's last sentence, its line.

With the notices on runs without numbers and on odd ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flashlab.analysis.frames import Dataset, Sweep, number, run_keys_of
from flashlab.story.attention import roles
from flashlab.story.attention.causes import head_sizes
from flashlab.story.attention.roles import MEMORY, SAVES, TOTAL, share
from flashlab.story.attention.time import lead_clause
from flashlab.story.observation import Observation, clause

FEW = 3
"""Values of a sweep from which on it says what a parameter does."""


def take(s: Sweep) -> Observation | None:
    """By how the lead of the one, or of the leader, changes along the sweep, and by the memory."""
    name = roles.leader(s)
    led = lead_clause(s, name) if name and roles.has_baseline(s) and not s.is_switch else None
    if name is None or led is None or s.symbol == roles.SHARED:
        return None
    if roles.is_alike(s):
        kind = roles.dip_of(s, next(iter(roles.odd_of(s))))
        names = [n for n in roles.odd_of(s) if roles.dip_of(s, n) == kind]
        return Observation("take", s.name, {"kind": kind, "names": names}, _odd_rows([s]), "odd")
    at = roles.ends(s, [name, s.data.baseline], MEMORY)
    shares = [share(s, name, end) for end in at] or [1.0, 1.0]
    facts: dict[str, Any] = {**led[0], "good": None, "against": None}
    facts["saves"] = clause("saves", new=name) if shares[1] < SAVES else None
    variant = _variant(s, led[0]["says"], facts, shares)
    return Observation("take", s.name, facts, s.data.rows(led[1]), variant) if variant else None


FIXED = {"lead_turns": "choose", "lead_undecided": "even", "lead_equal": "even", "lead_single": ""}
FIXED |= {"lead_slower": "stay", "lead_slower_at": "stay"}
"""The sentence by the clause on the lead, where it alone decides; none of a single value."""

BY_CHANGE = {"peaks": "peaks", "dips": "peaks", "unknown": "open", "open": "open"}


def _variant(s: Sweep, says: str, facts: dict[str, Any], shares: list[float]) -> str | None:
    """Which sentence; it may add clauses to the facts."""
    if says in FIXED:
        return FIXED[says]
    speeds = roles.even(s.speed(TOTAL, facts["new"]))
    found, stores = roles.change(speeds), roles.stores_scores(s.data, s.data.baseline)
    if len(speeds) < FEW:
        return "two"
    if s.symbol == "E" and stores and roles.beyond(speeds.iloc[0], speeds.iloc[-1]):
        top = speeds.loc[facts["most"]]
        kept = max(int(str(at)) for at, x in speeds.iterrows() if not roles.beyond(top, x))
        facts |= {"most": kept, "there": number(speeds, kept, "x")}
        return "catch_up"
    if found in BY_CHANGE:
        return BY_CHANGE[found]
    facts["shares"] = shares
    if found == "constant":
        facts["mask"] = roles.mask_of(s)
        return "fits" if s.symbol == "N" and shares[1] < SAVES * shares[0] else "still"
    steps = speeds.x.astype(float)
    if not (steps.is_monotonic_increasing if found == "grows" else steps.is_monotonic_decreasing):
        return "moves"  # "the more, the more" is of every step
    opposite = {"grows": "shrinks", "shrinks": "grows"}[found]
    changes = {n: roles.change(roles.even(s.speed(TOTAL, n))) for n in roles.subjects(s)}
    against = [n for n, change in changes.items() if change == opposite]
    facts["against"] = clause("against", names=against) if against else None
    if s.symbol == "H" and found == "grows" and (sizes := head_sizes(s)) and sizes["good"]:
        facts["good"] = clause("good_heads", d=sizes["good"], x=sizes["there"], who=sizes["among"])
    falls = s.symbol == "N" and shares[1] < SAVES * shares[0]
    facts["saves"] = clause("saves_more") if falls and found == "grows" else None
    return found


# Notices


def missing(s: Sweep) -> Observation | None:
    """The runs of an experiment that have no numbers: whose, why and where."""
    found = _gone([s])
    return Observation("missing", s.name, {"of": found}, _failed_rows([s])) if found else None


def all_missing(data: Dataset) -> list[Observation]:
    """The same of the dataset, a sentence an implementation and reason, for page one."""
    said = [(each, _failed_rows(data.sweeps, each["name"])) for each in _gone(data.sweeps)]
    return [Observation("missing", None, {"of": [e]}, rows, place="notice") for e, rows in said]


def _gone(sweeps: Iterable[Sweep]) -> list[dict[str, Any]]:
    """Clauses by implementation and status; a packed twin that fails with the other is left out.

    A sweep that fails as a whole at an N that is named is left out; what is wrong at each of its
    settings of a head size is named by that. A gradient that is wrong beside a right output, when
    the gate's message names it alone, is called so.
    """
    found: dict[tuple[str, str], dict[tuple[str, str], set[int]]] = {}
    for s in sweeps:
        of_gradient = s.failed.message.astype(str).str.contains("float64: dqkv")
        of_gradient &= s.failed.status == "incorrect"
        statuses = s.failed.status.mask(of_gradient, "gradient")
        gone = dict(zip(run_keys_of(s.failed), statuses, strict=True))
        masks, dims = {*s.variants, *(v for v, _, _ in gone)}, roles.head_dims(s)
        values = {*s.medians(TOTAL).index, *(at for _, _, at in gone)}
        for (variant, name, at), status in gone.items():
            if gone.get((variant, str(s.data.declared[name].get("packed_of")), at)) == status:
                continue
            alone = len(masks) > 1 and not all((v, name, at) in gone for v in masks)
            mask = ("with" if "true" in variant else "without") if alone else "any"
            places = found.setdefault((name, status), {})
            whole = s.symbol != "N" and all((variant, name, x) in gone for x in values)
            if whole and int(s.failed.seq_len.iloc[0]) in places.get(("N", mask), ()):
                continue
            right = s.data.runs.head_dim[s.data.runs.index.get_level_values(2) == name]
            wrong = status in ("incorrect", "gradient") and at in dims and dims[at] not in {*right}
            p, value = ("d", dims[at]) if wrong else (s.symbol, at)
            places.setdefault((p, mask), set()).add(value)
    return [
        clause("gone", name=name, status=status, places=_places(places))
        for (name, status), places in found.items()
    ]


def _places(found: Mapping[tuple[str, str], Iterable[int]]) -> list[dict[str, Any]]:
    """The clauses that name values, by symbol and mask."""
    return [clause("where", p=p, at=sorted(at), mask=mask) for (p, mask), at in found.items()]


def _failed_rows(sweeps: Iterable[Sweep], name: str = "") -> list[dict[str, Any]]:
    """The rows of runs.csv behind a notice."""
    return [
        {"table": "runs.csv", "experiment": s.name, "variant": v, "implementation": n}
        | {s.data.swept[s.name]: at, "status": status}
        for s in sweeps
        for (v, n, at), status in zip(run_keys_of(s.failed), s.failed.status, strict=True)
        if not name or n == name
    ]


def odd(s: Sweep) -> Observation | None:
    """Odd runs of an experiment: left out of what is said of time, where two others are left."""
    found = roles.odd_of(s)
    if not found:
        return None
    of = [_odd_at(n, roles.dip_of(s, n), {(s.symbol, "any"): at}) for n, at in found.items()]
    return Observation("odd", s.name, {"of": of, "rest": _rest([s])}, _odd_rows([s]))


def all_odd(data: Dataset) -> list[Observation]:
    """The same of the dataset, each run once, with all experiments that have it."""
    runs: dict[tuple[str, str, str], dict[tuple[str, str], set[int]]] = {}
    for s in data.sweeps:
        dips = s.runs[s.runs.odd.astype(bool)]
        for (_, name, at), record, by in zip(run_keys_of(dips), dips.record, dips.odd, strict=True):
            places = runs.setdefault((name, str(record), str(by)), {})
            places.setdefault((s.symbol, "any"), set()).add(at)
    if not runs:
        return []
    of = [_odd_at(name, by, places) for (name, _, by), places in runs.items()]
    having = [s for s in data.sweeps if roles.odd_of(s)]
    facts = {"of": of, "rest": _rest(having)}
    return [Observation("odd", None, facts, _odd_rows(having), place="notice")]


def _odd_at(name: str, kind: str, places: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    return clause("odd_at", name=name, kind=kind, places=_places(places))


def _rest(having: list[Sweep]) -> dict[str, Any]:
    """What experiments with odd runs say of time: none rests on them, some do, or all are alike."""
    rest = "left" if all(map(_is_left_out, having)) else "kept"
    return clause(f"odd_{'alike' if all(map(roles.is_alike, having)) else rest}")


def _is_left_out(s: Sweep) -> bool:
    """True if two values without an odd run are left, for every implementation."""
    return all(
        len({*s.medians(TOTAL, v)[n].dropna().index} - {*roles.odd_at(s)}) > 1
        for v in s.variants
        for n in s.names
    )


def _odd_rows(sweeps: Iterable[Sweep]) -> list[dict[str, Any]]:
    return [r for s in sweeps for n, at in roles.odd_of(s).items() for r in s.rows(TOTAL, [n], at)]
