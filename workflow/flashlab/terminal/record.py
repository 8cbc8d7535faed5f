"""Behind ``./run record``: a dataset part by part, each by a call of Snakemake, and packed.

It prints the records that are left before it measures, and those that are missing at the end.
"""

from __future__ import annotations

import sys

try:
    import argparse
    import os
    import signal
    import subprocess
    from collections import Counter
    from collections.abc import Sequence
    from pathlib import Path

    from flashlab.calls.call import PREPARATION_ERRORS
    from flashlab.calls.recording import (
        Part,
        cards_of,
        check_freezable,
        is_counting,
        paces,
        part_names,
        plan_part,
        seconds_left,
    )
    from flashlab.calls.remaking import BLOCKS
    from flashlab.calls.watching import WORKFLOW_PID
    from flashlab.config import override_layer
    from flashlab.plan.datasets import MANIFEST, DatasetError
    from flashlab.plan.freezing import pack, packed_file
    from flashlab.plan.source import DATA
    from flashlab.terminal.outcomes import read_outcome
    from flashlab.terminal.progress import duration
except KeyboardInterrupt:
    sys.exit(130)

INTERRUPTED = 130


def _parser() -> argparse.ArgumentParser:
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
    return parser


def _say(name: str, text: str) -> None:
    """Print one line about a part, ahead of Snakemake's output."""
    width = max(map(len, part_names()))
    print(f"  {name:<{width}}  {text}", flush=True)


def _say_left(part: Part) -> float:
    """Print the number of records left of a part; returns the seconds that they take."""
    pace = paces(part)
    seconds = seconds_left(part, pace)
    kinds = Counter(is_counting(order) for order in part.left.values())
    says = [
        f"{kinds[kind]}{what} of {pace[kind].seconds:.1f} s each ({pace[kind].source})"
        for kind, what in ((False, ""), (True, " of counters"))
        if kinds[kind]
    ]
    cards = "" if part.prepared.device == "cpu" else f" on {cards_of(part)} GPUs"
    alone = ", one at a time" if part.prepared.config["alone"] else ""
    counted = ", no hardware counters (ncu is not on PATH)" if part.lacks_ncu else ""
    left = f"{len(part.left)} of {len(part.records)} records left"
    _say(
        part.name,
        f"{left}, about {duration(seconds)}{cards}{alone}: {', '.join(says)}{counted}"
        if part.left
        else f"is measured, and to be kept{counted}",
    )
    return seconds


def _say_state(part: Part, dataset: str) -> bool:
    """Print the records of a part that the dataset has; True if it has all, none an error."""
    kept, lacking = part.kept_in(dataset), part.lacking_in(dataset)
    if not kept:
        done = len(part.records) - len(part.left)
        _say(part.name, f"is missing: {done} of {len(part.records)} records are measured")
        return False
    statuses = Counter(read_outcome(path)[1].status for path in kept.values())
    said = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    has = f"lacks {len(lacking)} of {len(part.records)} records" if lacking else "complete"
    _say(part.name, f"{has} ({said})")
    return not lacking and not statuses["error"]


def _is_packed(dataset: str) -> bool:
    """True if the dataset's archive is newer than its manifests."""
    packed, manifests = packed_file(DATA, dataset), (DATA / dataset).rglob(MANIFEST)
    changed = max((file.stat().st_mtime for file in manifests), default=0.0)
    return changed == 0 or (packed.exists() and packed.stat().st_mtime >= changed)


def _pack(dataset: str) -> bool:
    """Pack the dataset, and print how to unpack it; False if it cannot be packed."""
    try:
        packed = pack(DATA, dataset)
    except DatasetError as error:
        print(f"error: {error}", file=sys.stderr)
        return False
    size = packed.stat().st_size / 2**20
    print(
        f"{packed} ({size:.1f} MiB) holds {DATA / dataset} as it is now. "
        f"In another clone: tar -xf {packed.name}"
    )
    return True


def _snakemake(target: str, part: Part, configured: Sequence[str]) -> int:
    """Make a target of a part with Snakemake, which ends when this process does; its status."""
    cards = cards_of(part)
    on_gpus = ["--cores", str(2 * cards), "--resources", f"gpu={cards}"]
    command = [
        *(sys.executable, "-m", "flashlab.terminal", target, "--logger=flashlab"),
        *(on_gpus if part.prepared.device == "cuda" else ["--cores", "1"]),
        *configured,
    ]
    print(f"\n{part.name}: {target}", flush=True)
    interrupts: list[int] = []  # Snakemake heeds them too, and is waited for
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        own = {**os.environ, WORKFLOW_PID: str(os.getpid())}
        status = subprocess.run(command, env=own, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return INTERRUPTED if interrupts else status


def record(
    dataset: str, names: Sequence[str], options: argparse.Namespace, arguments: Sequence[str]
) -> int:
    """Record the rest of these parts of a dataset, and pack it; the exit status.

    Raises:
        `PREPARATION_ERRORS`: a part cannot be planned, or not be frozen under this name.
    """
    given = [f"name={dataset}", f"again={BLOCKS}", *options.config]
    own = override_layer(given)

    def plan(name: str) -> Part:
        """A part as it is now; the call's own keys apply to the parts that it records."""
        return plan_part(name, options.configfile, own) if name in names else plan_part(name)

    folder = DATA / dataset
    print(f"What is left of {folder}:", flush=True)
    parts = [plan(name) for name in names]
    missing = [part for part in parts if part.lacking_in(dataset)]
    for part in parts:
        if part not in missing:
            _say(part.name, "is recorded")
    print(f"About {duration(sum(map(_say_left, missing)))} of measuring in all.", flush=True)
    targets = {}
    for part in missing:
        only_counters = all(map(is_counting, part.lacking_in(dataset).values()))
        targets[part.name] = "freeze_counters" if only_counters else "freeze"
        if not only_counters:
            check_freezable(part.prepared, dataset)
    if options.dry_run:
        return 0
    for part in missing:
        files = [f"config/record/{part.name}.yaml", *map(str, options.configfile)]
        configured = ["--configfile", *files, "--config", *given, *arguments]
        if _snakemake(targets[part.name], part, configured) == INTERRUPTED:
            return INTERRUPTED
        if not _is_packed(dataset):
            _pack(dataset)
    print(f"\n{folder}:", flush=True)
    complete = {name: _say_state(plan(name), dataset) for name in part_names()}
    is_packed = _is_packed(dataset) or _pack(dataset)
    return 0 if is_packed and all(complete[name] for name in names) else 1


def main(words: Sequence[str]) -> int:
    """Run the command line; the exit status, 2 where it is not understood."""
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    (dataset, *names), parser = words[:first] or [""], _parser()
    options, arguments = parser.parse_known_args(words[first:])
    if not dataset:
        parser.error("say under which name, as in: ./run record h100")
    try:
        return record(dataset, names or part_names(), options, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except PREPARATION_ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
