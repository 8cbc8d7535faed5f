"""A finished folder's results, to render with a change."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flashlab.analysis.experiment import TABLES, run_keys
from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.figures.stage import draw_figures
from flashlab.files import read_json, write_json
from flashlab.plan.digests import LIST
from flashlab.plan.plan_files import EXPERIMENTS, LANGUAGES, RECORDS, TITLES, process_files
from flashlab.records import Measurement, Record, parse_record, write_record
from flashlab.remarks import read_remarks
from flashlab.report.content import compose
from flashlab.report.document import Report
from flashlab.report.render import FIGURES, write_page, write_report
from flashlab.story.stage import observe

Rows = list[dict[str, str]]


def read_cells(table: Path) -> pd.DataFrame:
    """A table's cells as they are written."""
    return pd.read_csv(table, dtype=str, keep_default_na=False)


class Results:
    """A copy of a folder's results and configuration, to render with a change.

    It has no digests: a file that differs from its digest is not reported.
    """

    def __init__(self, source: Path, folder: Path) -> None:
        self.folder = folder
        without = shutil.ignore_patterns(LIST)
        shutil.copytree(source / "results", folder / "results", ignore=without)
        (folder / "report").mkdir()
        self.local = Path("results", "local")
        self.config_file = self.local / "plan" / "config.json"
        self.pdf = folder / "report" / "lab5.pdf"
        self.page = folder / "report" / "lab5.html"
        self.ceilings = next(folder.joinpath(self.local, "records").glob("ceilings-*.json"))

    @property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.folder / self.config_file)
        return found

    @property
    def names(self) -> list[str]:
        return ["summary", *(experiment["name"] for experiment in self.config["experiments"])]

    def change(self, **keys: Any) -> None:
        write_json(self.folder / self.config_file, {**self.config, **keys})

    @contextmanager
    def plan(self, name: str) -> Iterator[dict[str, Any]]:
        """A document of the plan, to be changed."""
        document = read_json(self.local / name)
        yield document
        write_json(self.local / name, document)

    def compose(self) -> Report:
        return compose(self.config, self.local, self.ceilings, read_remarks(self.config))

    def draw(self) -> None:
        """Draw the figures."""
        folders = self.local / FIGURES, self.local / "overview"
        draw_figures(self.local, self.ceilings, *folders)

    def write(self) -> Path:
        self.draw()
        write_report(self.config_file, self.local, self.ceilings, self.pdf)
        return self.pdf

    def write_page(self) -> Path:
        write_page(self.config_file, self.local, self.ceilings, self.page)
        return self.page

    def edit_table(self, experiment: str, table: str, edit: Callable[[Rows], Rows]) -> None:
        """Rewrite the rows of one of an experiment's tables."""
        path = self.local / "tables" / experiment / f"{table}.csv"
        rows = edit(read_cells(path).to_dict("records"))  # type: ignore[arg-type]
        pd.DataFrame(rows).to_csv(path, index=False)

    def change_runs(
        self, experiment: str, change: dict[str, str], first: int | None = None
    ) -> None:
        """Write these cells into an experiment's first runs, all by default, in all its tables."""
        folder, keys = self.local / "tables" / experiment, [*run_keys(ATTENTION)]
        tables = {table: read_cells(folder / f"{table}.csv") for table in TABLES}
        changed = tables["runs"][:first].set_index(keys).index
        for table, rows in tables.items():
            columns = [column for column in change if column in rows]
            is_changed = rows.set_index(keys).index.isin(changed)
            rows.loc[is_changed, columns] = [change[column] for column in columns]
            rows.to_csv(folder / f"{table}.csv", index=False)

    def quote(self, text: str) -> str:
        """Write a text wherever others write, and let a run fail by it; that run's record."""
        remark = f"My **own** words {text}\n\n- 一點 `{text}`\n"
        Path("remark.md").write_text(remark, encoding="utf-8")
        self.change(
            author={"name": f"王小明 {text}", "id": "113062000", "course": f"GPU {text}"},
            remarks={"seq_len": dict.fromkeys(("zh_TW", "en"), "remark.md")},
        )
        with self.plan(EXPERIMENTS) as plans:
            for plan in plans.values():
                for language in ("zh_TW", "en"):
                    plan["implementations"][0]["label"][language] = f"L {language} {text}"
        titles = {language: f"T {language} {text}" for language in ("zh_TW", "en")}
        write_json(self.local / TITLES, dict.fromkeys(self.names, titles))
        records = []

        def edit(rows: Rows) -> Rows:
            records.append(Path(rows[0]["record"]).name)
            stated = {"device_name": f"D {text}", "provider": f"P {text}"}
            failed = {"status": "error", "message": f"M {text}"}
            return [row | stated for row in (rows[0] | failed, *rows[1:])]

        self.edit_table("seq_len", "runs", edit)
        return records[0]

    def add_implementations(self, names: Sequence[str]) -> None:
        """Add implementations that do as Flash2 does, each one faster than the one before."""
        with self.plan(RECORDS) as document:
            for records in document["experiments"].values():
                own = [each for each in records if each["run"]["implementation"] == "Flash2"]
                for step, added in enumerate(names, start=1):
                    records += [self._faster(entry, added, 0.7**step) for entry in own]
                    document["sources"][added] = document["sources"]["Flash2"]
        with self.plan(EXPERIMENTS) as plans:
            for plan in plans.values():
                flash2 = next(e for e in plan["implementations"] if e["name"] == "Flash2")
                plan["implementations"] += [
                    flash2 | {"name": added, "style": style, "label": {"zh_TW": added, "en": added}}
                    for style, added in enumerate(names, start=2)
                ]
        summary = self.config["summary"]
        summary["implementations"] += names
        self.change(summary=summary)
        self.tabulate()

    def _faster(self, entry: dict[str, Any], name: str, factor: float) -> dict[str, Any]:
        """An entry of a plan as of another implementation, whose passes take less time."""
        files = []
        for process in process_files(entry):
            path = Path(process["path"])
            record = parse_record(read_json(path), path.name)
            metrics = {
                metric: Measurement(
                    measured.value * factor,
                    tuple(sample * factor for sample in measured.samples),
                    measured.stopped,
                )
                if metric.endswith("time")
                else measured
                for metric, measured in record.metrics.items()
            }
            run = replace(record.run, implementation=name)
            copy = path.with_name(path.name.replace("flash2", name.lower()))
            write_record(copy, replace(record, run=run, metrics=metrics))
            files.append({**process, "path": copy.as_posix()})
        first, *others = files
        run = {**entry["run"], "implementation": name}
        return {key: value for key, value in entry.items() if key != "counters"} | {
            **{"run": run, "path": first["path"]},
            **({"replicates": others} if others else {}),
        }

    def fail(
        self,
        implementations: Collection[str],
        status: str = "error",
        message: str = "it failed",
    ) -> None:
        """Make every run of these implementations fail, and all that follows from the records."""

        def failed(record: Record) -> Record:
            if record.run.implementation not in implementations:
                return record
            failure = {"status": status, "message": message, "metrics": {}, "gate": None}
            return replace(record, **failure, warnings=(), environment={})

        self.change_records(failed)

    def change_records(self, change: Callable[[Record], Record]) -> None:
        """Change every record of a run, and all that follows from the records."""
        self.change_tables(change)
        self.redraw(self.config["languages"])

    def change_tables(self, change: Callable[[Record], Record]) -> None:
        """Change every record of a run, and what follows from the records but for the figures."""
        for path in self.local.glob("records/[!c]*.json"):
            write_record(path, change(parse_record(read_json(path), path.name)))
        self.tabulate()

    def tabulate(self) -> None:
        """Make the tables and the observations again from the records and the plan as they are."""
        make_tables(self.local, self.ceilings, self.local / "tables")
        self.observe()

    def observe(self) -> None:
        """Observe again from the tables as they are."""
        observe(self.local, self.ceilings, self.local / "observations.json")

    def redraw(self, languages: list[str]) -> None:
        """Choose these languages, in the configuration and in the figures."""
        self.change(languages=languages)
        write_json(self.local / LANGUAGES, languages)
        self.draw()


@pytest.fixture
def results(finished: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    copied = Results(finished.folder, tmp_path / "copy")
    monkeypatch.chdir(copied.folder)
    return copied


@pytest.fixture(scope="session")
def _brief(finished: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    brief = Results(finished.folder, tmp_path_factory.mktemp("brief") / "copy")
    with chdir(brief.folder):
        brief.change(experiments=brief.config["experiments"][:2])
        with brief.plan(EXPERIMENTS) as plans, brief.plan(RECORDS) as records:
            for name in plans.keys() - brief.names:
                del plans[name], records["experiments"][name]
        brief.observe()
        brief.redraw(brief.config["languages"])
    return brief.folder


@pytest.fixture
def brief(_brief: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    """The results of the first two experiments alone: their report takes half the time."""
    copied = Results(_brief, tmp_path / "copy")
    monkeypatch.chdir(copied.folder)
    return copied
