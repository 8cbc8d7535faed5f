from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from figures.drawn import SVG, clipped, overlapping, sweep_of, text_boxes, texts, width_mm
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray

from flashlab.analysis.experiment import Sweep, read_sweep
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.model import UnknownNameError
from flashlab.figures import draw_figures, rows, sweeps
from flashlab.figures.style import COLOURS, FAINT, MARKERS, colour, drawing, marker, text_colour
from flashlab.records import Measurement, Record
from flashlab.runs import Run

Build = Callable[..., Any]
QUANTITIES = tuple(ATTENTION.quantities)
WITHOUT_NUMBERS = tuple(ATTENTION.having(()).quantities)
"""The quantities of a sweep in which every run has failed: no record holds an optional metric."""


def at(run: Run, name: str = "Flash2", **parameters: Any) -> Run:
    """The run of an implementation with some of its parameters changed."""
    return Run.of(ATTENTION, run.to_json() | {"implementation": name} | parameters)


def with_energy(record: Record) -> Record:
    """The record with the optional metrics: 200 W for as long as its passes take."""
    energies = {
        f"{name}_energy": Measurement(0.2 * record.metrics[f"{name}_time"].value)
        for name in ("forward", "backward")
    }
    return replace(record, metrics={**record.metrics, **energies})


def experiment(record_of: Build, run: Run, masks: tuple[bool, ...] = (False,)) -> list[Any]:
    """Records of two implementations at four lengths; the naive one runs out of memory."""
    records = []
    for size in (128, 256, 512, 1024):
        for mask in masks:
            fast = tuple(size**2 * 1e-9 * (1 + 0.01 * i) for i in range(12))
            slow = tuple(4 * time for time in fast)
            flash = at(run, seq_len=size, causal=mask)
            naive = at(run, "Pytorch", seq_len=size, causal=mask)
            records.append(with_energy(record_of(flash, "ok", fast, slow, size / 16)))
            records.append(
                record_of(naive, "oom")
                if size == 1024
                else with_energy(record_of(naive, "ok", slow, slow, size**2 / 256))
            )
    return records


@pytest.fixture
def draw(tmp_path: Path, planned: Build) -> Callable[..., dict[str, Path]]:
    """Writes the plan and tables of some records and draws figures of them."""

    def drawn(
        records: list[Any],
        figures: list[Any],
        languages: tuple[str, ...] = ("zh_TW", "en"),
        **plan: Any,
    ) -> dict[str, Path]:
        (tmp_path / "languages.json").write_text(json.dumps(languages), encoding="utf-8")
        document = planned(records, figures=figures) | plan
        (tmp_path / "plan.json").write_text(json.dumps(document), encoding="utf-8")
        tables = tmp_path / "tables"
        write_tables(tmp_path / "plan.json", tables / document["name"])
        chosen = tmp_path / "languages.json"
        draw_figures(tmp_path / "plan.json", tables, chosen, tmp_path / "figures")
        return {figure["id"]: tmp_path / "figures" / f"{figure['id']}.svg" for figure in figures}

    return drawn


def figure(quantity: str, *implementations: str) -> dict[str, Any]:
    chosen = list(implementations or ("Flash2", "Pytorch"))
    return {"id": quantity, "quantity": quantity, "implementations": chosen, "supplement": False}


def test_a_figure_says_in_text_what_it_shows_in_both_languages(
    draw: Build, record_of: Build, run: Run
) -> None:
    files = draw(experiment(record_of, run), [figure(quantity) for quantity in QUANTITIES])
    for metric, quantity in {
        "time": ("前向時間 Forward time (ms)", "反向時間 Backward time (ms)"),
        "rate": ("前向速率 Forward rate (TFLOP/s)", "反向速率 Backward rate (TFLOP/s)"),
        "memory": ("峰值記憶體 Peak memory (MiB)",),
    }.items():
        found = texts(files[metric])
        assert {"128", "256", "512", "1024"} <= set(found)
        assert {*quantity, "序列長度 Sequence length N", "Flash2", "Pytorch"} <= set(found)
        assert width_mm(files[metric]) == pytest.approx(84, abs=0.1)


def test_a_figure_speaks_only_the_languages_that_were_asked_for(
    draw: Build, record_of: Build, run: Run
) -> None:
    files = draw(experiment(record_of, run), [figure("time")], languages=("en",))
    found = texts(files["time"])
    assert {"Forward time (ms)", "Flash2"} <= set(found)
    assert not any(ord(character) > 0x2E80 for character in "".join(found))


def test_a_run_out_of_memory_is_marked_and_not_drawn_as_a_point(
    draw: Build, record_of: Build, run: Run
) -> None:
    files = draw(experiment(record_of, run), [figure("time"), figure("memory")])
    for metric, panels in (("time", 2), ("memory", 1)):
        found = texts(files[metric])
        assert found.count("×") == panels
        assert found.count("× Pytorch: 記憶體不足 out of memory, N = 1024") == 1


def test_a_figure_of_nothing_but_failures_is_drawn_with_its_marks(
    draw: Build, record_of: Build, run: Run
) -> None:
    files = draw([record_of(run, "incorrect")], [figure("rate", "Flash2"), figure("time")])
    for file in files.values():
        assert texts(file).count("×") == 2
        assert texts(file).count("× Flash2: 結果錯誤 incorrect, N = 64") == 1


SIZES = (128, 256, 512, 1024, 2048, 4096)
FAILURES = ("oom", "unsupported", "incorrect", "error")


def failing(
    record_of: Build, run: Run, implementations: int, masks: tuple[bool, ...], measured: bool
) -> list[Any]:
    """Records of implementations at six lengths that fail in every way there is.

    With `measured` there is one more, which does not.
    """
    records = []
    for number in range(implementations + measured):
        for mask in masks:
            for position, size in enumerate(SIZES):
                status = FAILURES[(number + position) % len(FAILURES)]
                status = "ok" if number == implementations else status
                name = f"SdpaEfficient{number + 1}"
                records.append(record_of(at(run, name, seq_len=size, causal=mask), status))
    return records


@pytest.mark.parametrize("quantity", WITHOUT_NUMBERS)
@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize(
    ("implementations", "masks"), [(5, (False,)), (1, (False, True)), (3, (False, True))]
)
def test_marks_of_failures_overlap_with_nothing_and_stay_in_the_figure(
    record_of: Build,
    run: Run,
    planned: Build,
    tmp_path: Path,
    quantity: str,
    measured: bool,
    implementations: int,
    masks: tuple[bool, ...],
) -> None:
    records = failing(record_of, run, implementations, masks, measured)
    plan = planned(records)
    tmp_path.joinpath("plan.json").write_text(json.dumps(plan), encoding="utf-8")
    write_tables(tmp_path / "plan.json", tmp_path / plan["name"])
    chosen = figure(quantity, *(entry["name"] for entry in plan["implementations"]))
    with drawing():
        drawn = sweeps.draw(read_sweep(plan, tmp_path), ["zh_TW", "en"], chosen)
        marks = [text for text in drawn.findobj(Text) if text.get_text() == "×"]
        boxes = text_boxes(drawn)
    shown = 1 if quantity == "memory" else len(masks)  # both masks fail alike: drawn once
    panels = len(ATTENTION.panels(quantity))
    assert len(marks) == panels * implementations * len(SIZES) * shown
    assert overlapping(boxes) == []
    assert clipped(drawn, boxes) == []


def test_the_widest_numbers_leave_room_for_what_they_measure(
    record_of: Build, run: Run, planned: Build, tmp_path: Path
) -> None:
    plan = planned([record_of(at(run, seq_len=size), peak=size * 100) for size in SIZES])
    tmp_path.joinpath("plan.json").write_text(json.dumps(plan), encoding="utf-8")
    write_tables(tmp_path / "plan.json", tmp_path / plan["name"])
    with drawing():
        sweep, chosen = read_sweep(plan, tmp_path), figure("memory", "Flash2")
        drawn = sweeps.draw(sweep, ["zh_TW", "en"], chosen)
        assert clipped(drawn, text_boxes(drawn)) == []


def test_without_any_number_the_sizes_span_the_panel_and_the_other_axis_is_blank(
    draw: Build, record_of: Build, run: Run
) -> None:
    records = failing(record_of, run, 2, (False,), measured=False)
    names = ("SdpaEfficient1", "SdpaEfficient2")
    files = draw(records, [figure(quantity, *names) for quantity in WITHOUT_NUMBERS])
    sizes = {str(size) for size in SIZES}
    for file in files.values():
        nodes = [node for node in ElementTree.parse(file).iter(f"{SVG}text") if node.text in sizes]
        assert len(nodes) == len(sizes)
        numbers = [text for text in texts(file) if re.fullmatch(r"[\d.,]+", text)]
        assert set(numbers) == sizes


def test_failures_at_neighbouring_sizes_are_said_in_short(
    draw: Build, record_of: Build, run: Run
) -> None:
    records = []
    for size in SIZES:
        status = "ok" if size == 1024 else "oom"
        records.append(record_of(at(run, seq_len=size), status))
    (file,) = draw(records, [figure("time", "Flash2")], languages=("en",)).values()
    assert "× Flash2: out of memory, N = 128–512, 2048, 4096" in texts(file)


def test_a_run_without_samples_is_drawn_without_a_bar(
    draw: Build, record_of: Build, run: Run
) -> None:
    times = {name: Measurement(1.5) for name in ("forward_time", "backward_time")}
    record = record_of(run, metrics={**times, "peak_memory": Measurement(10.0)})
    (file,) = draw([record], [figure("rate", "Flash2")]).values()
    assert "Flash2" in texts(file)


def test_a_variant_keeps_the_colour_and_has_a_label_and_dashes_of_its_own(
    draw: Build, record_of: Build, run: Run
) -> None:
    records = experiment(record_of, run, masks=(False, True))
    files = draw(records, [figure("rate", "Flash2"), figure("time")])
    assert {"因果 Causal", "完整 Full"} <= set(texts(files["rate"]))
    source = files["time"].read_text(encoding="utf-8").upper()
    assert sum(colour in source for colour in COLOURS if colour != "#000000") == 2
    assert "STROKE-DASHARRAY" in source


def test_what_varies_along_with_the_sweep_stands_below_its_ticks(
    draw: Build, record_of: Build, run: Run
) -> None:
    records = [record_of(at(run, emb_dim=size)) for size in (64, 128)]
    (file,) = draw(records, [figure("time", "Flash2")], sweep="emb_dim").values()
    found = " ".join(texts(file))
    assert all(text in found for text in ("64", "d = 16", "128", "d = 32"))
    assert "嵌入維度 Embedding dimension E" in found


def test_the_head_dimension_can_be_swept(draw: Build, record_of: Build, run: Run) -> None:
    records = [record_of(at(run, emb_dim=size)) for size in (64, 128)]
    (file,) = draw(records, [figure("time", "Flash2")], sweep="head_dim").values()
    found = " ".join(texts(file))
    assert all(text in found for text in ("16", "E = 64", "32", "E = 128"))
    assert "單頭維度 Head dimension d" in found


def test_an_unknown_quantity_is_an_error(draw: Build, record_of: Build, run: Run) -> None:
    with pytest.raises(UnknownNameError, match=r"energy is no quantity of attention.*time"):
        draw([record_of(run)], [figure("energy")])


def test_what_is_drawn_of_an_implementation_bears_its_name_and_a_number_of_its_own(
    draw: Build, record_of: Build, run: Run
) -> None:
    (file,) = draw(experiment(record_of, run), [figure("time")]).values()
    named = re.findall(r'id="implementation:(\w+):(\d+)"', file.read_text(encoding="utf-8"))
    assert {name for name, _ in named} == {"Flash2", "Pytorch"}
    assert len({number for _, number in named}) == len(named) > 10


def test_text_stays_text_in_the_reports_own_font(draw: Build, record_of: Build, run: Run) -> None:
    (file,) = draw(experiment(record_of, run), [figure("time")]).values()
    source = file.read_text(encoding="utf-8")
    assert "Noto Sans TC" in source
    assert "DejaVu" not in source
    assert "<date>" not in source and "dc:date" not in source


def test_a_character_of_our_own_that_the_fonts_lack_is_an_error(
    draw: Build, record_of: Build, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "label_parameter", lambda *_: "🚀")
    with pytest.raises(UserWarning, match="128640"):
        draw([record_of(run)], [figure("time")])


def test_the_same_tables_give_the_same_bytes_in_another_process(
    draw: Build, record_of: Build, run: Run, tmp_path: Path, root: Path
) -> None:
    figures = [figure(quantity) for quantity in QUANTITIES]
    files = draw(experiment(record_of, run, masks=(False, True)), figures)
    code = (
        "import sys; from pathlib import Path; from flashlab.figures import draw_figures\n"
        "folder, output = map(Path, sys.argv[1:])\n"
        "draw_figures(folder / 'plan.json', folder / 'tables', folder / 'languages.json', output)"
    )
    again = tmp_path / "again"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root / "workflow"), os.environ.get("PYTHONPATH", "")]),
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Taipei",
        "LC_ALL": "C",
    }
    subprocess.run([sys.executable, "-c", code, tmp_path, again], env=environment, check=True)
    for file in files.values():
        assert (again / file.name).read_bytes() == file.read_bytes()


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
    styles = [{"style": number} for number in range(2 * len(COLOURS))]
    assert len({(colour(style), marker(style)) for style in styles}) == len(styles)


def test_text_in_any_colour_has_contrast() -> None:
    for shade in (*COLOURS, FAINT):
        luminance = float(np.array([0.2126, 0.7152, 0.0722]) @ linear(text_colour(shade)))
        assert 1.05 / (luminance + 0.05) > 4.5, shade


def many(sizes: tuple[int, ...] = (128, 256)) -> Sweep:
    """Seven implementations."""
    names = ("Pytorch", "Flash2", "SdpaMath", "SdpaEfficient", "SdpaCudnn", "Flex", "Flash4")
    times = {name: [1.0 + i] * len(sizes) for i, name in enumerate(names)}
    return sweep_of(times, sizes)


def colours_of(drawn: Figure) -> dict[str, str]:
    """The colour of each implementation's line."""
    lines = [line for axes in drawn.axes for line in axes.lines if line.get_gid()]
    plt.close(drawn)
    return {str(line.get_gid()).split(":")[1]: str(line.get_color()) for line in lines}


def test_of_many_implementations_the_emphasised_ones_are_in_colour() -> None:
    sweep = many()
    with drawing():
        found = colours_of(sweeps.draw(sweep, ["en"], figure("time", *sweep.implementations)))
        few = colours_of(sweeps.draw(sweep, ["en"], figure("time", *sweep.implementations[2:])))
    assert {name for name, shade in found.items() if shade != FAINT} == {"Pytorch", "Flash2"}
    assert FAINT not in few.values()


def test_where_lines_of_memory_coincide_they_are_multiples_of_the_least() -> None:
    sweep = sweep_of({"Pytorch": [8, 20], "Flash2": [1, 2], "Flex": [1.1, 2.2]}, [128, 256])
    with drawing():
        drawn = sweeps.draw(sweep, ["en"], figure("memory", *sweep.implementations))
        found = {text for text, _ in text_boxes(drawn)}
        apart = sweeps.draw(sweep, ["en"], figure("memory", "Pytorch", "Flash2"))
        absolute = {text for text, _ in text_boxes(apart)}
    assert {"Peak memory as a multiple of the least", "Pytorch 10.0×", "Flex 1.10×"} <= found
    assert {"Peak memory (MiB)", "Pytorch", "Flash2"} <= absolute


def test_a_small_figure_has_the_speedup_at_each_point(
    draw: Build, record_of: Build, run: Run, tmp_path: Path
) -> None:
    draw(experiment(record_of, run), [], languages=("en",))
    found = texts(tmp_path / "figures" / "row-speedup.svg")
    assert found.count("1.60×") == 3
    assert {"Speedup in total time", "× Pytorch: out of memory, N = 1024", "×"} <= set(found)
    memory = tmp_path / "figures" / "row-memory.svg"
    assert {"Peak memory (MiB)", "Flash2", "Pytorch"} <= set(texts(memory))
    assert width_mm(memory) == pytest.approx(52, abs=0.1)


def test_only_an_experiment_of_two_implementations_has_small_figures() -> None:
    with drawing():
        assert list(rows.draw_rows(many(), ["en"])) == []
