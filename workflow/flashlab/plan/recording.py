"""Behind ``./run record``: the parts of a dataset, each measured and frozen by a call, and packed.

A part is a file in ``config/record/``, laid over the configuration of its benchmark.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from flashlab import machine
from flashlab.benchmarks.registry import find_benchmark
from flashlab.config.messages import nearest
from flashlab.plan import call
from flashlab.plan.datasets import MANIFEST, DatasetError, dataset_folder, read_dataset
from flashlab.plan.freezing import check_freezable, pack
from flashlab.plan.make import DATA, make
from flashlab.plan.value import Plan
from flashlab.plan.watching import WORKFLOW_PID
from flashlab.records import COUNTERS, RecordError, read_record

PARTS = Path("config", "record")
INTERRUPTED = 130


def part_names() -> list[str]:
    """The parts of a dataset, in the order in which they are recorded."""
    return sorted(file.stem for file in PARTS.glob("*.yaml"))


def plan_part(part: str, files: Sequence[Path] = (), given: Iterable[str] = ()) -> Plan:
    """A part of a dataset, with the ``--configfile`` files and ``--config`` of a call laid over it.

    Raises:
        DatasetError: there is no part of this name.
        `call.ERRORS`: as of `make`.
    """
    if part not in (known := part_names()):
        raise DatasetError(
            f"there is no part {part}{nearest(part, known)}; there are {', '.join(known)}, each a "
            f"file in {PARTS}"
        )
    return make(*call.layers_of((), [PARTS / f"{part}.yaml", *files], given))


def lacking(plan: Plan, dataset: str) -> dict[str, bool]:
    """The planned records that a dataset lacks, each with whether it is of counters."""
    folder = dataset_folder(DATA, dataset, find_benchmark(plan.benchmark))
    there = read_dataset(folder).entries if (folder / MANIFEST).exists() else ()
    kept = {entry.path.name for entry in there}
    lacked = (file for file in plan.orders if Path(file).name not in kept)
    return {file: plan.orders[file]["protocol"]["name"] == COUNTERS for file in lacked}


def has_result(path: Path) -> bool:
    """True if a record is there that is not of an error."""
    try:
        return read_record(path).status != "error"
    except RecordError:
        return False


def _snakemake(target: str, plan: Plan, arguments: Sequence[str]) -> int:
    """Make a target with Snakemake, which ends when this process does; its status."""
    cards = len(machine.gpus()) if plan.device == "cuda" else 0
    command = [sys.executable, "-m", "flashlab.terminal", target, "--logger=flashlab"]
    command += ["--cores", str(2 * cards or 1)]
    command += ["--resources", f"gpu={cards}"] if cards else []
    # Snakemake heeds an interrupt, too, and is waited for.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        own = {**os.environ, WORKFLOW_PID: str(os.getpid())}
        return subprocess.run([*command, *arguments], env=own, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def record(
    dataset: str, parts: Sequence[str], options: argparse.Namespace, arguments: Sequence[str]
) -> int:
    """Measure and freeze these parts of a dataset, and pack it; the exit status.

    What the dataset has is left out, so that the same call goes on where one was cut off.

    Raises:
        `call.ERRORS`: a part cannot be planned, or not be frozen under this name; nothing was
            measured.
    """
    given = [f"name={dataset}", "again=blocks", *options.config]
    plans = {part: plan_part(part, options.configfile, given) for part in parts}
    targets, missing = dict[str, str](), list[str]()
    for part, plan in plans.items():
        lacks = lacking(plan, dataset)
        left = sum(file in plan.redo for file in lacks)
        print(f"{part}: {len(lacks)} of {len(plan.orders)} records to keep, {left} to measure")
        for notice in plan.upgrades if left else ():
            print(f"  {notice}")
        if lacks:
            targets[part] = "freeze_counters" if all(lacks.values()) else "freeze"
        missing += lacks
        if targets.get(part) == "freeze":
            check_freezable(plan, dataset)
    if options.dry_run:
        return 0
    for part, target in targets.items():
        print(f"\n{part}: {target}", flush=True)
        files = ["--configfile", str(PARTS / f"{part}.yaml"), *map(str, options.configfile)]
        configured = [*files, "--config", *given, *arguments]
        if _snakemake(target, plans[part], configured) == INTERRUPTED:
            return INTERRUPTED
    if (DATA / dataset).is_dir():
        print(f"{(packed := pack(DATA, dataset))} holds it; elsewhere: tar -xf {packed.name}")
    if failed := [file for file in missing if not has_result(Path(file))]:
        print(f"{len(failed)} records are missing or errors, such as {failed[0]}")
    return int(bool(failed))


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
    except call.ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
