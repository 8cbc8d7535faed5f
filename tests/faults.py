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
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
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
    document = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [Fault(name=name, **keys) for name, keys in document.items()]


def problem_of(fault: Fault) -> str | None:
    """Why a fault cannot be planted."""
    path = ROOT / "workflow" / fault.file
    if not path.is_file():
        return f"{fault.name}: there is no {path}"
    if (count := path.read_text(encoding="utf-8").count(fault.old)) != 1:
        return f"{fault.name}: {path} holds its text {count} times instead of once"
    for name in fault.tests:
        file, _, test = name.partition("::")
        path = ROOT / "tests" / file
        if not path.exists() or (test and f"def {test.partition('[')[0]}(" not in path.read_text()):
            return f"{fault.name}: tests/{name} is missing"
    return None


def copy_project(folder: Path) -> None:
    """The files of a clone of the working tree, compiled."""
    folder.mkdir()
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    names = [name for name in map(os.fsdecode, listed.split(b"\0")) if name]
    present = [name for name in names if ROOT.joinpath(name).exists()]
    subprocess.run(["cp", "--parents", "-P", "--", *present, folder], cwd=ROOT, check=True)
    subprocess.run(["git", "init", "-q", folder], check=True)  # some tests list what git knows
    compiling = [sys.executable, "-m", "compileall", "-q", "workflow", "tests", "kernels"]
    subprocess.run(compiling, cwd=folder, check=True)


def run_tests(project: Path, temporary: str, *arguments: str) -> tuple[list[str], str]:
    """Which tests fail in a copy of the project, and the last line that pytest prints."""
    done = subprocess.run(
        [sys.executable, *PYTEST, *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "workflow"), "TMPDIR": temporary},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return FAILED.findall(done.stdout), done.stdout.strip().rpartition("\n")[2]


def try_fault(project: Path, fault: Fault) -> tuple[Fault, str | None, str]:
    """Run a fault's tests on a copy of the project that has it, until one fails.

    The fault, the test that fails, and pytest's last line.
    """
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary, "project")
        subprocess.run(["cp", "-al", project, folder], check=True)
        module = folder / "workflow" / fault.file
        text = module.read_text(encoding="utf-8")
        module.unlink()  # a link to the project's own
        module.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        os.utime(module, (0, 0))  # or one compiled in the same second could stand for it
        tests = [f"tests/{name}" for name in fault.tests]
        failed, said = run_tests(folder, temporary, "-x", *tests)
    return fault, failed[0] if failed else None, said


def main(words: Sequence[str]) -> int:
    """Try the faults whose names hold one of these words, all without any; 1 if one is missed."""
    faults = [f for f in read_faults() if not words or any(word in f.name for word in words)]
    problems = [found for fault in faults if (found := problem_of(fault))]
    if find_spec("pytest") is None:  # else each fault would be missed
        problems.append("there is no pytest here: ./run test installs what tests need")
    if problems or not faults:
        print(*problems or ["no fault has such a name"], sep="\n", file=sys.stderr)
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
            fault, test, said = done.result()
            caught[fault.name] = test
            print(f"{number:3}/{len(faults)} {'caught' if test else 'MISSED'} {fault.name}")
            print(f"{'':8}{test or said}", flush=True)
        print("The tests that caught them, without any fault ...", flush=True)
        tests = sorted({test for test in caught.values() if test})
        unsound = run_tests(project, temporary, *tests)[0] if tests else []
    missed = [fault for fault in faults if caught[fault.name] in (None, *unsound)]
    for fault in missed:
        test = caught[fault.name]
        why = f"; {test} fails without it, too" if test else ""
        print(f"missed: {fault.name}: {fault.breaks} ({fault.file}){why}")
    print(f"{len(faults) - len(missed)} of {len(faults)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
