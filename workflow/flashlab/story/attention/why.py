"""Why: what another process counted at the same setting, or what follows by arithmetic.

Nothing is explained that was not counted on the same run, or that the exact model of memory or the
definition of the operations does not give.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from flashlab.analysis.experiment import EXACT_DIGITS, Row
from flashlab.analysis.launched import Launched, read_kernels
from flashlab.analysis.ratios import rounded
from flashlab.devices import find_device, known_devices
from flashlab.runs import Run
from flashlab.story import words
from flashlab.story.attention.sweep import (
    BACKWARD,
    FORWARD,
    MASK,
    MEMORY,
    OFF,
    ON,
    PASSES,
    TOTAL,
    decided_of,
    ends,
    head_dims,
    is_switch,
    memory_growth,
    pair,
    passes_differ,
    passes_of,
    time_lead,
    variant_of,
)
from flashlab.story.observation import Observation
from flashlab.story.tables import EQUAL, FASTER, SLOWER, Section, evidence

GIGA = 1e9
LARGEST = 2**24
"""The longest sequence at which the memory model is asked."""

LINE_ERROR = 0.02
"""Largest relative distance of inner points from the line through the first and the last."""

PRODUCTS = 5
"""The matrix products that the FLOPs of a backward count: 2.5 times the two of a forward."""

AGREEMENT = 0.10
"""Within what share the scores by two independent lines agree."""


def counted(section: Section, name: str, variant: str, value: int, metric: str) -> dict[str, float]:
    """The counters of a pass by quantity; empty where nothing was counted."""
    run = section.run(name, variant, value)
    if run is None or run["status"] != "ok":
        return {}
    found = dict(section.experiment.counters_of(run, metric))
    return found if found.get("busy_time") or found.get("operator_time") else {}


def counted_values(section: Section, names: Sequence[str], variant: str) -> list[int]:
    """The values of the sweep at which the forward pass of all of these was counted."""
    return [
        value
        for value in section.experiment.values
        if all(counted(section, name, variant, value, FORWARD) for name in names)
    ]


def copy_rate(section: Section) -> float | None:
    """Bytes a millisecond that the device was measured to copy."""
    ceilings = section.tables.ceilings
    names = {run["device_name"] for run in section.experiment.runs if run["status"] == "ok"}
    return ceilings.copy.rate / 1e3 if ceilings and names == {ceilings.device_name} else None


def traffic_of(
    section: Section, name: str, variant: str, value: int, metric: str
) -> dict[str, Any] | None:
    """The traffic of a pass on a GPU: kernels, GB, share of bandwidth, Tensor Core activity."""
    found, copied = counted(section, name, variant, value, metric), copy_rate(section)
    if copied is None or "dram_bytes" not in found:
        return None
    return {
        "kernels": int(found["kernels"]),
        "gigabytes": found["dram_bytes"] / GIGA,
        "bandwidth": found["dram_bytes"] / found["busy_time"] / copied,
        "activity": found["matrix_activity"] / 100,
    }


def counters_evidence(section: Section, rows: Sequence[tuple[str, str, int]]) -> list[Any]:
    """The rows of metrics.csv that hold the counters of these runs."""
    return [
        {"table": "metrics.csv", "experiment": section.name, "implementation": name}
        | {"variant": variant, section.experiment.parameter.name: value}
        for name, variant, value in rows
    ]


def why_traffic(section: Section) -> Observation | None:
    """DRAM traffic of both, where one moves at least twice the bytes of the other."""
    names, variant = pair(section), variant_of(section)
    if names is None or is_switch(section):
        return None
    values = counted_values(section, names, variant)
    if not values:
        return None
    at = values[-1]
    base, new = (
        {key: traffic_of(section, name, variant, at, metric) for key, metric in PASSES.items()}
        for name in names
    )
    if any(each is None for each in (*base.values(), *new.values())):
        return None
    ratios = {key: base[key]["gigabytes"] / new[key]["gigabytes"] for key in PASSES}  # type: ignore[index]
    speeds = {k: section.speeds(m, names[1], variant).get(at) for k, m in PASSES.items()}
    told = [
        key
        for key, ratio in ratios.items()
        if ratio >= 2 and (speed := speeds[key]) is not None and speed.verdict == FASTER
    ]
    if not told:
        return None
    facts = {
        **{"p": section.symbol, "at": at, "base": names[0], "new": names[1]},
        **{"base_moves": base, "new_moves": new, "ratios": ratios, "passes": told},
        "moves_data": all(base[key]["bandwidth"] > 0.5 for key in PASSES),  # type: ignore[index]
    }
    rows = [(name, variant, at) for name in names]
    return Observation("why_traffic", section.name, facts, counters_evidence(section, rows))


def why_memory_model(section: Section) -> Observation | None:
    """The scores' share of the baseline's peak memory, where the model is exact to the byte."""
    variant = variant_of(section)
    metric, name = section.benchmark.metric(MEMORY), section.baseline
    if is_switch(section) or metric.account is None:
        return None
    values = section.values([name], variant, MEMORY)
    if section.experiment.parameter.name != "seq_len" or not values:
        return None
    run = section.run(name, variant, values[-1])
    if run is None:
        return None
    parts = _exact_parts(section, run, section.medians(MEMORY, name, variant)[values[-1]])
    if not parts or "scores" not in parts:
        return None
    facts = {
        **{"p": section.symbol, "at": values[-1], "base": name},
        **{"tensor": parts["scores"] / 4, "share": parts["scores"] / sum(parts.values())},
    }
    return Observation("why_memory_model", section.name, facts)


def _exact_parts(section: Section, run: Row, measured: float) -> Mapping[str, float] | None:
    """The parts of a run's peak memory, where the model gives what was measured to the byte.

    A GPU that is not known, as in an imported folder, has the workspaces of one that is.
    """
    metric, given = section.benchmark.metric(MEMORY), Run.of(section.benchmark, run)
    own = run["device_name"]
    names = [own] if find_device(own) else [device.name for device in known_devices()]
    if metric.account is None or metric.exact_model is None:
        return None
    for device in names:
        exact = metric.exact_model(given, run["provider"], device)
        if exact is not None and rounded(exact, EXACT_DIGITS) == measured:
            return metric.account.parts(given, run["provider"], device)
    return None


def memory_limit(section: Section) -> Observation | None:
    """By the exact model, at which length the baseline no longer fits, and what the other needs."""
    names, variant = pair(section), variant_of(section)
    metric, experiment = section.benchmark.metric(MEMORY), section.experiment
    if names is None or is_switch(section) or metric.account is None:
        return None
    values = section.values(names, variant, MEMORY)
    if experiment.parameter.name != "seq_len" or experiment.covaried or not values:
        return None
    runs = [section.run(name, variant, values[-1]) for name in names]
    base, new = runs
    if base is None or new is None:
        return None
    capacity = metric.account.capacity(base["device_name"])

    def needed(run: Row, length: int) -> float:
        assert metric.account is not None
        longer = Run.of(section.benchmark, {**run, "seq_len": length})
        parts = metric.account.parts(longer, run["provider"], run["device_name"])
        return sum(parts.values()) / 1024 if parts else math.nan

    if (
        capacity is None
        or math.isnan(needed(base, values[-1]))
        or math.isnan(needed(new, values[-1]))
    ):
        return None
    length, fits = 2 * values[-1], None
    while needed(base, length) * 1024 <= capacity and length < LARGEST:
        length, fits = 2 * length, length
    facts = {
        **{"base": names[0], "new": names[1], "too_long": length, "capacity": capacity / 1024},
        **{"needs": needed(base, length), "new_needs": needed(new, length)},
        "fits": None if fits is None else {"at": fits, "needs": needed(base, fits)},
    }
    return Observation("memory_limit", section.name, facts)


def rate_backward(section: Section) -> Observation | None:
    """By how much the baseline's backward rate overstates its work: fewer products than counted."""
    names, variant = pair(section), variant_of(section)
    if names is None or is_switch(section) or section.experiment.parameter.name != "seq_len":
        return None
    for value in reversed(section.experiment.values):
        kernels = launched(section, names[0], variant, value, BACKWARD)
        products = sum(kernel.kind == "product" for kernel in kernels)
        rate = section.medians("backward_rate", names[0], variant).get(value)
        if 0 < products < PRODUCTS and rate is not None:
            facts = {
                **{"base": names[0], "p": section.symbol, "at": value, "products": products},
                **{"rate": rate, "unit": section.benchmark.rate_unit},
                "over": PRODUCTS / products - 1,
            }
            rows = counters_evidence(section, [(names[0], variant, value)])
            return Observation("rate_backward", section.name, facts, rows)
    return None


# The mask


def launched(
    section: Section, name: str, variant: str, value: int, metric: str = FORWARD
) -> list[Launched]:
    """The kernels that were counted in a pass of a run; none where it was not counted."""
    run = section.run(name, variant, value)
    if run is None or run["status"] != "ok" or metric not in (run["kernels"] or ()):
        return []
    return read_kernels(run["kernels"], metric)


def _by_class(kernels: Sequence[Launched]) -> dict[str, float]:
    found: dict[str, float] = {}
    for kernel in kernels:
        found[kernel.kind] = found.get(kernel.kind, 0.0) + kernel.milliseconds
    return found


def matrix_work(kernels: Sequence[Launched]) -> float:
    """The work of Tensor Cores, as their busy time: that of a kernel times their activity in it."""
    return sum(kernel.milliseconds * kernel.tensor for kernel in kernels)


def why_kernel_class(section: Section) -> Observation | None:
    """The kernels that the mask adds to the baseline's forward, and the work the other skips.

    Of the baseline alone where there is no other one, or more than one.
    """
    if not is_switch(section):
        return None
    base, new = pair(section) or (section.baseline, None)
    names = [base] if new is None else [base, new]
    values = [
        value
        for value in section.experiment.values
        if all(launched(section, n, v, value) for n in names for v in (OFF, ON))
    ]
    if not values:
        return None
    first, last = values[0], values[-1]
    off, on = (launched(section, base, variant, last) for variant in (OFF, ON))
    before, after = _by_class(off), _by_class(on)
    more = {kind: time - before.get(kind, 0.0) for kind, time in after.items()}
    products = [
        matrix_work([kernel for kernel in each if kernel.kind == "product"]) for each in (off, on)
    ]
    work = {
        value: [matrix_work(launched(section, new, v, value)) for v in (OFF, ON)]
        for value in {first, last}
        if new is not None
    }
    if not products[0] or not all(each[0] for each in work.values()) or len(on) <= len(off):
        return None
    speed = section.switched(MASK, FORWARD, new, ON).get(first) if new is not None else None
    slower = sum(after.values()) - sum(before.values())
    masking = sum(
        time for kind, time in more.items() if kind in ("elementwise", "copy", "reduction")
    )
    facts = {
        **{"p": section.symbol, "first": first, "last": last, "base": base, "new": new},
        **{"added": len(on) - len(off), "product_work": products[1] / products[0]},
        **{"more": slower, "masking": masking, "softmax": more.get("softmax", 0.0)},
        "work": {
            key: work[value][1] / work[value][0]
            for key, value in (("first", first), ("last", last))
            if new is not None
        },
        "gains_nothing": speed is not None and speed.verdict == EQUAL,
    }
    rows = [(name, variant, at) for name in names for variant in (OFF, ON) for at in (first, last)]
    return Observation("why_kernel_class", section.name, facts, counters_evidence(section, rows))


# The scores as a straight line


def line_of(section: Section, metric: str, unit: int = 1) -> dict[str, Any] | None:
    """The baseline's time as a straight line in the swept value, where it is one; ms and ms a unit.

    Through the first and the last of at least four points, all ok, the last decidedly slower; the
    others lie within `LINE_ERROR` of it, and slope and intercept are positive.
    """
    variant, name = variant_of(section), section.baseline
    times = section.medians(metric, name, variant)
    values = sorted(times)
    if len(values) < 4 or values != section.experiment.values:
        return None
    grown = section.growth(metric, name, variant, values[-1])
    if grown is None or grown.verdict != SLOWER:
        return None
    first, last = values[0], values[-1]
    slope = (times[last] - times[first]) / (last - first)
    intercept = times[first] - slope * first
    errors = [abs(times[v] / (intercept + slope * v) - 1) for v in values]
    if slope <= 0 or intercept <= 0 or max(errors) > LINE_ERROR:
        return None
    share = slope * last / times[last]
    return {
        **{"intercept": intercept, "slope": slope * unit, "error": max(errors), "share": share},
        **{"at": last, "raw_slope": slope},
    }


E_UNIT = 1024


def why_score_line(section: Section) -> Observation | None:
    """That the baseline's time is a straight line in H or in E, and what the scores cost by it."""
    swept = section.experiment.parameter.name
    if swept not in ("num_heads", "emb_dim") or is_switch(section):
        return None
    unit = E_UNIT if swept == "emb_dim" else 1
    forward, backward = (line_of(section, metric, unit) for metric in (FORWARD, BACKWARD))
    if forward is None:
        return None
    facts: dict[str, Any] = {
        **{"base": section.baseline, "swept": swept},
        **{"forward": forward, "backward": backward, "confirms": None},
    }
    if swept == "emb_dim":
        facts["confirms"] = _confirmed(section, forward["intercept"])
    return Observation("why_score_line", section.name, facts)


def _confirmed(section: Section, intercept: float) -> dict[str, Any] | None:
    """The scores by the line in H at the setting that both sweeps share, if they agree."""
    for other in section.tables.sections:
        if other.experiment.parameter.name != "num_heads":
            continue
        line = line_of(other, FORWARD)
        mine = {_rest(run): run for run in section.experiment.runs}
        for run in other.experiment.runs:
            if line and _rest(run) in mine and run["implementation"] == section.baseline:
                scores = line["raw_slope"] * run["num_heads"]
                apart = intercept / scores - 1
                if abs(apart) <= AGREEMENT:
                    heads = run["num_heads"]
                    return {"scores": scores, "apart": abs(apart), "heads": heads}
    return None


def _rest(run: Row) -> tuple[Any, ...]:
    names = ("implementation", "batch_size", "seq_len", "num_heads", "emb_dim", "causal", "dtype")
    return tuple(run[name] for name in names)


# On a CPU


def operators_of(section: Section, variant: str, value: int, metric: str) -> dict[str, Any] | None:
    """Shares of the time in the operators of the baseline's pass, and how many there are."""
    found = counted(section, section.baseline, variant, value, metric)
    if "softmax_share" not in found:
        return None
    return {
        "operators": int(found["operators"]),
        "softmax": found["softmax_share"] / 100,
        "products": found["product_share"] / 100,
        "elementwise": found["elementwise_share"] / 100,
    }


def why_faults(section: Section) -> Observation | None:
    """On a CPU, the pass that the system's page faults cost most of, where that is a tenth."""
    names, experiment = pair(section), section.experiment
    found = [
        (each["system_share"], each["per_call"], metric, run)
        for run in experiment.runs
        if run["status"] == "ok" and run["implementation"] in (names or ())
        for metric, each in json.loads(run["page_faults"] or "{}").items()
        if each["per_call"] >= 1
    ]
    if names is None or not found:
        return None
    share, faults, metric, run = max(found, key=lambda each: each[0])
    facts = {
        **{"p": section.symbol, "at": run[experiment.parameter.name], "share": share},
        **{"name": run["implementation"], "faults": faults, "backward": metric == BACKWARD},
    }
    rows = [{"table": "runs.csv", "experiment": section.name, "record": run["record"]}]
    return Observation("why_faults", section.name, facts, rows)


def why_operators(section: Section) -> Observation | None:
    """On a CPU, what the baseline's forward spends its time in, at both counted ends."""
    names = pair(section)
    if names is None:
        return None
    variants = [OFF, ON] if is_switch(section) else [variant_of(section)] * 2
    values = counted_values(section, names[:1], variants[0])
    if is_switch(section):
        values = [v for v in values if v in counted_values(section, names[:1], ON)]
    if not values:
        return None
    first, last = (values[-1],) * 2 if is_switch(section) else (values[0], values[-1])
    found = [
        operators_of(section, variant, value, FORWARD)
        for variant, value in zip(variants, (first, last), strict=True)
    ]
    if any(each is None for each in found):
        return None
    facts = {
        **{"p": section.symbol, "first": first, "last": last, "base": names[0], "new": names[1]},
        **{"mask": is_switch(section), "ends": found},
        "saved": None,
    }
    saved = None if is_switch(section) else saved_of(section, variants[1], last)
    if saved is not None and saved["state"] == "beyond":
        facts["saved"] = saved["saved"]
    rows = [(names[0], variants[0], first), (names[0], variants[1], last)]
    return Observation("why_operators", section.name, facts, counters_evidence(section, rows))


def saved_of(section: Section, variant: str, value: int) -> dict[str, Any] | None:
    """The share saved of the baseline's forward, beside what can be with products as fast.

    ``saved`` and ``others``, the share of all but the products; ``state``: it lies ``within``, is
    decidedly ``beyond``, or ``open``. None where it was not counted, or no interval is known.
    """
    names = pair(section)
    shares = operators_of(section, variant, value, FORWARD)
    speed = section.speeds(FORWARD, names[1], variant).get(value) if names else None
    if shares is None or speed is None or not speed.low:
        return None
    saved, others = 1 - 1 / speed.x, 1 - shares["products"]
    is_beyond = 1 - 1 / speed.low > others
    state = "within" if saved <= others else "beyond" if is_beyond else "open"
    return {"saved": saved, "others": others, "softmax": shares["softmax"], "state": state}


def why_products(section: Section) -> Observation | None:
    """Why a backward that stores no scores is slower: it does five products where four would do."""
    names, variant = pair(section), variant_of(section)
    if names is None or is_switch(section):
        return None
    speeds = section.speeds(BACKWARD, names[1], variant)
    for value in sorted(speeds, reverse=True):
        found = operators_of(section, variant, value, BACKWARD)
        speed = speeds[value]
        if not (found and found["products"]) or speed.verdict != SLOWER or speed.low is None:
            continue
        bound = 1 / (found["products"] * 5 / 4)
        if bound < 1 and speed.low < bound:
            facts = {
                **{"p": section.symbol, "at": value, "base": names[0], "new": names[1]},
                **{"share": found["products"], "bound": bound, "measured": speed.facts},
            }
            return Observation("why_products", section.name, facts, evidence([speed]))
    return None


def why_none(section: Section) -> Observation | None:
    """Along the batch size, where at most one value was counted: what follows by arithmetic."""
    names, variant = pair(section), variant_of(section)
    if names is None or section.experiment.parameter.name != "batch_size":
        return None
    found = counted_values(section, names[:1], variant)
    if is_switch(section) or len(found) > 1:
        return None
    at = ends(section, names, variant)
    if at is None:
        return None
    values, sweep = section.values(names, variant, TOTAL), at[1] / at[0]
    grown = [(section.growth(TOTAL, name, variant, at[1]), sweep) for name in names]
    grown += [
        (section.step(TOTAL, name, variant, after), after / before)
        for name in names
        for before, after in itertools.pairwise(values)
    ]
    sizes = [section.medians(MEMORY, name, variant) for name in names]
    nearly = {words.growth(*each) for each in grown} <= {"as operations", "near"} and all(
        math.log(each[at[1]] / each[at[0]]) > 0.8 * math.log(sweep) for each in sizes
    )
    facts = {"p": section.symbol, "nearly": nearly, "counted": bool(found)}
    return Observation("why_none", section.name, facts)


# What to remember


def take(section: Section) -> Observation | None:
    """The lesson of a section, chosen by the swept parameter and by verdicts."""
    names, variant = pair(section), variant_of(section)
    if names is None:
        return None
    facts: dict[str, Any] = {"p": section.symbol, "base": names[0], "new": names[1]}
    swept = section.experiment.parameter.name
    if is_switch(section):
        return _take_mask(section, names, facts)
    speeds = passes_of(section, names[1], variant)
    if passes_differ(speeds):
        decided = {key: decided_of(speeds[key]) for key in PASSES}
        everywhere = [key for key in PASSES if _all(speeds[key], FASTER)]
        facts |= {"lesson": "passes", "decided": decided, "everywhere": everywhere}
        return Observation("take", section.name, facts)
    lead, memory = time_lead(section), memory_growth(section)
    if lead is None:
        return None
    word, verdict = lead.facts["lead"], lead.facts["verdict"]
    if swept == "seq_len" and verdict == FASTER:
        widening = memory is not None and memory.facts["shares"][1] < memory.facts["shares"][0]
        if word == "constant" and widening:
            facts |= {"lesson": "length", "mask": variant == ON}
            return Observation("take", section.name, facts)
        if word == "widening":
            return Observation("take", section.name, {**facts, "lesson": "longer"})
    if swept == "batch_size":
        if word == "constant":
            share = memory.facts["shares"][1] if memory else None
            return Observation("take", section.name, {**facts, "lesson": "batch", "share": share})
        return _take_faster(lead, facts) or _take_rest(section, facts, names, variant)
    best = _best_d(section, names[1]) if swept == "num_heads" else None
    if best is not None and verdict == FASTER and word == "widening":
        return Observation("take", section.name, {**facts, "lesson": "heads"} | best)
    if swept == "emb_dim" and word in ("narrowing", "peaks") and verdict == FASTER:
        last = lead.facts["ends"]["total"][1]
        return Observation("take", section.name, {**facts, "lesson": "large_heads", "last": last})
    return _take_faster(lead, facts) or _take_rest(section, facts, names, variant)


def _take_faster(lead: Observation, facts: Mapping[str, Any]) -> Observation | None:
    """That the other one is faster at every value, where nothing more is to be learned."""
    if lead.facts["verdict"] != FASTER:
        return None
    more = {"lesson": "faster", "x": lead.facts["range"]["total"], "odd": lead.facts["odd"]}
    return Observation("take", lead.section, {**facts, **more}, lead.evidence)


def _take_rest(
    section: Section, facts: Mapping[str, Any], names: tuple[str, str], variant: str
) -> Observation | None:
    """The lesson by the sweep's pooled verdict; else by single ones and the memory saved."""
    pooled = section.pooled(TOTAL, names[1], variant)
    if pooled is not None and pooled.is_decided:
        more = {"lesson": "pooled", "pooled": pooled.facts}
        return Observation("take", section.name, {**facts, **more}, evidence([pooled]))
    memory, speeds = memory_growth(section), section.speeds(TOTAL, names[1], variant)
    if memory is None or max(memory.facts["shares"]) * words.margins(1) > 1:
        return None
    more = {"lesson": "memory", "shares": memory.facts["shares"], "decided": decided_of(speeds)}
    return Observation("take", section.name, {**facts, **more}, evidence(speeds.values()))


def _all(speeds: Mapping[int, Any], verdict: str) -> bool:
    return bool(speeds) and {speed.verdict for speed in speeds.values()} <= {verdict, "equal"}


def _best_d(section: Section, name: str) -> dict[str, Any] | None:
    """The values but the slowest within 15% of the fastest, by the medians; how far that one is.

    None where only one has a time.
    """
    times = section.medians(TOTAL, name, variant_of(section))
    if len(times) < 2:
        return None
    best = min(times.values())
    dims = head_dims(section, variant_of(section))
    worst = max(times, key=times.__getitem__)
    near = [v for v in times if times[v] / best <= 1.15 and v != worst]
    return {
        "near": sorted(dims[v] for v in near),
        "within": math.ceil(100 * (max(times[v] for v in near) / best - 1)) / 100,
        "worst": dims[worst],
        "slower_by": times[worst] / best - 1,
    }


def _take_mask(
    section: Section, names: tuple[str, str], facts: dict[str, Any]
) -> Observation | None:
    """The lesson of the mask: a lead that widens at the last length, or no time saved anywhere."""
    off, on = (section.speeds(TOTAL, names[1], variant) for variant in (OFF, ON))
    common = sorted(off.keys() & on.keys())
    saved = [section.switched("causal", metric, n, ON) for n in names for metric in PASSES.values()]
    if not any(speed.verdict == FASTER for each in saved for speed in each.values()):
        return Observation("take", section.name, {**facts, "lesson": "mask_nothing"})
    if not common:
        return None
    last = common[-1]
    low, high = off[last].high, on[last].low
    if off[last].verdict != FASTER or low is None or high is None or high <= low * words.margins(2):
        return None
    effects = [section.switched("causal", TOTAL, name, ON).get(last) for name in names]
    base, new = effects
    both = base is not None and base.verdict == SLOWER and new is not None and new.verdict == FASTER
    more = {"lesson": "mask_widens", "last": last, "x": [off[last].x, on[last].x], "opposite": both}
    return Observation("take", section.name, {**facts, **more}, evidence([off[last], on[last]]))
