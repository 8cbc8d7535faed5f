"""How long grading takes: a made class of a hundred submissions of the lab's 36 files.

The files are the recorded H200's runs by the course's protocol, each submission with a level and a
scatter of its own, declared without a device; every other one has faults, of which the PDF tells.
Usage: PYTHONPATH=workflow:tests python perf/grading.py FOLDER, a fresh clone that may be graded in.
"""

import math
import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from planted.classes import MEMORY, lab

SUBMISSIONS = 100


def write_class(folder: Path) -> None:
    """A folder for each submission, every other one with faults."""
    for number in range(SUBMISSIONS):
        chance = random.Random(number)
        level = math.log(chance.uniform(1, 1.2))
        own = lab().measured(partial(chance.lognormvariate, level, 0.02))
        documents = [*own.documents.values()]
        for slowed, held in zip(documents[::5], documents[1::5], strict=False):
            slowed["forward"]["time(s)"] *= 0.5 if number % 2 else 1
            held[MEMORY] += number % 2
        own.without_names()
        own.name_device("")
        own.write(folder / f"s{number:03}")


def main(clone: Path) -> None:
    """Make the class, grade it, and print what that took."""
    folder = clone / "results" / "class"
    write_class(folder)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "report/grades.pdf"]
    command += ["--config", f"submissions={folder}"]
    begin = time.monotonic()
    subprocess.run(command, cwd=clone, check=True, capture_output=True)
    print(f"report/grades.pdf: {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
