"""From all tables of a dataset to every ratio, the published claims, and what its report says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flashlab.analysis.ceilings import read_ceilings
from flashlab.analysis.claims import claims_csv, judge_claims
from flashlab.analysis.comparisons import comparisons, comparisons_csv
from flashlab.analysis.doubts import with_dips, with_doubts
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import CLAIMS, COMPARISONS, read_planned_experiment
from flashlab.analysis.sittings import with_sittings
from flashlab.files import open_atomically, read_json
from flashlab.plan.published import claims_of, read_claims
from flashlab.story.claims import claims
from flashlab.story.observation import write_observations
from flashlab.story.registry import observations
from flashlab.story.tables import Tables


def observe(
    plan_files: Sequence[Path],
    tables: Path,
    claims_file: Path,
    ceilings_file: Path | None,
    output: Path,
) -> None:
    """Write observations.json of the planned experiments, and beside it the tables that it quotes.

    Raises:
        ClaimsError: the file of published claims is no such file.
    """
    read = [read_planned_experiment(file, tables, with_samples=True) for file in plan_files]
    estimates = Estimates(read)
    ceilings = read_ceilings(read_json(ceilings_file), estimates) if ceilings_file else None
    doubted = [with_doubts(experiment, estimates) for experiment in read]
    experiments = with_sittings(with_dips(doubted, estimates))
    shown = [experiment for experiment in experiments if not experiment.is_of_claims]
    every = comparisons(experiments, estimates)
    published = claims_of(read_claims(claims_file), experiments[0].benchmark)
    if any(experiment.is_simulated for experiment in shown):
        published = {**published, "claims": []}  # times that a simulator took decide nothing
    judged = judge_claims(published, experiments, estimates)
    for name, text in ((COMPARISONS, comparisons_csv(every)), (CLAIMS, claims_csv(judged))):
        with open_atomically(output.with_name(name)) as file:
            file.write(text)
    told = observations(Tables(shown, every, ceilings))
    write_observations([*told, *filter(None, [claims(judged, published)])], output)
