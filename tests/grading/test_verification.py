"""A report verified from its PDF alone: consistent as it was made, and not with a digit changed."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import pikepdf
import pytest
import yaml
from grading import tampering
from PIL import Image

from flashlab import plan
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.config import Layer, reported_config, resolve_config
from flashlab.files import canonical, json_text
from flashlab.implementations import find_implementations
from flashlab.records import Record
from flashlab.report.attachments import manifest_of
from flashlab.report.software import differing_parts, software
from flashlab_grading import verification
from flashlab_grading.attachments import (
    ceiling_differences,
    config_differences,
    open_pdf,
    read_pdf,
    setting_differences,
)
from flashlab_grading.rebuild import Rebuilt, rebuild
from flashlab_grading.strict_pdf import UnsoundPdfError
from flashlab_grading.verification import check_report, verify

TINY = Path(__file__).parents[1] / "tiny.yaml"
Files = dict[str, bytes]

INPUTS = ("config.json", "records.jsonl.gz", "ceilings.json", "manifest.json")


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


def small_config() -> dict[str, Any]:
    """The tiny configuration with one experiment of two sizes, so that a report is quickly made."""
    config = yaml.safe_load(TINY.read_text("utf-8"))
    config["experiments"] = config["experiments"][:1]
    return resolve_config([Layer(str(TINY), config)], find_implementations())


@pytest.fixture(scope="module")
def records(record_of: Callable[..., Record]) -> dict[str, Any]:
    """The documents of the small configuration's records, by file name."""
    config = small_config()
    chance = random.Random(4)
    found = {}
    for experiment in plan.experiments(config, ATTENTION, "cpu"):
        for run in experiment.runs("float32", "cpu"):
            level = 1e-5 * Shape.of(run).seq_len * (3 if run.implementation == "Pytorch" else 1)
            samples = {
                name: [level * factor * chance.lognormvariate(0, 0.02) for _ in range(15)]
                for name, factor in (("forward", 1), ("backward", 2.5))
            }
            record = record_of(run, protocol=plan.protocol_of(config, "cpu"), **samples)
            found.setdefault(f"{run.slug}-0123456789ab.json", record.to_json())
    return found


@pytest.fixture(scope="module")
def rebuilt() -> Iterator[Callable[..., Rebuilt]]:
    """Rebuilds a report; the same data once, because it always gives the same."""
    known: dict[str, Rebuilt] = {}

    def remembered(attachments: Mapping[str, bytes], folder: Path) -> Rebuilt:
        taken = sorted(name for name in attachments if name.startswith("remark-"))
        inputs = {name: attachments.get(name) for name in (*INPUTS[:3], *taken)}
        stated = json.loads(attachments.get("manifest.json", b"{}")).get("software", software())
        key = repr(inputs) + canonical(stated)
        if key not in known:
            known[key] = rebuild(attachments, folder)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "rebuild", remembered)
        yield remembered


@pytest.fixture(scope="module")
def report(
    records: dict[str, Any],
    rebuilt: Callable[..., Rebuilt],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[bytes, Files]:
    """A report of these records, and what is attached to it."""
    source = {"config.json": config_text(small_config()), "records.jsonl.gz": packed(records)}
    made = rebuilt(source, tmp_path_factory.mktemp("first"))
    return made.pdf, dict(made.attachments)


def told(pdf: bytes, files: Mapping[str, bytes] | None = None) -> dict[str, list[str]]:
    """What differs, by what was compared; with these files attached in place of the report's."""
    content = pdf if files is None else tampering.with_attachments(pdf, files)
    found = check_report(open_pdf(content)).differences
    return {compared: lines for compared, lines in found.items() if lines}


def verified(content: bytes, folder: Path) -> tuple[int, list[str]]:
    """Exit status and lines."""
    path = folder / "lab5.pdf"
    path.write_bytes(content)
    with chdir(folder):  # where pictures of pages that differ are kept
        return verify(path)


def test_a_report_as_it_was_made_is_consistent(report: tuple[bytes, Files], tmp_path: Path) -> None:
    status, lines = verified(report[0], tmp_path)
    assert status == 0, lines
    assert lines[:4] == [
        "attachments: consistent",
        "records: consistent",
        "tables and findings: consistent",
        "pages: consistent",
    ]
    assert "verdict: consistent: its data give this file, byte for byte" in lines
    assert "does not show where the data came from" in lines[-1]


def test_a_report_rebuilt_from_its_own_attachments_is_the_same_to_the_byte(
    illustrated: tuple[bytes, Files], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In one language, with remarks, images and characters that the fonts lack."""
    assert json.loads(illustrated[1]["config.json"])["languages"] == ["en"]
    again = rebuild(illustrated[1], tmp_path_factory.mktemp("again"))
    assert again.pdf == illustrated[0]


def rewritten_by_qpdf(content: bytes, folder: Path, *options: str) -> bytes:
    before, after = folder / "in.pdf", folder / "out.pdf"
    before.write_bytes(content)
    with pikepdf.open(before) as pdf:
        mode = getattr(pikepdf.ObjectStreamMode, options[0] if options else "preserve")
        pdf.save(after, object_stream_mode=mode, fix_metadata_version=False)
    return after.read_bytes()


@pytest.mark.parametrize("mode", ["preserve", "disable", "generate"])
def test_a_report_that_another_program_wrote_again_is_consistent(
    report: tuple[bytes, Files], tmp_path: Path, mode: str
) -> None:
    again = rewritten_by_qpdf(report[0], tmp_path, mode)
    assert again != report[0]
    status, lines = verified(again, tmp_path)
    assert status == 0, lines
    assert any("object for object; another program wrote" in line for line in lines)


# Alterations of the document


@pytest.mark.parametrize("alter", tampering.PLACES, ids=lambda alter: alter.__name__)
def test_an_alteration_of_the_document_is_found_and_named(
    report: tuple[bytes, Files], alter: tampering.Alteration
) -> None:
    found = told(tampering.altered(report[0], alter))
    assert found.keys() == {"pages"}
    assert tampering.PLACES[alter] in found["pages"][0]
    assert len(found["pages"]) <= 4, found


def test_an_update_behind_the_end_is_refused(report: tuple[bytes, Files], tmp_path: Path) -> None:
    """Readers differ in which end they take; some look for the last one, some repair."""
    pdf, _ = report
    update = b"9 0 obj\n<</Type/Page>>\nendobj\ntrailer\n<</Root 2 0 R>>\n"
    for more in (update, update + b"startxref\n9\n%%EOF\n", b"\0" * 2000, b"%%EOF\n"):
        with pytest.raises(UnsoundPdfError, match="something follows the objects"):
            verified(pdf + more, tmp_path)


def test_any_altered_object_is_found(report: tuple[bytes, Files]) -> None:
    """Some objects chosen by chance, altered by chance; many more by hand (docs/grading.md)."""
    chance = random.Random(7)
    what: list[str] = []

    def alter(pdf: pikepdf.Pdf) -> None:
        what.append(tampering.alter_any(pdf, chance))

    for _ in range(12):
        assert told(tampering.altered(report[0], alter)).keys() == {"pages"}, what[-1]


# Alterations of the data


def test_a_digit_changed_in_an_attachment_is_found_by_the_manifest(
    report: tuple[bytes, Files],
) -> None:
    pdf, files = report
    whole = with_manifest(files)
    for name in files:
        if name.endswith(".csv"):
            changed = whole[name].replace(b"2", b"3", 1)
            if changed != whole[name]:
                found = told(pdf, {**whole, name: changed})
                assert name in found["attachments"][0]
                assert name in found["tables and findings"][0]
                break
    else:
        pytest.fail("no table has a 2")


def test_a_cell_changed_with_its_manifest_is_found_by_the_records(
    report: tuple[bytes, Files],
) -> None:
    pdf, files = report
    name = "seq_len-metrics.csv"
    lines = files[name].split(b"\n")
    cells = lines[1].split(b",")
    at = lines[0].split(b",").index(b"value")
    cells[at] = b"9" + cells[at]
    changed = b"\n".join([lines[0], b",".join(cells), *lines[2:]])
    found = told(pdf, with_manifest({**files, name: changed}))
    assert found.keys() == {"tables and findings"}
    assert f"{name}: line 2: value: 9" in found["tables and findings"][0]


def test_a_finding_changed_with_its_manifest_is_found(report: tuple[bytes, Files]) -> None:
    pdf, files = report
    findings = json.loads(files["findings.json"])
    findings[0]["verdict"] = "worse"
    changed = with_manifest({**files, "findings.json": json.dumps(findings).encode()})
    assert told(pdf, changed).keys() == {"tables and findings"}


def with_record(files: Files, records: dict[str, Any], change: Callable[[Any], None]) -> Files:
    altered = json.loads(json.dumps(records))
    name = next(name for name in sorted(altered) if "flash2-b1-n64" in name)
    change(altered[name])
    return with_manifest({**files, "records.jsonl.gz": packed(altered)})


def test_a_sample_changed_is_found_by_the_summary_the_tables_and_the_text(
    report: tuple[bytes, Files], records: dict[str, Any]
) -> None:
    def slower(record: Any) -> None:
        forward = record["record"]["metrics"]["forward_time"]
        forward["samples"] = [2 * milliseconds for milliseconds in forward["samples"]]

    pdf, files = report
    found = told(pdf, with_record(files, records, slower))
    assert "forward_time: the value is not the median of its samples" in found["records"][0]
    assert found.keys() >= {"records", "tables and findings", "pages"}


def test_a_summary_changed_is_not_trusted_over_its_samples(
    report: tuple[bytes, Files], records: dict[str, Any]
) -> None:
    def faster(record: Any) -> None:
        forward = record["forward"]
        forward["time(s)"] /= 2
        forward["FLOPS(TFLOPs/s)"] *= 2

    pdf, files = report
    assert "records" in told(pdf, with_record(files, records, faster))


def test_all_data_made_anew_is_found_by_the_text(
    report: tuple[bytes, Files],
    records: dict[str, Any],
    rebuilt: Callable[..., Rebuilt],
    tmp_path: Path,
) -> None:
    """Samples, summary, tables, findings and manifest altered to agree: the PDF still says else."""

    def twice(record: Any) -> None:
        forward = record["record"]["metrics"]["forward_time"]
        forward["samples"] = [2 * milliseconds for milliseconds in forward["samples"]]
        forward["value"] = statistics.median(forward["samples"])
        flops = record["forward"]["time(s)"] * record["forward"]["FLOPS(TFLOPs/s)"]
        total = flops * 3.5
        record["forward"]["time(s)"] = forward["value"] / 1e3
        record["forward"]["FLOPS(TFLOPs/s)"] = flops / record["forward"]["time(s)"]
        both = record["forward_backward"]
        both["time(s)"] = record["forward"]["time(s)"] + record["backward"]["time(s)"]
        both["FLOPS(TFLOPs/s)"] = total / both["time(s)"]

    pdf, files = report
    altered = with_record(files, records, twice)
    made = rebuilt(altered, tmp_path)
    found = told(pdf, made.attachments)
    assert found.keys() == {"pages"}
    assert any(re.search(r"page \d+: after .* there is .*, but the records give ", line)
               for line in found["pages"])  # fmt: skip


def test_a_digit_changed_in_the_text_is_found(report: tuple[bytes, Files]) -> None:
    def exchange(pdf: pikepdf.Pdf) -> None:
        # Glyphs are drawn by number: another one is put where two stand side by side.
        for page in pdf.pages:
            content = page.Contents.read_bytes()
            changed = re.sub(rb"<([0-9a-f]{4})(?!\1)([0-9a-f]{4})", rb"<\2\2", content, count=1)
            if changed != content:
                page.Contents.write(changed)
                return

    found = told(tampering.altered(report[0], exchange))
    assert found.keys() == {"pages"}
    assert re.search(r"page \d+: after .* there is .*, but the records give ", found["pages"][0])


def test_more_or_less_than_the_data_is_told(report: tuple[bytes, Files]) -> None:
    pdf, files = report
    more = with_manifest({**files, "extra.exe": b"MZ"})
    assert "extra.exe" in told(pdf, more)["tables and findings"][0]
    less = {name: content for name, content in files.items() if name != "seq_len-samples.csv"}
    assert "seq_len-samples.csv is not attached" in told(pdf, with_manifest(less))[
        "tables and findings"
    ][0]  # fmt: skip


def test_what_is_no_report_is_one_message(
    report: tuple[bytes, Files], records: dict[str, Any], tmp_path: Path
) -> None:
    pdf, files = report
    config = json.loads(files["config.json"])
    some = dict([*records.items()][1:])
    wrong: dict[str, dict[str, bytes]] = {
        "it is truncated, or has more than": {
            "records.jsonl.gz": files["records.jsonl.gz"][:-9],
        },
        "unknown implementation": {
            "config.json": json_text({**config, "baseline": "Secret"}).encode()
        },
        "must be of one device and one number format; found none": {"records.jsonl.gz": packed({})},
        "are not the runs that config.json asks for": {"records.jsonl.gz": packed(some)},
        "something follows the packed records": {
            "records.jsonl.gz": files["records.jsonl.gz"] + packed(some)
        },
        "with a bare header": {
            "records.jsonl.gz": gzip.compress(gzip.decompress(files["records.jsonl.gz"]), mtime=9)
        },
    }
    for expected, changed in wrong.items():
        content = tampering.with_attachments(pdf, with_manifest({**files, **changed}))
        with pytest.raises(UnsoundPdfError, match=re.escape(expected)):
            verified(content, tmp_path)
    twice = {**files, "manifest.json": b'{"files": {}, "files": {}}'}
    for expected, content in {
        "manifest.json is not attached": tampering.with_attachments(pdf, {}),
        "cannot be read as a PDF": b"\xff" * 100,
        "occurs twice": tampering.with_attachments(pdf, twice),
    }.items():
        with pytest.raises(UnsoundPdfError, match=re.escape(expected)):
            verified(content, tmp_path)
    with pytest.raises(UnsoundPdfError, match=r"gone\.pdf"):
        read_pdf(tmp_path / "gone.pdf")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version":2', b'"version":9'),
        (b'"dataset":"local"', b'"dataset":"h200"'),
        (b'{"dataset"', b'{"checked":"by the teacher","dataset"'),
        (b'"version":2', b'"version":2.0'),
    ],
)
def test_the_manifest_is_compared_whole(
    report: tuple[bytes, Files], old: bytes, new: bytes
) -> None:
    pdf, files = report
    assert old in files["manifest.json"]
    changed = {**files, "manifest.json": files["manifest.json"].replace(old, new, 1)}
    found = told(pdf, changed)
    assert found.keys() == {"attachments"}
    assert found["attachments"][0].startswith("manifest.json: ")
    assert len(found["attachments"]) == 1


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (rb'": true', b'": 1', "1, but the records give true"),
        (rb'"kind":', b'"kind": "x", "kind":', "findings.json: "),
        (rb"\n  \{", b"\n   {", "reads the same, but is not byte for byte"),
    ],
)
def test_the_findings_are_compared_with_their_types_and_bytes(
    report: tuple[bytes, Files], old: bytes, new: bytes, expected: str
) -> None:
    pdf, files = report
    changed, count = re.subn(old, new, files["findings.json"], count=1)
    assert count
    found = told(pdf, with_manifest({**files, "findings.json": changed}))
    assert found.keys() == {"tables and findings"}
    assert expected in found["tables and findings"][0]


def test_settings_that_measured_nothing_are_found(records: dict[str, Any]) -> None:
    config = small_config()
    assert list(setting_differences(config, records)) == []
    config["measure"]["sampled"]["relative_interval"] = 0.25
    assert list(setting_differences(config, records)) == [
        "config.json: measure.sampled.relative_interval: it says 0.25, and the records 0.5"
    ]
    config["measure"]["protocol"] = "lab5"
    (line,) = setting_differences(config, records)
    assert line == "config.json: measure.protocol: no record was measured by lab5"


def test_a_configuration_that_is_written_otherwise_is_found(report: tuple[bytes, Files]) -> None:
    _, files = report
    assert list(config_differences(files)) == []
    config = json.loads(files["config.json"])
    for written in (json.dumps(config), json_text({**config, "counters": "no"})):
        (line,) = config_differences({**files, "config.json": written.encode()})
        assert line.startswith("config.json: it is not as FlashLab writes it")


# What another version rendered


def test_the_pages_of_another_version_are_not_compared(
    report: tuple[bytes, Files], tmp_path: Path
) -> None:
    pdf, files = report
    changed = tampering.altered(pdf, tampering.cover_a_number)
    other = with_manifest(files, flashlab="0.0.9")
    status, lines = verified(tampering.with_attachments(changed, other), tmp_path)
    assert status == 3, lines
    (verdict,) = (line for line in lines if line.startswith("verdict: "))
    assert "data consistent, pages not compared" in verdict
    assert "other versions of FlashLab;" in verdict
    assert "pages: not compared" in lines


def test_what_is_another_version_is_named() -> None:
    here = software()
    assert differing_parts(here) == []
    assert differing_parts({**here, "code": "0" * 64}) == ["code"]
    assert differing_parts({**here, "fonts": {}}) == sorted(here["fonts"])
    libraries = {**here["libraries"], "weasyprint": "1.0"}
    assert differing_parts({**here, "libraries": libraries}) == ["weasyprint"]
    for stated in (None, [], {}, {**here, "code": 7}, {**here, "more": "x"}, {**here, "fonts": []}):
        assert differing_parts(stated) == ["flashlab"]


def test_a_report_of_before_is_not_accused(report: tuple[bytes, Files], tmp_path: Path) -> None:
    """A manifest that states no software is an earlier version's."""
    pdf, files = report
    manifest = json.loads(files["manifest.json"])
    old = json.dumps({"version": 1, "dataset": "local", "files": manifest["files"]}).encode()
    content = tampering.with_attachments(pdf, {**files, "manifest.json": old})
    status, lines = verified(content, tmp_path)
    assert status == 3, lines


def test_another_version_does_not_excuse_its_records(
    report: tuple[bytes, Files],
    records: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def faster(record: Any) -> None:
        record["record"]["metrics"]["forward_time"]["value"] /= 2

    def fail(*_: object) -> None:
        raise UnsoundPdfError("rebuilding adds nothing here")

    monkeypatch.setattr(verification, "rebuild", fail)
    pdf, files = report
    changed = with_manifest(with_record(files, records, faster), flashlab="0.0.9")
    status, _ = verified(tampering.with_attachments(pdf, changed), tmp_path)
    assert status == 1


# Hostile data


def ceilings(**changes: Any) -> dict[str, Any]:
    """A device's ceilings in the right form."""
    timed = {"time(s)": 0.001, "samples": [0.001] * 9, "stopped": "interval"}
    rates = {"rate(TFLOPs/s)": 2 * 64**3 / 0.001 / 1e12, "bandwidth(GB/s)": 2 * 4096 / 0.001 / 1e9}
    product = {**timed, "size": 64, "rate(TFLOPs/s)": rates["rate(TFLOPs/s)"]}
    copied = {**timed, "bytes": 4096, "bandwidth(GB/s)": rates["bandwidth(GB/s)"]}
    return {
        **{"version": 1, "device": "cpu", "matrix_product": {"float32": product}, "copy": copied},
        **{"environment": {"device_name": "Abacus"}, "started": "2026-01-02T03:04:05+00:00"},
        **changes,
    }


@pytest.mark.parametrize(
    "document", [[], {}, ceilings(copy={}), ceilings(checked="by the teacher")]
)
def test_ceilings_that_are_none_are_one_message(
    report: tuple[bytes, Files], tmp_path: Path, document: Any
) -> None:
    pdf, files = report
    changed = with_manifest({**files, "ceilings.json": json_text(document).encode()})
    with pytest.raises(UnsoundPdfError, match=r"ceilings\.json: "):
        verified(tampering.with_attachments(pdf, changed), tmp_path)


def test_ceilings_must_follow_from_their_samples() -> None:
    def differences(**changes: Any) -> list[str]:
        content = json_text(ceilings(**changes)).encode()
        return list(ceiling_differences({"ceilings.json": content}))

    assert differences() == []
    (line,) = differences(started="soon")
    assert "is not a date" in line
    slower = ceilings()["copy"] | {"samples": [0.002] * 9}
    (line,) = differences(copy=slower)
    assert line == "ceilings.json: copy: time(s) is not the median of the samples"
    (line,) = differences(copy=ceilings()["copy"] | {"bandwidth(GB/s)": 9.9})
    assert "copy: bandwidth(GB/s): it says 9.9" in line


@pytest.mark.parametrize("started", ["soon", "2026-01-02"])
def test_a_start_that_is_no_date_is_a_difference(
    report: tuple[bytes, Files], records: dict[str, Any], started: str, tmp_path: Path
) -> None:
    def undated(record: Any) -> None:
        record["record"]["started"] = started

    pdf, files = report
    content = tampering.with_attachments(pdf, with_record(files, records, undated))
    status, lines = verified(content, tmp_path)
    assert status == 1
    assert any("started" in line for line in lines)


@pytest.mark.parametrize(
    "name", ["../../x.json", "a\0.json", "\ud800.json", "\u202e.json", ".x.json", "x" * 300, "", 7]
)
def test_a_name_that_no_file_can_have_is_one_message(
    report: tuple[bytes, Files], records: dict[str, Any], tmp_path: Path, name: Any
) -> None:
    pdf, files = report
    entry = {"file": name, "record": next(iter(records.values()))}
    lines = gzip.compress((json.dumps(entry) + "\n").encode(), mtime=0)
    changed = with_manifest({**files, "records.jsonl.gz": lines})
    with pytest.raises(UnsoundPdfError, match=r"is not a file name|half of a surrogate"):
        verified(tampering.with_attachments(pdf, changed), tmp_path)


def test_packed_data_is_unpacked_within_bounds(report: tuple[bytes, Files], tmp_path: Path) -> None:
    pdf, files = report
    newlines = gzip.compress(b"\n" * 100_000_000, mtime=0)
    changed = with_manifest({**files, "records.jsonl.gz": newlines})
    with pytest.raises(UnsoundPdfError, match="more than 67108864 bytes"):
        verified(tampering.with_attachments(pdf, changed), tmp_path)
    with pytest.raises(UnsoundPdfError, match="more than 67108864 bytes"):
        verified(
            tampering.with_attachments(pdf, {**files, "findings.json": b" " * 100_000_000}),
            tmp_path,
        )


def test_whatever_a_stage_raises_is_one_message(
    report: tuple[bytes, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(verification, "rebuild", fail)
    with pytest.raises(UnsoundPdfError, match="cannot be rebuilt from its data: ZeroDivisionError"):
        verified(report[0], tmp_path)


# Remarks


def with_remark(files: Files, remark: bytes, **keys: Any) -> Files:
    """A report's source with a remark."""
    config = json.loads(files["config.json"])
    config |= {"remarks": {"seq_len": {"en": "elsewhere/remark.md"}}, **keys}
    source = {name: files[name] for name in ("config.json", "records.jsonl.gz")}
    config_file = config_text(resolve_config([Layer("x", config)], find_implementations()))
    return {**source, "config.json": config_file, "remark-seq_len-en.md": remark}


def test_a_remark_is_never_read_from_where_the_attachment_says(
    report: tuple[bytes, Files], tmp_path: Path
) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("a secret of this machine")
    files = with_remark(report[1], b"", remarks={"seq_len": {"en": str(secret)}})
    del files["remark-seq_len-en.md"]
    with pytest.raises(UnsoundPdfError, match=r"remark-seq_len-en\.md is not attached"):
        rebuild(files, tmp_path)


def png(colour: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGBA", (40, 20), colour).save(file, "PNG")
    return file.getvalue()


def with_images(files: Files) -> Files:
    """A report's source with a remark that shows two images, as they are attached."""
    remark = "Fast 🐇 ![a](../up/a.png) ![b](<shots/b c.svg>)".encode()
    return {
        **with_remark(files, remark, author={"name": "王𪛖明"}, languages=["en"]),
        "remark-seq_len-en-1.png": png("#ff000080"),
        "remark-seq_len-en-2.svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">'
        b'<rect width="5" height="5"/></svg>',
    }


@pytest.fixture(scope="module")
def illustrated(
    report: tuple[bytes, Files],
    rebuilt: Callable[..., Rebuilt],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[bytes, Files]:
    """A report with images in a remark and characters that the fonts lack."""
    made = rebuilt(with_images(report[1]), tmp_path_factory.mktemp("illustrated"))
    return made.pdf, dict(made.attachments)


def test_a_report_with_remarks_and_images_is_consistent_and_lists_them(
    illustrated: tuple[bytes, Files], tmp_path: Path
) -> None:
    status, lines = verified(illustrated[0], tmp_path)
    assert status == 0, lines
    (own,) = (line for line in lines if line.startswith("the author's own, not verified: "))
    for name in ("author.name", "remark-seq_len-en.md", "remark-seq_len-en-1.png"):
        assert name in own
    again = rewritten_by_qpdf(illustrated[0], tmp_path)
    status, lines = verified(again, tmp_path)
    assert status == 0, lines


def test_an_image_exchanged_in_the_attachments_is_found_on_the_page(
    illustrated: tuple[bytes, Files],
) -> None:
    pdf, files = illustrated
    changed = with_manifest({**files, "remark-seq_len-en-1.png": png("#0000ff40")})
    assert told(pdf, changed).keys() == {"pages"}


def test_an_image_of_a_remark_that_is_missing_or_harmful_is_one_message(
    illustrated: tuple[bytes, Files], tmp_path: Path
) -> None:
    _, files = illustrated
    less = {name: content for name, content in files.items() if not name.endswith(".png")}
    with pytest.raises(UnsoundPdfError, match=r"remark-seq_len-en-1\.png is not attached"):
        rebuild(less, tmp_path)
    script = b'<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>'
    with pytest.raises(UnsoundPdfError, match="holds <script>"):
        rebuild({**files, "remark-seq_len-en-2.svg": script}, tmp_path)


def test_an_image_that_no_remark_shows_is_told(illustrated: tuple[bytes, Files]) -> None:
    pdf, files = illustrated
    more = with_manifest({**files, "remark-seq_len-en-3.png": png("#fff")})
    (said,) = told(pdf, more)["tables and findings"]
    assert said == "remark-seq_len-en-3.png is attached but is not part of a report's data"
