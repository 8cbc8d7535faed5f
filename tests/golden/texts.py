"""Writes the golden files: what every recorded report says, and the verdicts behind it.

A text is of a report in a language. Read it as a reader reads the report, and read the diff of a
change: nothing else protects a sentence. It holds page one, the sections and the method, as the
HTML page and the PDF have them; not the runs' own tables, versions, dates and ceilings. Verdicts
are the rows of a dataset's comparisons, ``experiment | compared | variant | metric | subject |
reference | value | verdict | ratio``, the ratio to three digits, and without a value where it is
pooled; where one changes, the commit that renews it says why. Of a dataset with many, a file holds
how many of each metric have which verdict, and a digest of its rows, by experiment: `--unfold NAME`
prints them. Renew all, from the repository's root, with:
PYTHONPATH=tests python -m golden.texts
"""

from __future__ import annotations

import csv
import hashlib
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.etree.ElementTree import Element

from planted import ladder, training
from planted.results import PlantedReport
from tinyhtml5.parser import HTMLParser

from flashlab.analysis.experiment import COMPARISONS, OBSERVATIONS
from flashlab.analysis.stage import make_tables
from flashlab.config import Layer, read_layer
from flashlab.files import read_json, write_json
from flashlab.labels import LANGUAGES
from flashlab.plan.make import make
from flashlab.plan.plan_files import CONFIG, RECORDS
from flashlab.remarks import read_remarks
from flashlab.report.content import compose
from flashlab.report.render import to_html
from flashlab.story.stage import observe

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
COMMAND = "PYTHONPATH=tests python -m golden.texts"
VERDICTS = "verdicts"
"""In place of a language in the name of a golden file: it holds rows in none."""


@dataclass(frozen=True)
class Golden:
    """A report of which texts and verdicts are kept: of a recorded dataset, or of planted records.

    `base` is the planted report; or else the recorded one's configuration file, with `own` files
    over it, and `dataset` its dataset, of `data/` or of an archive here. `drawn` names its figures
    across experiments; whether they can be drawn is tested elsewhere.
    """

    name: str
    base: str | PlantedReport
    own: Sequence[str] = ()
    dataset: str = "h200"
    drawn: Sequence[str] = ()

    @contextmanager
    def results(self) -> Iterator[tuple[Path, Path | None]]:
        """A folder of its own with the results up to the observations; they, and the ceilings."""
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            if isinstance(self.base, PlantedReport):
                home, ceilings = Path("results", "local"), None
                self.base.write(home, self.drawn)
            else:
                home, ceilings = self._write(self.base)
            yield home, ceilings

    def _write(self, base: str) -> tuple[Path, Path | None]:
        """Run the stages from the records to the observations, in the working directory."""
        if (packed := FOLDER / f"{self.dataset}.tar.xz").exists():
            shutil.unpack_archive(packed, "data", filter="data")
        else:
            Path("data").symlink_to(ROOT / "data")
        first, *own = (read_layer(ROOT / "config" / file) for file in (base, *self.own))
        plan = make(first, [*own, Layer("--config", {"dataset": self.dataset})])
        home, ceilings = Path(plan.home), Path(plan.ceilings) if plan.ceilings else None
        for name, document in plan.views.items():
            if Path(name) == home / RECORDS:
                # Nothing of the kernels' present sources, of which a report would tell.
                document = {**document, "sources": {name: {} for name in document["sources"]}}
            write_json(Path(name), document)
        make_tables(home, ceilings, home / "tables")
        observe(home, ceilings, home / OBSERVATIONS)
        write_json(home / "overview" / "drawn.json", list(self.drawn))
        return home, ceilings

    def contents(self) -> dict[str, str]:
        """What the report says, by language, and its verdicts, a row each."""
        with self.results() as (home, ceilings):
            html = html_of(home, ceilings)
            with home.joinpath(COMPARISONS).open(encoding="utf-8", newline="") as table:
                rows = "".join(map(verdict_of, csv.DictReader(table)))
        return {**{each: read_text(html, each) for each in LANGUAGES}, VERDICTS: rows}

    def files(self) -> dict[Path, str]:
        """Its golden files, each with what it is to hold."""
        found = self.contents()
        if self.name not in IN_FULL:
            found[VERDICTS] = folded(found[VERDICTS])
        kept = found if self in GOLDEN else (VERDICTS,)
        return {FOLDER / f"{self.name}.{each}.txt": found[each] for each in kept}


GOLDEN = (
    Golden("attention", "config.yaml", drawn=("strips",)),
    Golden("lab5", "config.yaml", own=("config.yaml",)),
    Golden("ladder", "ladder.yaml", drawn=("clocks", "profile")),
    Golden("training", "training.yaml"),
    Golden("cpu", "config.yaml", dataset="cpu"),
    Golden("planted-ladder", ladder.ON_GPU, drawn=("clocks",)),
    Golden("simulated-ladder", ladder.SIMULATED),
    Golden("planted-training", training.REPORT),
)
"""With all implementations, with the lab's two, of the other benchmarks, and of a CPU; of planted
records a simulator, failures and disagreements."""

OTHER_RECORDED = tuple(
    Golden(f"h100-{name}", f"{base}.yaml", dataset="h100")
    for name, base in (("attention", "config"), ("ladder", "ladder"), ("training", "training"))
)
"""The other recorded datasets, of which the verdicts alone are kept."""


def html_of(home: Path, ceilings: Path | None) -> str:
    """The HTML of the PDF of results."""
    config = read_json(home / CONFIG)
    return to_html(compose(config, home, ceilings, read_remarks(config)))


COLUMNS = ("compared", "variant", "metric", "subject", "reference", "value", "verdict")
IN_FULL = ("lab5", "cpu")
"""The reports whose verdicts are kept a row each; those of the others are folded."""


def verdict_of(row: dict[str, str]) -> str:
    """The line of a comparison."""
    cells = [row["experiment"] or "all", *(row[name] for name in COLUMNS)]
    return " | ".join([*cells, f"{float(row['ratio']):.3g}\n"])


def folded(rows: str) -> str:
    """For each experiment, its metrics' counts by verdict, and the digest of its rows."""
    lines: list[str] = []
    for experiment, group in groupby(rows.splitlines(), lambda row: row.partition(" | ")[0]):
        own = [*group]
        digest = hashlib.sha256("\n".join(own).encode()).hexdigest()[:16]
        lines.append(f"{experiment} | {digest}")
        cells = [row.split(" | ") for row in own]
        counts = sorted(Counter((cell[3], cell[7]) for cell in cells).items())
        lines += [f"  {metric} | {verdict} | {count}" for (metric, verdict), count in counts]
    return "".join(f"{line}\n" for line in lines)


# From HTML to text

LEFT_OUT = "facts"
"""The class of elements with versions, dates, or ceilings."""

UNSEEN = frozenset({"head", "nav", "script", "style", "dialog", "svg"})
HEADINGS = {"h1": "# ", "h2": "## ", "h3": "### "}
LINES = frozenset({*HEADINGS, "p", "tr", "caption", "figcaption", "li", "dt", "dd"})
SENTENCE = re.compile(r"(?<=[a-z0-9)\]%×”]\.) (?=[A-Z])|(?<=。)(?=.)")


def _tokens(node: Element, tag: str) -> Iterator[str]:
    """What stands in an element, in a language or in none: line feeds, and bars between cells."""
    name = str(node.tag).rpartition("}")[2]
    other = name != "html" and node.get("lang") not in (None, tag)
    if name not in UNSEEN and not other and LEFT_OUT not in node.get("class", "").split():
        yield "\n" * (name in LINES) + HEADINGS.get(name, " | " * (name in ("td", "th")))
        yield (node.text or "").replace("\n", " ")
        for child in node:
            yield from _tokens(child, tag)
            yield (child.tail or "").replace("\n", " ")
        yield "\n" * (name in LINES)


def read_text(html: str, language: str) -> str:
    """A page's text in a language, a sentence or a table's row a line."""
    page = HTMLParser(namespace_html_elements=False).parse(html)
    found: list[str] = []
    for line in "".join(_tokens(page, language.replace("_", "-"))).split("\n"):
        line = " ".join(line.split()).strip(" |")
        if line.strip("# "):
            found += ["", line, ""] if line[0] == "#" else SENTENCE.split(line)
    return re.sub("\n{3,}", "\n\n", "\n".join(found)).strip() + "\n"


def main() -> None:
    """Write the golden files, or those of the names that are given; or print a name's verdicts."""
    named = {golden.name: golden for golden in (*GOLDEN, *OTHER_RECORDED)}
    if sys.argv[1:2] == ["--unfold"]:
        print(named[sys.argv[2]].contents()[VERDICTS], end="")
        return
    for name in sys.argv[1:] or named:
        for path, text in named[name].files().items():
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
