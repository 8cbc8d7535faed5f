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

    from flashlab.calls import recording
    from flashlab.calls.call import PREPARATION_ERRORS
    from flashlab.calls.recording import Part, cards_of, is_counting, part_names
    from flashlab.calls.remaking import BLOCKS
    from flashlab.calls.watching import WORKFLOW_PID
    from flashlab.config import override_layer
    from flashlab.plan.datasets import MANIFEST, DatasetError
    from flashlab.plan.freezing import pack, packed_file
    from flashlab.plan.source import DATA
    from flashlab.terminal.outcomes import read_outcome, status_of
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
    print(f"  {name:<{max(map(len, part_names()))}}  {text}", flush=True)


def _say_left(part: Part) -> float:
    """Print the number of records left of a part; returns the seconds that they take."""
    pace, kinds = recording.paces(part), Counter(map(is_counting, part.left.values()))
    seconds = recording.seconds_left(part, pace)
    says = [
        f"{kinds[kind]}{what} of {pace[kind].seconds:.1f} s each ({pace[kind].source})"
        for kind, what in ((False, ""), (True, " of counters"))
        if kinds[kind]
    ]
    on = "" if part.prepared.device == "cpu" else f" on {cards_of(part)} GPUs"
    on += ", one at a time" if part.prepared.config["alone"] else ""
    left = f"{len(part.left)} of {len(part.records)} records left, about {duration(seconds)}{on}: "
    text = left + ", ".join(says) if says else "is measured, and to be kept"
    uncounted = ", no hardware counters (ncu is not on PATH)" if part.lacks_ncu else ""
    _say(part.name, text + uncounted)
    return seconds


def _say_state(part: Part, dataset: str) -> bool:
    """Print the records of a part that the dataset has; True if it has all, none an error."""
    kept, lacking, total = part.kept_in(dataset), part.lacking_in(dataset), len(part.records)
    if not kept:
        _say(part.name, f"is missing: {total - len(part.left)} of {total} records are measured")
        return False
    statuses = Counter(status_of(read_outcome(path)) for path in kept.values())
    said = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    has = f"lacks {len(lacking)} of {total} records" if lacking else "complete"
    _say(part.name, f"{has} ({said})")
    return not lacking and not statuses["error"]


def _is_packed(dataset: str) -> bool:
    """True if the dataset's archive is newer than its manifests."""
    packed, manifests = packed_file(DATA, dataset), (DATA / dataset).rglob(MANIFEST)
    changed = max((file.stat().st_mtime for file in manifests), default=0.0)
    return changed == 0 or (packed.exists() and packed.stat().st_mtime >= changed)


def _pack(dataset: str) -> bool:
    """Pack the dataset if its archive is older, and say how to unpack it; False if it cannot be."""
    if _is_packed(dataset):
        return True
    try:
        packed = pack(DATA, dataset)
    except DatasetError as error:
        print(f"error: {error}", file=sys.stderr)
        return False
    size = f"{packed.stat().st_size / 2**20:.1f} MiB"
    then = f"In another clone: tar -xf {packed.name}"
    print(f"{packed} ({size}) holds {DATA / dataset} as it is now. {then}")
    return True


def _snakemake(target: str, part: Part, configured: Sequence[str]) -> int:
    """Make a target of a part with Snakemake, which ends when this process does; its status."""
    on_gpu, cards = part.prepared.device == "cuda", cards_of(part)
    cores = (
        ["--cores", str(2 * cards), "--resources", f"gpu={cards}"] if on_gpu else ["--cores", "1"]
    )
    command = [sys.executable, "-m", "flashlab.terminal", target, "--logger=flashlab", *cores]
    print(f"\n{part.name}: {target}", flush=True)
    interrupts: list[int] = []  # Snakemake heeds them too, and is waited for
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        own = {**os.environ, WORKFLOW_PID: str(os.getpid())}
        status = subprocess.run([*command, *configured], env=own, check=False).returncode
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
        laid_over = (options.configfile, own) if name in names else ()
        return recording.plan_part(name, *laid_over)

    print(f"What is left of {DATA / dataset}:", flush=True)
    parts = [plan(name) for name in names]
    missing = {part.name: part for part in parts if part.lacking_in(dataset)}
    for name in (part.name for part in parts if part.name not in missing):
        _say(name, "is recorded")
    seconds = sum(map(_say_left, missing.values()))
    print(f"About {duration(seconds)} of measuring in all.", flush=True)
    targets = dict.fromkeys(missing, "freeze")
    for name, part in missing.items():
        if all(map(is_counting, part.lacking_in(dataset).values())):
            targets[name] = "freeze_counters"
        else:
            recording.check_freezable(part.prepared, dataset)
    if options.dry_run:
        return 0
    for name, part in missing.items():
        files = [f"config/record/{name}.yaml", *map(str, options.configfile)]
        configured = ["--configfile", *files, "--config", *given, *arguments]
        if _snakemake(targets[name], part, configured) == INTERRUPTED:
            return INTERRUPTED
        _pack(dataset)
    print(f"\n{DATA / dataset}:", flush=True)
    complete = {name: _say_state(plan(name), dataset) for name in part_names()}
    return 0 if _pack(dataset) and all(complete[name] for name in names) else 1


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
