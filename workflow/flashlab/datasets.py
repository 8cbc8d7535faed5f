"""Recorded datasets: the manifest beside their records, freezing local records, importing others'.

A recorded dataset is a folder with ``manifest.json`` and ``records/``. The manifest says whose
machine was measured, with which dtype and which of the config's shapes, and lists every record
with its run, protocol and sha256; nothing ever globs the folder.
"""

from __future__ import annotations

import csv
import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashlab import costs
from flashlab.records import (
    PASSES,
    SHAPE_PARAMETERS,
    VERSION,
    RecordError,
    Run,
    Shape,
    read_record,
    sha256_of,
    write_json,
    write_record,
)

MANIFEST = "manifest.json"
CEILINGS = "ceilings.json"
CONFIG_KEYS = ("baseline", "summary", "experiments")
"""What a dataset keeps of the configuration that it was measured for."""

COURSE_REPEATS = 30
RUNS_CSV_COLUMNS = ("file", "impl", *SHAPE_PARAMETERS)
MAX_RESULT_BYTES = 1024**2


class DatasetError(Exception):
    """A dataset that is missing, incomplete or not what its manifest says."""


@dataclass(frozen=True)
class Entry:
    """One record of a dataset: its path, and the hash it had when it was recorded."""

    run: Run
    protocol: dict[str, Any]
    path: Path
    sha256: str


@dataclass(frozen=True)
class Dataset:
    """A recorded dataset as its manifest describes it."""

    name: str
    device: str
    dtype: str
    protocol: str
    config: dict[str, Any]
    ceilings: Path | None
    entries: tuple[Entry, ...]

    def find(self, run: Run, protocol: str) -> Entry | None:
        """The record of `run` by the protocol of that name, or by the dataset's own one."""
        found = {e.protocol["name"]: e for e in self.entries if e.run == run}
        return found.get(protocol) or found.get(self.protocol)


def read_dataset(folder: Path) -> Dataset:
    """Read ``folder/manifest.json``; DatasetError where there is none or it cannot be read."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        entries = tuple(
            Entry(
                Run.from_json(entry["run"]),
                entry["protocol"],
                folder / entry["file"],
                entry["sha256"],
            )
            for entry in manifest["records"]
        )
        ceilings = manifest["ceilings"]
        return Dataset(
            name=manifest["name"],
            device=manifest["device"],
            dtype=manifest["dtype"],
            protocol=manifest["protocol"],
            config=manifest["config"],
            ceilings=folder / ceilings["file"] if ceilings else None,
            entries=entries,
        )
    except FileNotFoundError as error:
        known = sorted(p.parent.name for p in folder.parent.glob(f"*/{MANIFEST}"))
        raise DatasetError(
            f"config: dataset: there is no {path}; recorded datasets: "
            f"{', '.join(known) or 'none'}, and `local` measures on this machine"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{path}: not a manifest: {error!r}") from error


def _manifest(
    name: str,
    device: str,
    dtype: str,
    protocol: str,
    records: Sequence[Mapping[str, Any]],
    config: Mapping[str, Any],
    ceilings: Mapping[str, Any] | None,
) -> dict[str, Any]:
    return {
        "version": 1,
        "name": name,
        "device": device,
        "dtype": dtype,
        "protocol": protocol,
        "config": config,
        "ceilings": ceilings,
        "records": list(records),
    }


def _collect(plan_files: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """The manifest's entries of all planned records, and their paths, by file name."""
    records: dict[str, dict[str, Any]] = {}
    for plan_file in plan_files:
        for entry in json.loads(plan_file.read_text(encoding="utf-8"))["records"]:
            path = Path(entry["path"])
            document = read_record(path, Run.from_json(entry["run"]))
            records[path.name] = {
                "run": entry["run"],
                "protocol": document["record"]["protocol"],
                "file": f"records/{path.name}",
                "sha256": sha256_of(path),
                "source": path,
            }
    return records


def _copy_records(records: Sequence[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Copy the records into the folder; their entries as a manifest holds them."""
    (folder / "records").mkdir(parents=True, exist_ok=True)
    entries = []
    for record in records:
        target = folder / record["file"]
        if target.exists():
            raise DatasetError(f"{target} exists already, and is never overwritten")
        shutil.copyfile(record["source"], target)
        entries.append({key: value for key, value in record.items() if key != "source"})
    return entries


def _add(folder: Path, records: Sequence[dict[str, Any]], kind: tuple[str, str]) -> None:
    """Add to a dataset the records of a protocol that it does not hold yet."""
    there = read_dataset(folder)
    held = {(entry.run, entry.protocol["name"]) for entry in there.entries}
    again = [r for r in records if (Run.from_json(r["run"]), r["protocol"]["name"]) in held]
    if again or (there.device, there.dtype) != kind:
        raise DatasetError(
            f"{folder} exists already, and holds "
            + (f"{len(again)} of these runs" if again else f"{there.device} {there.dtype} runs")
            + ". Recorded datasets are never overwritten: choose another name, or remove that "
            "folder yourself."
        )
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["records"] += _copy_records(records, folder)
    write_json(folder / MANIFEST, manifest)


def freeze(
    name: str, config_file: Path, plan_files: Sequence[Path], ceilings: Path, data: Path
) -> Path:
    """Keep the records that the plans name as ``data/<name>/``, with their manifest.

    The manifest also keeps the experiments that the records were measured for, which a report of
    the dataset shows. A dataset that exists takes records of a further protocol; what it
    holds is never overwritten.

    Returns the folder. DatasetError where the records are of several devices or dtypes, or the
    dataset holds some of these runs already; nothing is left behind then.
    """
    config = json.loads(config_file.read_text(encoding="utf-8"))
    folder, part = data / name, data / f".{name}.part"
    collected = _collect(plan_files)
    records = [collected[key] for key in sorted(collected)]
    kinds = {(r["run"]["device"], r["run"]["dtype"]) for r in records}
    if len(kinds) != 1:
        raise DatasetError(f"the records to freeze are of several devices or dtypes: {kinds}")
    ((device, dtype),) = kinds
    if folder.exists():
        _add(folder, records, (device, dtype))
        return folder
    shutil.rmtree(part, ignore_errors=True)
    entries = _copy_records(records, part)
    shutil.copyfile(ceilings, part / CEILINGS)
    manifest = _manifest(
        name,
        device,
        dtype,
        config["measure"]["protocol"],
        entries,
        {key: config[key] for key in CONFIG_KEYS},
        {"file": CEILINGS, "sha256": sha256_of(ceilings)},
    )
    write_json(part / MANIFEST, manifest)
    part.rename(folder)
    return folder


# Importing results of the course's script


def _number(value: Any, where: str) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not abs(value) <= sys.float_info.max
    ):
        raise DatasetError(f"{where}: must be a finite number, found {value!r}")
    if value <= 0:
        raise DatasetError(f"{where}: must be positive, found {value!r}")
    return float(value)


def _course_result(path: Path) -> dict[str, Any]:
    """The four keys of a JSON file of the course's script; DatasetError where one is unsound."""
    try:
        if path.stat().st_size > MAX_RESULT_BYTES:
            raise DatasetError(f"{path}: larger than 1 MiB; no result of the script is")
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: cannot be read as JSON: {error}") from error
    result: dict[str, Any] = {}
    try:
        for name in PASSES:
            result[name] = {
                key: _number(document[name][key], f"{path}: {name}.{key}")
                for key in ("time(s)", "FLOPS(TFLOPs/s)")
            }
        key = "peak_memory_usage(MB)"
        result[key] = _number(document[key], f"{path}: {key}")
    except (KeyError, TypeError) as error:
        raise DatasetError(f"{path}: not a result of the course's script: lacks {error}") from error
    return result


def _declared_run(row: Mapping[str, str], where: str, dtype: str, device: str) -> Run:
    sizes = {}
    for column in ("batch_size", "seq_len", "num_heads", "emb_dim"):
        try:
            sizes[column] = int(row[column])
        except ValueError as error:
            raise DatasetError(
                f"{where}: {column}: must be a whole number, found {row[column]!r}"
            ) from error
        if sizes[column] < 1:
            raise DatasetError(f"{where}: {column}: must be at least 1, found {row[column]}")
    causal = {"true": True, "1": True, "false": False, "0": False}.get(row["causal"].lower())
    if causal is None:
        raise DatasetError(f"{where}: causal: must be true or false, found {row['causal']!r}")
    if not row["impl"]:
        raise DatasetError(f"{where}: impl: is empty")
    if sizes["emb_dim"] % sizes["num_heads"]:
        raise DatasetError(f"{where}: num_heads does not divide emb_dim")
    return Run(row["impl"], Shape(causal=causal, **sizes), dtype, device)


def read_runs_csv(
    folder: Path, device: str = "cuda", dtype: str = "float16"
) -> dict[Run, dict[str, str]]:
    """What ``folder/runs.csv`` declares: each run with its row (``file`` and optional ``device``).

    Columns: file, impl, batch_size, seq_len, num_heads, emb_dim, causal, and optionally device
    (the GPU's name). The course's script measures on CUDA in float16.

    Raises:
        DatasetError: the file is missing or lacks a column, a row is unsound, a file lies outside
            the folder, or a run is declared twice; the message names the line.
    """
    path = folder / "runs.csv"
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            lacking = [c for c in RUNS_CSV_COLUMNS if c not in (reader.fieldnames or ())]
            if lacking:
                raise DatasetError(
                    f"{path}: lacks the columns {', '.join(lacking)}; "
                    f"needed: {', '.join(RUNS_CSV_COLUMNS)}, and optionally device"
                )
            rows = [(reader.line_num, row) for row in reader]
    except FileNotFoundError as error:
        raise DatasetError(
            f"{path}: cannot be read: there is no such file; it declares what each result is, as "
            "config/README.md shows"
        ) from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{path}: cannot be read: {error}") from error
    if not rows:
        raise DatasetError(f"{path}: declares no run")
    declared: dict[Run, dict[str, str]] = {}
    for line, row in rows:
        where = f"{path}: line {line}"
        if None in row or None in row.values():
            raise DatasetError(f"{where}: has more or fewer fields than the header")
        run = _declared_run(row, where, dtype, device)
        if run in declared:
            raise DatasetError(f"{where}: {run} is declared twice")
        if "\0" in row["file"]:
            raise DatasetError(f"{where}: file: holds a NUL")
        if not (folder / row["file"]).resolve().is_relative_to(folder.resolve()):
            raise DatasetError(f"{where}: {row['file']} lies outside {folder}")
        declared[run] = row
    return declared


def import_plan(folder: Path, name: str) -> dict[str, Any]:
    """The manifest that importing ``folder`` will give, its records not yet converted.

    Each entry holds the converted record's file name, which carries the hash of the original, and
    ``source``, the original's path. DatasetError as in `read_runs_csv`, or for a missing file.
    """
    records = []
    for run, row in sorted(read_runs_csv(folder).items()):
        source = folder / row["file"]
        try:
            digest = sha256_of(source)
        except OSError as error:
            raise DatasetError(f"{folder / 'runs.csv'}: {row['file']}: {error.strerror}") from error
        records.append(
            {
                "run": run.to_json(),
                "protocol": {"name": "lab5", "repeats": COURSE_REPEATS},
                "file": f"records/{run.slug}-{digest[:12]}.json",
                "sha256": digest,
                "source": str(source),
                "device_name": row.get("device") or "",
            }
        )
    return _manifest(name, "cuda", "float16", "lab5", records, {}, None)


def import_record(entry: Mapping[str, Any], output: Path) -> None:
    """Convert one result of the course's script into a record: the same numbers, no samples.

    Its rates must follow from its times (within rounding), or it is no result of that script for
    the declared run: DatasetError naming the file.
    """
    source = Path(entry["source"])
    result = _course_result(source)
    run = Run.from_json(entry["run"])
    for name, flops in costs.flops(run.shape).items():
        claimed = result[name]["time(s)"] * result[name]["FLOPS(TFLOPs/s)"] * 1e12
        if not math.isclose(claimed, flops, rel_tol=1e-6):
            raise DatasetError(
                f"{source}: {name}: time and rate make {claimed:.6g} FLOPs, but runs.csv declares "
                f"{run}, which takes {flops:.6g}; correct the row"
            )
    measured = datetime.fromtimestamp(source.stat().st_mtime, UTC).isoformat(timespec="seconds")
    result["record"] = {
        "version": VERSION,
        "status": "ok",
        "message": None,
        "run": entry["run"],
        "protocol": entry["protocol"],
        "samples": {"forward": [], "backward": []},
        "stopped": {"forward": "count", "backward": "count"},
        "gate": None,
        "warnings": [{"code": "imported"}],
        "environment": {"device_name": entry["device_name"] or None, "imported": True},
        "sources": {"file": source.name, "file_sha256": entry["sha256"]},
        "started": measured,
    }
    try:
        write_record(output, result)
    except RecordError as error:
        raise DatasetError(str(error)) from error
