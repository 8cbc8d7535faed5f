"""Published results, as sources of copies: recorded datasets, and the result on the slides."""

from __future__ import annotations

import glob
import json
from collections import defaultdict
from contextlib import suppress
from pathlib import Path, PurePosixPath

from flashlab.lab5.results import Result, result_of
from flashlab.plan.datasets import DatasetError, read_dataset
from flashlab.untrusted import UnsoundFileError, parse_json
from flashlab_grading.copies import Compared, compared_of

SLIDES = "the course's slides"
ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"


def is_shipped(path: str, content: bytes) -> bool:
    """True for a file of the project itself, by its place below the project and its bytes.

    A record attached to a report is, by its name and what it holds, that of a shipped dataset.
    """
    parts = PurePosixPath(path).parts
    is_attached = len(parts) > 1 and parts[-2].lower().endswith(".pdf")
    places = [ROOT.joinpath(*parts[i:]) for i, p in enumerate(parts) if p in ("data", "tests")]
    places += DATA.glob(f"*/records/{glob.escape(parts[-1])}") if is_attached else []
    for place in places:
        with suppress(OSError, ValueError):  # there is none of that name, or no file can have it
            own = place.read_bytes()
            if content == (json.dumps(json.loads(own)).encode() if is_attached else own):
                return True
    return False


def recorded_results(data: Path = DATA) -> dict[str, Compared]:
    """The results in each recorded dataset, by ``data/NAME (PROTOCOL)``, and that of the slides.

    Each protocol is a source of its own, because a run was measured by each.
    """
    files = [(SLIDES, path) for path in data.glob("published/slide.json")]
    for manifest in sorted(data.glob("*/manifest.json")):
        with suppress(DatasetError):  # a damaged dataset stops the pipeline, not the grading
            own = read_dataset(manifest.parent)
            files += [(f"data/{own.name} ({e.protocol['name']})", e.path) for e in own.entries]
    found: dict[str, list[Result]] = defaultdict(list)
    for name, path in files:
        with suppress(OSError, UnsoundFileError):
            result = result_of(parse_json(path.read_bytes()), path.name, path.name, "")
            if result and result.status == "ok":
                found[name].append(result)
    return {name: compared_of(results) for name, results in found.items()}
