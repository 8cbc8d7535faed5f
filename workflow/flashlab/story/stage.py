"""From all tables to comparisons.csv and observations.json: every ratio, and what is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flashlab.analysis.ceilings import read_ceilings
from flashlab.analysis.claims import claims_csv, judge_claims
from flashlab.analysis.comparisons import comparisons, comparisons_csv
from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import CLAIMS, COMPARISONS, OBSERVATIONS, read_planned_experiment
from flashlab.analysis.kinds.anomaly import with_dips, with_doubts
from flashlab.files import open_atomically, read_json, write_json
from flashlab.plan.published import claims_of, read_claims
from flashlab.story.claims import claims
from flashlab.story.observation import write_observations
from flashlab.story.registry import observations
from flashlab.story.tables import Tables


def write_findings(
    plan_files: Sequence[Path],
    tables: Path,
    claims_file: Path,
    ceilings_file: Path | None,
    output: Path,
) -> None:
    """Write the findings of the planned experiments, and beside them comparisons and observations.

    Raises:
        ClaimsError: the file of published claims is no such file.
    """
    read = [read_planned_experiment(file, tables, with_samples=True) for file in plan_files]
    estimates = Estimates(read)
    ceilings = read_ceilings(read_json(ceilings_file), estimates) if ceilings_file else None
    experiments = [with_doubts(experiment, estimates) for experiment in read]
    experiments = with_dips(experiments, estimates)
    published = claims_of(read_claims(claims_file), experiments[0].benchmark)
    findings = derive(experiments, estimates, published, ceilings)
    every = comparisons(experiments, estimates)
    with open_atomically(output.with_name(COMPARISONS)) as file:
        file.write(comparisons_csv(every))
    shown = [experiment for experiment in experiments if not experiment.is_of_claims]
    simulated = any(experiment.is_simulated for experiment in shown)
    claimed = {**published, "claims": []} if simulated else published
    judged = judge_claims(claimed, experiments, estimates)
    with open_atomically(output.with_name(CLAIMS)) as file:
        file.write(claims_csv(judged))
    told = observations(Tables(shown, every, ceilings))
    told += filter(None, [claims(judged, claimed)])
    write_observations(told, output.with_name(OBSERVATIONS))
    write_json(output, [finding.to_json() for finding in findings])
