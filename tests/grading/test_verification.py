"""A report verified from its PDF alone: consistent as it was made, and not with a digit changed."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import elsewhere
from grading import tampering
from grading.conftest import grade_folder
from numpy._core._multiarray_umath import __cpu_dispatch__ as DISPATCHED
from numpy._core._multiarray_umath import __cpu_features__ as AVAILABLE
from PIL import Image
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import (
    Implementations,
    find_implementations,
    implementations_of,
)
from flashlab.config import Layer, reported_config, resolve_config
from flashlab.files import json_text
from flashlab.plan import planning as plan
from flashlab.report import attached
from flashlab.report.attached import AttachmentError
from flashlab.report.attachments import manifest_of
from flashlab.report.rebuild import rebuild
from flashlab.report.software import differing_parts, software
from flashlab.sources import PACKAGE
from flashlab_grading import verification
from flashlab_grading.report_pdf import UnsoundPdfError, attachments_of, read_pdf
from flashlab_grading.verification import verified

TINY = Path(__file__).parents[1] / "tiny.yaml"
Files = dict[str, bytes]
Rebuild = Callable[..., bytes]


def packed(records: Mapping[str, Any]) -> bytes:
    """Records as a report holds them: a line of JSON each, packed."""
    lines = [
        json.dumps({"file": name, "record": record}, separators=(",", ":"), ensure_ascii=False)
        for name, record in sorted(records.items())
    ]
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


def with_manifest(files: Mapping[str, bytes], **stated: Any) -> Files:
    """The files with the manifest that is theirs, or says that other software rendered them."""
    contents = {name: content for name, content in files.items() if name != "manifest.json"}
    manifest = manifest_of("local", contents, {**software(), **stated})
    return {**contents, "manifest.json": manifest}


def config_text(config: Mapping[str, Any]) -> bytes:
    """A configuration as it is attached."""
    return json_text({**reported_config(config), "dataset": "local"}).encode()


def small_config(**keys: Any) -> dict[str, Any]:
    """The tiny configuration with one experiment of two sizes, so that a report is quickly made.

    Its remark is a file that is there, and that no report may read.
    """
    config = yaml.safe_load(TINY.read_text("utf-8"))
    config["experiments"] = config["experiments"][:1]
    config |= {"languages": ["en"], "author": {"name": "王𪛖明"}}
    config |= {"remarks": {"seq_len": {"en": str(Path(__file__))}}, **keys}
    return resolve_config([Layer(str(TINY), config)], find_implementations())


@pytest.fixture(scope="module")
def records() -> dict[str, Any]:
    """The documents of the small configuration's records, by file name."""
    config = small_config()
    chance = random.Random(4)
    found = {}
    for experiment in plan.experiments(config, ATTENTION, "cpu"):
        for run, process in itertools.product(experiment.runs("float32", "cpu"), range(3)):
            level = 1e-5 * Shape.of(run).seq_len * (3 if run.implementation == "Pytorch" else 1)
            samples = {
                name: [level * factor * chance.lognormvariate(0, 0.02) for _ in range(15)]
                for name, factor in (("forward", 1), ("backward", 2.5))
            }
            record = record_of(run, protocol=plan.protocol_of(config, "cpu"), **samples)
            record = replace(record, sources={"process": process})
            found.setdefault(f"{run.slug}-{process}123456789ab.json", record.to_json())
    return found


@pytest.fixture(scope="module")
def rebuilt() -> Iterator[Rebuild]:
    """Rebuilds a report; the same data once, because it always gives the same."""
    known: dict[str, bytes] = {}

    def remembered(attachments: Mapping[str, bytes], folder: Path) -> bytes:
        inputs = {
            name: content
            for name, content in sorted(attachments.items())
            if name.startswith(("remark-", "config", "records", "ceilings"))
        }
        manifest = json.loads(attachments.get("manifest.json", b"{}"))
        key = repr((inputs, manifest.get("software", software())))
        if key not in known:
            known[key] = rebuild(attachments, folder)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "rebuild", remembered)
        yield remembered


def picture(kind: str, colour: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGBA" if kind == "PNG" else "RGB", (40, 20), colour).save(file, kind)
    return file.getvalue()


@pytest.fixture(scope="module")
def made(
    records: dict[str, Any], rebuilt: Rebuild, tmp_path_factory: pytest.TempPathFactory
) -> bytes:
    """A report of these records, with images in a remark and characters that the fonts lack."""
    source = {
        "config.json": config_text(small_config()),
        "records.jsonl.gz": packed(records),
        "remark-seq_len-en.md": "Fast 🐇 ![a](../up/a.png) ![b](<shots/b c.jpg>)".encode(),
        "remark-seq_len-en-1.png": picture("PNG", "#ff000080"),
        "remark-seq_len-en-2.jpg": picture("JPEG", "#00ff00"),
    }
    return rebuilt(source, tmp_path_factory.mktemp("first"))


@dataclass(frozen=True)
class Report:
    """A report, what is attached to it, and where others like it are verified."""

    pdf: bytes
    files: Files
    folder: Path

    def verified(
        self, content: bytes | None = None, files: Mapping[str, bytes] | None = None
    ) -> tuple[int, str]:
        """Exit status and what is printed, with these files attached in place of the report's."""
        path = self.folder / "lab5.pdf"
        pdf = content or self.pdf
        path.write_bytes(pdf if files is None else tampering.with_attachments(pdf, files))
        status, lines = verified(path)
        return status, "\n".join(lines)

    def altered(
        self, alter: tampering.Alteration, files: Mapping[str, bytes] | None = None
    ) -> tuple[int, str]:
        """The same of the altered report."""
        return self.verified(tampering.altered(self.pdf, alter), files)


@pytest.fixture
def report(made: bytes, tmp_path: Path) -> Report:
    return Report(made, attachments_of(made), tmp_path)


def test_a_report_as_it_was_made_is_consistent(report: Report, tmp_path: Path) -> None:
    """Under any name; what the author wrote is listed and not verified."""
    tmp_path.joinpath("report of ann").write_bytes(report.pdf)
    status, lines = verified(tmp_path / "report of ann")
    said = "\n".join(lines)
    assert status == 0, said
    assert "data: grading's checks of the records fail nothing" in said
    assert "verdict: consistent: its data give this file, byte for byte" in said
    assert "invented data agree, too" in said
    (own,) = (line for line in lines if line.startswith("the author's own, not verified"))
    for name in ("author.name", "remark-seq_len-en.md", "remark-seq_len-en-1.png"):
        assert name in own
    assert [path.name for path in tmp_path.iterdir()] == ["report of ann"]


AGAIN = """
import sys
from pathlib import Path
from numpy._core._multiarray_umath import __cpu_features__ as found
from flashlab.report.rebuild import rebuild
from flashlab_grading.report_pdf import attachments_of

assert not any(found.get(name) for name in sys.argv[2:]), "numpy still dispatches"
pdf = Path(sys.argv[1])
pdf.with_name("again.pdf").write_bytes(rebuild(attachments_of(pdf.read_bytes()), pdf.parent))
"""


@pytest.mark.scheduled  # the page alone: report/test_render.py
def test_the_same_data_give_the_same_bytes_anywhere_and_at_any_time_on_another_processor(
    report: Report, tmp_path: Path
) -> None:
    """In another time zone, locale and hash seed.

    numpy's exp and log differ in their last bits: what is derived is rounded when written.
    """
    features = [name for name in DISPATCHED if AVAILABLE.get(name)]
    path = tmp_path / "lab5.pdf"
    path.write_bytes(report.pdf)
    command = [sys.executable, "-c", AGAIN, str(path), *features]
    lowest = {"NPY_DISABLE_CPU_FEATURES": " ".join(features)}
    environment = elsewhere(tmp_path, PACKAGE.parent) | lowest
    subprocess.run(command, check=True, cwd=tmp_path, env=environment)
    assert (tmp_path / "again.pdf").read_bytes() == report.pdf


# Alterations


@pytest.mark.parametrize("name", tampering.ALTERED)
def test_what_a_reader_can_reach_is_compared_and_nothing_else(name: str, report: Report) -> None:
    """Only what shows the same is not inconsistent, and is never consistent."""
    alter, expected, words = tampering.ALTERED[name]
    try:
        status, said = report.verified(alter(report.pdf))
    except UnsoundPdfError as error:
        status, said = 1, str(error)
    assert (status, words in said) == (expected, True), said
    assert "verdict: consistent" not in said
    assert ("difference: " in said) == (status == 1 and "verdict: inconsistent" in said)


def test_the_first_page_that_differs_is_told_by_its_words(report: Report) -> None:
    empty = tampering.saved(
        report.pdf, lambda pdf: [page.Contents.write(b"") for page in pdf.pages]
    )
    first, *others = differences(report.verified(empty)[1])
    said = "its text or drawing, its bytes differ (Contents)"
    assert first == (
        f"difference: page 1: {said}: line 1: it says “nothing”, and its data give “Author 王〓明”"
    )
    assert others == [f"difference: page {number}: {said}" for number in range(2, len(others) + 2)]


def differences(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("difference: ")]


ATTACHED: dict[str, tuple[str, Callable[[bytes], bytes | None]]] = {
    "attachment seq_len-metrics.csv: its content, its bytes differ (EF F): line 2: it says “": (
        "seq_len-metrics.csv",
        lambda content: re.sub(rb",0\.", b",9.", content, count=1),
    ),
    "attachment observations.json: ": ("observations.json", lambda content: content + b"\n"),
    "attachment extra.exe: it is added": ("extra.exe", lambda content: b"MZ"),
    "attachment seq_len-samples.csv: it is missing": ("seq_len-samples.csv", lambda content: None),
}


@pytest.mark.parametrize("expected", ATTACHED)
def test_what_is_attached_otherwise_is_found_by_the_records(expected: str, report: Report) -> None:
    name, change = ATTACHED[expected]
    files = {**report.files, name: change(report.files.get(name, b""))}
    kept = {name: content for name, content in files.items() if content is not None}
    status, said = report.verified(files=with_manifest(kept))
    assert status == 1 and expected in said
    attached = [line for line in differences(said) if ": attachment " in line]
    assert len(attached) == 2  # the manifest has changed with it


def with_record(files: Files, change: Callable[[Any], None]) -> Files:
    altered = attached.read_records(files)
    name = next(name for name in sorted(altered) if "flash2-b1-n64" in name)
    change(altered[name])
    return with_manifest({**files, "records.jsonl.gz": packed(altered)})


def twice(record: Any) -> None:
    """Samples and summary of the forward pass, twice as long."""
    forward = record["record"]["metrics"]["forward_time"]
    forward["samples"] = [2 * milliseconds for milliseconds in forward["samples"]]
    forward["value"] = statistics.median(forward["samples"])
    flops = record["forward"]["time(s)"] * record["forward"]["FLOPS(TFLOPs/s)"]
    record["forward"]["time(s)"] = forward["value"] / 1e3
    record["forward"]["FLOPS(TFLOPs/s)"] = flops / record["forward"]["time(s)"]
    both = record["forward_backward"]
    both["time(s)"] = record["forward"]["time(s)"] + record["backward"]["time(s)"]
    both["FLOPS(TFLOPs/s)"] = 3.5 * flops / both["time(s)"]


def test_a_sample_changed_is_found_by_the_tables_and_the_pages(report: Report) -> None:
    status, said = report.verified(files=with_record(report.files, twice))
    assert status == 1
    for words in ("attachment seq_len-samples.csv: its content, ", "page 1: its text or drawing, "):
        (line,) = (line for line in differences(said) if words in line)
        assert ": it says “" in line


def test_all_data_made_anew_is_found_by_the_pages(
    report: Report, rebuilt: Rebuild, tmp_path: Path
) -> None:
    """Samples, tables, comparisons and manifest altered to agree: the PDF still says else."""
    made = rebuilt(with_record(report.files, twice), tmp_path)
    status, said = report.verified(files=attachments_of(made))
    assert status == 1
    assert "difference: page 1: " in said
    assert not [line for line in differences(said) if "its bytes differ (EF" in line], said


def test_an_image_exchanged_in_the_attachments_is_found_on_the_page(report: Report) -> None:
    changed = {**report.files, "remark-seq_len-en-1.png": picture("PNG", "#0000ff40")}
    status, said = report.verified(files=with_manifest(changed))
    assert status == 1 and "a figure, " in said


def test_what_is_no_report_is_one_message(report: Report) -> None:
    files = report.files
    config = json.loads(files["config.json"])
    records = attached.read_records(files)
    some = {name: record for name, record in records.items() if "flash2-b1-n64" not in name}
    without_the_other = small_config()
    for block in (without_the_other["summary"], *without_the_other["experiments"]):
        block["implementations"] = ["Flash2"]
    without_the_other["baseline"] = "Flash2"
    wrong: dict[str, dict[str, bytes | None]] = {
        "it is truncated, or has more than": {
            "records.jsonl.gz": files["records.jsonl.gz"][:-9],
        },
        "with kernels or settings that are not here": {
            "config.json": json_text({**config, "baseline": "Secret"}).encode()
        },
        "must be of one device and one number format; found none": {"records.jsonl.gz": packed({})},
        "are not the runs that config.json asks for; they differ in Flash2 B1 N64": {
            "records.jsonl.gz": packed(some)
        },
        "are not the runs that config.json asks for; they differ in Pytorch B1 N16": {
            "config.json": config_text(without_the_other)
        },
        "cannot be rebuilt from its data": {"ceilings.json": b"[]"},
        "something follows the packed records": {
            "records.jsonl.gz": files["records.jsonl.gz"] + packed(some)
        },
        "more than 67108864 bytes": {
            "records.jsonl.gz": gzip.compress(b"\n" * 100_000_000, mtime=0)
        },
        "has more than 67108864": {"observations.json": b" " * 100_000_000},
        "occurs twice": {"manifest.json": b'{"files": {}, "files": {}}'},
        r"remark-seq_len-en\.md is not attached": {"remark-seq_len-en.md": None},
        r"remark-seq_len-en-1\.png is not attached": {"remark-seq_len-en-1.png": None},
        "neither PNG nor JPEG": {"remark-seq_len-en-2.jpg": b"<svg><script/></svg>"},
    }
    for expected, changed in wrong.items():
        altered = {k: v for k, v in ({**files, **changed}).items() if v is not None}
        altered = altered if "manifest.json" in changed else with_manifest(altered)
        with pytest.raises(UnsoundPdfError, match=expected):
            report.verified(files=altered)
    with pytest.raises(UnsoundPdfError, match=r"config\.json is not attached"):
        report.verified(files={})
    with pytest.raises(UnsoundPdfError, match=r"lab5\.pdf: it cannot be read as a PDF"):
        report.verified(b"\xff" * 100)
    with pytest.raises(UnsoundPdfError, match="No such file"):
        read_pdf(report.folder / "gone.pdf")


@pytest.mark.parametrize(
    "name", ["../../x.json", "a\0.json", "\ud800.json", "\u202e.json", ".x.json", "x" * 300, "", 7]
)
def test_a_name_that_no_file_can_have_is_one_message(records: dict[str, Any], name: Any) -> None:
    entry = {"file": name, "record": next(iter(records.values()))}
    lines = gzip.compress((json.dumps(entry) + "\n").encode(), mtime=0)
    with pytest.raises(AttachmentError, match=r"is not a file name|half of a surrogate"):
        attached.read_records({"records.jsonl.gz": lines})


def test_a_kernel_that_is_not_here_is_named(
    report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = Implementations({"Pytorch": implementations_of(ATTENTION)["Pytorch"]})
    monkeypatch.setattr("flashlab.report.rebuild.implementations_of", lambda _: here)
    with pytest.raises(AttachmentError, match="kernels/ has no Flash2; put the author's files"):
        rebuild(report.files, tmp_path)


# What another version rendered


HERE = software()
OTHERS = {
    "flashlab 0.0.9 (here": {"flashlab": "0.0.9"},
    "code 000000000000 (here": {"code": "0" * 64},
    "weasyprint 1.0 (here": {"libraries": {**HERE["libraries"], "weasyprint": "1.0"}},
}


@pytest.mark.parametrize("expected", OTHERS)
def test_what_other_software_rendered_is_verified_by_that_alone(
    expected: str, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not its data give another report here, or none; they are checked all the same."""
    stated = with_manifest(report.files, **OTHERS[expected])
    unknown = json_text({**json.loads(stated["config.json"]), "baseline": "Secret"}).encode()
    for files in (stated, with_manifest({**stated, "config.json": unknown}, **OTHERS[expected])):
        status, said = report.verified(files=files)
        assert (status, "consistent" in said) == (3, False), said
        assert f"verdict: not verified here: it states other software: {expected}" in said
        assert "data: grading's checks of the records fail nothing" in said


def test_what_states_no_software_is_compared(report: Report) -> None:
    assert not differing_parts(HERE)
    for stated in (None, [], {}, {**HERE, "code": 7}, {**HERE, "more": "x"}, {**HERE, "fonts": []}):
        manifest = json.loads(report.files["manifest.json"]) | {"software": stated}
        files = {**report.files, "manifest.json": json.dumps(manifest).encode()}
        assert report.verified(files=files)[0] == 1
    files = {name: file for name, file in report.files.items() if name != "manifest.json"}
    assert "attachment manifest.json: it is missing" in report.verified(files=files)[1]


# The second answer


def test_invented_data_that_were_rendered_agree_and_cannot_have_been_measured(
    report: Report, rebuilt: Rebuild, tmp_path: Path
) -> None:
    def without_noise(record: Any) -> None:
        twice(record)
        forward = record["record"]["metrics"]["forward_time"]
        forward["samples"] = [forward["value"]] * len(forward["samples"])

    status, said = report.verified(rebuilt(with_record(report.files, without_noise), tmp_path))
    assert status == 1
    assert "file, byte for byte; but no measurement gives its data" in said
    assert "data: no measurement gives these records" in said
    assert "all samples in the record are equal" in said


def test_reports_are_submissions_so_that_a_copied_one_is_found(
    report: Report, tmp_path: Path
) -> None:
    for name in ("ann", "ben"):
        tmp_path.joinpath("class", name).mkdir(parents=True)
        tmp_path.joinpath("class", name, "my report.pdf").write_bytes(report.pdf)
    tmp_path.joinpath("class", "ann", "essay.pdf").write_bytes(b"%PDF-1.7 of something else")
    lines = grade_folder(tmp_path / "class").lines
    copied = {x.submission for x in lines if (x.check, x.verdict) == ("copies", "fail")}
    assert copied == {"ann", "ben"}
    assert {line.verdict for line in lines if line.check == "form"} == {"pass"}


def ceilings(**changes: Any) -> bytes:
    """A device's ceilings in the right form."""
    timed = {"time(s)": 0.001, "samples": [0.001] * 9, "stopped": "interval"}
    rates = {"rate(TFLOPs/s)": 2 * 64**3 / 0.001 / 1e12, "bandwidth(GB/s)": 2 * 4096 / 0.001 / 1e9}
    product = {**timed, "size": 64, "rate(TFLOPs/s)": rates["rate(TFLOPs/s)"]}
    copied = {**timed, "bytes": 4096, "bandwidth(GB/s)": rates["bandwidth(GB/s)"], **changes}
    return json_text({"matrix_product": {"float32": product}, "copy": copied}).encode()


def test_ceilings_must_follow_from_their_samples() -> None:
    def told(**changes: Any) -> list[str]:
        return list(verification._ceiling_lines({"ceilings.json": ceilings(**changes)}))

    assert told() == []
    (line,) = told(samples=[0.002] * 9)
    assert line == "ceilings.json: copy: time(s) is not the median of the samples"
    (line,) = told(**{"bandwidth(GB/s)": 9.9})
    assert "copy: bandwidth(GB/s): it says 9.9" in line
