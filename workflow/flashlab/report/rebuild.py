"""A report made again from the data attached to it, by the same stages, in a folder of its own.

Statistics are computed from the records' samples; no attached table, finding or figure is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from flashlab.analysis.experiment import OBSERVATIONS
from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.implementations import implementations_of
from flashlab.benchmarks.registry import find_benchmark
from flashlab.figures.stage import draw_figures
from flashlab.files import write_json
from flashlab.plan.datasets import DatasetError, Entry, dataset_folder
from flashlab.plan.experiments import Experiment, experiments_of, runs_of
from flashlab.plan.importing import of_held
from flashlab.plan.make import LOCAL
from flashlab.plan.plan_files import experiment_file, results_of
from flashlab.plan.runs import Planned
from flashlab.plan.views import views_of
from flashlab.records import COUNTERS, RecordError, parse_record
from flashlab.report.attached import (
    CEILINGS,
    CONFIG,
    RECORDS,
    AttachmentError,
    attachment,
    read_config,
    read_records,
    read_remarks,
    stated_software,
)
from flashlab.report.attachments import Given
from flashlab.report.render import FIGURES, write_report
from flashlab.report.software import differing_parts, software
from flashlab.runs import Run
from flashlab.story.stage import observe

Attached = Mapping[tuple[Run, str], list[Entry]]
"""The attached records of each run's processes, by run and protocol."""


def _write_records(records: Mapping[str, Any], folder: Path) -> Attached:
    attached: dict[tuple[Run, str], list[Entry]] = {}
    for name, document in records.items():
        try:
            record = parse_record(document, name)
        except RecordError as error:
            raise AttachmentError(str(error)) from error
        protocol = dict(record.protocol)
        processes = attached.setdefault((record.run, str(protocol["name"])), [])
        if any(entry.process == record.process for entry in processes):
            raise AttachmentError(f"{name}: {record.run} is attached twice")
        write_json(folder / name, document)
        processes.append(Entry(record.run, protocol, folder / name, None, record.process))
    for processes in attached.values():
        processes.sort(key=lambda entry: entry.process)
    return attached


def _planned(experiments: Sequence[Experiment], attached: Attached, protocol: str) -> Planned:
    """The records of each run of the experiments, by this protocol where it is attached by it.

    Its counters come with it.
    """
    planned, counters = {}, {}
    for run in runs_of(experiments):
        by_protocol = {name: entries for (of, name), entries in attached.items() if of == run}
        if own := by_protocol.pop(COUNTERS, None):
            counters[run] = own[0]
        if by_protocol:
            planned[run] = by_protocol.get(protocol) or next(iter(by_protocol.values()))
    return Planned(planned, counters)


def _write_plans(config: Mapping[str, Any], attached: Attached, results: Path) -> list[Path]:
    """Write what the stages read; the plans of the experiments."""
    benchmark = find_benchmark(config["benchmark"])
    implementations = implementations_of(benchmark)
    if unknown := sorted({run.implementation for run, _ in attached} - implementations.keys()):
        raise AttachmentError(
            f"it cannot be made again here, because {implementations.folder} has no "
            f"{', '.join(unknown)}; put the author's files there, and verify it again"
        )
    kinds = {(run.dtype, run.device) for run, _ in attached}
    if len(kinds) != 1:
        raise AttachmentError(
            "the records must be of one device and one number format; found "
            + (" and ".join(f"{dtype} on {device}" for dtype, device in sorted(kinds)) or "none")
        )
    experiments = experiments_of(config, benchmark, *kinds)
    if "import" in config:
        try:
            experiments = of_held(experiments, {run for run, _ in attached}, benchmark)
        except DatasetError as error:
            raise AttachmentError(str(error)) from error
    planned = _planned(experiments, attached, config["measure"]["protocol"])
    used = {entry.path for entry in planned.entries}
    extra = {e.run for entries in attached.values() for e in entries if e.path not in used}
    if differing := ({*runs_of(experiments)} - planned.processes.keys()) | extra:
        lacking = ", ".join(map(str, sorted(differing)[:3]))
        raise AttachmentError(
            f"the attached records are not the runs that {CONFIG} asks for; they differ in "
            f"{lacking}"
        )
    views = views_of(benchmark, implementations, config, results, experiments, planned)
    for path, view in views.items():
        write_json(Path(path), view)
    return [experiment_file(results, experiment.name) for experiment in experiments]


def other_software(attachments: Mapping[str, bytes]) -> list[str]:
    """What the report states of its software that differs from that here (`differing_parts`)."""
    stated = stated_software(attachments)
    return differing_parts(stated) if stated else []


def rebuild(attachments: Mapping[str, bytes], folder: Path) -> bytes:
    """The report that the attached data give: its PDF, made in `folder` by the stages of the rules.

    Raises:
        AttachmentError: the attached configuration or records are malformed, or do not belong
            together.
    """
    config = read_config(attachments)
    given = Given(
        read_remarks(attachments, config),
        attachment(attachments, RECORDS),
        stated_software(attachments) or software(),
    )
    dataset, benchmark = config["dataset"], find_benchmark(config["benchmark"])
    records, results = read_records(attachments), results_of(dataset, benchmark)
    is_local = dataset == LOCAL or "import" in config
    # Of the records, whose paths are in the tables.
    home = results if is_local else dataset_folder(Path("data"), dataset, benchmark)
    ceilings = Path(CEILINGS) if CEILINGS in attachments else None
    with chdir(folder):
        written = _write_records(records, home / "records")
        if ceilings:
            ceilings.write_bytes(attachments[CEILINGS])
        plans = _write_plans(config, written, results)
        tables, languages = results / "tables", results / "plan" / "languages.json"
        make_tables(results, ceilings, tables)
        observe(plans, tables, ceilings, results / OBSERVATIONS)
        draw_figures(plans, tables, ceilings, languages, results / FIGURES, results / "overview")
        config_file, output = Path(CONFIG), Path("report.pdf")
        config_file.write_bytes(attachments[CONFIG])
        write_report(config_file, results, ceilings, output, given)
        return output.read_bytes()
