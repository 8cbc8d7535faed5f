"""The HTML page: one file that asks for nothing, tried in headless Chromium from file://."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from contextlib import chdir
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pdf import pages
from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Page as Tab
from programs import CHROMIUM, reason
from report.conftest import Results, read_cells
from report.reading import elements

AXE = str(files("axe_playwright_python") / "axe.min.js")
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}

ADDRESSES = ("href", "src", "xlink:href", "action", "data")
ADDRESS = re.compile(r"url\(([^)]*)\)")
POLICY = "Content-Security-Policy"


@pytest.fixture(scope="module")
def page(copy_finished: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the finished folder, made by its rule."""
    project = copy_finished(tmp_path_factory.mktemp("page") / "copy")
    project.make("report/lab5.html")
    made: Path = project.folder / "report" / "lab5.html"
    return made


def test_it_is_whole_and_asks_for_nothing(page: Path) -> None:
    found = [element.attrib for element in elements(page)]
    ids = [given["id"] for given in found if "id" in given]
    assert len(ids) == len(set(ids))
    addresses = {given[name] for given in found for name in ADDRESSES if name in given}
    places = {address[1:] for address in addresses if address.startswith("#")}
    assert places and places <= set(ids)
    records = {address for address in addresses if not address.startswith("#")}
    assert {Path(record).suffix for record in records} == {".json"}
    assert all((page.parent / record).is_file() for record in records)
    text = page.read_text(encoding="utf-8")
    style = text[text.index("<style>") : text.index("</style>")]
    assert all(each.strip("\"'").startswith("data:font/") for each in ADDRESS.findall(style))
    policy = next(given["content"] for given in found if given.get("http-equiv") == POLICY)
    assert policy.startswith("default-src 'none'") and "http" not in policy


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(reason("Chromium"))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, page: Path) -> Iterator[Callable[..., Tab]]:
    """Opens the page for a reader; afterwards, nothing else was asked for, and nothing logged."""
    asked: list[str] = []
    logged: list[str] = []
    contexts = []

    def call(file: Path = page, language: str | None = None, **reader: Any) -> Tab:
        context = browser.new_context(**{"viewport": DESKTOP, "reduced_motion": "reduce"} | reader)
        context.set_default_timeout(10_000)
        contexts.append(context)
        tab = context.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: logged.append(message.text))
        tab.on("pageerror", lambda error: logged.append(str(error)))
        tab.goto(file.as_uri())
        if language:
            tab.click(f'button[value="{language}"]')
        return tab

    yield call
    for context in contexts:
        context.close()
    assert logged == []
    assert {urlsplit(url).path.rpartition("/")[2] for url in asked} <= {"lab5.html"}


def count_shown(tab: Tab, selector: str) -> int:
    """The number of elements that are shown, in view or not."""
    found: int = tab.evaluate(
        "(selector) => [...document.querySelectorAll(selector)]"
        ".filter((part) => part.getClientRects().length).length",
        selector,
    )
    return found


def wait_until(tab: Tab, expression: str) -> None:
    """Wait for something to become true; the page's policy forbids Playwright's own way."""
    for _ in range(200):
        if tab.evaluate(expression):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


# Languages and appearance


TITLES = {"en": "Attention benchmark report", "zh-TW": "注意力機制效能實驗報告"}
FIRST_METRICS = {"en": "Forward time (ms)", "zh-TW": "前向時間 (ms)"}


def test_a_language_is_shown_alone_in_text_title_figures_and_charts_and_remembered(
    open_page: Callable[..., Tab],
) -> None:
    tab = open_page()
    of = {tag: f'main [lang="{tag}"]' for tag in TITLES}
    assert min(count_shown(tab, of[tag]) for tag in TITLES) > 100
    for chosen, other in (("en", "zh-TW"), ("zh-TW", "en")):
        tab.click(f'button[value="{chosen}"]')
        tab.reload()
        assert tab.title() == TITLES[chosen]
        assert tab.locator("html").get_attribute("lang") == chosen
        assert count_shown(tab, of[other]) == 0 and count_shown(tab, of[chosen]) > 100
        assert count_shown(tab, f'.row svg [lang="{chosen}"]') > 0
        tab.locator(".explorer").first.scroll_into_view_if_needed()
        first = tab.locator("[name=metric]").first.locator("option").first
        assert first.inner_text() == FIRST_METRICS[chosen]
    tab.click('button[value="both"]')
    assert [count_shown(tab, of[tag]) > 100 for tag in TITLES] == [True, True]


def test_the_appearance_follows_the_system_or_the_readers_choice(
    open_page: Callable[..., Tab],
) -> None:
    def look(tab: Tab) -> list[str]:
        found: list[str] = tab.evaluate(
            "[getComputedStyle(document.body).backgroundColor, "
            "getComputedStyle(document.querySelector('figure svg')).filter]"
        )
        return found

    light, dark = look(open_page()), look(tab := open_page(color_scheme="dark"))
    assert light == ["rgb(255, 255, 255)", "none"]
    assert dark[0] == "rgb(20, 24, 28)" and "invert" in dark[1]
    tab.click('button[value="light"]')
    assert look(tab) == light
    tab.reload()
    assert look(tab) == light


# Contents and search


def test_contents_and_search_stay_in_view_and_tell_where_the_reader_is(
    open_page: Callable[..., Tab],
) -> None:
    tab = open_page()
    tab.click('.contents a[href="#method"]')
    current = tab.locator('.contents a[href="#method"][aria-current]')
    current.wait_for()
    for selector in (".contents", ".search input"):
        box = tab.locator(selector).bounding_box()
        assert box and 0 <= box["y"] < DESKTOP["height"] / 2


def test_search_finds_rows_and_sentences_of_the_language_shown(
    open_page: Callable[..., Tab],
) -> None:
    tab = open_page(language="en")
    tab.keyboard.press("/")
    tab.keyboard.type("FLASH2 forward 16")
    found = tab.locator(".found li")
    found.first.wait_for()
    texts = found.all_inner_texts()
    assert any("Flash2" in text for text in texts) and not re.search("[一-龥]", "".join(texts))
    tab.keyboard.press("Enter")
    target = tab.evaluate("document.querySelector(':target').textContent")
    assert all(word in target.lower() for word in ("flash2", "forward", "16"))
    tab.fill(".search input", "nothing has this")
    wait_until(tab, "document.querySelector('.found p').textContent === 'Matches: 0'")
    tab.press(".search input", "Escape")
    assert not tab.locator(".found").is_visible()


# Charts


def at_chart(tab: Tab, position: int = 0) -> Tab:
    """A page at the chart of one of its experiments."""
    tab.locator(".explorer").nth(position).scroll_into_view_if_needed()
    tab.locator(".plot .u-over").first.wait_for()
    return tab


@pytest.fixture
def explored(open_page: Callable[..., Tab]) -> Tab:
    """The page in English, at the chart of the first experiment."""
    return at_chart(open_page(language="en"))


def state(tab: Tab, expression: str) -> Any:
    """Something about the first chart."""
    return tab.evaluate(f"(() => {{ const chart = EXPLORERS[0]; return {expression}; }})()")


def place_of(tab: Tab, line: int, point: int) -> tuple[float, float]:
    """The place of a point of the first chart in the window."""
    box = tab.locator(".plot .u-over").first.bounding_box()
    at = state(tab, f"chart.place(chart.lines[{line}], chart.lines[{line}].points[{point}])")
    assert box and at
    return box["x"] + at["x"], box["y"] + at["y"]


def rows_of(page: Path, experiment: str, **cells: Any) -> list[dict[str, str]]:
    """The rows of tables of metrics that have these cells."""
    return [
        row
        for table in page.parents[1].glob(f"results/local/tables/{experiment}/metrics.csv")
        for row in csv.DictReader(table.read_text("utf-8").splitlines())
        if {key: json.dumps(cell).strip('"') for key, cell in cells.items()}.items() <= row.items()
    ]


def measured(page: Path, name: str, size: int, metric: str) -> dict[str, str]:
    """A row of the first experiment's table of metrics."""
    return rows_of(page, "seq_len", implementation=name, seq_len=size, metric=metric)[0]


def test_a_point_tells_its_value_interval_run_and_record(explored: Tab, page: Path) -> None:
    tab, tip = explored, explored.locator(".tip").first
    x, y = place_of(tab, line=1, point=0)
    tab.mouse.move(x + 2, y)
    row = measured(page, "Flash2", 16, "forward_time")
    text = " ".join(tip.inner_text().split())
    shown = [float(number) for number in re.findall(r"\d+\.\d+", text)]
    for column in ("value", "low", "high"):
        # In four digits, of which the last may be rounded either way at a tie.
        assert any(number == pytest.approx(float(row[column]), rel=5.1e-4) for number in shown)
    assert text.startswith("Flash2") and "N 16" in text and "span of the processes" in text
    tab.mouse.click(x + 2, y)
    run, record = tip.locator("a").all()
    assert (page.parent / str(record.get_attribute("href"))).is_file()
    target = str(run.get_attribute("href"))
    run.click()
    assert tab.evaluate("location.hash") == target
    link = tab.locator(f"{target} a").get_attribute("href")
    assert link == record.get_attribute("href") and "flash2" in str(link)


def test_a_chart_is_read_with_the_keyboard_alone(explored: Tab) -> None:
    tab = explored
    tab.locator("[data-act=reset]").first.focus()
    tab.keyboard.press("Tab")
    assert state(tab, "document.activeElement === chart.plot")
    said = tab.locator(".said").first
    heard = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        tab.keyboard.press(key)
        heard.append(said.text_content().split(", ")[:2])  # type: ignore[union-attr]
    assert heard == [
        ["Pytorch", "N 16"],
        ["Pytorch", "N 64"],
        ["Flash2", "N 64"],
        ["Flash2", "N 16"],
    ]
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.hash").startswith("#run-")
    tab.keyboard.press("Escape")
    assert state(tab, "document.activeElement === chart.plot && chart.tip.hidden")


def spans(tab: Tab) -> list[float]:
    """The ends of both axes."""
    found: list[float] = state(
        tab, "['x', 'y'].flatMap((a) => [chart.uplot.scales[a].min, chart.uplot.scales[a].max])"
    )
    return [float(f"{end:.6g}") for end in found]


def test_a_chart_zooms_by_dragging_wheel_keyboard_and_buttons(explored: Tab) -> None:
    tab = explored
    whole = spans(tab)
    box = tab.locator(".plot .u-over").first.bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 4, box["y"] + box["height"] / 4

    def is_zoomed() -> bool:
        low, high, bottom, top = spans(tab)
        return whole[0] < low < high < whole[1] and whole[2] < bottom < top < whole[3]

    tab.mouse.move(x, y)
    before = tab.evaluate("scrollY")
    tab.mouse.wheel(0, 100)  # scrolls the page: the chart has no focus
    wait_until(tab, f"scrollY > {before}")
    assert spans(tab) == whole
    tab.evaluate(f"scrollTo(0, {before})")
    tab.mouse.down()
    tab.mouse.move(x + box["width"] / 2, y + box["height"] / 2, steps=4)
    tab.mouse.up()
    assert is_zoomed()
    tab.mouse.dblclick(x, y)
    assert spans(tab) == whole
    tab.mouse.wheel(0, -100)
    wait_until(tab, f"EXPLORERS[0].uplot.scales.x.min > {whole[0]} * 1.001")
    assert is_zoomed()
    tab.keyboard.press("0")
    assert spans(tab) == whole
    tab.keyboard.press("+")
    assert is_zoomed()
    closer = spans(tab)
    tab.keyboard.press("Shift+ArrowRight")
    assert spans(tab)[0] > closer[0] and spans(tab)[1] > closer[1]
    tab.locator("[data-act=reset]").first.click()
    tab.locator("[data-act=zoom_in]").first.click()
    assert is_zoomed()
    tab.locator("[data-act=zoom_out]").first.click()
    assert spans(tab) == pytest.approx(whole, rel=1e-3)


def test_metric_and_axes_are_chosen_and_values_relative_to_any_implementation(
    explored: Tab, page: Path
) -> None:
    tab = explored

    def choose(name: str, label: str) -> None:
        tab.locator(f"[name={name}]").first.select_option(label=label)

    def drawn(line: int) -> list[float]:
        found: list[float] = state(tab, f"chart.uplot.data[{line + 1}]")
        return found

    choose("metric", "Peak memory (MiB)")
    rows = [measured(page, "Pytorch", size, "peak_memory") for size in (16, 64)]
    assert drawn(0) == pytest.approx([float(row["value"]) for row in rows])
    choose("metric", "Backward time (ms)")
    choose("values", "Relative to Flash2")
    ours, theirs = (measured(page, name, 64, "backward_time") for name in ("Pytorch", "Flash2"))
    ratio = float(ours["value"]) / float(theirs["value"])
    assert drawn(1) == [1, 1] and drawn(0)[1] == pytest.approx(ratio, rel=1e-5)
    tab.mouse.move(*place_of(tab, line=0, point=1))
    assert f"{float(f'{ratio:.3g}'):g}×" in tab.locator(".tip").first.inner_text()
    for axis, name in (("x", "horizontal"), ("y", "vertical")):
        for label, distribution in (("Linear", 1), ("Logarithmic", 3)):
            choose(name, label)
            assert state(tab, f"chart.uplot.scales.{axis}.distr") == distribution


def test_lines_are_switched_by_the_legend_and_by_the_filter_of_the_page(explored: Tab) -> None:
    tab = explored

    def drawn() -> list[str]:
        found: list[str] = state(tab, "chart.uplot.series.slice(1).map((line) => line.label)")
        return found

    assert drawn() == ["Pytorch", "Flash2"]
    legend = tab.locator(".legend button[data-line=Pytorch]").first
    legend.click()
    assert drawn() == ["Flash2"] and legend.get_attribute("aria-pressed") == "false"
    legend.click()

    def count_of_flash2() -> list[int]:
        return [count_shown(tab, f"{kind}[data-of=Flash2]") for kind in ("tr", ".row g")]

    assert min(count_of_flash2()) > 5
    tab.uncheck("[data-show=Flash2]")
    assert drawn() == ["Pytorch"]
    assert count_of_flash2() == [0, 0]
    assert count_shown(tab, "tr[data-of=Pytorch]") > 10


def test_a_link_to_a_figure_shows_the_chart_of_its_metric(open_page: Callable[..., Tab]) -> None:
    tab = open_page(language="en")
    tab.evaluate("location.hash = '#figure-2'")
    wait_until(tab, "document.activeElement.className === 'plot'")
    label = str(tab.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert label == "Chart: Experiment 1: Sequence length, Peak memory (MiB)"


def test_a_run_without_a_result_is_a_point_that_says_so(
    results: Any, open_page: Callable[..., Tab]
) -> None:
    without = dict.fromkeys(("value", "low", "high", "deviation"), "")
    results.change_runs("seq_len", {"status": "oom", **without}, first=1)
    tab = at_chart(open_page(results.write_page(), language="en"))
    failed = state(tab, "chart.lines.findIndex((line) => line.points[0].status)")
    tab.mouse.move(*place_of(tab, line=failed, point=0))
    assert "out of memory" in tab.locator(".tip").first.inner_text()
    assert state(tab, f"chart.uplot.data[{failed + 1}]")[0] is None


# Tables


def test_a_table_is_sorted_up_down_and_back_with_a_sign_that_says_so(
    open_page: Callable[..., Tab],
) -> None:
    tab = open_page()
    table = tab.locator("#table-seq_len table")
    heading = table.locator("thead th").nth(2)

    def press() -> tuple[str | None, str, list[float]]:
        heading.locator("button").press("Enter")
        cells = table.locator("tbody td:nth-child(3)").all_inner_texts()
        sign = heading.locator("button").evaluate("(b) => getComputedStyle(b, '::after').content")
        return heading.get_attribute("aria-sort"), sign, [float(cell.split()[0]) for cell in cells]

    up, down, back = press(), press(), press()
    assert up == ("ascending", '" ▲"', sorted(up[2]))
    assert down == ("descending", '" ▼"', sorted(up[2], reverse=True))
    assert back[:2] == ("none", '" ↕"') and sorted(back[2]) == up[2] != back[2]


def test_a_copied_link_opens_what_was_searched_left_out_sorted_and_switched_off(
    open_page: Callable[..., Tab],
) -> None:
    tab = open_page()
    tab.fill(".search input", "memory")
    tab.uncheck("[data-show=Flash2]")
    tab.locator("#table-seq_len thead th").nth(2).locator("button").press("Enter")
    tab.locator(".explorer").first.scroll_into_view_if_needed()
    tab.locator(".legend button[data-line=Pytorch]").first.click()
    wait_until(tab, "location.search.includes('search=memory')")
    address, tab = tab.url, open_page()
    tab.goto(address)
    tab.locator(".found").wait_for()
    assert tab.input_value(".search input") == "memory"
    assert not tab.is_checked("[data-show=Flash2]")
    assert count_shown(tab, "tr[data-of=Flash2]") == 0
    sorted_by = tab.locator("#table-seq_len thead th[aria-sort=ascending]")
    assert sorted_by.evaluate("(heading) => heading.cellIndex") == 2
    assert state(tab, "[...chart.hidden]") == ["Pytorch:0"]
    tab.check("[data-show=Flash2]")
    assert "without" not in tab.url and "search=memory" in tab.url


# Figures, large


def test_a_figure_opens_large_and_zooms_by_buttons_wheel_keyboard_and_dragging(
    open_page: Callable[..., Tab],
) -> None:
    tab = open_page()
    tab.locator("figure .enlarge").first.press("Enter")
    drawn, stage = tab.locator("dialog svg"), tab.locator("dialog .stage")

    def width() -> float:
        found: float = drawn.evaluate("(svg) => svg.getBoundingClientRect().width")
        return found

    whole = width()
    assert whole > 1000
    tab.click('dialog [data-zoom="1.25"]')
    assert width() == pytest.approx(1.25 * whole, rel=0.01)
    stage.press("+")
    assert width() == pytest.approx(1.25**2 * whole, rel=0.01)
    tab.mouse.move(640, 450)
    tab.mouse.wheel(0, -100)
    wait_until(
        tab, f"document.querySelector('dialog svg').getBoundingClientRect().width > {1.9 * whole}"
    )
    left = stage.evaluate("(stage) => stage.scrollLeft")
    tab.mouse.down()
    tab.mouse.move(540, 450, steps=4)
    tab.mouse.up()
    assert stage.evaluate("(stage) => stage.scrollLeft") == pytest.approx(left + 100, abs=2)
    stage.press("0")
    assert width() == pytest.approx(whole, rel=0.01)
    tab.keyboard.press("Escape")
    assert not tab.locator("dialog").is_visible()


# Marks: the heat map, the map of choices


@pytest.fixture(scope="module")
def of_four(finished: Any, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The page with two more implementations, faster than the others."""
    made = Results(finished.folder, tmp_path_factory.mktemp("four") / "copy")
    with chdir(made.folder):
        made.add_implementations(["Flex", "SdpaMath"])
        made.write_page()
    return made


def find_mark(tab: Tab, field: str, mark: str) -> tuple[float, float]:
    """The middle, in the window, of the first mark of a figure that lies under no other one."""
    tab.locator(field).first.scroll_into_view_if_needed()
    middles = f"""[...document.querySelectorAll({f"{field} {mark}"!r})].map((part) => {{
        const {{ left, right, top, bottom }} = part.getBoundingClientRect();
        return [part, (left + right) / 2, (top + bottom) / 2];
    }})"""
    is_on_top = f"([part, x, y]) => document.elementFromPoint(x, y)?.closest({mark!r}) === part"
    wait_until(tab, f"(window.found = {middles}.find({is_on_top})) !== undefined")
    x, y = tab.evaluate("window.found.slice(1)")
    return x, y


def test_marks_are_reached_with_the_keyboard_alone(
    of_four: Results, open_page: Callable[..., Tab]
) -> None:
    tab = open_page(of_four.page, language="en")
    field = tab.locator(".heat table")
    field.scroll_into_view_if_needed()
    field.focus()
    middle = "(({left, right}) => (left + right) / 2)(details.mark.getBoundingClientRect())"
    tab.keyboard.press("ArrowRight")
    first = tab.evaluate(middle)
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(middle) > first
    said = tab.locator("section:has(> .heat) > .said").text_content()
    assert said and "Forward time" in said and "span of the processes" in said
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.hash").startswith("#run-")
    tab.keyboard.press("Escape")
    assert not tab.locator(".marks-tip").is_visible()
    assert field.evaluate("(table) => document.activeElement === table")


def test_places_of_the_map_of_choices_and_of_the_heat_map_lead_to_their_runs(
    of_four: Results, open_page: Callable[..., Tab]
) -> None:
    tab = open_page(of_four.page, language="en")
    tab.mouse.move(*find_mark(tab, ".map", "[data-runs]"))
    name = tab.evaluate("details.mark.firstChild.data.trim()")
    symbols, sizes = tab.evaluate(
        "[details.mark.closest('table').tHead.rows[0], details.mark.parentNode]"
        ".map((row) => row.cells[0].textContent)"
    )
    size = dict(zip(symbols.split(" · "), sizes.split(" · "), strict=True))
    assert tab.locator(".marks-tip strong").first.inner_text().startswith(name)
    links = tab.locator(".marks-tip a[href^='#run-']")
    runs = links.evaluate_all("(links) => links.map((link) => link.hash)")
    assert runs
    for run in runs:
        record = tab.locator(f"{run} a").text_content()
        assert record and size["N"] in re.findall(r"-n(\d+)-", record)
    tab.mouse.move(*find_mark(tab, ".heat", "[data-run]"))
    told = " ".join(tab.locator(".marks-tip").inner_text().split())
    assert told.startswith(tab.evaluate("details.mark.dataset.of"))
    own = float(re.search(r"Forward time ([\d.]+) ms", told)[1])  # type: ignore[index]
    at = tab.evaluate("details.mark.parentNode.querySelector('[scope=row]').textContent")
    metrics = of_four.folder / of_four.local / "tables" / "seq_len" / "metrics.csv"
    table = read_cells(metrics)
    mine = table[(table.metric == "forward_time") & (table.seq_len == at.removeprefix("N = "))]
    share = float(tab.evaluate("details.mark.textContent"))
    assert share == pytest.approx(100 * mine.value.astype(float).min() / own, abs=1.5)


# Every reader


def test_on_a_phone_nothing_is_cut_and_rows_are_cards(open_page: Callable[..., Tab]) -> None:
    tab = open_page(viewport=PHONE)
    cut = tab.evaluate(
        "[...document.querySelectorAll('main *')].filter((part) => part.getClientRects().length"
        " && !part.closest('svg, .said') && part.getBoundingClientRect().right > innerWidth + 1)"
        ".map((part) => part.outerHTML.slice(0, 80))"
    )
    assert cut == []
    cell = tab.locator("#table-seq_len tbody td").nth(2)
    assert cell.get_attribute("data-label") == "前向 (ms) Forward (ms)"
    menu, contents = tab.locator(".menu"), tab.locator(".contents")
    assert menu.is_visible() and not contents.is_visible()
    menu.press("Enter")
    contents.locator('a[href="#environment"]').click()
    assert not contents.is_visible()
    assert tab.locator(".search input").bounding_box()["y"] >= 0  # type: ignore[index]


def test_printed_it_has_the_pages_of_the_pdf(
    open_page: Callable[..., Tab], finished: Any, tmp_path: Path
) -> None:
    tab = open_page(color_scheme="dark")
    tab.pdf(path=tmp_path / "printed.pdf", prefer_css_page_size=True)
    printed = pages(tmp_path / "printed.pdf")
    assert abs(len(printed) - len(pages(finished.pdf))) <= 2


def test_without_scripts_every_figure_is_there_and_nothing_that_needs_one(
    open_page: Callable[..., Tab],
) -> None:
    tab = open_page(java_script_enabled=False)
    figures = tab.locator("figure svg")
    assert figures.count() == 20 and all(figure.is_visible() for figure in figures.all())
    assert tab.locator(".contents").is_visible()
    assert not any(part.is_visible() for part in tab.locator(".scripted, .explorer, button").all())


def test_everything_is_reached_with_the_tab_key(open_page: Callable[..., Tab]) -> None:
    tab = open_page()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip screen"
    tab.keyboard.press("Enter")
    assert tab.evaluate("location.hash") == "#report"
    reached: int = tab.evaluate(
        "[...document.querySelectorAll('.side :is(a, button, input), main :is(button, a, select)')]"
        ".filter((part) => part.getClientRects().length && part.tabIndex < 0).length"
    )
    assert reached == 0


ONE_CHAPTER = ".side, .front, .chapter:has(#experiment-causal)"
CONTRAST = {"runOnly": ["color-contrast"]}
ALL_BUT_CONTRAST = {"rules": {"color-contrast": {"enabled": False}}}


def test_axe_finds_nothing_serious_on_a_screen_in_the_dark_and_on_a_phone(
    open_page: Callable[..., Tab],
) -> None:
    tab = at_chart(open_page(bypass_csp=True), 1)
    tab.add_script_tag(path=AXE)

    def serious(where: str, options: dict[str, Any]) -> list[tuple[str, list[str]]]:
        found: list[dict[str, Any]] = tab.evaluate(
            "([where, options]) => axe.run({include: where.split(', ')}, options)"
            ".then((result) => result.violations)",
            [where, {"resultTypes": ["violations"], **options}],
        )
        return [
            (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
            for each in found
            if each["impact"] in ("serious", "critical")
        ]

    assert serious("body", ALL_BUT_CONTRAST) == []
    assert serious(ONE_CHAPTER, CONTRAST) == []
    tab.emulate_media(color_scheme="dark")
    assert serious(ONE_CHAPTER, CONTRAST) == []
    tab.set_viewport_size(PHONE)
    assert serious(ONE_CHAPTER, ALL_BUT_CONTRAST) == []
