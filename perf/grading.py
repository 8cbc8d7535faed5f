"""How long grading takes: a made class of a hundred submissions of forty files.

The files are the recorded H200's runs by the course's protocol, each submission with a level and a
scatter of its own; every other submission has faults, so that the PDF has something to say.
Usage: python perf/grading.py FOLDER, a fresh clone that may be graded in.
"""

import csv
import json
import random
import subprocess
import sys
import time
from pathlib import Path

SUBMISSIONS, FILES = 100, 40
COLUMNS = ("file", "impl", "batch_size", "seq_len", "num_heads", "emb_dim", "causal")


def course_results(clone: Path) -> list[tuple[dict[str, object], dict[str, object]]]:
    """(run, the four keys) of the dataset's records by protocol lab5."""
    dataset = clone / "data" / "h200"
    manifest = json.loads((dataset / "manifest.json").read_text(encoding="utf-8"))
    found = []
    for entry in manifest["records"]:
        if entry["protocol"]["name"] == "lab5":
            record = json.loads((dataset / entry["file"]).read_text(encoding="utf-8"))
            record.pop("record")
            found.append((entry["run"], record))
    return found


def measured_again(result: dict, level: float, chance: random.Random) -> dict:
    """The same run as another measurement would have it, with all that follows."""
    seconds, flops = {}, {}
    for name in ("forward", "backward"):
        flops[name] = result[name]["time(s)"] * result[name]["FLOPS(TFLOPs/s)"]
        seconds[name] = result[name]["time(s)"] * level * chance.lognormvariate(0, 0.02)
    seconds["forward_backward"] = sum(seconds.values())
    flops["forward_backward"] = sum(flops.values())
    passes = {
        name: {"time(s)": s, "FLOPS(TFLOPs/s)": flops[name] / s} for name, s in seconds.items()
    }
    return {**result, **passes}


def write_class(folder: Path, results: list) -> None:
    """A folder for each submission, every other one with faults."""
    for number in range(SUBMISSIONS):
        chance = random.Random(number)
        own = folder / f"s{number:03}"
        own.mkdir(parents=True)
        level = chance.uniform(1, 1.2)
        rows = []
        for i in range(FILES):
            run, result = results[i % len(results)]
            name = f"{i:02}.json"
            document = measured_again(result, level, chance)
            if number % 2 and i % 5 == 0:
                document["forward"]["time(s)"] *= 0.5
            if number % 2 and i % 5 == 1:
                document["peak_memory_usage(MB)"] += 1
            (own / name).write_text(json.dumps(document, indent=2), encoding="utf-8")
            sizes = [run[key] for key in COLUMNS[2:]]
            rows.append([name, run["implementation"], *map(str, sizes)])
        with (own / "runs.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])


def main(clone: Path) -> None:
    """Make the class, grade it, and print what each part took."""
    folder = clone / "results" / "class"
    write_class(folder, course_results(clone))
    for target in ("report/grades.csv", "report/grades.pdf"):
        command = [sys.executable, "-m", "snakemake", "--cores", "1", target]
        command += ["--config", f"submissions={folder}"]
        begin = time.monotonic()
        subprocess.run(command, cwd=clone, check=True, capture_output=True)
        print(f"{target}: {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
