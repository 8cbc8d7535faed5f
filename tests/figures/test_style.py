"""Colours that are told apart, text that stays text, and files that are the same every time."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import elsewhere
from figures.drawn import drawn, sweep_of, titles
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from planted import ladder

from flashlab.figures.style import COLOURS, GREY, MARKERS, PALE, dark, looks_of, save

SIGHT = {
    "full": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
"""Machado, Oliveira and Fernandes (2009), at full severity, for linear RGB."""

TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])


def linear(shade: str) -> NDArray[Any]:
    """The linear RGB components of a colour."""
    parts = np.array(to_rgb(shade))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(components: NDArray[Any]) -> NDArray[Any]:
    """CIELAB of linear RGB components under D65."""
    x, y, z = np.cbrt(np.maximum(TO_XYZ @ np.clip(components, 0, 1), 1e-4) / TO_XYZ.sum(axis=1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
def test_implementations_are_told_apart_under_every_colour_vision(sight: str) -> None:
    seen = [lab(np.array(SIGHT[sight]) @ linear(shade)) for shade in COLOURS]
    apart = [np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2)]
    assert min(apart) > 20


def test_they_are_told_apart_in_greyscale_and_by_markers_and_texts_have_contrast() -> None:
    lightness = sorted(lab(linear(shade))[0] for shade in COLOURS)
    assert min(b - a for a, b in itertools.pairwise(lightness)) > 7
    assert len(set(MARKERS)) == len(MARKERS) == len(COLOURS)
    looks = looks_of({str(style): style for style in range(2 * len(COLOURS))})
    assert len({look.shade for look in looks.values()}) == len(looks)
    least = {**{dark(shade): 4.5 for shade in COLOURS}, GREY: 4.5, PALE: 2.3}
    for shade, contrast in least.items():
        assert 1.05 / (float(TO_XYZ[1] @ linear(shade)) + 0.05) > contrast, shade


TIMES = {"Pytorch": [1, 2, 3, "oom"], "Flash2": [0.5, 0.25, 0.46, 4]}
AGAIN = """
from pathlib import Path
from flashlab.figures.stage import draw_figures

draw_figures(Path("results"), None, Path("again"), Path("again/overview"))
"""


def test_the_files_are_text_in_the_reports_own_font_and_the_same_in_another_process(
    tmp_path: Path, root: Path
) -> None:
    with chdir(tmp_path):
        ladder.ON_GPU.write(Path("results"))
    folders = tmp_path / "results" / "figures", tmp_path / "results" / "overview"
    files = {path.relative_to(f): path.read_bytes() for f in folders for path in f.rglob("*.svg")}
    assert len(files) > 2
    for source in map(bytes.decode, files.values()):
        assert "<text" in source and "Noto Sans TC" in source and "DejaVu" not in source
        assert "dc:date" not in source
        assert min(float(size) for size in re.findall(r"([\d.]+)px", source)) >= 6.2
    environment = elsewhere(tmp_path, root / "workflow")
    subprocess.run([sys.executable, "-c", AGAIN], env=environment, cwd=tmp_path, check=True)
    again = tmp_path / "again", tmp_path / "again" / "overview"
    for name, content in files.items():
        assert content in [f.joinpath(name).read_bytes() for f in again if (f / name).exists()]


def test_a_point_says_what_it_stands_for_in_the_file(tmp_path: Path) -> None:
    for quantity, panels, value in (("time", 2, "0.46 ms (0.46–0.46)"), ("memory", 1, "0.460 MiB")):
        save(drawn(sweep_of(TIMES), quantity), tmp_path / "figure.svg")
        found = titles(tmp_path / "figure.svg")
        assert len(found) == 8 * panels
        assert found.count(f"Flash2, N = 512: {value}") == panels
        assert found.count("Pytorch, N = 1024: oom") == panels


def test_a_character_that_the_fonts_lack_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserWarning, match="128640"):
        save(drawn(sweep_of({"Fl🚀sh": [1, 2, 3, 4]}), "time"), tmp_path / "time.svg")
