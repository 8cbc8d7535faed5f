"""The PDF: what stands in it, and what keeps it from being made. From the finished folder."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import jinja2
import pikepdf
import pytest
from report.reading import depths, en, texts

from flashlab.figures.stage import draw_figures
from flashlab.plan.plan_files import experiment_file
from flashlab.remarks import RemarkError, read_remarks
from flashlab.report import render
from flashlab.report.attachments import attached_files
from flashlab.report.chapters import shared_title
from flashlab.report.render import ProjectFetcher, RenderError, on_one_page
from flashlab.telling.catalogs import messages

SHORT_TEMPLATE = Path(__file__).parents[1] / "short_report.html.j2"
CHINESE = re.compile(r"[\u3400-\u9fff]")


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


def test_every_conclusion_stands_in_it_and_every_finding_on_the_page(
    results: Any, text: str, squeezed: Callable[[str], str]
) -> None:
    report = results.compose()
    for chapter in report.chapters:
        assert chapter.conclusion is not None
        for part in (
            chapter.conclusion.heading,
            chapter.conclusion.body,
            chapter.conclusion.checked,
        ):
            for said in texts(part) if part else ():
                assert squeezed(said) in text
    page = unescape(results.write_page().read_text(encoding="utf-8"))
    written = squeezed(re.sub("<[^>]+>", "", page))
    statements = [s for section in report.sections for s in section.statements.entries]
    assert len(statements) > 20
    for statement in statements:
        assert all(squeezed(said) in written for said in texts(statement.text))


def test_no_hash_is_printed(finished: Any, text: str) -> None:
    for path in finished.folder.glob("results/local/records/*.json"):
        digest = path.stem.rpartition("-")[2]
        assert len(digest) > 6 and digest not in text
    assert not re.search("(?=[0-9]*[a-f])[0-9a-f]{16}", text)  # the ticks of an axis are digits


def test_what_the_section_on_the_implementations_tells_no_other_section_tells(results: Any) -> None:
    report = results.compose()
    told = [en(s.text) for section in report.sections for s in section.statements.entries]
    ceilings = [en(statement.text) for statement in report.implementations.statements.entries]
    assert ceilings and not set(ceilings) & set(told)


def test_all_figures_are_there_and_say_what_they_show(
    finished: Any, text: str, squeezed: Callable[[str], str]
) -> None:
    numbers = [*range(1, 12), "S1", "S2", "S3"]
    for number in numbers:
        assert squeezed(f"圖 {number}") in text and squeezed(f"Figure {number}") in text
    across = [squeezed("Roofline 模型")]
    assert all(label in text for label in across)
    alternatives = []
    with pikepdf.open(finished.pdf) as pdf:
        for found in pdf.objects:
            if isinstance(found, pikepdf.Dictionary) and "/Alt" in found:
                alternatives.append(str(found.Alt))
    small = sum(
        len(list(folder.glob("row-*.svg")))
        for folder in finished.folder.glob("results/local/figures/*")
    )
    assert len(alternatives) == len(numbers) + len(across) + small
    assert all(CHINESE.search(alt) and re.search("[a-z]{3}", alt) for alt in alternatives)


def test_every_font_is_embedded_and_ours(finished: Any) -> None:
    listed = subprocess.run(
        ["pdffonts", str(finished.pdf)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()[2:]
    assert listed
    for line in listed:
        assert re.match(r"[A-Z]{6}\+Noto-?Sans-?TC(-Regular|-Bold)? ", line)
        embedded, subset = line.split()[-5:-3]
        assert (embedded, subset) == ("yes", "yes")


LANGUAGES = ("zh_TW", "en")
HOSTILE = (
    '<a rel="attachment" href="file:///etc/hostname">a</a><img src="file:///etc/passwd" alt="b">'
    "<style>@import 'file:///etc/passwd'</style>{{ 7 * 7 }}<script>alert(1)</script>"
)


def test_what_others_write_is_shown_as_text_and_nothing_more(
    brief: Any, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    """Names, titles, labels, device, provider, message: in each language's part of the page."""
    remark = brief.folder / "remark.md"
    remark.write_text(f"My **own** words {HOSTILE}\n\n- 一點\n", encoding="utf-8")
    brief.change(
        author={"name": f"王小明 {HOSTILE}", "id": "113062000", "course": "Parallel Programming"},
        remarks={"seq_len": dict.fromkeys(LANGUAGES, str(remark))},
    )
    for plan in brief.local.joinpath("plan", "experiments").glob("*.json"):
        document = json.loads(plan.read_text(encoding="utf-8"))
        for language in LANGUAGES:
            document["title"][language] = f"T {language} {HOSTILE}"
            document["implementations"][0]["label"][language] = f"L {language} {HOSTILE}"
        plan.write_text(json.dumps(document), encoding="utf-8")
    hostile_cells = {"device_name": f"D {HOSTILE}", "provider": f"P {HOSTILE}"}
    table = brief.local / "tables" / "seq_len" / "runs.csv"
    with table.open(encoding="utf-8", newline="") as file:
        rows = [row | hostile_cells for row in csv.DictReader(file)]
    rows[0] |= {"status": "error", "message": f"M {HOSTILE}"}
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    remarks = read_remarks(brief.config)
    files = attached_files(brief.config_file, brief.local, None, remarks)
    before = {file.name for file in files}

    said = text_of(brief.write())
    for language in LANGUAGES:
        for letter in ("T", "L"):
            assert squeezed(f"{letter} {language} {HOSTILE}") in said
    for letter in ("D", "P", "M"):
        assert squeezed(f"{letter} {HOSTILE}") in said
    for shown in (f"王小明 {HOSTILE}", "學號 Student ID 113062000", "My own words", "一點"):
        assert squeezed(shown) in said
    with pikepdf.open(brief.pdf) as pdf:
        assert "/JavaScript" not in str(pdf.Root.Names.keys()) + str(pdf.Root.keys())
        assert {str(file.UF) for file in pdf.Root.AF} == before | {"ceilings.json"}
    listed = subprocess.run(
        ["pdfdetach", "-list", str(brief.pdf)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert "hostname" not in listed

    page = brief.write_page().read_text(encoding="utf-8")
    assert HOSTILE not in page and "{{ 7 * 7 }}" in page
    assert page.count("<script") == 3  # before anything is shown, the charts' data, and the rest
    assert not re.search("<(a rel|img)", page)


# Page one, links, and what makes it an archive


def test_page_one_has_the_answer_the_experiments_and_the_headline_table(
    results: Any, finished: Any, squeezed: Callable[[str], str]
) -> None:
    page = subprocess.run(
        ["pdftotext", "-raw", "-l", "1", str(finished.pdf), "-"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    front: Any = on_one_page(results.compose(), results.local).front
    assert len(front.experiments) == 5
    told = [front.answer, *(each.conclusion for each in front.experiments)]
    for said in (text for conclusion in told for text in texts(conclusion.heading)):
        assert squeezed(said) in squeezed(page)
    assert "沒有量測任何 GPU".replace(" ", "") in squeezed(page)


def test_a_statement_leads_to_its_figure_its_rows_and_its_runs(results: Any) -> None:
    report = results.compose()
    figures = {figure.id for section in report.sections for figure in section.figures}
    rows = {row.id for section in report.sections for row in section.table.rows}
    runs = {row.id for row in report.runs.rows}
    for statement in (entry for section in report.sections for entry in section.statements.entries):
        targets = [link.target for link in statement.links]
        assert set(targets) <= figures | rows | runs
        assert set(targets) & rows and set(targets) & runs


def test_every_way_in_the_pdf_leads_somewhere(finished: Any) -> None:
    with pikepdf.open(finished.pdf) as pdf:
        names = pdf.Root.Names.Dests.Names
        there = {str(name) for name in names[::2]}
        asked = {
            str(note.A.D) if "/A" in note else str(note.Dest)
            for page in pdf.pages
            for note in page.get("/Annots", [])
            if note.Subtype == "/Link" and ("/Dest" in note or note.A.get("/S") == "/GoTo")
        }
    assert len(asked) >= 5
    assert asked <= there


def test_it_is_sound_tagged_and_says_that_it_is_an_archive(finished: Any) -> None:
    subprocess.run(["qpdf", "--check", str(finished.pdf)], check=True, stdout=subprocess.DEVNULL)
    with pikepdf.open(finished.pdf) as pdf:
        assert pdf.Root.MarkInfo.Marked
        assert str(pdf.Root.Lang) == "zh-TW"
        assert "/StructTreeRoot" in pdf.Root
        with pdf.open_metadata() as metadata:
            assert (metadata["pdfaid:part"], metadata["pdfaid:conformance"]) == ("3", "A")
        with pdf.open_outline() as outline:
            (whole,) = outline.root
            titles = [item.title for item in whole.children]
    assert any("實驗 1" in title and "Experiment 1" in title for title in titles)
    assert len(titles) >= 10


# How many pages it has, and how full they are


def test_the_students_report_has_at_most_ten_pages_at_least_half_full(finished: Any) -> None:
    found = depths(finished.pdf)
    assert len(found) <= 10
    assert min(found[:-1]) >= 0.5


@pytest.mark.parametrize(
    ("titles", "shared"),
    [
        (["Long sequences (d = 64, full)", "Long sequences (d = 128, causal)"], "Long sequences"),
        (["長序列（d = 64，完整）", "長序列（d = 64，因果）"], "長序列"),
        (["Batches, small", "Batches, large"], "Batches"),
        (["Alpha one", "Alpha other"], "Alpha"),
        (["Alpha", "Beta"], "Alpha"),
        (["Only (this)"], "Only (this)"),
    ],
)
def test_experiments_of_one_section_share_the_beginning_of_their_titles(
    titles: Sequence[str], shared: str
) -> None:
    assert shared_title(titles) == shared


# The languages


def written(brief: Any, language: str) -> Path:
    """The report in one language."""
    brief.redraw([language])
    pdf: Path = brief.write()
    found = depths(pdf)
    assert len(found) <= 6 and min(found[:-1]) >= 0.4
    return pdf


def test_a_report_in_english_has_no_chinese(brief: Any, text_of: Callable[[Path], str]) -> None:
    assert CHINESE.findall(text_of(written(brief, "en"))) == []


def test_a_report_in_chinese_has_no_english_sentence(
    brief: Any, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    text = text_of(written(brief, "zh_TW"))
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
def refuses(brief: Any) -> Callable[..., str]:
    """Renders with something missing; what it said. The PDF that was there stays."""

    def call(error: type[Exception]) -> str:
        brief.pdf.write_bytes(b"the one before")
        with pytest.raises(error) as caught:
            brief.write()
        assert brief.pdf.read_bytes() == b"the one before"
        assert [path.name for path in brief.pdf.parent.iterdir()] == ["lab5.pdf"]
        return str(caught.value)

    return call


@pytest.mark.parametrize("character", ["🦆", "ب"])
def test_a_character_of_the_reports_own_that_the_fonts_lack_is_an_error(
    brief: Any,
    refuses: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    character: str,
) -> None:
    """Nor does a font of the system lend it, as DejaVu would lend the Arabic letter."""
    templates = brief.folder / "templates"
    shutil.copytree(render.TEMPLATES, templates)
    shutil.copyfile(SHORT_TEMPLATE, templates / "report.html.j2")
    with templates.joinpath("report.html.j2").open("a", encoding="utf-8") as file:
        file.write(f"<p>{character}</p>")
    monkeypatch.setattr(render, "TEMPLATES", templates)
    said = refuses(RenderError)
    assert "missing glyph" in said.lower()
    assert character in said or f"{ord(character):x}" in said.lower()
    assert "templates/fonts/" in said


def test_a_picture_that_is_missing_is_an_error(brief: Any, refuses: Callable[..., str]) -> None:
    (brief.local / "figures" / "causal" / "rate-flash2.svg").unlink()
    assert "rate-flash2.svg" in refuses(RenderError)


def test_a_variable_that_the_template_makes_up_is_an_error(
    brief: Any, refuses: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = brief.folder / "templates"
    shutil.copytree(render.TEMPLATES, templates)
    with templates.joinpath("report.html.j2").open("a", encoding="utf-8") as file:
        file.write("{{ report.conclusion }}")
    monkeypatch.setattr(render, "TEMPLATES", templates)
    assert "conclusion" in refuses(jinja2.UndefinedError)


@pytest.mark.parametrize(
    "source", ["http://127.0.0.1:9/a.svg", "https://example.org/a.svg", "../../../../etc/a.svg"]
)
def test_remarks_cannot_bring_in_a_picture_from_outside(
    brief: Any, refuses: Callable[..., str], source: str
) -> None:
    remark = brief.folder / "remark.md"
    remark.write_text(f"![a picture]({source})\n", encoding="utf-8")
    brief.change(remarks={"seq_len": {"en": str(remark)}})
    said = refuses(RemarkError)
    assert source in said and "remark.md: line 1" in said


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


@pytest.mark.parametrize(("command", "name"), [("report", "lab5.pdf"), ("page", "lab5.html")])
def test_the_same_inputs_give_the_same_bytes_anywhere_and_at_any_time(
    finished: Any, tmp_path: Path, command: str, name: str
) -> None:
    """Rendered once more in another folder, time zone, locale and hash seed."""
    folder = tmp_path / "another folder" / "deeper"
    for part in ("results", "workflow", "templates", "kernels", "data/published"):
        shutil.copytree(finished.folder / part, folder / part)
    shutil.copy(finished.folder / "data" / "devices.csv", folder / "data")
    (ceilings,) = folder.glob("results/local/records/ceilings-*.json")

    unwritten = {"PYTHONDONTWRITEBYTECODE": "1"}  # the finished folder is for reading only

    def rendered(home: Path, **environment: str) -> bytes:
        output = tmp_path / "rendered" / name
        subprocess.run(
            [
                *(sys.executable, "-m", "flashlab", command, "--config"),
                "results/local/plan/config.json",
                *("--results", "results/local", "--output", str(output)),
                *("--ceilings", str(ceilings.relative_to(folder))),
            ],
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(home / "workflow"), **unwritten, **environment},
            check=True,
        )
        return output.read_bytes()

    again = rendered(
        folder,
        TZ="Asia/Taipei",
        LC_ALL="C",
        LANG="de_DE.UTF-8",
        PYTHONHASHSEED="12345",
        HOME=str(tmp_path),
    )
    here = finished.pdf.read_bytes() if command == "report" else rendered(finished.folder)
    assert again == here


def test_the_same_tables_give_the_same_figures(finished: Any, tmp_path: Path) -> None:
    local = finished.folder / "results" / "local"
    tables, languages = local / "tables", local / "plan" / "languages.json"
    draw_figures(experiment_file(local, "seq_len"), tables, languages, tmp_path)
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    before = local / "figures" / "seq_len"
    assert drawn == {path.name: path.read_bytes() for path in before.glob("*.svg")}
    assert len(drawn) == 5
