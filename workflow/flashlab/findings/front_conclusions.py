"""What a reader should take from the whole dataset: the decision, and three to five conclusions.

With two implementations the decision is an answer: by how much the other one is better than the
baseline, where it is not, and the measured cause. With `MIN_CHOICES` or more it is a map of who is
best where (`ChoiceMap`), and conclusions on each metric that one chooses by, on what the naive
implementation costs, on the distance to the device's limit, and on what to avoid. No speedup over
the naive implementation is a heading there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from flashlab.benchmarks.model import Metric
from flashlab.findings.choice_map import ChoiceMap
from flashlab.findings.comparisons import describe_range
from flashlab.findings.conclusion_parts import (
    Known,
    Statement,
    build_conclusion,
    in_percent,
    in_short,
    in_units,
    median_at,
    ratio_of,
    tell_account,
    tell_cause,
)
from flashlab.findings.model import Finding
from flashlab.findings.ratios import Ratio, shared_verdict
from flashlab.findings.section_conclusions import PAIR_VERDICTS
from flashlab.findings.selection import MIN_CHOICES
from flashlab.sweep import Sweep, metrics_of

ALMOST_ALL = 0.8
"""Share of the settings at which one implementation is among the best almost everywhere."""

MOST_EXCEPTIONS = 4


def front_conclusions(known: Known) -> Iterator[Finding]:
    """The conclusions of page one, in their order."""
    overall = known.find("choice", None)
    found: list[Finding] = []
    if overall is None:
        found += _answer_without_choice(known)
    elif overall.params["of"] < MIN_CHOICES:
        found += _answer_pair(known, overall)
    else:
        chart = ChoiceMap.of(known.benchmark, overall)
        found += _map(known, overall, chart)
        found += _choices(known, overall, chart)
        found += _cost_of_naive(known)
        found += _limit(known)
        found += _avoid(known)
    for rank, finding in enumerate(found):
        yield replace(finding, front=rank)


def _build(
    known: Known, topic: str, verdict: str, told: list[Statement], **subject: Any
) -> Finding:
    return build_conclusion(known.sweeps, topic, verdict, told, experiment=None, subject=subject)


def _sections(known: Known) -> list[Sweep]:
    return [sweep for sweep in known.sweeps if not sweep.is_summary]


# One or two implementations


def _answer_without_choice(known: Known) -> Iterator[Finding]:
    names = sorted({name for sweep in known.sweeps for name in sweep.implementations})
    good = {
        run["implementation"]
        for sweep in known.sweeps
        for run in sweep.runs
        if run["status"] == "ok"
    }
    if not good:
        yield _build(known, "answer", "no_numbers", [Statement("conclusion.front.no_numbers")])
    else:
        told = Statement("conclusion.front.alone", {"names": names, "able": sorted(good)})
        yield _build(known, "answer", "alone", [told])


def _ratios(overall: Finding, name: str, metric: str) -> list[Ratio]:
    """How many times as good as the only other one an implementation is, at every setting."""
    return [
        ratio_of(position, estimate[metric], name)
        for position, estimate in enumerate(overall.estimates)
    ]


def _places(overall: Finding, ratios: list[Ratio], verdict: str) -> list[dict[str, Any]]:
    """The settings at which the ratio has a verdict, by what varies among all of them."""
    settings = [estimate["setting"] for estimate in overall.estimates]
    varying = [name for name in settings[0] if len({s[name] for s in settings}) > 1]
    return [
        {name: settings[ratio.value][name] for name in varying}
        for ratio in ratios
        if ratio.verdict == verdict
    ]


def _answer_pair(known: Known, overall: Finding) -> Iterator[Finding]:
    assert known.decisive is not None
    names = sorted({n for e in overall.estimates for n in _names(e[known.decisive.name])})
    baseline = known.sweeps[0].baseline
    other = next((name for name in names if name != baseline), names[0])
    baseline = next(name for name in names if name != other)
    ratios = _ratios(overall, other, known.decisive.name)
    verdict = PAIR_VERDICTS[shared_verdict(ratios)]
    span = describe_range(ratios)
    params: dict[str, Any] = {
        "count": len(ratios),
        "low": span["low"],
        "high": span["high"],
        **{
            f"{code}_count": sum(r.verdict == state for r in ratios)
            for state, code in PAIR_VERDICTS.items()
            if state != "mixed"
        },
    }
    memory = _shares(known, other, baseline)
    key = f"conclusion.front.pair.{verdict}"
    told = [
        Statement(
            key + (".exact" if memory and verdict == "better" else ""), params | memory, [overall]
        )
    ]
    if verdict == "better":
        told.append(Statement("conclusion.front.pair.everywhere"))
    worse = _places(overall, ratios, "below")
    if worse and verdict == "mixed":
        listed = {"places": worse[:MOST_EXCEPTIONS], "more": max(0, len(worse) - MOST_EXCEPTIONS)}
        told.append(Statement("conclusion.front.pair.where_not", listed))
    sections = _sections(known)
    told += _tell_kernels(known, sections, other, baseline)
    yield _build(
        known, "answer", verdict, told,
        implementation=other, baseline=baseline, metric=known.decisive.name,
    )  # fmt: skip


def _names(place: Mapping[str, Any]) -> list[str]:
    return [place["best"], place["runner_up"]]


def _shares(known: Known, name: str, baseline: str) -> dict[str, Any]:
    """An exact metric as a share of the baseline's over all settings; empty unless it is less."""
    metrics = metrics_of(known.benchmark, exact=True)
    if not metrics:
        return {}
    metric, shares = metrics[0], []
    for sweep in _sections(known):
        for run in sweep.run_rows_of(name):
            mine = median_at(sweep, name, sweep.variant_of(run), sweep.value_of(run), metric.name)
            theirs = median_at(
                sweep, baseline, sweep.variant_of(run), sweep.value_of(run), metric.name
            )
            if mine is not None and theirs:
                shares.append(mine / theirs)
    if not shares or max(shares) >= 1:
        return {}
    return {
        "exact_metric": dict(metric.labels),
        "exact_low": in_percent(min(shares)),
        "exact_high": in_percent(max(shares)),
    }


def _tell_kernels(
    known: Known, sweeps: list[Sweep], other: str, baseline: str
) -> Iterator[Statement]:
    """The measured cause of the baseline's time, and the other's where it was counted too."""
    found = list(tell_cause(known, sweeps, baseline))
    yield from found or tell_cause(known, sweeps, other)


# More


def _map(known: Known, overall: Finding, chart: ChoiceMap) -> Iterator[Finding]:
    """The map itself: by the first part of the total, if there is one, and by the total."""
    assert known.decisive is not None
    metrics = [*known.parts[:1], known.decisive]
    given = known.benchmark.given
    others = [p for p in given if p != chart.row and not p.is_variant]
    yield build_conclusion(
        known.sweeps,
        "map",
        "map",
        [
            Statement(
                "conclusion.map",
                {
                    "row": chart.row.name,
                    "rows": chart.rows,
                    "columns": [list(column) for column in chart.columns],
                    "charts": [
                        {
                            "metric": metric.name,
                            "cells": chart.cells(metric.name),
                            "rare": chart.rare(metric.name),
                        }
                        for metric in metrics
                    ],
                    "others": [parameter.symbol for parameter in others],
                },
                [overall],
            )
        ],
        experiment=None,
        subject={"metric": known.decisive.name},
    )


def _choices(known: Known, overall: Finding, chart: ChoiceMap) -> Iterator[Finding]:
    """Which one to use by each metric of the map."""
    assert known.decisive is not None
    for metric in [*known.parts[:1], known.decisive]:
        told = [_heading(overall, chart, metric)]
        told += _leads(overall, metric)
        if metric == known.decisive and "wrong" in overall.params:
            told.append(_wrong_choice(known, overall))
        yield _build(known, "choice", told[0].key.rpartition(".")[2], told, metric=metric.name)


def _heading(overall: Finding, chart: ChoiceMap, metric: Metric) -> Statement:
    """One for almost all settings, or who suffices at which sizes."""
    (tally,) = [t for t in overall.params["tallies"] if t["metric"] == metric.name]
    first, of = tally["counts"][0], overall.params["count"]
    label = dict(metric.part or metric.labels)
    params: dict[str, Any] = {"of": of, "row_symbol": chart.row.symbol, "metric_label": label}
    if first["level"] >= ALMOST_ALL * of:
        params |= {"name": first["implementation"], "name_count": first["level"]}
        key = "always" if first["level"] == of else "most"
        return Statement(f"conclusion.front.choice.{key}", params, [overall])
    winners = chart.winners(metric.name)
    params["stretches"] = winners
    key = "by_size" if len(winners) <= MOST_EXCEPTIONS else "varies"
    if key == "varies":
        params["counts"] = tally["counts"]
    return Statement(f"conclusion.front.choice.{key}", params, [overall])


def _leads(overall: Finding, metric: Metric) -> Iterator[Statement]:
    """By how much each leads where it is alone, and where almost everywhere does not hold."""
    leads: dict[str, list[float]] = {}
    for estimate in overall.estimates:
        place = estimate[metric.name]
        if len(place["level"]) == 1 and not place["undecided"]:
            leads.setdefault(place["best"], []).append(place["estimate"] - 1)
    listed = [
        {"name": name, "low": in_percent(min(found)), "high": in_percent(max(found))}
        for name, found in sorted(leads.items(), key=lambda item: -len(item[1]))
    ]
    if listed:
        yield Statement("conclusion.front.choice.leads", {"leads": listed[:3]})


def _wrong_choice(known: Known, overall: Finding) -> Statement:
    """What it costs to choose by a part, and what the operations say of that part."""
    params, name = overall.params, overall.params["wrong"]
    found = [
        finding
        for sweep in _sections(known)
        for finding in known.every("balance", sweep.name, implementation=name)
        if finding.estimates and "ideal" in finding.params
    ]
    quoted = {
        "wrong": name,
        "wrong_count": params["wrong_count"],
        "wrong_part": params["part"],
        "wrong_low": params["low"],
        "wrong_high": params["high"],
    }
    if not found:
        return Statement("conclusion.front.wrong", quoted, [overall])
    worst = max(found, key=lambda finding: float(finding.params["high"]))
    balance = {
        "balance_high": worst.params["high"],
        "balance_at": worst.params["high_at"],
        "balance_ideal": worst.params["ideal"],
        "balance_part": dict(known.benchmark.metric(str(worst.metric)).part),
        "balance_other": dict(known.benchmark.metric(worst.subject["other_metric"]).part),
    }
    return Statement("conclusion.front.wrong.balance", quoted | balance, [overall, worst])


def _cost_of_naive(known: Known) -> Iterator[Finding]:
    """What the naive implementation needs of an exact metric, at the setting where it is most."""
    naive = known.benchmark.naive
    worst: tuple[float, Finding, Sweep] | None = None
    for sweep in _sections(known):
        for finding in known.every("exact_comparison", sweep.name, baseline=naive):
            if finding.verdict != "less":
                continue
            low = float(finding.params["low"])
            if worst is None or low < worst[0]:
                worst = low, finding, sweep
    if worst is None or naive is None:
        return
    low, finding, sweep = worst
    metric = known.benchmark.metric(str(finding.metric))
    variant, at, other = finding.variant or (), finding.params["low_at"], finding.subject
    mine = median_at(sweep, other["implementation"], variant, at, metric.name)
    theirs = median_at(sweep, naive, variant, at, metric.name)
    assert mine is not None and theirs is not None  # the ratio was taken of both
    told = [
        Statement(
            "conclusion.front.naive",
            {"naive": naive, "exact_metric": dict(metric.labels)},
            [finding],
        ),
        Statement(
            "conclusion.front.naive.figures",
            {
                "naive": naive,
                "exact_unit": metric.unit,
                "exact_name": other["implementation"],
                "exact_at": at,
                "exact_symbol": sweep.parameter.symbol,
                "exact_mine": in_units(mine),
                "exact_theirs": in_units(theirs),
                "exact_times": round(theirs / mine),
            },
        ),
        *tell_account(known, sweep, naive, variant),
    ]
    limits = [
        each
        for section in _sections(known)
        for each in known.every("out_of_memory", section.name, implementation=naive)
        if each.verdict == "limit_found" and section.parameter == sweep.parameter
    ]
    if limits:
        params = {"naive_oom_at": limits[0].params["smallest"]}
        told.append(Statement("conclusion.front.naive.limit", params, limits[:1]))
    yield _build(
        known, "naive", "naive", told,
        section=sweep.name, metric=metric.name, implementation=other["implementation"],
        baseline=naive,
    )  # fmt: skip


def _limit(known: Known) -> Iterator[Finding]:
    """How near the best one comes to the device's matrix-product rate, and what holds it there."""
    found = [
        finding
        for sweep in _sections(known)
        for finding in known.every("roofline", sweep.name)
        if finding.verdict != "model_error"
    ]
    if not found:
        return
    best = max(found, key=lambda finding: float(finding.params["matrix_high"]))
    sweep = next(s for s in known.sweeps if s.name == best.experiment)
    name, metric = best.subject["implementation"], known.benchmark.metric(str(best.metric))
    at = max(best.estimates, key=lambda each: float(each["matrix_percent"]["estimate"]))["value"]
    ceiling = best.params["ceiling_rates"][0]["rate"]
    share = float(best.params["matrix_high"]) / 100
    params: dict[str, Any] = {
        "limit_name": name,
        "limit_part": dict(metric.part or metric.labels),
        "limit_percent": in_percent(share),
        "limit_ceiling": ceiling,
        "limit_at": at,
        "limit_symbol": sweep.parameter.symbol,
    }
    told = [Statement("conclusion.front.limit", params, [best])]
    if vendor := best.params["vendors_rate"]:
        params = {
            "limit_vendor": vendor,
            "limit_vendor_percent": in_percent(share * ceiling / vendor),
        }
        told.append(Statement("conclusion.front.limit.vendor", params))
    for other in sorted({n for sweep in known.sweeps for n in sweep.implementations}):
        told += _tell_matrix(known, other)
        if len(told) > 2:
            break
    yield _build(known, "limit", "limit", told, section=str(best.experiment), implementation=name)


def _tell_matrix(known: Known, name: str) -> Iterator[Statement]:
    """How busy the matrix units of an implementation are at most, where they bind it."""
    found = [
        finding
        for sweep in _sections(known)
        for finding in known.every("cause", sweep.name, implementation=name)
        if finding.verdict == "matrix_bound"
    ]
    if not found:
        return
    best = max(found, key=lambda finding: float(finding.params["matrix_high"]))
    metric = known.benchmark.metric(str(best.metric))
    yield Statement(
        "conclusion.front.limit.matrix",
        {
            "matrix_name": name,
            "matrix_part": dict(metric.part or metric.labels),
            "matrix_percent": in_percent(float(best.params["matrix_high"]) / 100),
        },
        [best],
    )


def _avoid(known: Known) -> Iterator[Finding]:
    """What is slower than the naive implementation by the decisive metric."""
    assert known.decisive is not None
    found = [
        finding
        for finding in known.every("worse_than_naive", None, metric=known.decisive.name)
        if finding.verdict == "worse"
    ]
    if not found:
        return
    found.sort(key=lambda f: (-f.params["count"] / f.params["of"], f.subject["implementation"]))
    worst, *others = found
    params = {
        "avoid": worst.subject["implementation"],
        "naive": worst.subject["baseline"],
        "avoid_count": worst.params["count"],
        "avoid_of": worst.params["of"],
        "avoid_low": in_short(worst.params["low"]),
        "avoid_high": in_short(worst.params["high"]),
    }
    everywhere = worst.params["count"] == worst.params["of"]
    key = "conclusion.front.avoid" + (".everywhere" if everywhere else "")
    told = [Statement(key, params, [worst]), Statement("conclusion.front.avoid.figures")]
    if others:
        listed = [{"name": f.subject["implementation"], "count": f.params["count"]} for f in others]
        told.append(Statement("conclusion.front.avoid.others", {"also": listed}, others))
    yield _build(known, "avoid", "avoid", told, metric=known.decisive.name)
