"""Published results, as sources of copies: recorded datasets, and the result on the slides."""

from __future__ import annotations

import glob
import json
from collections import defaultdict
from contextlib import suppress
from pathlib import Path, PurePosixPath

from flashlab.course import declaration
from flashlab.course.declaration import Declaration
from flashlab.course.results import NotMeasuredError, read_result
from flashlab.course.words import FLASH2
from flashlab.plan.datasets import DatasetError, read_dataset
from flashlab.untrusted import UnsoundFileError
from flashlab_grading.files import REPORT
from flashlab_grading.model import Result

SLIDES = "the course's slides"
SLIDE = Declaration("record", FLASH2, 32, 1024, 32, 2048, False, "NVIDIA GeForce RTX 3070")

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
SHIPPED = ("data", "tests")  # where results lie


def is_shipped(path: str, content: bytes) -> bool:
    """True for a file of the project itself, by its place below the project and its bytes.

    A record attached to a report is, by its name and what it holds, that of a shipped dataset.
    """
    parts = PurePosixPath(path).parts
    is_attached = len(parts) > 1 and parts[-2].lower().endswith(REPORT)
    places = [ROOT.joinpath(*parts[i:]) for i, part in enumerate(parts) if part in SHIPPED]
    if is_attached:
        places += DATA.glob(f"*/records/{glob.escape(parts[-1])}")
    for place in places:
        with suppress(OSError, ValueError):  # there is none of that name, or no file can have it
            own = place.read_bytes()
            if content == (json.dumps(json.loads(own)).encode() if is_attached else own):
                return True
    return False


def recorded_results(data: Path = DATA) -> dict[str, list[Result]]:
    """The results in each recorded dataset, by ``data/NAME (PROTOCOL)``, and that of the slides.

    Each protocol is a source of its own, because a run was measured by each.
    """
    found: dict[str, list[Result]] = defaultdict(list)
    for manifest in sorted(data.glob("*/manifest.json")):
        try:
            dataset = read_dataset(manifest.parent)
        except DatasetError:
            continue  # a damaged dataset stops the pipeline, not the grading
        for entry in dataset.entries:
            try:
                read = read_result(entry.path.read_bytes())
            except (OSError, UnsoundFileError, NotMeasuredError):
                continue
            stated = declaration.of_record(read.claim) if read.claim else Declaration("record")
            name = f"data/{dataset.name} ({entry.protocol['name']})"
            found[name].append(Result.of(entry.path.name, read, stated))
    slide = data / "published" / "slide.json"
    if slide.exists():
        found[SLIDES].append(Result.of(slide.name, read_result(slide.read_bytes()), SLIDE))
    return dict(found)
