"""Writes the golden files: what every recorded report says, and the verdicts behind it.

A text is of a report in a language. Read it as a reader reads the report, and read the diff of a
change: nothing else protects a sentence. It holds page one, the sections and the method, as the
HTML page and the PDF have them; not the runs' own tables, versions, dates and ceilings. The
verdicts of a dataset (`golden.verdicts`) hold no sentences: where one changes, the commit that
renews it says why. Renew all, from the repository's root, with:
PYTHONPATH=tests python -m golden.texts
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from golden.verdicts import folded, verdicts_of
from planted import ladder, training
from planted.results import PlantedReport

from flashlab.analysis.experiment import COMPARISONS, OBSERVATIONS
from flashlab.analysis.stage import make_tables
from flashlab.config import Layer, read_layer
from flashlab.files import read_json, write_json
from flashlab.plan.make import make
from flashlab.plan.plan_files import RECORDS
from flashlab.plan.value import Plan
from flashlab.remarks import read_remarks
from flashlab.report.content import compose
from flashlab.report.document import Report
from flashlab.report.render import to_html
from flashlab.story.stage import observe

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
COMMAND = "PYTHONPATH=tests python -m golden.texts"
LANGUAGE_TAGS = {"zh_TW": "zh-TW", "en": "en"}
"""The mark of a page's texts in a language."""

VERDICTS = "verdicts"
"""In place of a language in the name of a golden file: it holds rows in none."""


@dataclass(frozen=True)
class Made:
    """A report of which golden texts are taken: its HTML page, and its verdicts."""

    comparisons: Sequence[Mapping[str, str]]
    html: str

    def texts(self) -> dict[str, str]:
        """The page's text, by language."""
        return {language: read_text(self.html, language) for language in LANGUAGE_TAGS}

    def verdicts(self) -> dict[str, str]:
        """The verdicts, as their only file."""
        return {VERDICTS: verdicts_of(self.comparisons)}

    def files(self) -> dict[str, str]:
        """All golden files of the report, by what is in them."""
        return {**self.texts(), **self.verdicts()}


@dataclass(frozen=True)
class Recorded:
    """The report of a recorded dataset: its configuration files, and what the call gives besides.

    `drawn` names its figures across experiments; whether they can be drawn is tested elsewhere.
    `data` is the folder that holds the dataset, or an archive of it; `remark` are an author's
    words, in ``remark.md``.
    """

    name: str
    base: str
    own: Sequence[str] = ()
    keys: Mapping[str, Any] = field(default_factory=lambda: {"dataset": "h200"})
    drawn: Sequence[str] = ()
    data: Path = ROOT / "data"
    remark: str = ""

    def make(self) -> Made:
        """The report by the stages from the records on, without its pages."""
        with self.results() as (_, home, ceilings):
            return _made(_composed(home, ceilings), home)

    @contextmanager
    def results(self) -> Iterator[tuple[Plan, Path, Path | None]]:
        """A folder of its own with the results up to the observations, and the ceilings."""
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            if self.data.is_dir():
                Path("data").symlink_to(self.data)
            else:
                shutil.unpack_archive(self.data, "data", filter="data")
            if self.remark:
                Path("remark.md").write_text(self.remark, encoding="utf-8")
            plan = make(*self._layers())
            _write_results(plan, self.drawn)
            ceilings = Path(plan.ceilings) if plan.ceilings else None
            yield plan, Path(plan.home), ceilings

    def _layers(self) -> tuple[Layer, list[Layer]]:
        own = [read_layer(ROOT / "config" / file) for file in self.own]
        return read_layer(ROOT / "config" / self.base), [*own, Layer("--config", self.keys)]


@dataclass(frozen=True)
class Planted:
    """The report of planted records."""

    name: str
    report: PlantedReport
    drawn: Sequence[str] = ()

    def make(self) -> Made:
        """The report by the stages from the records on; its pages are not laid out."""
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            home = self.report.write(Path("results", "local"), self.drawn)
            return _made(self.report.compose(home), home)


GOLDEN: Sequence[Recorded | Planted] = (
    Recorded("attention", "config.yaml", drawn=("strips",)),
    Recorded("lab5", "config.yaml", own=("config.yaml",)),
    Recorded("ladder", "ladder.yaml", drawn=("clocks", "profile")),
    Recorded("training", "training.yaml"),
    Recorded("cpu", "config.yaml", keys={"dataset": "cpu"}, data=FOLDER / "cpu.tar.xz"),
    Planted("planted-ladder", ladder.ON_GPU, drawn=("clocks",)),
    Planted("simulated-ladder", ladder.SIMULATED),
    Planted("planted-training", training.REPORT),
)
"""With all implementations, with the lab's two, of the other benchmarks, and of a CPU; of planted
records a simulator, failures and disagreements."""

H100 = {"dataset": "h100"}
OTHER_RECORDED: Sequence[Recorded] = (
    Recorded("h100-attention", "config.yaml", keys=H100),
    Recorded("h100-ladder", "ladder.yaml", keys=H100),
    Recorded("h100-training", "training.yaml", keys=H100),
)
"""The other recorded datasets, of which the verdicts alone are kept."""


def _without_kernels_of_today(document: Any) -> Any:
    """A plan that says nothing of the kernels' present sources, of which a report would tell."""
    return {**document, "sources": {name: {} for name in document["sources"]}}


def _write_results(plan: Plan, drawn: Sequence[str]) -> None:
    """Run the stages from the records to the observations, in the working directory."""
    home = Path(plan.home)
    for name, document in plan.views.items():
        is_of_records = Path(name) == home / RECORDS
        write_json(Path(name), _without_kernels_of_today(document) if is_of_records else document)
    ceilings = Path(plan.ceilings) if plan.ceilings else None
    make_tables(home, ceilings, home / "tables")
    observe(home, ceilings, home / OBSERVATIONS)
    write_json(home / "overview" / "drawn.json", list(drawn))


def config_file(home: Path) -> Path:
    """The resolved configuration."""
    return home / "plan" / "config.json"


def _composed(home: Path, ceilings: Path | None) -> Report:
    config = read_json(config_file(home))
    return compose(config, home, ceilings, read_remarks(config))


def _made(report: Report, home: Path) -> Made:
    """A report as the HTML of its PDF."""
    with home.joinpath(COMPARISONS).open(encoding="utf-8", newline="") as table:
        return Made([*csv.DictReader(table)], to_html(report))


def html_of(home: Path, ceilings: Path | None) -> str:
    """The HTML of the PDF of results."""
    return _made(_composed(home, ceilings), home).html


# From HTML to text

LEFT_OUT = frozenset({"facts"})
"""Classes whose elements have versions, dates, or ceilings."""

UNSEEN = frozenset({"head", "nav", "script", "style", "dialog", "svg"})
VOID = frozenset({"meta", "link", "img", "br", "input"})
LINES = frozenset({"p", "h1", "h2", "h3", "tr", "caption", "figcaption", "li", "dt", "dd"})
CELLS = frozenset({"td", "th"})

_SENTENCE = re.compile(r"(?<=[a-z0-9)\]%×”]\.) (?=[A-Z])|(?<=。)(?=.)")


class _Reader(HTMLParser):
    """The lines of a page that are in a language or in none."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag
        self._skipping: list[str] = []
        self._line = ""
        self.lines: list[str] = []

    def _is_left_out(self, element: str, attributes: Mapping[str, str | None]) -> bool:
        classes = set((attributes.get("class") or "").split())
        language = attributes.get("lang") if element != "html" else None
        other = language not in (None, self._tag)
        return element in UNSEEN or other or bool(classes & LEFT_OUT)

    def handle_starttag(self, element: str, attrs: list[tuple[str, str | None]]) -> None:
        if element in VOID:
            return
        if self._skipping or self._is_left_out(element, dict(attrs)):
            self._skipping.append(element)
            return
        if element in LINES:
            self._end_line()
            self._line = {"h1": "# ", "h2": "## ", "h3": "### "}.get(element, "")
        elif element in CELLS:
            self._line += " | " if self._line else ""

    def handle_endtag(self, element: str) -> None:
        if self._skipping:
            self._skipping.pop()
        elif element in LINES:
            self._end_line()

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._line += data

    def _end_line(self) -> None:
        line = " ".join(self._line.split()).replace("\xa0", " ").strip(" |")
        self._line = ""
        if line.strip("# "):
            self.lines += ["", line, ""] if line[0] == "#" else _SENTENCE.split(line)


def read_text(html: str, language: str) -> str:
    """A page's text in a language, a sentence or a table's row a line."""
    reader = _Reader(LANGUAGE_TAGS[language])
    reader.feed(html)
    text = "\n".join(reader.lines)
    return re.sub("\n{3,}", "\n\n", text).strip() + "\n"


IN_FULL = ("lab5", "cpu")
"""The reports whose verdicts are kept a row each; those of the others are folded."""


def kept(name: str, content: str, text: str) -> str:
    """What a golden file holds of a report's text or verdicts."""
    if content != VERDICTS or name in IN_FULL:
        return text
    return "".join(f"{line}\n" for line in folded(text.splitlines()))


def golden_file(name: str, content: str) -> Path:
    """The file of a report's text in a language, or of its verdicts."""
    return FOLDER / f"{name}.{content}.txt"


def main() -> None:
    """Write the golden files, or those of the names that are given; or print a name's verdicts."""
    files: dict[str, Callable[[], dict[str, str]]] = {
        **{golden.name: lambda golden=golden: golden.make().files() for golden in GOLDEN},
        **{
            golden.name: lambda golden=golden: golden.make().verdicts() for golden in OTHER_RECORDED
        },
    }
    if sys.argv[1:2] == ["--unfold"]:
        print(files[sys.argv[2]]()[VERDICTS], end="")
        return
    for name in sys.argv[1:] or files:
        for content, text in files[name]().items():
            path = golden_file(name, content)
            path.write_text(kept(name, content, text), encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
