"""The HTML page: one file that asks for nothing, tried in headless Chromium from file://."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from conftest import ROOT, elsewhere
from programs import CHROMIUM, reason
from report.conftest import elements

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from playwright.sync_api import Page as Tab

AXE = str(files("axe_playwright_python") / "axe.min.js")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
ADDRESSES = ("href", "src", "xlink:href", "action", "data")
TOTALS = "#experiment-seq_len table"


@pytest.fixture(scope="module")
def page(copy_finished: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the finished folder, made by its rule."""
    project = copy_finished(tmp_path_factory.mktemp("page") / "copy")
    project.make("report/lab5.html")
    return project.folder / "report" / "lab5.html"


def test_it_is_whole_and_asks_for_nothing(page: Path) -> None:
    found = [element.attrib for element in elements(page)]
    ids = [given["id"] for given in found if "id" in given]
    assert len(ids) == len(set(ids))
    addresses = {given[name] for given in found for name in ADDRESSES if name in given}
    places = {address[1:] for address in addresses if address.startswith("#")}
    assert any(place.startswith("run-") for place in places) and places <= set(ids)
    records = {address for address in addresses if not address.startswith("#")}
    assert {Path(record).suffix for record in records} == {".json"}
    assert all((page.parent / record).is_file() for record in records)
    policy = next(g["content"] for g in found if g.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "http" not in policy


def test_the_same_inputs_give_the_same_page_anywhere(page: Path, tmp_path: Path) -> None:
    """In another folder, time zone, locale and hash seed; the PDF is another test's (grading)."""
    project = page.parents[1]
    shutil.copytree(project / "results", tmp_path / "results")
    (ceilings,) = project.glob("results/local/records/ceilings-*.json")
    order = "page --config results/local/plan/config.json --results results/local --ceilings"
    command = [sys.executable, "-m", "flashlab", *order.split(), str(ceilings.relative_to(project))]
    environment = elsewhere(tmp_path, ROOT / "workflow")
    command += ["--output", "report/lab5.html"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert tmp_path.joinpath("report", "lab5.html").read_bytes() == page.read_bytes()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(reason("Chromium"))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, page: Path) -> Iterator[Callable[..., Tab]]:
    """Opens the page for a reader; afterwards, nothing else was asked for, and nothing logged."""
    asked, logged = list[str](), list[str]()

    def call(**reader: Any) -> Tab:
        tab = browser.new_page(**{"viewport": DESKTOP} | reader)
        tab.set_default_timeout(10_000)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: logged.append(message.text))
        tab.on("pageerror", lambda error: logged.append(str(error)))
        tab.goto(page.as_uri())
        return tab

    yield call
    assert logged == []
    assert {urlsplit(url).path.rpartition("/")[2] for url in asked} <= {"lab5.html"}


def test_one_language_is_shown_and_is_remembered(open_page: Callable[..., Tab]) -> None:
    tab = open_page()
    assert "實驗 1" in tab.inner_text("main") and "Experiment 1" in tab.inner_text("main")
    for language, other in (("en", "實驗 1"), ("zh-TW", "Experiment 1")):
        tab.click(f'button[data-language="{language}"]')
        assert other not in tab.inner_text("h2 >> nth=0")
        assert tab.locator(f"p[lang={language}]").first.is_visible()
    tab.reload()
    assert "Experiment 1" not in tab.inner_text("#experiment-seq_len h2")


def test_a_switch_of_language_leaves_no_boxes(open_page: Callable[..., Tab]) -> None:
    """Without a Chinese font of the system, Chromium kept those that it had laid out first."""
    tab, pictures = open_page(), list[bytes]()
    for languages in (["zh-TW"], ["en", "zh-TW"]):
        for language in languages:
            tab.click(f'button[data-language="{language}"]')
        pictures.append(tab.locator("h2 span").first.screenshot())
        tab.reload()
    assert pictures[0] == pictures[1]


def test_a_heading_sorts_its_column_and_then_turns_it(open_page: Callable[..., Tab]) -> None:
    """By keyboard, too; the row of the operations stays the first."""
    tab = open_page()
    heading = tab.locator(f"{TOTALS} thead tr:last-child th:nth-child(2)")
    for turned, sort in ((False, "ascending"), (True, "descending")):
        heading.locator("button").focus()
        tab.keyboard.press("Enter")
        cells = tab.locator(f"{TOTALS} tbody tr:not(.work) td:nth-child(2)").all_inner_texts()
        found = [float(re.findall(r"[\d.]+", cell)[0]) for cell in cells]
        assert found == sorted(found, reverse=turned) and len(found) == 2
        assert heading.get_attribute("aria-sort") == sort
    assert tab.locator(f"{TOTALS} tbody tr:first-child").get_attribute("class") == "work"


def test_a_word_filters_rows_and_a_number_leads_to_its_run(open_page: Callable[..., Tab]) -> None:
    """And that to its record."""
    tab = open_page()
    tab.fill("nav input", "flash2 n64")
    shown = tab.locator("#runs tbody tr:visible").all_inner_texts()
    assert shown and all("Flash2" in row and "N64" in row for row in shown)
    tab.fill("nav input", "")
    assert tab.locator("#runs tbody tr:visible").count() > len(shown)
    tab.locator(f"{TOTALS} td a").first.click()
    run = tab.evaluate("location.hash")
    assert run.startswith("#run-")
    assert (tab.locator(f"{run} a").first.get_attribute("href") or "").endswith(".json")


CUT = """[...document.querySelectorAll('main *')].filter((part) => part.getClientRects().length
    && !part.closest('.of-table, figure') && part.getBoundingClientRect().right > innerWidth + 1
).map((part) => part.outerHTML.slice(0, 80))"""


def test_on_a_phone_only_wide_tables_and_figures_scroll(open_page: Callable[..., Tab]) -> None:
    tab = open_page(viewport=PHONE)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert tab.evaluate(CUT) == []


def test_axe_finds_nothing_serious(open_page: Callable[..., Tab]) -> None:
    tab = open_page(bypass_csp=True)
    tab.add_script_tag(path=AXE)
    found = tab.evaluate("axe.run({resultTypes: ['violations']}).then((r) => r.violations)")
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(x["id"], [node["html"][:120] for node in x["nodes"][:3]]) for x in serious] == []
