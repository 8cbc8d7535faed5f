"""A finished folder's results, to render with a change."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from flashlab.figures import draw_figures, draw_overview
from flashlab.findings import write_findings
from flashlab.plan_files import experiment_file, records_file
from flashlab.records import write_record
from flashlab.remarks import read_remarks
from flashlab.report import write_page, write_report
from flashlab.report.content import compose
from flashlab.report.document import Report
from flashlab.tables import write_tables

Rows = list[dict[str, str]]
TABLES = ("runs", "passes", "samples")
CLAIMS = Path(__file__).parents[2] / "data" / "published" / "claims.yaml"


class Results:
    """A copy of the finished folder's results and configuration, to render with a change."""

    def __init__(self, finished: Any, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(finished.folder / "results", folder / "results")
        (folder / "report").mkdir()
        self.local = Path("results", "local")
        self.config_file = self.local / "plan" / "config.json"
        self.pdf = folder / "report" / "lab5.pdf"
        self.page = folder / "report" / "lab5.html"
        self.ceilings = next(folder.joinpath(self.local, "records").glob("ceilings-*.json"))

    @property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.folder.joinpath(self.config_file).read_text())
        return found

    def change(self, **keys: Any) -> None:
        text = json.dumps({**self.config, **keys}, ensure_ascii=False)
        self.folder.joinpath(self.config_file).write_text(text, encoding="utf-8")

    def compose(self) -> Report:
        return compose(self.config, self.local, self.ceilings, read_remarks(self.config))

    def write(self) -> Path:
        write_report(self.config_file, self.local, self.ceilings, self.pdf)
        return self.pdf

    def write_page(self) -> Path:
        write_page(self.config_file, self.local, self.ceilings, self.page)
        return self.page

    def edit_table(self, experiment: str, table: str, edit: Callable[[Rows], Rows]) -> None:
        """Rewrite the rows of one of an experiment's tables."""
        path = self.local / "tables" / experiment / f"{table}.csv"
        with path.open(encoding="utf-8", newline="") as file:
            rows = edit(list(csv.DictReader(file)))
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)

    def change_runs(self, experiment: str, change: dict[str, str], first: int) -> None:
        """Write these cells into the first rows of an experiment's table of runs."""
        self.edit_table(
            experiment,
            "runs",
            lambda rows: [row | change for row in rows[:first]] + rows[first:],
        )

    def change_all_runs(self, change: dict[str, str]) -> None:
        """Write these cells into every row of every table of runs."""
        for path in self.local.glob("tables/*/runs.csv"):
            self.edit_table(path.parent.name, "runs", lambda rows: [row | change for row in rows])

    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.local / "findings.json").read_text())
        return found

    def fail(self, implementations: Collection[str], status: str = "error") -> None:
        """Make every run of these implementations fail, and all that follows from the records."""
        for path in self.local.glob("records/[!c]*.json"):
            record = json.loads(path.read_text(encoding="utf-8"))
            inner = record["record"]
            if inner["run"]["implementation"] not in implementations:
                continue
            for name in PASSES:
                record[name] = dict.fromkeys(record[name])
            record["peak_memory_usage(MB)"] = None
            inner |= {"status": status, "message": "it failed", "stopped": {}, "warnings": []}
            inner |= {"samples": {"forward": [], "backward": []}, "environment": {}, "gate": None}
            write_record(path, record)
        names = ["summary", *(experiment["name"] for experiment in self.config["experiments"])]
        plans = [experiment_file(self.local, name) for name in names]
        for name in names:
            tables = self.local / "tables" / name
            files = (tables / f"{table}.csv" for table in TABLES)
            write_tables(records_file(self.local, name), *files)
        findings = self.local / "findings.json"
        write_findings(plans, self.local / "tables", CLAIMS, self.ceilings, findings)
        self.redraw(self.config["languages"])

    def redraw(self, languages: list[str]) -> None:
        """Choose these languages, in the configuration and in every figure."""
        self.change(languages=languages)
        chosen = self.local / "plan" / "languages.json"
        chosen.write_text(json.dumps(languages), encoding="utf-8")
        tables, plans = self.local / "tables", []
        for experiment in self.config["experiments"]:
            plans.append(experiment_file(self.local, experiment["name"]))
            folder = self.local / "figures" / experiment["name"]
            draw_figures(plans[-1], tables / experiment["name"], chosen, folder)
        draw_overview(
            plans,
            tables,
            self.local / "findings.json",
            self.ceilings,
            chosen,
            self.local / "overview",
        )


@pytest.fixture
def results(finished: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    copied = Results(finished, tmp_path / "copy")
    monkeypatch.chdir(copied.folder)
    return copied
