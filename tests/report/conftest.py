"""A finished folder's results, to render with a change, and the text of a report's parts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pandas as pd
import pytest
from markupsafe import Markup
from tinyhtml5.parser import HTMLParser

from flashlab.analysis.experiment import OBSERVATIONS, TABLES, run_keys
from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.cli import main
from flashlab.figures.stage import draw_figures
from flashlab.files import read_json, write_json
from flashlab.plan.digests import LIST
from flashlab.plan.plan_files import CONFIG, EXPERIMENTS, RECORDS, TITLES
from flashlab.records import parse_record, write_record
from flashlab.remarks import read_remarks
from flashlab.report.content import compose
from flashlab.report.document import Beside, Cell, Report, Row, in_language
from flashlab.report.render import FIGURES
from flashlab.story.stage import observe


class Results:
    """A copy of a folder's results and configuration, to render with a change.

    It has no digests: a file that differs from its digest is not reported.
    """

    def __init__(self, source: Path, folder: Path) -> None:
        self.folder, self.local = folder, Path("results", "local")
        self.config_file = self.local / CONFIG
        without = shutil.ignore_patterns(LIST)
        shutil.copytree(source / "results", folder / "results", ignore=without)
        (folder / "report").mkdir()
        self.pdf, self.page = (folder / "report" / f"lab5.{kind}" for kind in ("pdf", "html"))
        self.ceilings = next(folder.joinpath(self.local, "records").glob("ceilings-*.json"))

    @property
    def config(self) -> dict[str, Any]:
        return read_json(self.folder / self.config_file)

    def change(self, **keys: Any) -> None:
        """Change keys of the configuration."""
        write_json(self.folder / self.config_file, {**self.config, **keys})

    def remark(self, text: str, *languages: str) -> None:
        """Write a remark on the first experiment."""
        Path("remark.md").write_text(text, encoding="utf-8")
        self.change(remarks={"seq_len": dict.fromkeys(languages, "remark.md")})

    @contextmanager
    def plan(self, name: str) -> Iterator[Any]:
        """A document of the plan, to be changed."""
        document = read_json(self.local / name)
        yield document
        write_json(self.local / name, document)

    def observe(self) -> None:
        """Observe again from the tables as they are."""
        observe(self.local, self.ceilings, self.local / OBSERVATIONS)

    def compose(self) -> Report:
        return compose(self.config, self.local, self.ceilings, read_remarks(self.config))

    def draw(self) -> None:
        draw_figures(self.local, self.ceilings, self.local / FIGURES, self.local / "overview")

    def call(self, command: str) -> int:
        """Run the command ``report`` or ``page``; its status."""
        output = {"report": self.pdf, "page": self.page}[command]
        files = {"config": self.config_file, "results": self.local, "ceilings": self.ceilings}
        options = [(f"--{name}", str(file)) for name, file in {**files, "output": output}.items()]
        return main([command, *sum(options, ())])

    def told(self, command: str, capsys: Any) -> list[str]:
        """Run a command of the report with its figures; the lines on standard error."""
        self.draw()
        assert self.call(command) == 0
        return list(capsys.readouterr().err.splitlines())

    def change_runs(self, cells: dict[str, str], first: int | None = None) -> str:
        """Write these cells into the first experiment's first runs, in all its tables.

        The file of the first one's record. All runs by default.
        """
        paths = {name: self.local / "tables" / "seq_len" / f"{name}.csv" for name in TABLES}
        tables = {n: pd.read_csv(p, dtype=str, keep_default_na=False) for n, p in paths.items()}
        runs, keys = tables["runs"].copy(), [*run_keys(ATTENTION)]
        for name, rows in tables.items():
            columns = [column for column in cells if column in rows]
            changed = rows.set_index(keys).index.isin(runs[:first].set_index(keys).index)
            rows.loc[changed, columns] = [cells[column] for column in columns]
            rows.to_csv(paths[name], index=False)
        self.observe()
        return Path(str(runs.record[0])).name

    def quote(self, text: str) -> str:
        """Write a text wherever others write, and let a run fail by it; that run's record."""
        self.remark(f"My **own** words {text}\n\n- 一點 `{text}`\n", "zh_TW", "en")
        self.change(author={"name": f"王小明 {text}", "id": "113062000", "course": f"GPU {text}"})
        with self.plan(EXPERIMENTS) as plans, self.plan(TITLES) as titles:
            for language in ("zh_TW", "en"):
                for name, plan in plans.items():
                    plan["implementations"][0]["label"][language] = f"L {language} {text}"
                    titles[name][language] = f"T {language} {text}"
        self.change_runs({"device_name": f"D {text}", "provider": f"P {text}"})
        return self.change_runs({"status": "error", "message": f"M {text}"}, first=1)

    def fail(self, message: str) -> None:
        """Make every run fail, and all that follows from the records."""
        failure = {"status": "error", "message": message, "metrics": {}, "gate": None}
        for path in self.local.glob("records/[!c]*.json"):
            record = parse_record(read_json(path), path.name)
            write_record(path, replace(record, **failure, warnings=(), environment={}))
        make_tables(self.local, self.ceilings, self.local / "tables")
        self.observe()


@pytest.fixture(scope="session")
def _brief(finished: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    brief = Results(finished.folder, tmp_path_factory.mktemp("brief") / "copy")
    with chdir(brief.folder):
        brief.change(experiments=brief.config["experiments"][:2])
        names = {"summary", *(each["name"] for each in brief.config["experiments"])}
        with brief.plan(EXPERIMENTS) as plans, brief.plan(RECORDS) as records:
            for name in plans.keys() - names:
                del plans[name], records["experiments"][name]
        brief.observe()
        brief.draw()
    return brief.folder


@pytest.fixture
def brief(_brief: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    """The results of the first two experiments alone: their report takes half the time."""
    copied = Results(_brief, tmp_path / "copy")
    monkeypatch.chdir(copied.folder)
    return copied


def said(words: Any) -> str:
    """What is printed in English."""
    text = in_language(words.words if isinstance(words, Cell) else words, "en")
    return text.striptags() if isinstance(text, Markup) else str(text)


def cells(row: Row) -> list[str]:
    """A row's cells in English."""
    return [said(cell) for cell in row.cells]


def parts(report: Report, section: str, kind: type[Any]) -> list[Any]:
    """The parts of a kind of the section of an anchor, of tables side by side each."""
    (of,) = (each for each in report.sections if each.id == section)
    every = [each for b in of.blocks for each in (b.tables if isinstance(b, Beside) else [b])]
    return [each for each in every if isinstance(each, kind)]


def elements(page: Path) -> list[Element]:
    """All elements of an HTML page, which must keep the rules of HTML."""
    parser = HTMLParser(namespace_html_elements=False)
    found = list(parser.parse(page.read_text(encoding="utf-8")).iter())
    assert parser.errors == []
    return found
