"""Behind ``./run record``: the parts of a dataset, each measured and frozen by a call, and packed.

A part is a file in ``config/record/``, laid over the configuration of its benchmark.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from flashlab import machine
from flashlab.config.model import nearest
from flashlab.plan.datasets import DatasetError
from flashlab.plan.freezing import pack
from flashlab.plan.make import DATA
from flashlab.plan.watching import WORKFLOW_PID
from flashlab.records import RecordError, read_record

PARTS = Path("config", "record")
INTERRUPTED = 130


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
