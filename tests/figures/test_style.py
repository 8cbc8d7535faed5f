"""Colours that are told apart, text that stays text, and files that are the same every time."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figures.drawn import drawn, sweep_of, titles, width_mm
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from planted import ladder

from flashlab.figures.style import (
    COLOURS,
    GREY,
    MARKERS,
    PALE,
    dark,
    drawing,
    looks_of,
    save,
    spread,
)


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
    looks = looks_of({str(style): style for style in range(2 * len(COLOURS))})
    assert len({look.shade for look in looks.values()}) == len(looks)
    assert len({(look.shade, look.marker) for look in looks.values()}) == len(looks)


def contrast(shade: str) -> float:
    """With white."""
    return 1.05 / (float(np.array([0.2126, 0.7152, 0.0722]) @ linear(shade)) + 0.05)


def test_text_in_any_colour_has_contrast_and_so_have_grey_lines() -> None:
    for shade in COLOURS:
        assert contrast(dark(shade)) > 4.5, shade
    assert contrast(GREY) > 4.5 and contrast(PALE) > 2.3


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [([0.5], [0.5]), ([0.5, 0.5], [0.45, 0.55]), ([0.0, 0.9], [0.05, 0.9]), ([1.0], [0.95])],
)
def test_labels_are_apart_and_as_near_as_can_be(wanted: list[float], expected: list[float]) -> None:
    assert list(spread(wanted, 0.1)) == pytest.approx(expected)


# The files

TIMES = {"Pytorch": [1, 2, 3, "oom"], "Flash2": [0.5, 0.25, 0.46, 4]}


def test_the_files_are_text_in_the_reports_own_font_and_the_same_in_another_process(
    tmp_path: Path, root: Path
) -> None:
    with chdir(tmp_path):
        ladder.ON_GPU.write(Path("results"))
    files = {file.relative_to(tmp_path): file.read_bytes() for file in tmp_path.rglob("*.svg")}
    assert {file.parent.name for file in files} > {"overview"} and len(files) > 2
    for source in map(bytes.decode, files.values()):
        assert "<text" in source and "Noto Sans TC" in source and "DejaVu" not in source
        assert "dc:date" not in source
        assert min(float(size) for size in re.findall(r"([\d.]+)px", source)) >= 6.2
    code = (
        "from pathlib import Path; from flashlab.figures.stage import draw_figures\n"
        "results = Path('results')\n"
        "draw_figures(results, None, results / 'figures', results / 'overview')"
    )
    elsewhere = {"PYTHONHASHSEED": "7", "TZ": "Asia/Taipei", "LC_ALL": "C"}
    environment = {**os.environ, "PYTHONPATH": str(root / "workflow"), **elsewhere}
    for file in files:
        (tmp_path / file).unlink()
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True)
    assert {file: (tmp_path / file).read_bytes() for file in files} == files


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("time", "Flash2, N = 512: 0.46 ms (0.46–0.46)"),
        ("memory", "Flash2, N = 512: 0.460 MiB"),
        ("time", "Pytorch, N = 1024: oom"),
    ],
)
def test_a_point_says_what_it_stands_for_in_the_file(
    quantity: str, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "figure.svg"
    with drawing():
        save(drawn(sweep_of(TIMES), quantity), file)
    assert width_mm(file) == pytest.approx(180 if quantity == "time" else 88, abs=0.1)
    assert titles(file).count(expected) == (2 if quantity == "time" else 1)
    assert len(titles(file)) == 8 * (2 if quantity == "time" else 1)


def test_a_character_that_the_fonts_lack_is_an_error(tmp_path: Path) -> None:
    with drawing(), pytest.raises(UserWarning, match="128640"):
        save(drawn(sweep_of({"Fl🚀sh": [1, 2, 3, 4]}), "time"), tmp_path / "time.svg")
