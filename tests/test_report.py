"""The PDF: what stands in it, and what keeps it from being made. From the finished folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pikepdf
import pytest

from flashlab.catalogs import messages
from flashlab.figures import draw_figures
from flashlab.report import render, write_report
from flashlab.report.content import Report, compose
from flashlab.report.render import ProjectFetcher, RenderError

EXPERIMENTS = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
CHINESE = re.compile(r"[\u3400-\u9fff]")
SCRIPT = "<script>alert(1)</script>"


class Results:
    """A copy of the finished folder's results and configuration, to render with a change."""

    def __init__(self, finished: Any, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(finished.folder / "results", folder / "results")
        (folder / "report").mkdir()
        shutil.copy(finished.folder / "report" / "config.json", folder / "report")
        self.local = Path("results", "local")
        self.pdf = folder / "report" / "lab5.pdf"
        self.ceilings = next(folder.joinpath(self.local, "records").glob("ceilings-*.json"))

    @property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.folder.joinpath("report/config.json").read_text())
        return found

    def change(self, **keys: Any) -> None:
        text = json.dumps({**self.config, **keys}, ensure_ascii=False)
        self.folder.joinpath("report/config.json").write_text(text, encoding="utf-8")

    def compose(self) -> Report:
        return compose(self.config, self.local, self.ceilings)

    def write(self) -> Path:
        write_report(Path("report/config.json"), self.local, self.ceilings, self.pdf)
        return self.pdf


@pytest.fixture
def results(finished: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    copied = Results(finished, tmp_path / "copy")
    monkeypatch.chdir(copied.folder)
    return copied


@pytest.fixture(scope="module")
def text(finished: Any, text_of: Callable[[Path], str]) -> str:
    """The finished report's text, squeezed."""
    return text_of(finished.pdf)


# What stands in it


def test_it_is_in_both_languages(text: str, squeezed: Callable[[str], str]) -> None:
    for said in (
        *("注意力機制效能實驗報告", "Attention benchmark report"),
        *("實驗 1：調整序列長度", "Experiment 1: Sequence length"),
        *("沒有量測任何 GPU", "No GPU was measured"),
    ):
        assert squeezed(said) in text


def test_every_finding_stands_in_it_in_both_languages(
    results: Results, text: str, squeezed: Callable[[str], str]
) -> None:
    statements = [s for section in results.compose().sections for s in section.statements.entries]
    assert len(statements) > 20
    for statement in statements:
        for language in ("zh_TW", "en"):
            assert squeezed(statement.text[language]) in text


def test_both_languages_give_the_same_numbers(results: Results) -> None:
    def numbers(sentence: str) -> Counter[str]:
        return Counter(re.findall(r"\d[\d,.]*\d|\d", sentence))

    for section in results.compose().sections:
        for statement in section.statements.entries:
            assert numbers(statement.text["zh_TW"]) == numbers(statement.text["en"])


def test_all_figures_are_there_and_say_what_they_show(
    finished: Any, text: str, squeezed: Callable[[str], str]
) -> None:
    numbers = [*range(1, 12), "S1", "S2", "S3"]
    for number in numbers:
        assert squeezed(f"圖 {number}") in text and squeezed(f"Figure {number}") in text
    alternatives = []
    with pikepdf.open(finished.pdf) as pdf:
        for found in pdf.objects:
            if isinstance(found, pikepdf.Dictionary) and "/Alt" in found:
                alternatives.append(str(found.Alt))
    assert len(alternatives) == len(numbers)
    assert all((CHINESE.search(alt) and "Pytorch" in alt) or "Flash" in alt for alt in alternatives)


def test_every_font_is_embedded_and_ours(finished: Any) -> None:
    listed = subprocess.run(
        ["pdffonts", str(finished.pdf)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()[2:]
    assert listed
    for line in listed:
        assert re.match(r"[A-Z]{6}\+Noto-?Sans-?TC(-Regular|-Bold)? ", line)
        embedded, subset = line.split()[-5:-3]
        assert (embedded, subset) == ("yes", "yes")


def test_what_others_write_is_shown_as_text_and_nothing_more(
    results: Results, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    remark = results.folder / "remark.md"
    remark.write_text(f"My **own** words {SCRIPT}\n\n- 一點\n", encoding="utf-8")
    results.change(
        author={"name": f"王小明 {SCRIPT}", "id": "113062000", "course": "Parallel Programming"},
        remarks={"seq_len": {"en": str(remark)}},
    )
    plan = results.local / "plan" / "seq_len.json"
    document = json.loads(plan.read_text(encoding="utf-8"))
    document["title"]["en"] = f"Title {SCRIPT}"
    plan.write_text(json.dumps(document), encoding="utf-8")
    said = text_of(results.write())
    for shown in (
        *(f"王小明 {SCRIPT}", "學號 · Student ID 113062000", "Parallel Programming"),
        *("The author's own words", f"My own words {SCRIPT}", "一點", f"Title {SCRIPT}"),
    ):
        assert squeezed(shown) in said
    with pikepdf.open(results.pdf) as pdf:
        assert "/JavaScript" not in str(pdf.Root.keys())


# The languages


def redrawn(results: Results, languages: list[str]) -> Path:
    results.change(languages=languages)
    chosen = results.local / "languages.json"
    chosen.write_text(json.dumps(languages), encoding="utf-8")
    for name in EXPERIMENTS:
        plan = results.local / "plan" / f"{name}.json"
        tables = results.local / "tables" / name
        draw_figures(plan, tables, chosen, results.local / "figures" / name)
    return results.write()


def test_a_report_in_english_has_no_chinese(
    results: Results, text_of: Callable[[Path], str]
) -> None:
    assert CHINESE.findall(text_of(redrawn(results, ["en"]))) == []


def test_a_report_in_chinese_has_no_english_sentence(
    results: Results, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    text = text_of(redrawn(results, ["zh_TW"]))
    pieces = {
        squeezed(piece)
        for domain in ("report", "figures")
        for message in messages("en", domain).values()
        for piece in re.split(r"\{\w+\}", message)
        if len(piece.split()) > 2
    }
    assert len(pieces) > 50
    assert [piece for piece in pieces if piece in text] == []
    assert squeezed("注意力機制效能實驗報告") in text


# What keeps it from being made


@pytest.fixture
def refuses(results: Results) -> Callable[..., str]:
    """Renders with something missing; what it said. The PDF that was there stays."""

    def call(error: type[Exception]) -> str:
        results.pdf.write_bytes(b"the one before")
        with pytest.raises(error) as caught:
            results.write()
        assert results.pdf.read_bytes() == b"the one before"
        assert {path.name for path in results.pdf.parent.iterdir()} == {"config.json", "lab5.pdf"}
        return str(caught.value)

    return call


def test_a_character_that_the_fonts_lack_is_an_error(
    results: Results, refuses: Callable[..., str]
) -> None:
    results.change(author={"name": "Ming 🦆"})
    said = refuses(RenderError)
    assert "🦆" in said or "1f986" in said.lower()
    assert "templates/fonts/" in said


def test_a_picture_that_is_missing_is_an_error(
    results: Results, refuses: Callable[..., str]
) -> None:
    (results.local / "figures" / "causal" / "rate-flash2.svg").unlink()
    assert "rate-flash2.svg" in refuses(RenderError)


def test_a_variable_that_the_template_makes_up_is_an_error(
    results: Results, refuses: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = results.folder / "templates"
    shutil.copytree(render.TEMPLATES, templates)
    with templates.joinpath("report.html.j2").open("a", encoding="utf-8") as file:
        file.write("{{ report.conclusion }}")
    monkeypatch.setattr(render, "TEMPLATES", templates)
    assert "conclusion" in refuses(jinja2.UndefinedError)


@pytest.mark.parametrize(
    "source", ["http://127.0.0.1:9/a.svg", "https://example.org/a.svg", "../../../../etc/a.svg"]
)
def test_remarks_cannot_bring_in_a_file_from_outside(
    results: Results, refuses: Callable[..., str], source: str
) -> None:
    remark = results.folder / "remark.md"
    remark.write_text(f"![a picture]({source})\n", encoding="utf-8")
    results.change(remarks={"seq_len": {"en": str(remark)}})
    assert source.removeprefix("../../../..") in refuses(RenderError)


class TestFetcher:
    """The fetcher opens files of the project's folders and nothing else."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        folder = tmp_path / "a project"
        folder.mkdir()
        folder.joinpath("in.css").write_text("p {}")
        tmp_path.joinpath("outside.css").write_text("p {}")
        return folder

    def test_a_file_of_the_folder_is_read(self, project: Path) -> None:
        response = ProjectFetcher((project,)).fetch((project / "in.css").as_uri())
        assert response.read() == b"p {}"

    def test_a_file_beside_the_folder_is_refused(self, project: Path) -> None:
        with pytest.raises(ValueError, match="outside"):
            ProjectFetcher((project,)).fetch((project.parent / "outside.css").as_uri())

    def test_a_path_that_climbs_out_is_refused(self, project: Path) -> None:
        for up in ("..", "%2e%2e"):
            with pytest.raises(ValueError, match="outside"):
                ProjectFetcher((project,)).fetch(f"{project.as_uri()}/{up}/outside.css")

    def test_a_link_that_leads_out_is_refused(self, project: Path) -> None:
        project.joinpath("link.css").symlink_to(project.parent / "outside.css")
        with pytest.raises(ValueError, match="outside"):
            ProjectFetcher((project,)).fetch((project / "link.css").as_uri())

    @pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "https://example.org/x", "ftp://a/b"])
    def test_the_net_is_refused(self, project: Path, url: str) -> None:
        with pytest.raises(ValueError, match="disallowed protocol"):
            ProjectFetcher((project,)).fetch(url)


# The same bytes


def test_the_same_inputs_give_the_same_bytes_anywhere_and_at_any_time(
    finished: Any, tmp_path: Path, root: Path
) -> None:
    elsewhere = {
        "TZ": "Asia/Taipei",
        "LC_ALL": "C",
        "LANG": "de_DE.UTF-8",
        "PYTHONHASHSEED": "12345",
        "PYTHONPATH": str(finished.folder / "workflow"),
        "HOME": str(tmp_path),
    }
    (ceilings,) = finished.folder.glob("results/local/records/ceilings-*.json")
    again = tmp_path / "again.pdf"
    subprocess.run(
        [
            *(sys.executable, "-m", "flashlab", "report", "--config", "report/config.json"),
            *("--results", "results/local", "--output", str(again)),
            *("--ceilings", str(ceilings.relative_to(finished.folder))),
        ],
        cwd=finished.folder,
        env={**os.environ, **elsewhere},
        check=True,
    )
    assert again.read_bytes() == finished.pdf.read_bytes()


def test_the_same_tables_give_the_same_figures(finished: Any, tmp_path: Path) -> None:
    local = finished.folder / "results" / "local"
    tables, languages = local / "tables" / "seq_len", local / "languages.json"
    draw_figures(local / "plan" / "seq_len.json", tables, languages, tmp_path)
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    before = local / "figures" / "seq_len"
    assert drawn == {path.name: path.read_bytes() for path in before.glob("*.svg")}
    assert len(drawn) == 3
