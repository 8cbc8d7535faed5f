"""A finished folder's results, to render with a change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from flashlab.figures import draw_figures, draw_overview
from flashlab.plan import experiment_file
from flashlab.remarks import read_remarks
from flashlab.report import write_page, write_report
from flashlab.report.content import compose
from flashlab.report.document import Report


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

    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.local / "findings.json").read_text())
        return found

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
