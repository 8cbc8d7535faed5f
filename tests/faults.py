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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, STDOUT

ROOT = Path(__file__).parents[1]
AT_ONCE = 2
PYTEST = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-seed=0")
PYTEST += ("-m", "")  # scheduled ones, too
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

    def problem(self) -> str | None:
        """Why it cannot be planted."""
        module = ROOT / "workflow" / self.file
        count = module.read_text("utf-8").count(self.old) if module.is_file() else 0
        if count != 1:
            return f"{self.name}: {module} holds its text {count} times instead of once"
        for file, _, test in (name.partition("::") for name in self.tests):
            path, function = ROOT / "tests" / file, f"def {test.partition('[')[0]}("
            if not path.exists() or (test and function not in path.read_text("utf-8")):
                return f"{self.name}: there is no tests/{file} {test}"
        return None


def read_faults() -> list[Fault]:
    """The list, in its order."""
    document = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [Fault(name=name, **keys) for name, keys in document.items()]


def copy_project(folder: Path) -> None:
    """The files of a clone of the working tree, compiled."""
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.check_output(command, cwd=ROOT).split(b"\0")
    names = [name for name in map(os.fsdecode, listed) if name and (ROOT / name).exists()]
    subprocess.run(["git", "init", "-q", folder], check=True)  # some tests list what git knows
    subprocess.run(["cp", "--parents", "-P", "--", *names, folder], cwd=ROOT, check=True)
    compiling = [sys.executable, "-m", "compileall", "-q", "workflow", "tests", "kernels"]
    subprocess.run(compiling, cwd=folder, check=True)


def run_tests(project: Path, *arguments: str) -> tuple[list[str], str]:
    """Which tests fail in a copy of the project, and the last line that pytest prints."""
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as temporary:
        env = os.environ | {"PYTHONPATH": str(project / "workflow"), "TMPDIR": temporary}
        command = [sys.executable, *PYTEST, *arguments]
        said = subprocess.run(
            command, cwd=project, env=env, stdout=PIPE, stderr=STDOUT, text=True
        ).stdout
    return FAILED.findall(said), said.strip().rpartition("\n")[2]


def first_failure(project: Path, fault: Fault) -> str | None:
    """Which of a fault's tests fails in a copy of the project that has it; both are told."""
    with tempfile.TemporaryDirectory(prefix="planted-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary, "project")
        subprocess.run(["cp", "-al", project, folder], check=True)
        module = folder / "workflow" / fault.file
        text = module.read_text(encoding="utf-8")
        module.unlink()  # a link to the project's own
        module.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        os.utime(module, (0, 0))  # or one compiled in the same second could stand for it
        failed, said = run_tests(folder, "-x", *(f"tests/{name}" for name in fault.tests))
    says = f"{'caught' if failed else 'MISSED'} {fault.name}\n        {[*failed, said][0]}"
    print(says, flush=True)
    return failed[0] if failed else None


def main(words: Sequence[str]) -> int:
    """Try the faults whose names hold one of these words, all without any; 1 if one is missed."""
    faults = [f for f in read_faults() if not words or any(word in f.name for word in words)]
    problems = [problem for fault in faults if (problem := fault.problem())]
    if find_spec("pytest") is None:  # else each fault would be missed
        problems.append("there is no pytest here: ./run test installs what tests need")
    if problems or not faults:
        print(*problems or ["no fault has such a name"], sep="\n", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        project = Path(temporary, "project")
        copy_project(project)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            caught_by = list(pool.map(lambda fault: first_failure(project, fault), faults))
        print("The tests that caught them, without any fault ...", flush=True)
        tests = sorted({test for test in caught_by if test})
        unsound = run_tests(project, *tests)[0] if tests else []
    tried = zip(faults, caught_by, strict=True)
    missed = [(fault, test) for fault, test in tried if test in (None, *unsound)]
    for fault, test in missed:
        why = f"; {test} fails without it, too" if test else ""
        print(f"missed: {fault.name}: {fault.breaks} ({fault.file}){why}")
    print(f"{len(faults) - len(missed)} of {len(faults)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
