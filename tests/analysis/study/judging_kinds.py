"""What is true of a planted dataset by the kinds that choose, and that weigh time against work."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from findings.judging import MARGIN, Judge
from findings.planted import sweep_shape

from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.launch_bound import LEVEL_WORK
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape

PLAIN = (1 + MARGIN) ** 2
LEAST = 1 / (1 + MARGIN)
"""Below this a ratio is beyond the margin, which is symmetric in the logarithm."""

NOTHING: tuple[bool, None, list[Any]] = (False, None, [])


def _time(judge: Judge, name: str, shape: Shape, metric: str) -> float:
    """True milliseconds of a metric of a run, a total's included."""
    timed = metric.removesuffix("_time")
    passes = ("forward", "backward") if timed == "forward_backward" else (timed,)
    return sum(judge.times[name, shape, each] for each in passes)


def _names(judge: Judge, shape: Shape) -> list[str]:
    """The implementations that have numbers at a shape."""
    planted = {name for name, own, _ in judge.times if own == shape}
    return sorted(name for name in planted if (name, shape) not in judge.dataset.oom)


def _shape(finding: Finding, estimate: Mapping[str, Any]) -> Shape:
    if "setting" in estimate:
        return Shape.of(estimate["setting"])
    return sweep_shape(estimate["value"], finding.subject["variant"]["causal"])


def _series(judge: Judge, finding: Finding) -> dict[int, float]:
    """True milliseconds along the sweep of the implementation that a finding is about."""
    name, causal = finding.subject["implementation"], finding.subject["variant"]["causal"]
    return judge.time(name, causal, str(finding.metric).removesuffix("_time"))


# Which to choose


def _is_false_place(place: Mapping[str, Any], truth: Mapping[str, float]) -> bool:
    """Whether one is called level that is not, or one that is level is called worse."""
    best = truth[place["best"]]
    for name, time in truth.items():
        if name in place["level"]:
            if not LEAST <= time / best <= 1 + MARGIN:
                return True
        elif name not in place["undecided"] and time / best <= 1 + MARGIN:
            return True
    return False


def choice(judge: Judge, finding: Finding) -> Any:
    metrics = [str(finding.metric)]
    if finding.experiment is None:
        metrics = [tally["metric"] for tally in finding.params["tallies"]]
    false, intervals, shares = False, [], []
    for estimate, metric in itertools.product(finding.estimates, metrics):
        shape = _shape(finding, estimate)
        place = estimate[metric] if finding.experiment is None else estimate
        truth = {name: _time(judge, name, shape, metric) for name in _names(judge, shape)}
        false |= _is_false_place(place, truth)
        intervals.append((truth[place["runner_up"]] / truth[place["best"]], place))
        if metric == finding.metric:
            shares.append({name: time / min(truth.values()) for name, time in truth.items()})
    if not shares:
        return False, None, []
    names = {name for share in shares for name in share}
    level = {
        name for name in names if all(share.get(name, PLAIN) <= 1 + MARGIN for share in shares)
    }
    alone = [
        [name for name in share if all(v > 1 + MARGIN for k, v in share.items() if k != name)]
        for share in shares
    ]
    match finding.verdict:
        case "one_best":
            false |= any(finding.params["name"] not in each for each in alone)
        case "one_suffices":
            false |= finding.params["name"] not in level
        case "changes":
            false |= bool(level)
    plain = all(sorted(share.values())[1] >= PLAIN for share in shares)
    missed = None
    if plain:
        winners = {min(share, key=lambda name: share[name]) for share in shares}
        missed = finding.verdict != ("one_best" if len(winners) == 1 else "changes")
    return false, missed, intervals


def worse_than_naive(judge: Judge, finding: Finding) -> Any:
    name, naive, metric = (finding.subject[k] for k in ("implementation", "baseline", "metric"))
    factors = []
    for estimate in finding.estimates:
        shape = _shape(finding, estimate)
        factors.append(_time(judge, naive, shape, metric) / _time(judge, name, shape, metric))
    pairs = list(zip(factors, finding.estimates, strict=True))
    false = any(e["verdict"] == "below" and factor >= LEAST for factor, e in pairs)
    false |= finding.verdict == "none" and any(factor < LEAST for factor in factors)
    missed = finding.verdict != "worse" if any(f <= 1 / PLAIN for f in factors) else None
    return false, missed, pairs


def correctness(judge: Judge, finding: Finding) -> Any:
    good = {(name, s) for name, s, _ in judge.times if (name, s) not in judge.dataset.oom}
    return finding.verdict != "none" or finding.params["count"] != len(good), None, []


# Time against operations


def _shares(finding: Finding, truths: Sequence[float], ideal: float) -> Any:
    """Ratios that are judged as shares of an ideal one."""
    pairs = list(zip(truths, finding.estimates, strict=True))
    right = {
        "above": lambda share: share > 1 + MARGIN,
        "below": lambda share: share < LEAST,
        "equal": lambda share: LEAST <= share <= 1 + MARGIN,
        "inconclusive": lambda _: True,
    }
    false = any(not right[e["verdict"]](truth / ideal) for truth, e in pairs)
    missed = None
    if truths and all(t / ideal >= PLAIN or t / ideal <= 1 / PLAIN for t in truths):
        missed = finding.verdict == "inconclusive"
    return false, missed, pairs


def balance(judge: Judge, finding: Finding) -> Any:
    name = finding.subject["implementation"]
    truths = []
    for estimate in finding.estimates:
        shape = _shape(finding, estimate)
        base = _time(judge, name, shape, finding.subject["other_metric"])
        truths.append(_time(judge, name, shape, str(finding.metric)) / base)
    return _shares(finding, truths, costs.BACKWARD_FLOPS_RATIO)


def variant_gain(judge: Judge, finding: Finding) -> Any:
    name, metric = finding.subject["implementation"], str(finding.metric)
    truths = []
    for estimate in finding.estimates:
        off = _shape(finding, estimate)
        on = Shape(off.batch_size, off.seq_len, off.num_heads, off.emb_dim, True)
        truths.append(_time(judge, name, off, metric) / _time(judge, name, on, metric))
    return _shares(finding, truths, 2.0)


def exact_account(judge: Judge, finding: Finding) -> Any:
    """The planted peaks are not the model's."""
    return finding.verdict != "unexplained", None, []


# The rate along a sweep


def launch_bound(judge: Judge, finding: Finding) -> Any:
    truth = _series(judge, finding)
    first, *others = truth
    level = [v for v in others if v <= finding.params["until"]]
    false = finding.verdict == "level" and any(
        not LEAST <= truth[v] / truth[first] <= 1 + MARGIN for v in level
    )
    intervals = [(truth[e["value"]] / truth[first], e) for e in finding.estimates]
    plain = abs(truth[others[0]] / truth[first] - 1) <= MARGIN / 2
    assert (others[0] / first) ** 2 > LEVEL_WORK
    return false, (finding.verdict != "level") if plain else None, intervals


def saturation(judge: Judge, finding: Finding) -> Any:
    rates = {size: size**2 / time for size, time in _series(judge, finding).items()}
    params, sizes = finding.params, list(rates)
    shares = {size: rate / rates[params["best"]] for size, rate in rates.items()}
    match finding.verdict:
        case "reached":
            start = params["from"]
            before = [size for size in sizes if size < start]
            false = any(shares[s] < LEAST for s in sizes if s >= start)
            false |= bool(before) and shares[before[-1]] > LEAST
        case "rising":
            false = shares[sizes[-2]] > LEAST or params["best"] != sizes[-1]
        case "uneven":
            false = shares[sizes[-2]] > LEAST or shares[sizes[-1]] < LEAST
        case "falls":
            false = shares[sizes[-1]] > LEAST
        case _:
            false = False
    missed = None
    if rates[sizes[-1]] <= max(rates.values()) / PLAIN:
        missed = finding.verdict != "falls"
    elif all(rates[sizes[-1]] >= PLAIN * rates[size] for size in sizes[:-1]):
        missed = finding.verdict != "rising"
    best = params["best"]
    return false, missed, [(shares[e["value"]], e) for e in finding.estimates if e["value"] != best]


def jump(judge: Judge, finding: Finding) -> Any:
    if finding.verdict == "none":
        return NOTHING
    causal, params = finding.subject["variant"]["causal"], finding.params
    steps, timed = {}, str(finding.metric).removesuffix("_time")
    for estimate in finding.estimates:
        truth = judge.time(estimate["implementation"], causal, timed)
        before, value = params["before"], params["value"]
        steps[estimate["implementation"]] = (value / before) ** 2 * truth[before] / truth[value]
    mine = steps[finding.subject["implementation"]]
    others = [v for k, v in steps.items() if k != finding.subject["implementation"]]
    false = not (mine > JUMP or mine < 1 / JUMP)
    false |= any(not 1 / JUMP <= step <= JUMP for step in others)
    return false, None, [(steps[e["implementation"]], e) for e in finding.estimates]


JUDGES: dict[str, Callable[[Judge, Finding], Any]] = {
    judge.__name__: judge
    for judge in (
        *(choice, worse_than_naive, correctness, balance, variant_gain, exact_account),
        *(launch_bound, saturation, jump),
    )
}


def differences(findings: Sequence[Finding]) -> int:
    """How many findings of these kinds claim a difference between implementations."""
    return sum(
        (finding.kind == "choice" and finding.verdict in ("one_best", "changes"))
        or (finding.kind == "worse_than_naive" and finding.verdict == "worse")
        or (finding.kind == "jump" and finding.verdict != "none")
        for finding in findings
    )
