"""The HTML page: one file that asks for nothing, tried in headless Chromium from file://."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from flashlab.report.render import to_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DESKTOP, PHONE = (1280, 900), (390, 844)

VOID = {"meta", "link", "br", "hr", "img", "input"}


@pytest.fixture(scope="module")
def page(finished: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the finished folder, made by its rule."""
    folder = tmp_path_factory.mktemp("page") / "copy"
    shutil.copytree(finished.folder, folder, symlinks=True)
    project = replace(finished, folder=folder)
    project.make("report/lab5.html")
    made: Path = folder / "report" / "lab5.html"
    return made


class Outline(HTMLParser):
    """What a page has in it: addresses, ids, languages, and whether its elements are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src", "xlink:href", "action", "data"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_it_is_whole_and_asks_for_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    outline = Outline(text)
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    assert [address for address in outline.addresses if not address.startswith("#")] == []
    assert {address[1:] for address in outline.addresses} <= set(outline.ids)
    style = text[text.index("<style>") : text.index("</style>")]
    assert set(re.findall(r"url\(\"?([a-z]+:)", style)) == {"data:"}
    policy = unescape(re.search('Content-Security-Policy" content="([^"]+)"', text)[1])  # type: ignore[index]
    assert policy.startswith("default-src 'none'") and "http" not in policy


def test_it_says_what_the_pdf_says_and_more(
    page: Path,
    results: Any,
    squeezed: Callable[[str], str],
) -> None:
    def paragraphs(html: str) -> set[str]:
        text = re.sub("<(style|script|svg).*?</\\1>", "", html, flags=re.DOTALL)
        found = re.findall("<p lang[^>]*>(.*?)</p>", text, re.DOTALL)
        return {squeezed(unescape(re.sub("<[^>]+>", "", paragraph))) for paragraph in found}

    shown = paragraphs(page.read_text("utf-8"))
    printed = paragraphs(to_html(results.compose()))
    assert len(shown) > 150
    on_paper_alone = printed - shown
    captions = {each for each in on_paper_alone if re.match("圖|Figure|屋頂線|Roofline", each)}
    assert len(on_paper_alone - captions) <= 2  # where the rest is, in two languages


# In a browser


@dataclass(frozen=True)
class Seen:
    """What a reader saw after doing something, and what the console said."""

    result: Any
    console: list[str]


@pytest.fixture
def chromium(tmp_path: Path) -> Callable[..., Seen]:
    """Opens a page in Chromium, does what a script says, and returns what that returns."""
    if CHROMIUM is None:
        pytest.skip(
            "Chromium is not installed, so the page was not tried in a browser: "
            "apt-get install chromium"
        )

    def call(page: Path, script: str, size: tuple[int, int] = DESKTOP) -> Seen:
        driver = (
            "window.addEventListener('load', () => { let seen; "
            f"try {{ seen = (() => {{ {script} }})(); }} catch (error) {{ seen = String(error); }} "
            "const out = document.createElement('pre'); out.id = 'seen'; "
            "out.textContent = JSON.stringify(seen); document.body.append(out); });"
        )
        hashed = base64.b64encode(hashlib.sha256(driver.encode()).digest()).decode()
        text = page.read_text(encoding="utf-8")
        assert "script-src &#39;sha256-" in text
        text = text.replace("script-src ", f"script-src &#39;sha256-{hashed}&#39; ", 1)
        tried = tmp_path / "tried.html"
        tried.write_text(text.replace("</body>", f"<script>{driver}</script></body>"), "utf-8")
        done = subprocess.run(
            [
                *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu"),
                *("--disable-dev-shm-usage", f"--user-data-dir={tmp_path / 'profile'}"),
                *(f"--window-size={size[0]},{size[1]}", "--enable-logging=stderr", "--v=0"),
                *("--virtual-time-budget=5000", "--dump-dom", tried.as_uri()),
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        found = re.search('<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
        assert found, done.stderr
        console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
        return Seen(json.loads(unescape(found[1])), console)

    return call


@pytest.fixture
def in_chromium(page: Path, chromium: Callable[..., Seen]) -> Callable[..., Seen]:
    """Does so with the finished folder's page."""
    return partial(chromium, page)


SHOWN = "const shown = (part) => part.getClientRects().length > 0;"


def test_the_console_stays_silent_and_the_fonts_are_the_pages_own(
    in_chromium: Callable[..., Seen],
) -> None:
    seen = in_chromium(
        "return [document.fonts.size, [...document.fonts].map((font) => font.family)[0], "
        "document.querySelector('.tools').hidden, document.querySelectorAll('figure svg').length];"
    )
    assert seen.console == []
    assert seen.result[0] == 2 and "Noto Sans TC" in seen.result[1]
    assert seen.result[2] is False and seen.result[3] == 25


@pytest.mark.parametrize(("chosen", "other"), [("en", "zh-TW"), ("zh-TW", "en")])
def test_one_language_is_shown_alone_and_both_again(
    in_chromium: Callable[..., Seen], chosen: str, other: str
) -> None:
    seen = in_chromium(
        SHOWN
        + f"""
        const count = (tag) =>
          [...document.querySelectorAll(`section [lang="${{tag}}"]`)].filter(shown).length;
        const before = [count("{chosen}"), count("{other}")];
        document.querySelector('button[data-language="{chosen}"]').click();
        const alone = [count("{chosen}"), count("{other}"), document.documentElement.lang];
        document.querySelector('button[data-language="both"]').click();
        return [before, alone, [count("{chosen}"), count("{other}")]];
        """
    )
    before, alone, after = seen.result
    assert seen.console == [] and before == after
    assert before[0] > 100 and before[1] > 100
    assert alone == [before[0], 0, chosen]


def test_an_implementation_can_be_left_out_of_rows_and_figures(
    in_chromium: Callable[..., Seen],
) -> None:
    seen = in_chromium(
        SHOWN
        + """
        const count = (kind, name) =>
          [...document.querySelectorAll(`${kind}[data-implementation=${name}]`)]
            .filter(shown).length;
        const all = () =>
          [["tr", "Flash2"], ["tr", "Pytorch"], ["svg ", "Flash2"], ["svg ", "Pytorch"]]
            .map(([kind, name]) => count(kind, name));
        const before = all();
        document.querySelector('[data-show="Flash2"]').click();
        return [before, all()];
        """
    )
    before, after = seen.result
    assert seen.console == [] and all(count > 10 for count in before)
    assert after == [0, before[1], 0, before[3]]


CROSSOVERS = """
    const body = document.querySelector('.crossovers tbody');
    const labels = () => [...body.rows].filter(shown).map((row) =>
      [...row.cells].slice(0, 2).map((cell) => cell.textContent.trim() !== ''));
    const hide = (name) => document.querySelector(`[data-show="${name}"]`).click();
"""


@pytest.fixture
def with_crossovers(results: Any) -> Path:
    """A page on which three implementations overtake another in one experiment and metric."""
    found = results.findings()
    template = next(
        finding
        for finding in found
        if finding["kind"] == "crossover" and finding["subject"]["metric"] == "forward_time"
    )
    for low, name in enumerate(("Pytorch", "Flash2", "Flash2"), start=16):
        subject = template["subject"] | {"implementation": name, "other": "Flex"}
        params = {"low_at": low, "high_at": 64, "before": "Flex", "after": "Flash2"}
        crosses = {"subject": subject, "verdict": "crosses", "params": params}
        found.append({**template, **crosses})
    (results.local / "findings.json").write_text(json.dumps(found), encoding="utf-8")
    made: Path = results.write_page()
    return made


def test_the_first_row_shown_of_a_group_has_its_labels(
    with_crossovers: Path, chromium: Callable[..., Seen]
) -> None:
    seen = chromium(
        with_crossovers,
        SHOWN
        + CROSSOVERS
        + """
        const before = labels();
        hide("Pytorch"); const without = labels();
        hide("Pytorch"); return [before, without, labels()];
        """,
    )
    before, without, after = seen.result
    assert seen.console == []
    assert before == after == [[True, True], [False, False], [False, False]]
    assert without == [[True, True], [False, False]]


def test_labels_follow_the_language_and_are_in_every_row_of_a_sorted_table(
    with_crossovers: Path, chromium: Callable[..., Seen]
) -> None:
    seen = chromium(
        with_crossovers,
        SHOWN
        + CROSSOVERS
        + """
        document.querySelector('button[data-language="en"]').click();
        hide("Pytorch");
        const text = () => [...body.rows].find(shown).cells[1].innerText.trim();
        const english = text();
        hide("Pytorch");
        document.querySelectorAll('.crossovers thead th')[3].click();
        return [english, labels()];
        """,
    )
    assert seen.console == []
    assert seen.result == ["Forward time", [[True, True]] * 3]


def test_a_table_is_sorted_by_the_column_that_is_clicked(in_chromium: Callable[..., Seen]) -> None:
    seen = in_chromium(
        """
        const table = document.querySelector('#table-seq_len table');
        const heading = table.querySelectorAll('thead th')[2];
        const texts = (column) =>
          [...table.tBodies[0].rows].map((row) => row.cells[column].textContent.trim());
        const numbers = () => texts(2).map(Number.parseFloat);
        const names = () => texts(0);
        heading.click(); const up = numbers(); const sort = heading.getAttribute('aria-sort');
        heading.click(); return [up, sort, numbers(), names()];
        """
    )
    up, sort, down, names = seen.result
    assert seen.console == [] and sort == "ascending" and len(up) == 4
    assert up == sorted(up) and down == sorted(up, reverse=True)
    assert sorted(names) == ["Flash2", "Flash2", "Pytorch", "Pytorch"]


def test_a_figure_opens_large_and_larger(in_chromium: Callable[..., Seen]) -> None:
    seen = in_chromium(
        """
        const dialog = document.querySelector('dialog');
        const click = new MouseEvent('click', {bubbles: true});
        document.querySelector('#figure-1 svg').dispatchEvent(click);
        const width = () => dialog.querySelector('svg').getBoundingClientRect().width;
        const opened = [dialog.open, width()];
        dialog.querySelector('[data-zoom="1.25"]').click();
        const larger = width();
        dialog.querySelector('[data-close]').click();
        return [...opened, larger, dialog.open];
        """
    )
    opened, width, larger, after = seen.result
    assert seen.console == [] and opened and not after
    assert width > 1000 and larger == pytest.approx(1.25 * width, rel=0.01)


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_nothing_but_tables_and_figures_is_wider_than_the_screen(
    in_chromium: Callable[..., Seen], size: tuple[int, int]
) -> None:
    seen = in_chromium(
        "return [document.documentElement.scrollWidth, window.innerWidth];", size=size
    )
    assert seen.console == []
    assert seen.result[0] <= seen.result[1]
