"""A ladder's profile: shares of limits on the left, what falls with the steps on the right."""

from __future__ import annotations

from pathlib import Path

from planted import ladder as planted
from story.breaking import counted
from story.planting import dataset_of_report

from flashlab.devices import find_device
from flashlab.figures.profile import draw_profile
from flashlab.figures.style import drawing
from flashlab.story.ladder import ladder_of

INSTRUCTIONS = {"GlobalMemory": 0.1, "SharedTiles": 0.7, "Padded": 0.5}
"""The share of what a GPU can issue."""

BYTES = {"GlobalMemory": 8e12, "SharedTiles": 1e12, "Padded": 1e12}


def test_a_unit_s_share_and_what_falls_are_drawn_as_they_are(tmp_path: Path) -> None:
    device = find_device("NVIDIA H200")
    assert device is not None
    with planted.ON_GPU.declared():
        data = dataset_of_report(planted.ON_GPU, tmp_path)
    d = ladder_of(data)
    assert d is not None
    with drawing():
        assert draw_profile(d, ["en"]) is None  # of two counted steps there is no profile
        found = {
            name: {
                "instructions": share * device.issue_rate * d.kernels[name] / 1e3,
                "global_load_bytes": BYTES[name],
            }
            for name, share in INSTRUCTIONS.items()
        }
        climbed = ladder_of(counted(data, found))
        assert climbed is not None
        figure = draw_profile(climbed, ["en"])
    assert figure is not None
    left, right = figure.axes
    assert [round(y) for y in left.lines[0].get_ydata()] == [10, 70, 50]
    assert "70" in [text.get_text() for text in left.texts]  # near its limit: printed
    falls = {tuple(round(y, 3) for y in line.get_ydata()) for line in right.lines[:3]}
    assert (1.0, 0.125, 0.125) in falls
