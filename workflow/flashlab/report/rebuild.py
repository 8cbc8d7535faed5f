"""A report made again from the data attached to it, by the same stages, in a folder of its own.

The file is not trusted: its attachments are read within bounds. Statistics are computed from the
records' samples; no attached table, finding or figure is used.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from flashlab.analysis.experiment import OBSERVATIONS
from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.implementations import implementations_of
from flashlab.benchmarks.registry import find_benchmark
from flashlab.config import ConfigError, Layer, named_benchmark, resolve_config
from flashlab.figures.stage import draw_figures
from flashlab.files import write_json
from flashlab.plan.datasets import DatasetError, Entry, dataset_folder
from flashlab.plan.experiments import experiments_of, runs_of
from flashlab.plan.importing import of_held
from flashlab.plan.make import LOCAL
from flashlab.plan.plan_files import results_of
from flashlab.plan.runs import Planned
from flashlab.plan.views import views_of
from flashlab.records import RecordError, parse_record
from flashlab.remarks import (
    Picture,
    PictureError,
    Remark,
    RemarkError,
    picture_of,
    remark_name,
    remark_of,
)
from flashlab.report.attachments import (
    CEILINGS,
    CONFIG,
    MANIFEST,
    RECORDS,
    Given,
    differing_parts,
    is_software,
    software,
)
from flashlab.report.render import FIGURES, write_report
from flashlab.runs import Run
from flashlab.story.stage import observe
from flashlab.untrusted import MAX_FILE_BYTES, UnsoundFileError, parse_json

MAX_RECORDS_BYTES = 64 * 1024**2
MAX_RECORDS = 5_000
MAX_NAME_BYTES = 200
FILE_NAME = re.compile(r"(?!\.)[\w.+-]+\.json")
"""What a record's file can be called, here and on any other machine."""


class AttachmentError(Exception):
    """A report's attachments are missing, malformed, or do not belong together."""


def parsed(content: bytes, where: str) -> Any:
    """A JSON text, parsed strictly; AttachmentError naming `where` if it is unsound."""
    if len(content) > MAX_FILE_BYTES:
        raise AttachmentError(f"{where}: it has more than {MAX_FILE_BYTES} bytes")
    try:
        return parse_json(content)
    except UnsoundFileError as problem:
        raise AttachmentError(f"{where}: {problem}") from problem


def attachment(attachments: Mapping[str, bytes], name: str) -> bytes:
    """An attachment; AttachmentError if it is not there."""
    if name not in attachments:
        raise AttachmentError(
            f"{name} is not attached; only a report with its data attached can be verified"
        )
    return attachments[name]


def read_config(attachments: Mapping[str, bytes]) -> dict[str, Any]:
    """The attached configuration, resolved, with its remarks as attached.

    AttachmentError if it is not valid, a remark is not attached, or an implementation is not here.
    """
    config = parsed(attachment(attachments, CONFIG), CONFIG)
    if not isinstance(config, dict):
        raise AttachmentError(f"{CONFIG}: it is not a configuration")
    layers = [Layer(CONFIG, config)]
    try:
        known = implementations_of(find_benchmark(named_benchmark(layers)))
        resolved = resolve_config(layers, known)
    except ConfigError as error:
        raise AttachmentError(
            f"{CONFIG}: {error}. A report with kernels or settings that are not here cannot be "
            "rebuilt here"
        ) from error
    # The configuration has their paths on the author's machine, which are not used.
    resolved["remarks"] = {
        experiment: {language: remark_name(experiment, language) for language in by_language}
        for experiment, by_language in resolved["remarks"].items()
    }
    for name in (name for names in resolved["remarks"].values() for name in names.values()):
        attachment(attachments, name)
    return resolved


def read_remarks(attachments: Mapping[str, bytes], config: Mapping[str, Any]) -> list[Remark]:
    """The attached remarks with their images; AttachmentError if one is missing or unsound."""

    def picture(_: str, name: str) -> Picture:
        if name not in attachments:
            raise PictureError(f"{name} is not attached")
        return picture_of(attachments[name])

    try:
        return [
            remark_of(experiment, language, file, attachments[file], picture)
            for experiment, by_language in config["remarks"].items()
            for language, file in by_language.items()
        ]
    except RemarkError as error:
        raise AttachmentError(str(error)) from error


def stated_software(attachments: Mapping[str, bytes]) -> Mapping[str, Any] | None:
    """The software that the manifest says rendered the report; None where it does not say so."""
    manifest = parsed(attachments.get(MANIFEST, b"null"), MANIFEST)
    stated = manifest.get("software") if isinstance(manifest, dict) else None
    return stated if is_software(stated) else None


def read_records(attachments: Mapping[str, bytes]) -> dict[str, Any]:
    """The attached records by file name; AttachmentError if they are packed in another form."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        lines = unpacker.decompress(attachment(attachments, RECORDS), MAX_RECORDS_BYTES)
    except zlib.error as error:
        raise AttachmentError(f"{RECORDS}: {error}") from error
    if not unpacker.eof:
        raise AttachmentError(
            f"{RECORDS}: it is truncated, or has more than {MAX_RECORDS_BYTES} bytes uncompressed"
        )
    if unpacker.unused_data:
        raise AttachmentError(f"{RECORDS}: something follows the packed records")
    records: dict[str, Any] = {}
    for number, line in enumerate(io.BytesIO(lines), start=1):
        where = f"{RECORDS}: line {number}"
        if number > MAX_RECORDS:
            raise AttachmentError(f"{where}: there are more than {MAX_RECORDS} lines")
        entry = parsed(line, where)
        if not isinstance(entry, dict) or entry.keys() != {"file", "record"}:
            raise AttachmentError(f"{where}: it must be an object with the keys file and record")
        name = entry["file"]
        is_name = isinstance(name, str) and FILE_NAME.fullmatch(name)
        if not is_name or len(name.encode()) > MAX_NAME_BYTES or name in records:
            raise AttachmentError(f"{where}: {name!r} is not a file name, or occurs twice")
        records[name] = entry["record"]
    return records


# Made again


def _write_records(records: Mapping[str, Any], folder: Path) -> list[Entry]:
    """Write the attached records; an entry for each, a run's processes in their order."""
    entries = dict[tuple[Run, str, int], Entry]()
    for name, document in records.items():
        try:
            record = parse_record(document, name)
        except RecordError as error:
            raise AttachmentError(str(error)) from error
        key = (record.run, str(record.protocol["name"]), record.process)
        if key in entries:
            raise AttachmentError(f"{name}: {record.run} is attached twice")
        write_json(folder / name, document)
        entries[key] = Entry(record.run, dict(record.protocol), folder / name, None, record.process)
    return sorted(entries.values(), key=lambda entry: entry.process)


def _planned(runs: Iterable[Run], attached: Iterable[Entry], protocol: str) -> Planned:
    """The records of each run, by this protocol where it is attached by it, and its counters."""
    of_run = dict[Run, list[Entry]]()
    for entry in attached:
        of_run.setdefault(entry.run, []).append(entry)
    planned, counters = dict[Run, list[Entry]](), dict[Run, Entry]()
    for run in runs:
        own = of_run.get(run, [])
        counters |= {entry.run: entry for entry in own if entry.has_counters}
        if names := [entry.protocol["name"] for entry in own if not entry.has_counters]:
            name = protocol if protocol in names else names[0]
            planned[run] = [entry for entry in own if entry.protocol["name"] == name]
    return Planned(planned, counters)


def _write_plans(config: Mapping[str, Any], attached: Sequence[Entry], results: Path) -> None:
    """Write what the stages read."""
    benchmark = find_benchmark(config["benchmark"])
    implementations = implementations_of(benchmark)
    held = {entry.run for entry in attached}
    if unknown := sorted({run.implementation for run in held} - implementations.keys()):
        raise AttachmentError(
            f"it cannot be made again here, because {implementations.folder} has no "
            f"{', '.join(unknown)}; put the author's files there, and verify it again"
        )
    kinds = {(run.dtype, run.device) for run in held}
    if len(kinds) != 1:
        raise AttachmentError(
            "the records must be of one device and one number format; found "
            + (" and ".join(f"{dtype} on {device}" for dtype, device in sorted(kinds)) or "none")
        )
    experiments = experiments_of(config, benchmark, *kinds)
    if "import" in config:
        try:
            experiments = of_held(experiments, held, benchmark)
        except DatasetError as error:
            raise AttachmentError(str(error)) from error
    asked = runs_of(experiments)
    planned = _planned(asked, attached, config["measure"]["protocol"])
    used = {entry.path for entry in planned.entries}
    extra = {entry.run for entry in attached if entry.path not in used}
    if differing := ({*asked} - planned.processes.keys()) | extra:
        lacking = ", ".join(map(str, sorted(differing)[:3]))
        raise AttachmentError(
            f"the attached records are not the runs that {CONFIG} asks for; they differ in "
            f"{lacking}"
        )
    views = views_of(benchmark, implementations, config, results, experiments, planned)
    for path, view in views.items():
        write_json(Path(path), view)


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
    results, home = results_of(dataset, benchmark), dataset_folder(Path("data"), dataset, benchmark)
    if dataset == LOCAL or "import" in config:
        home = results
    ceilings = Path(CEILINGS) if CEILINGS in attachments else None
    with chdir(folder):
        # The tables have the records' paths.
        written = _write_records(read_records(attachments), home / "records")
        if ceilings:
            ceilings.write_bytes(attachments[CEILINGS])
        _write_plans(config, written, results)
        make_tables(results, ceilings, results / "tables")
        observe(results, ceilings, results / OBSERVATIONS)
        draw_figures(results, ceilings, results / FIGURES, results / "overview")
        config_file, output = Path(CONFIG), Path("report.pdf")
        config_file.write_bytes(attachments[CONFIG])
        write_report(config_file, results, ceilings, output, given)
        return output.read_bytes()
