"""Plants faults, one at a time in a copy of the project, and says which the tests catch.

Each fault in `faults.toml` breaks a module that decides something. One that the named tests do not
catch is a place where nothing protects the report: write the test that it lacks. By hand, from the
repository's root, before and after tests are removed or rewritten:

    .venv/bin/python tests/faults.py                  all, a few seconds each
    .venv/bin/python tests/faults.py ratio copies     those whose names hold one of these words
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
FAULTS = Path(__file__).with_suffix(".toml")
AT_ONCE = 2
PYTEST = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-seed=0")
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """An entry of the list: one edit of a module that makes it wrong, and who should say so."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: Sequence[str]


def read_faults() -> list[Fault]:
    """The list, in its order."""
    document = tomllib.loads(FAULTS.read_text(encoding="utf-8"))
    return [Fault(name=name, **keys) for name, keys in document.items()]


def problem_of(fault: Fault) -> str | None:
    """Why a fault cannot be planted."""
    path = ROOT / "workflow" / fault.file
    if not path.is_file():
        return f"there is no {path}"
    if (count := path.read_text(encoding="utf-8").count(fault.old)) != 1:
        return f"{path} holds its text {count} times instead of once"
    for name in fault.tests:
        file, _, test = name.partition("::")
        if not (ROOT / "tests" / file).exists():
            return f"tests/{file} is missing"
        if test and f"def {test.partition('[')[0]}(" not in (ROOT / "tests" / file).read_text(
            "utf-8"
        ):
            return f"tests/{file} has no {test}"
    return None


def copy_project(folder: Path) -> None:
    """The files of a clone of the working tree, compiled."""
    folder.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    names = [name for name in map(os.fsdecode, listed.stdout.split(b"\0")) if name]
    present = [name for name in names if ROOT.joinpath(name).exists()]
    subprocess.run(["cp", "--parents", "-P", "--", *present, folder], cwd=ROOT, check=True)
    subprocess.run(["git", "init", "-q", folder], check=True)  # some tests list what git knows
    command = [sys.executable, "-m", "compileall", "-q", "workflow", "tests", "kernels"]
    subprocess.run(command, cwd=folder, check=True)


def run_tests(
    project: Path, temporary: str, tests: Sequence[str], *options: str
) -> tuple[list[str], str]:
    """Which tests fail in a copy of the project, and the last line that pytest prints."""
    done = subprocess.run(
        [sys.executable, *PYTEST, *options, *tests],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "workflow"), "TMPDIR": temporary},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return FAILED.findall(done.stdout), done.stdout.strip().rpartition("\n")[2]


def try_fault(project: Path, fault: Fault) -> tuple[Fault, float, str | None, str]:
    """Run a fault's tests on a copy of the project that has it, until one fails.

    The fault, the seconds that it took, the test that fails, and pytest's last line.
    """
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fault-") as temporary:
        folder = Path(temporary, "project")
        subprocess.run(["cp", "-al", project, folder], check=True)
        module = folder / "workflow" / fault.file
        text = module.read_text(encoding="utf-8")
        module.unlink()  # a link to the project's own
        module.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        os.utime(module, (0, 0))  # or one compiled in the same second could stand for it
        tests = [f"tests/{name}" for name in fault.tests]
        failed, said = run_tests(folder, temporary, tests, "-x")
    return fault, time.monotonic() - begin, failed[0] if failed else None, said


def main(words: Sequence[str]) -> int:
    """Try the faults whose names hold one of these words, all without any; 1 if one is missed."""
    if find_spec("pytest") is None:  # else each fault would be missed
        print("there is no pytest here: ./run test installs what tests need", file=sys.stderr)
        return 2
    faults = [f for f in read_faults() if not words or any(word in f.name for word in words)]
    if not faults:
        print(f"no fault has {' or '.join(words)} in its name", file=sys.stderr)
        return 2
    if problems := [f"{f.name}: {found}" for f in faults if (found := problem_of(f))]:
        print(*problems, sep="\n", file=sys.stderr)
        return 2
    caught: dict[str, str | None] = {}
    with (
        tempfile.TemporaryDirectory(prefix="faults-") as temporary,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        project = Path(temporary, "project")
        copy_project(project)
        waiting = [pool.submit(try_fault, project, fault) for fault in faults]
        for number, done in enumerate(as_completed(waiting), start=1):
            fault, seconds, caught[fault.name], said = done.result()
            verdict = "caught" if caught[fault.name] else "MISSED"
            print(f"{number:3}/{len(faults)} {verdict} {seconds:4.0f} s  {fault.name}")
            print(f"{'':8}{caught[fault.name] or said}", flush=True)
        print("The tests that caught them, without any fault ...", flush=True)
        tests = sorted({test for test in caught.values() if test})
        unsound = run_tests(project, temporary, tests)[0] if tests else []
    missed = [fault for fault in faults if caught[fault.name] in (None, *unsound)]
    for fault in missed:
        test = caught[fault.name]
        why = f"; {test} fails without it, too" if test else ""
        print(f"missed: {fault.name}: {fault.breaks} ({fault.file}){why}")
    print(f"{len(faults) - len(missed)} of {len(faults)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
