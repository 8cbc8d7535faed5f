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
from collections.abc import Iterable, Mapping, Sequence
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
    Dataset,
    DatasetError,
    dataset_folder,
    read_dataset,
)
from flashlab.plan.make import DATA, LOCAL
from flashlab.plan.plan_files import Plan, read_plan
from flashlab.plan.runs import REACH, parted_blocks
from flashlab.plan.watching import WORKFLOW_PID
from flashlab.records import Record, RecordError, read_record
from flashlab.runs import Run

MOST_BYTES = 16 * 2**20
"""The largest archive: ways to send files from a host often take no more."""

PARTS = Path("config", "record")
INTERRUPTED = 130


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
            f"{count} at {commit[:12]}{' with uncommitted changes' if is_changed else ''}"
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


def _dataset_of(plan: Plan, data: Path) -> tuple[Path, Dataset | None]:
    """The folder of the dataset of the configuration's name, and what it holds already."""
    folder = dataset_folder(data, plan.config["name"], find_benchmark(plan.benchmark))
    return folder, read_dataset(folder) if (folder / MANIFEST).exists() else None


def lacking(plan: Plan, data: Path = DATA) -> list[str]:
    """The planned records that the dataset of the configuration's name lacks, or has otherwise.

    So a call that was cut off goes on, and one that has nothing to add measures nothing.
    """

    def is_kept(path: Path) -> bool:
        sha256 = kept.get(path.name)
        may_differ = plan.config["anonymous"] or not path.exists()
        return sha256 is not None and (may_differ or sha256_of(path) == sha256)

    _, there = _dataset_of(plan, data)
    kept = {entry.path.name: entry.sha256 for entry in there.entries} if there else {}
    return [file for file in plan.orders if not is_kept(Path(file))]


def _refuse_overlap(plan: Plan, files: Iterable[str], data: Path) -> None:
    """DatasetError where the dataset has some of these processes, or is of another device."""
    folder, there = _dataset_of(plan, data)
    if there is None:
        return
    benchmark, orders = find_benchmark(plan.benchmark), [plan.orders[file] for file in files]
    planned = {(Run.of(benchmark, o["run"]), o["protocol"]["name"], o["process"]) for o in orders}
    again = len(planned & {(e.run, e.protocol["name"], e.process) for e in there.entries})
    if again or {(run.device, run.dtype) for run, *_ in planned} - {(there.device, there.dtype)}:
        raise DatasetError(
            f"{folder} exists already and has "
            + (f"{again} of these runs" if again else f"{there.device} {there.dtype} runs")
            + ". Recorded datasets are not overwritten; choose another name, or remove the folder."
        )


def check_freezable(plan: Plan) -> None:
    """Refuse records that cannot be frozen, before they are measured.

    Raises:
        DatasetError: nothing is measured here, it is a preview, the dataset has some of the runs,
            or the records would be of several commits.
    """
    if not plan.orders:
        raise DatasetError("freeze keeps what is measured here; leave out dataset= and import=")
    if plan.config["quick"]:
        raise DatasetError("quick: a preview cannot be frozen; leave quick out")
    if plan.config["name"] == LOCAL:
        raise DatasetError("name: local is what is measured here; give another name")
    lacks = lacking(plan)
    _refuse_overlap(plan, [file for file in lacks if file not in plan.counters], DATA)
    if not plan.config["freeze_anyway"]:
        there = [file for file in lacks if file not in plan.redo]
        environments = [read_record(Path(file)).environment for file in there]
        refuse_doubtful(environments + [machine.commit_here()] * (len(there) < len(lacks)))


def freeze() -> None:
    """Keep the records that the call has planned as a dataset, and print where."""
    folder = keep(read_plan(), DATA)
    print(f"{folder} now holds these records; render it with --config dataset={folder.name}")


def keep(plan: Plan, data: Path) -> Path:
    """Keep the planned records that the dataset of the configuration's name lacks; its folder.

    Its manifest also keeps the experiments that they were measured for, which a report of the
    dataset shows, and whether each was measured `alone` on its host. Further processes, records
    under a further protocol, and counters can be added; what is recorded is never overwritten.
    Counters that could not be read are left out. The manifest is written last: files that it does
    not name, as after a kill, are not in the dataset.

    Raises:
        DatasetError: the records are in doubt, unless they are to be kept anyway, or the dataset
            has some of these runs already, or those of another device or code. It is left as it
            was.
    """

    def copied(source: Path, name: str) -> dict[str, str]:
        """Copy a JSON file into the dataset; how the manifest names it."""
        if config["anonymous"]:
            write_json(folder / name, anonymous(read_json(source)))
        else:
            shutil.copyfile(source, folder / name)
        return {"file": name, "sha256": sha256_of(folder / name)}

    config, benchmark = plan.config, find_benchmark(plan.benchmark)
    folder, there = _dataset_of(plan, data)
    runs = {file: Run.of(benchmark, plan.orders[file]["run"]) for file in lacking(plan, data)}
    records = {file: read_record(Path(file), run) for file, run in runs.items()}
    records = {f: r for f, r in sorted(records.items()) if r.status == "ok" or not r.has_counters}
    if not records:
        return folder
    if not config["freeze_anyway"]:
        refuse_doubtful((record.environment for record in records.values()), records.values())
    _refuse_overlap(plan, records, data)
    folder.joinpath("records").mkdir(parents=True, exist_ok=True)
    if there:
        _refuse_other_devices(there, records)
        manifest = read_json(folder / MANIFEST)
    else:
        run = next(iter(runs.values()))
        stated = {key: config[key] for key in CONFIG_KEYS}
        manifest = {
            "version": MANIFEST_VERSION,
            "name": config["name"],
            "device": run.device,
            "dtype": run.dtype,
            "protocol": config["measure"]["protocol"],
            **({"alone": True} if config["alone"] else {}),
            "config": anonymous(stated) if config["anonymous"] else stated,
            "ceilings": copied(Path(str(plan.ceilings)), CEILINGS),
            "records": [],
        }
    entries = [
        {
            "benchmark": record.benchmark,
            "run": record.run.to_json(),
            "protocol": dict(record.protocol),
            **({"process": record.process} if record.process else {}),
            **copied(Path(file), f"records/{Path(file).name}"),
        }
        for file, record in records.items()
    ]
    write_json(folder / MANIFEST, {**manifest, "records": [*manifest["records"], *entries]})
    return folder


def _refuse_other_devices(there: Dataset, records: Mapping[str, Record]) -> None:
    """DatasetError for what was not measured where the dataset's first process of the run was."""
    first = {e.run: e.path for e in there.entries if not e.has_counters and not e.process}
    known = {file: record for file, record in records.items() if record.run in first}
    for file, record in known.items():
        recorded = read_record(first[record.run], record.run).environment
        for key in ("device_name", "provider"):
            if record.environment.get(key) != recorded.get(key):
                raise DatasetError(
                    f"{file}: {record.run} has the {key} {record.environment.get(key)}, but "
                    f"{there.name} recorded it with {recorded.get(key)}; measure it there too"
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
    command = [sys.executable, "-P", "-m", "flashlab.terminal", "freeze", "--logger=flashlab"]
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
        if (status := _freeze(part, options.configfile, given) or status) == INTERRUPTED:
            return INTERRUPTED
    if not (DATA / dataset).is_dir():
        return 1
    packed, kept = pack(DATA, dataset), [*(DATA / dataset).rglob("records/*.json")]
    print(f"{packed} holds {len(kept)} records; elsewhere: tar -xf {packed.name}")
    if errors := [path for path in kept if not has_result(path)]:
        print(f"{len(errors)} of them are errors, such as {errors[0]}")
    return int(bool(errors or status))


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
