"""The machine and its ceilings, where records disagree about it, and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from flashlab.devices import find_device, known_devices
from flashlab.report.document import Cell, Environment, Row, Table
from flashlab.report.material import Material, stretches
from flashlab.report.wording import Texts

MUST_AGREE = ("device_name", "driver", "torch", "dtype", "protocol")
"""Columns of the run table in which the records of one dataset must not differ; nor must the
provider of any one implementation."""

Field = tuple[str, str, dict[str, list[int]]]
"""A column, whose provider it is (empty for the columns of `MUST_AGREE`), and the runs' numbers by
value; those whose records do not state it are under the empty value."""


def varying(material: Material) -> list[Field]:
    """What must agree, and has several values or is stated by a part of the records only."""
    found: list[Field] = []
    groups: list[tuple[str, str, list[dict[str, Any]]]] = [
        (column, "", material.runs) for column in MUST_AGREE
    ]
    # A run that failed may have ended before it was known who would run it.
    measured = [run for run in material.runs if run["status"] == "ok"]
    groups += [
        ("provider", name, [run for run in measured if run["implementation"] == name])
        for name in material.implementations
    ]
    for column, name, runs in groups:
        by_value: dict[str, list[int]] = {}
        for run in runs:
            by_value.setdefault(run[column] or "", []).append(material.number_of(run))
        if len(by_value) > 1:
            found.append((column, name, by_value))
    return found


def disagreements(material: Material) -> list[Field]:
    """The fields in which records differ: a record that does not state one contradicts none."""
    return [field for field in varying(material) if len(field[2].keys() - {""}) > 1]


def _named(numbers: list[int]) -> Cell:
    """Runs by their numbers: 1–4, 9."""
    return Cell(", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in stretches(numbers)))


class EnvironmentPage:
    """Writes the section on environment and warnings."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.words = material.words

    def _facts(self) -> Iterator[tuple[Texts, str]]:
        words, material = self.words, self.material
        for column, key in (
            ("device_name", "device"),
            ("driver", "environment.driver"),
            ("torch", "environment.torch"),
            ("dtype", "dtype"),
            ("protocol", "environment.protocol"),
            ("commit", "environment.commit"),
        ):
            if values := material.distinct(column):
                yield words.each(key), ", ".join(values)

    def _peaks(self) -> Table | None:
        """The measured ceilings; on a GPU above the peak figures that vendors publish of GPUs."""
        words, material = self.words, self.material
        if material.on_cpu:
            return self._ceilings()
        devices = material.distinct("device_name")
        rows = []
        if material.ceilings is not None:
            rates = material.ceilings["matrix_product"]
            measured = [
                Cell(material.number(rates[dtype]["rate(TFLOPs/s)"], 3))
                if dtype in rates
                else Cell("–")
                for dtype in ("float16", "float32")
            ]
            copied = material.ceilings["copy"]["bandwidth(GB/s)"]
            rows.append(
                Row(
                    [
                        words.each("peaks.measured", device=", ".join(devices)),
                        *measured,
                        Cell(material.number(copied, 3)),
                        Cell("–"),
                    ],
                    first=True,
                )
            )
        own = {device.name for device in map(find_device, devices) if device is not None}
        for device in known_devices():
            figures = (*device.peak_tflops.values(), device.bandwidth)
            rows.append(
                Row(
                    [
                        Cell(f"● {device.name}" if device.name in own else device.name),
                        *(Cell(material.number(figure)) for figure in figures),
                        Cell(device.source),
                    ]
                )
            )
        return Table(
            [words.each(f"column.{name}") for name in ("gpu", "float16", "float32", "bandwidth")]
            + [words.each("column.source")],
            rows,
            numeric=range(1, 4),
            caption=words.each("caption.peaks"),
        )

    def _ceilings(self) -> Table | None:
        """The ceilings measured on a CPU, in one row."""
        words, material = self.words, self.material
        if material.ceilings is None:
            return None
        rates, copied = material.ceilings["matrix_product"], material.ceilings["copy"]
        figures = [*(rates[dtype]["rate(TFLOPs/s)"] for dtype in rates), copied["bandwidth(GB/s)"]]
        device = Cell(", ".join(material.distinct("device_name")))
        return Table(
            [words.each(f"column.{name}") for name in ("gpu", *rates, "bandwidth")],
            [Row([device, *(Cell(material.number(figure, 3)) for figure in figures)])],
            numeric=range(1, 1 + len(figures)),
            caption=words.each("caption.ceilings"),
        )

    def _varying(self) -> Table | None:
        words, rows = self.words, []
        for column, name, by_value in varying(self.material):
            field = words.each(f"field.{column}", implementation=name)
            for position, (value, numbers) in enumerate(sorted(by_value.items())):
                rows.append(
                    Row(
                        [
                            field if position == 0 else Cell(""),
                            Cell(value) if value else words.each("unknown"),
                            Cell(str(len(numbers))),
                            _named(numbers),
                        ],
                        first=position == 0,
                    )
                )
        if not rows:
            return None
        headings = ("field", "value", "count", "which_runs")
        return Table([words.each(f"column.{key}") for key in headings], rows, numeric=range(2, 3))

    def _warnings(self) -> Table | None:
        """Each warning, how many runs carry it, and which."""
        words = self.words
        runs_of: dict[str, list[int]] = {}
        for run in self.material.runs:
            for code in {warning["code"] for warning in run["warnings"] or ()}:
                runs_of.setdefault(code, []).append(self.material.number_of(run))
        if not runs_of:
            return None
        rows = [
            Row([words.each(f"warning.{code}"), Cell(str(len(numbers))), _named(numbers)])
            for code, numbers in sorted(runs_of.items(), key=lambda item: (-len(item[1]), item[0]))
        ]
        headings = ("warning", "count", "which_runs")
        return Table([words.each(f"column.{key}") for key in headings], rows, numeric=range(1, 2))

    def _anomalies(self) -> Table | None:
        """Passes that are unstable in themselves, or that their neighbours contradict."""
        words, material, rows = self.words, self.material, []
        for finding in material.findings:
            if finding["kind"] != "anomaly" or finding["verdict"] == "none":
                continue
            params, subject = finding["params"], finding["subject"]
            experiment = material.experiment(finding["experiment"])
            name, causal = subject["implementation"], subject["mask"] == "causal"
            run = experiment.run(name, causal, params["value"])
            number = material.number_of(run)
            sign = params.get("sign", "outlier")
            figure = params.get("ratio") or params.get("half_width")
            rows.append(
                Row(
                    [
                        Cell(str(number), target=f"run-{number}"),
                        Cell(run_in_short(run)),
                        words.each(f"pass.{subject['pass']}"),
                        words.each(f"anomaly.sign.{sign}", figure=material.number(figure, 3)),
                    ],
                    implementation=name,
                )
            )
        unique = {str(row.cells): row for row in rows}
        headings = ("run", "shape", "pass", "anomaly")
        columns = [words.each(f"column.{key}") for key in headings]
        return Table(columns, list(unique.values())) if rows else None

    def _failures(self) -> Table | None:
        """Every run without numbers: its status, and what it said."""
        words, rows = self.words, []
        for run in self.material.runs:
            if run["status"] != "ok":
                number = self.material.number_of(run)
                rows.append(
                    Row(
                        [
                            Cell(str(number), target=f"run-{number}"),
                            Cell(run_in_short(run)),
                            words.each(f"status.{run['status']}"),
                            Cell(run["message"] or "–"),
                        ],
                        implementation=run["implementation"],
                    )
                )
        headings = ("run", "shape", "status", "message")
        if not rows:
            return None
        total = len(self.material.runs)
        return Table(
            [words.each(f"column.{key}") for key in headings],
            rows,
            caption=words.each("environment.failed", count=len(rows), total=total),
        )

    def environment(self) -> Environment:
        """The section on environment and warnings."""
        words, material = self.words, self.material
        table = self._varying()
        if disagreements(material):
            agreement = "environment.disagree"
        else:
            agreement = "environment.agree" if table is None else "environment.unstated"
        fields = Counter(row["source_changed"] for row in material.runs)
        notices = []
        if fields[True]:
            changed = sorted({r["implementation"] for r in material.runs if r["source_changed"]})
            notices += [words.each("source_changed", implementation=name) for name in changed]
        warned = sum(bool(run["warnings"]) for run in material.runs)
        if warned:
            total = len(material.runs)
            notices.append(words.each("environment.warned", count=warned, total=total))
        return Environment(
            facts=list(self._facts()),
            peaks=self._peaks(),
            agreement=words.each(agreement),
            varying=table,
            notices=notices,
            warnings=self._warnings(),
            anomalies=self._anomalies(),
            failures=self._failures(),
        )


def run_in_short(run: Any) -> str:
    """``Flash2 B16 N1024 H32 E2048 full``, without dtype and device, which hardly ever vary."""
    sizes = f"B{run['batch_size']} N{run['seq_len']} H{run['num_heads']} E{run['emb_dim']}"
    return f"{run['implementation']} {sizes} {'causal' if run['causal'] else 'full'}"
