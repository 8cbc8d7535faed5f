"""Planned records kept as a recorded dataset: the doubts before, the commands, and its archive.

Behind ``./run record``, too. A part of a dataset is a file in ``config/record/``, laid over the
configuration of its benchmark.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.anonymity import anonymous
from flashlab.benchmarks.registry import find_benchmark
from flashlab.config.model import nearest
from flashlab.files import read_json, sha256_of, write_json
from flashlab.plan.datasets import (
    CEILINGS,
    CONFIG_KEYS,
    MANIFEST,
    MANIFEST_VERSION,
    DatasetError,
    dataset_folder,
    read_dataset,
)
from flashlab.plan.make import DATA
from flashlab.plan.runs import REACH, parted_blocks
from flashlab.plan.value import Plan, read_plan
from flashlab.plan.watching import WORKFLOW_PID
from flashlab.records import Record, RecordError, read_record
from flashlab.runs import Run

DIGITS = 12
"""Hexadecimal digits of a commit in messages."""

MOST_BYTES = 16 * 2**20
"""The largest archive: ways to send files from a host often take no more."""

PARTS = Path("config", "record")
INTERRUPTED = 130

SAME_CODE = ("device_name", "provider")
"""The fields of the environment in which counters must equal the record of the same run."""


def refuse_doubtful(
    environments: Iterable[Mapping[str, Any]], records: Iterable[Record] = ()
) -> None:
    """DatasetError for records of several commits, uncommitted changes, or parted blocks.

    Where there was no git, an environment says nothing of the first two.
    """
    doubts = []
    commits = Counter(
        (e.get("commit") or "no known commit", bool(e.get("dirty"))) for e in environments
    )
    if len(commits) > 1 or any(is_changed for _, is_changed in commits):
        listed = ", ".join(
            f"{count} at {commit[:DIGITS]}{' with uncommitted changes' if is_changed else ''}"
            for (commit, is_changed), count in commits.most_common()
        )
        doubts.append(
            f"Not all of them are of one commit without changes ({listed}): commit what is "
            "changed, and measure again with --config again=all."
        )
    if parted := parted_blocks(record for record in records if not record.has_counters):
        first, minutes = parted[0][0], REACH.total_seconds() / 60
        doubts.append(
            f"In {len(parted)} of their blocks (such as {' '.join(first.run.words)}, process "
            f"{first.process + 1}) the runs were measured on several cards or more than "
            f"{minutes:.0f} minutes apart: measure these again with --config again=blocks."
        )
    if doubts:
        raise DatasetError(
            f"These records are not to be frozen. {' '.join(doubts)} Or keep them as they are "
            "with --config freeze_anyway=true."
        )


def refuse_overlap(folder: Path, records: Collection[tuple[Run, str]]) -> None:
    """Refuse to add records, each a run and the name of its protocol, to a dataset that has them.

    DatasetError where it has some of them, or is of another device or dtype.
    """
    if not (folder / MANIFEST).exists():
        return
    there = read_dataset(folder)
    held = {(entry.run, entry.protocol["name"]) for entry in there.entries}
    again = [record for record in records if record in held]
    if again or any((run.device, run.dtype) != (there.device, there.dtype) for run, _ in records):
        raise DatasetError(
            f"{folder} exists already and has "
            + (f"{len(again)} of these runs" if again else f"{there.device} {there.dtype} runs")
            + ". Recorded datasets are not overwritten; choose another name, or remove the folder."
        )


def lacking(plan: Plan, data: Path = DATA) -> list[str]:
    """The planned records that the dataset of the configuration's name lacks, or has otherwise.

    So a call that was cut off goes on, and one that has nothing to add measures nothing.
    """

    def is_kept(path: Path) -> bool:
        sha256 = kept.get(path.name)
        may_differ = plan.config["anonymous"] or not path.exists()
        return sha256 is not None and (may_differ or sha256_of(path) == sha256)

    folder = dataset_folder(data, plan.config["name"], find_benchmark(plan.benchmark))
    there = read_dataset(folder).entries if (folder / MANIFEST).exists() else ()
    kept = {entry.path.name: entry.sha256 for entry in there}
    return [file for file in plan.orders if not is_kept(Path(file))]


def check_freezable(plan: Plan) -> None:
    """Refuse records that cannot be frozen, before they are measured.

    Raises:
        DatasetError: it is a preview, the dataset has some of the runs, or the records would be of
            several commits.
    """
    if plan.config["quick"]:
        raise DatasetError("quick: a preview cannot be frozen; leave quick out")
    benchmark, lacks = find_benchmark(plan.benchmark), lacking(plan)
    timed = [plan.orders[file] for file in lacks if file not in plan.counters]
    runs = [(Run.of(benchmark, order["run"]), order["protocol"]["name"]) for order in timed]
    refuse_overlap(dataset_folder(DATA, plan.config["name"], benchmark), runs)
    if not plan.config["freeze_anyway"]:
        there = [file for file in lacks if file not in plan.redo]
        environments = [read_record(Path(file)).environment for file in there]
        refuse_doubtful(environments + [machine.commit_here()] * (len(there) < len(lacks)))


def _copy_json(source: Path, target: Path, is_anonymous: bool) -> str:
    """Copy a JSON file, without identifying data if `is_anonymous`; the copy's digest."""
    if is_anonymous:
        write_json(target, anonymous(read_json(source)))
    else:
        shutil.copyfile(source, target)
    return sha256_of(target)


def freeze() -> None:
    """Keep the records that the call has planned as a dataset, and print where."""
    folder = keep(read_plan(), DATA)
    print(f"{folder} now holds these records; render it with --config dataset={folder.name}")


def keep(plan: Plan, data: Path) -> Path:
    """Keep the planned records that the dataset of the configuration's name lacks; its folder.

    Its manifest also keeps the experiments that they were measured for, which a report of the
    dataset shows, and whether each was measured `alone` on its host. Records under a further
    protocol, and counters, can be added to an existing dataset; its records are never overwritten.
    Counters that could not be read are left out. The manifest is written last: files that it does
    not name, as after a kill, are not in the dataset.

    Raises:
        DatasetError: the records are in doubt, unless they are to be kept anyway, are of several
            devices or dtypes, or the dataset has some of these runs already, or other code's. It is
            left as it was.
    """
    config, benchmark = plan.config, find_benchmark(plan.benchmark)
    folder = dataset_folder(data, config["name"], benchmark)
    runs = {Path(file): Run.of(benchmark, plan.orders[file]["run"]) for file in lacking(plan, data)}
    records = {path: read_record(path, run) for path, run in runs.items()}
    records = {p: r for p, r in records.items() if r.status == "ok" or not r.has_counters}
    kinds = {(record.run.device, record.run.dtype) for record in records.values()}
    if not records and (folder / MANIFEST).exists():
        return folder
    if not config["freeze_anyway"]:
        refuse_doubtful((record.environment for record in records.values()), records.values())
    if len(kinds) != 1:
        named = " and ".join(f"{dtype} on {device}" for device, dtype in sorted(kinds))
        raise DatasetError(
            f"the records to freeze must be of one device and one dtype; found {named or 'none'}"
        )
    if (folder / MANIFEST).exists():
        refuse_overlap(folder, [(r.run, r.protocol["name"]) for r in records.values()])
        _refuse_others_counters(folder, records)
        manifest = read_json(folder / MANIFEST)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        sha256 = _copy_json(Path(str(plan.ceilings)), folder / CEILINGS, config["anonymous"])
        ((device, dtype),) = kinds
        manifest = {
            "version": MANIFEST_VERSION,
            "name": config["name"],
            "device": device,
            "dtype": dtype,
            "protocol": config["measure"]["protocol"],
            **({"alone": True} if config["alone"] else {}),
            "config": {key: config[key] for key in CONFIG_KEYS},
            "ceilings": {"file": CEILINGS, "sha256": sha256},
            "records": [],
        }
    (folder / "records").mkdir(exist_ok=True)
    entries = [*manifest["records"]]
    for path, record in sorted(records.items(), key=lambda item: item[0].name):
        file = f"records/{path.name}"
        entries.append(
            {
                "benchmark": record.benchmark,
                "run": record.run.to_json(),
                "protocol": dict(record.protocol),
                **({"process": record.process} if record.process else {}),
                "file": file,
                "sha256": _copy_json(path, folder / file, config["anonymous"]),
            }
        )
    write_json(folder / MANIFEST, {**manifest, "records": entries})
    return folder


def _refuse_others_counters(folder: Path, records: Mapping[Path, Record]) -> None:
    """DatasetError for counters that were not read where the dataset's run was measured."""
    entries = (e for e in read_dataset(folder).entries if not e.has_counters and not e.process)
    timed = {entry.run: entry.path for entry in entries}
    for path, record in records.items():
        if record.has_counters and record.run in timed:
            recorded = read_record(timed[record.run], record.run).environment
            for key in SAME_CODE:
                if record.environment.get(key) != recorded.get(key):
                    raise DatasetError(
                        f"{path}: the counters of {record.run} have the {key} "
                        f"{record.environment.get(key)}, but {folder} recorded it with "
                        f"{recorded.get(key)}; read them in the same environment"
                    )


def pack(data: Path, name: str) -> Path:
    """Write ``NAME.tar.xz`` beside a dataset's folder; unpacked in a project, it is its dataset.

    Raises:
        DatasetError: it would be larger than `MOST_BYTES`; nothing is written.
    """
    base, inside = str(data / f".{name}"), f"{data.name}/{name}"
    part = Path(shutil.make_archive(base, "xztar", data.parent, inside, owner="root", group="root"))
    if (size := part.stat().st_size) > MOST_BYTES:
        part.unlink()
        raise DatasetError(
            f"{data / name} is not packed: it would take {size / 2**20:.1f} MiB, and "
            f"{MOST_BYTES / 2**20:.0f} MiB are the most; record its parts under names of their own"
        )
    return part.rename(data / f"{name}.tar.xz")


# ./run record: each part of a dataset measured and frozen by a call, and packed


def part_names() -> list[str]:
    """The parts of a dataset, in the order in which they are recorded."""
    return sorted(file.stem for file in PARTS.glob("*.yaml"))


def has_result(path: Path) -> bool:
    """True if a record is there that is not of an error."""
    try:
        return read_record(path).status != "error"
    except RecordError:
        return False


def _freeze(part: str, files: Sequence[Path], arguments: Sequence[str]) -> int:
    """Freeze a part with Snakemake, which ends when this process does; its status."""
    cards = len(machine.gpus())
    command = [sys.executable, "-m", "flashlab.terminal", "freeze", "--logger=flashlab"]
    command += ["--cores", str(2 * cards or 1), *([f"--resources=gpu={cards}"] if cards else [])]
    command += ["--configfile", str(PARTS / f"{part}.yaml"), *map(str, files), *arguments]
    print(f"\n{part}:", flush=True)
    # Snakemake heeds an interrupt, too, and is waited for.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        own = {**os.environ, WORKFLOW_PID: str(os.getpid())}
        return subprocess.run(command, env=own, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def record(
    dataset: str, parts: Sequence[str], options: argparse.Namespace, arguments: Sequence[str]
) -> int:
    """Measure and freeze what a dataset lacks of these parts, and pack it; the exit status.

    Each part is first planned: where one cannot be frozen, nothing is measured.

    Raises:
        DatasetError: there is no part of a name, or the dataset is too large to be packed.
    """
    known = part_names()
    if unknown := [part for part in parts if part not in known]:
        raise DatasetError(
            f"there is no part {unknown[0]}{nearest(unknown[0], known)}; there are "
            f"{', '.join(known)}, each a file in {PARTS}"
        )
    given = ["--config", f"name={dataset}", "again=blocks", *options.config, *arguments]
    for part in parts:
        if status := _freeze(part, options.configfile, [*given, "--dry-run"]):
            return status
    if options.dry_run:
        return 0
    for part in parts:
        if _freeze(part, options.configfile, given) == INTERRUPTED:
            return INTERRUPTED
    if not (DATA / dataset).is_dir():
        return 1
    packed, kept = pack(DATA, dataset), [*(DATA / dataset).rglob("records/*.json")]
    print(f"{packed} holds {len(kept)} records; elsewhere: tar -xf {packed.name}")
    if errors := [path for path in kept if not has_result(path)]:
        print(f"{len(errors)} of them are errors, such as {errors[0]}")
    return int(bool(errors))


def main(words: Sequence[str]) -> int:
    """Run the command line; the exit status, 2 where it is not understood."""
    parser = argparse.ArgumentParser(
        prog="./run record",
        usage="./run record NAME [PART...] [--dry-run] [ARGUMENTS]",
        description="Record the parts that data/NAME does not have yet, one after the other, and "
        "pack it all in data/NAME.tar.xz. ARGUMENTS go on to Snakemake.",
        epilog=f"The parts are the files of config/record: {', '.join(part_names())}. All GPUs "
        "are used that CUDA_VISIBLE_DEVICES leaves visible.",
        allow_abbrev=False,
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what is left")
    parser.add_argument("-C", "--config", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--configfile", nargs="+", default=[], type=Path, metavar="FILE")
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    options, arguments = parser.parse_known_args(words[first:])
    if not first:
        parser.error("say under which name, as in: ./run record h100")
    try:
        return record(words[0], words[1:first] or part_names(), options, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (DatasetError, machine.MachineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
