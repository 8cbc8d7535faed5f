"""Colours that are told apart, text that stays text, and files that are the same every time."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figures.drawn import BOTH, drawn, experiment_of
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from flashlab.analysis.experiment import COMPARISONS
from flashlab.analysis.stage import tabulate
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.figures.stage import draw_figures
from flashlab.figures.style import (
    COLOURS,
    MARKERS,
    drawing,
    lay_out,
    looks_of,
    muted,
    new_panels,
    save,
    text_colour,
    title_panel,
)
from flashlab.files import write_json
from flashlab.runs import Run


def linear(shade: str) -> NDArray[Any]:
    """The linear RGB components of a colour."""
    parts = np.array(to_rgb(shade))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(components: NDArray[Any]) -> NDArray[Any]:
    """CIELAB of linear RGB components under D65."""
    to_xyz = np.array(
        [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]
    )
    x, y, z = np.cbrt(np.maximum(to_xyz @ np.clip(components, 0, 1), 1e-4) / (to_xyz @ np.ones(3)))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


SIGHT = {
    "full": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
"""Machado, Oliveira and Fernandes (2009), at full severity, for linear RGB."""


@pytest.mark.parametrize("sight", SIGHT)
def test_implementations_are_told_apart_under_every_colour_vision(sight: str) -> None:
    seen = [lab(np.array(SIGHT[sight]) @ linear(shade)) for shade in COLOURS]
    apart = [np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2)]
    assert min(apart) > 20


def test_implementations_are_told_apart_in_greyscale_and_by_their_markers() -> None:
    lightness = sorted(lab(linear(shade))[0] for shade in COLOURS)
    assert min(b - a for a, b in itertools.pairwise(lightness)) > 7
    assert len(set(MARKERS)) == len(MARKERS) == len(COLOURS)
    looks = looks_of([{"name": str(n), "style": n} for n in range(2 * len(COLOURS))])
    assert len({look.shade for look in looks.values()}) == len(looks)
    assert len({(look.shade, look.marker) for look in looks.values()}) == len(looks)


def test_a_kernel_with_packed_inputs_has_the_colour_of_the_same_one_with_separate_ones() -> None:
    entries = [{"name": "A", "style": 1}, {"name": "APacked", "style": 5, "packed_of": "A"}]
    looks = looks_of(entries)
    assert looks["A"].shade == looks["APacked"].shade
    assert looks["A"].marker != looks["APacked"].marker


def contrast(shade: str) -> float:
    """With white."""
    return 1.05 / (float(np.array([0.2126, 0.7152, 0.0722]) @ linear(shade)) + 0.05)


def test_text_in_any_colour_has_contrast_and_so_have_muted_lines() -> None:
    for shade in COLOURS:
        assert contrast(text_colour(shade)) > 4.5 < contrast(text_colour(muted(shade))), shade
        assert contrast(muted(shade)) > 2.3, shade
    hues = [lab(linear(muted(shade)))[1:] for shade in COLOURS[:7]]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(hues, 2)) > 8


# The files


@pytest.fixture
def draw(tmp_path: Path, planned: Callable[..., Any]) -> Callable[..., dict[str, Path]]:
    """Writes the plan and tables of some records and draws all figures of them."""

    def drawn(records: list[Any]) -> dict[str, Path]:
        figures = [
            {"id": name, "quantity": name, "implementations": ["Flash2"], "supplement": False}
            for name in ATTENTION.having(records[0].metrics).quantities
        ]
        document = planned(records, figures=figures)
        plan, measured = tmp_path / "plan.json", tmp_path / "records.json"
        languages = tmp_path / "languages.json"
        write_json(measured, document)
        # As the experiment's own plan, which does not change with what is measured.
        write_json(plan, {key: value for key, value in document.items() if key != "records"})
        write_json(languages, BOTH)
        tabulate(measured, measured, tmp_path / "tables")
        tmp_path.joinpath(COMPARISONS).write_text("experiment,subject\n", encoding="utf-8")
        draw_figures([plan], tmp_path / "tables", None, languages, 1, tmp_path / "figures")
        return {path.stem: path for path in tmp_path.glob("figures/*/*.svg")}

    return drawn


def test_the_files_are_text_in_the_reports_own_font_and_the_same_in_another_process(
    draw: Callable[..., dict[str, Path]],
    record_of: Callable[..., Any],
    run: Run,
    tmp_path: Path,
    root: Path,
) -> None:
    files = draw([record_of(run)])
    assert {"time", "memory", "rate"} <= set(files)
    source = files["time"].read_text(encoding="utf-8")
    assert "<text" in source and "Noto Sans TC" in source and "DejaVu" not in source
    assert "dc:date" not in source
    assert min(float(size) for size in re.findall(r"([\d.]+)px", source)) >= 6
    code = (
        "import sys; from pathlib import Path; from flashlab.figures.stage import draw_figures\n"
        "folder, output = map(Path, sys.argv[1:])\n"
        "plan, tables = folder / 'plan.json', folder / 'tables'\n"
        "draw_figures([plan], tables, None, folder / 'languages.json', 2, output)"
    )
    elsewhere = {"PYTHONHASHSEED": "7", "TZ": "Asia/Taipei", "LC_ALL": "C"}
    environment = {**os.environ, "PYTHONPATH": str(root / "workflow"), **elsewhere}
    again = tmp_path / "again"
    subprocess.run([sys.executable, "-c", code, tmp_path, again], env=environment, check=True)
    for file in files.values():
        assert (again / file.parent.name / file.name).read_bytes() == file.read_bytes()


def test_what_is_drawn_of_an_implementation_bears_its_name_and_a_number_of_its_own(
    tmp_path: Path,
) -> None:
    experiment = experiment_of({"Pytorch": [1, 2, 3, "oom"], "Flash2": [1, 2, 3, 4]})
    save(drawn(experiment, "time"), tmp_path / "time.svg")
    source = (tmp_path / "time.svg").read_text(encoding="utf-8")
    named = re.findall(r'id="implementation:(\w+):(\d+)"', source)
    assert {name for name, _ in named} == {"Flash2", "Pytorch"}
    assert len({number for _, number in named}) == len(named) > 10


def test_a_character_that_the_fonts_lack_is_an_error(tmp_path: Path) -> None:
    experiment = experiment_of({"Fl🚀sh": [1, 2, 3, 4]})
    with drawing(), pytest.raises(UserWarning, match="128640"):
        save(drawn(experiment, "time"), tmp_path / "time.svg")


def test_a_text_that_changes_while_it_is_drawn_is_laid_out_anew() -> None:
    changes: list[dict[str, Any]] = [
        *({}, {"text": "N = 1024\nand more"}, {"fontsize": 20}, {"fontweight": "bold"}),
        *({"linespacing": 2}, {"rotation": 30}, {"ha": "center"}, {"va": "top"}),
    ]
    with drawing():
        text = new_panels(3.0)[0].text(0, 0, "N = 512")
        found = []
        for change in changes:
            text.set(**change)
            found.append(text.get_window_extent().bounds)
            assert text.get_window_extent().bounds == found[-1]
    assert len(set(found)) == len(changes)


@pytest.mark.parametrize("ratios", [(1, 1), (1, 3)], ids=["alike", "higher below"])
def test_panels_are_as_high_as_was_asked_and_apart(ratios: tuple[int, int]) -> None:
    with drawing():
        figure, panels = new_panels(3.0, 2, height_ratios=ratios)
        for axes in panels[:, 0]:
            title_panel(axes, ["A title"])
        lay_out(figure, 0.8)
        places = [axes.get_position() for axes in figure.axes]
        heights = [place.height * figure.get_figheight() for place in places]
        assert heights == pytest.approx([0.8 * ratio for ratio in ratios])
        figure.draw_without_rendering()
        upper, lower = (axes.get_tightbbox() for axes in figure.axes)
        assert upper.y0 > lower.y1 and lower.y0 >= 0
        assert upper.y1 <= figure.bbox.height
