"""A report verified from its PDF alone: consistent as it was made, and not with a digit changed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pypdf
import pytest
import yaml
from PIL import Image
from pypdf.annotations import FreeText
from pypdf.generic import DictionaryObject, NameObject, TextStringObject

from flashlab import plan
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.config import Layer, resolve_config
from flashlab.files import canonical
from flashlab.grading import verification
from flashlab.grading.attachments import UnsoundPdfError, open_pdf, read_pdf
from flashlab.grading.rebuild import Rebuilt, rebuild
from flashlab.grading.verification import differences, verify
from flashlab.implementations import find_implementations
from flashlab.records import Record

TINY = Path(__file__).parents[1] / "tiny.yaml"
Files = dict[str, bytes]


def packed(records: Mapping[str, Any]) -> bytes:
    """Records as a report holds them: a line of JSON each, packed."""
    lines = [json.dumps({"file": name, "record": r}) + "\n" for name, r in sorted(records.items())]
    return gzip.compress("".join(lines).encode(), mtime=0)


def with_manifest(files: Mapping[str, bytes]) -> Files:
    listed = {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        for name, content in files.items()
        if name != "manifest.json"
    }
    manifest = {"version": 1, "dataset": "local", "files": listed}
    return {**files, "manifest.json": canonical(manifest).encode()}


def attached(pdf: bytes, files: Mapping[str, bytes]) -> bytes:
    """The PDF with these files attached in place of what it has."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf))
    names = writer.root_object.get("/Names")
    if names is not None:
        names.get_object().pop("/EmbeddedFiles", None)
    for name, content in files.items():
        writer.add_attachment(name, content)
    found = io.BytesIO()
    writer.write(found)
    return found.getvalue()


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
            record = record_of(run, **samples)
            found.setdefault(f"{run.slug}-0123456789ab.json", record.to_json())
    return found


@pytest.fixture(scope="module")
def report(
    records: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[bytes, Files]:
    """A report of these records, and what is attached to it."""
    config = small_config()
    source = {
        "config.json": json.dumps({**config, "dataset": "local"}).encode(),
        "records.jsonl.gz": packed(records),
    }
    made = rebuild(source, tmp_path_factory.mktemp("first"))
    return made.pdf, {**source, **made.attachments}


@pytest.fixture(autouse=True, scope="module")
def rebuilt_once() -> Iterator[None]:
    """The same data is rebuilt once: it always gives the same."""
    known: dict[str, Rebuilt] = {}

    def remembered(attachments: Mapping[str, bytes], folder: Path) -> Rebuilt:
        inputs = ("config.json", "records.jsonl.gz", "seq_len-runs.csv", "summary-runs.csv")
        remarks = sorted(name for name in attachments if name.startswith("remark-"))
        key = repr([(name, attachments.get(name)) for name in (*inputs, *remarks)])
        if key not in known:
            known[key] = rebuild(attachments, folder)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "rebuild", remembered)
        yield


def told(pdf: bytes, files: Mapping[str, bytes]) -> dict[str, list[str]]:
    """What differs, by what was compared."""
    found = differences(open_pdf(attached(pdf, files)))
    return {compared: lines for compared, lines in found.items() if lines}


def test_a_report_as_it_was_made_is_consistent(report: tuple[bytes, Files], tmp_path: Path) -> None:
    pdf, files = report
    path = tmp_path / "lab5.pdf"
    path.write_bytes(attached(pdf, with_manifest(files)))
    consistent, lines = verify(path)
    assert consistent, lines
    assert lines[:-1] == [
        "attachments: consistent",
        "records: consistent",
        "tables and findings: consistent",
        "pages: consistent",
    ]
    assert "does not show where the data came from" in lines[-1]


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
    report: tuple[bytes, Files], records: dict[str, Any], tmp_path: Path
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
    made = rebuild(altered, tmp_path)
    found = told(pdf, with_manifest({**altered, **made.attachments}))
    assert found.keys() == {"pages"}
    assert any(re.search(r"page \d+: after .* there is .*, but the records give ", line)
               for line in found["pages"])  # fmt: skip


def with_page_changed(pdf: bytes, old: bytes, new: bytes) -> bytes:
    """The PDF with the first occurrence of drawing operators on any page replaced."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf))
    for page in writer.pages:
        contents = page.get_contents()
        assert contents is not None
        data = contents.get_data()
        if re.search(old, data):
            stream = pypdf.generic.DecodedStreamObject()
            stream.set_data(re.sub(old, new, data, count=1))
            page[pypdf.generic.NameObject("/Contents")] = writer._add_object(stream)
            break
    else:
        pytest.fail("nothing to replace")
    found = io.BytesIO()
    writer.write(found)
    return found.getvalue()


def test_a_digit_changed_in_the_text_is_found(report: tuple[bytes, Files]) -> None:
    pdf, files = report
    # Glyphs are drawn by number: another one is put where two stand side by side.
    changed = with_page_changed(pdf, rb"<([0-9a-f]{4})([0-9a-f]{4})", rb"<\2\2")
    found = told(changed, with_manifest(files))
    assert found.keys() == {"pages"}
    assert "there is" in found["pages"][0]


def test_a_line_moved_in_a_drawing_is_found(report: tuple[bytes, Files]) -> None:
    pdf, files = report
    changed = with_page_changed(pdf, rb"\n([0-9.]+) ([0-9.]+) l\n", rb"\n1 2 l\n")
    found = told(changed, with_manifest(files))
    assert found.keys() == {"pages"}
    assert "the drawings are not those of the records" in found["pages"][0]


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
    whole = with_manifest(files)
    config = json.loads(files["config.json"])
    wrong = {
        "manifest.json is not attached": attached(pdf, {}),
        "cannot be read as a PDF": b"%PDF-1.7\n" + b"\xff" * 100,
        "is not a file name": attached(
            pdf, with_manifest({**files, "records.jsonl.gz": packed({"../../x.json": {}})})
        ),
        "it is truncated, or has more than": attached(
            pdf, with_manifest({**files, "records.jsonl.gz": files["records.jsonl.gz"][:-9]})
        ),
        "unknown implementation": attached(
            pdf,
            with_manifest(
                {**files, "config.json": json.dumps({**config, "baseline": "Secret"}).encode()}
            ),
        ),
        "must be of one device and one number format; found none": attached(
            pdf, with_manifest({**files, "records.jsonl.gz": packed({})})
        ),
        "are not the runs that config.json asks for": attached(
            pdf, with_manifest({**files, "records.jsonl.gz": packed(dict([*records.items()][1:]))})
        ),
        "occurs twice": attached(pdf, {**whole, "manifest.json": b'{"files": {}, "files": {}}'}),
    }
    for expected, content in wrong.items():
        path = tmp_path / "wrong.pdf"
        path.write_bytes(content)
        with pytest.raises(UnsoundPdfError, match=re.escape(expected)):
            verify(path)
    with pytest.raises(UnsoundPdfError, match=r"gone\.pdf"):
        read_pdf(tmp_path / "gone.pdf")


def test_a_remark_is_never_read_from_where_the_attachment_says(
    report: tuple[bytes, Files], tmp_path: Path
) -> None:
    _, files = report
    config = json.loads(files["config.json"])
    secret = tmp_path / "secret.md"
    secret.write_text("a secret of this machine")
    config["remarks"] = {"seq_len": {"en": str(secret)}}
    files = {**files, "config.json": json.dumps(config).encode()}
    with pytest.raises(UnsoundPdfError, match=r"remark-seq_len-en\.md is not attached"):
        rebuild(files, tmp_path)
    made = rebuild({**files, "remark-seq_len-en.md": b"Longer is *slower*."}, tmp_path)
    text = " ".join(page.text for page in open_pdf(made.pdf).pages)
    assert "Longer is slower." in text
    assert "secret" not in text


def test_a_report_with_a_remark_is_consistent(report: tuple[bytes, Files], tmp_path: Path) -> None:
    _, files = report
    config = json.loads(files["config.json"])
    config["remarks"] = {"seq_len": {"en": "elsewhere/remark.md"}}
    files = {**files, "config.json": json.dumps(config).encode()}
    files["remark-seq_len-en.md"] = b"Longer is *slower*, see `n128`."
    made = rebuild(files, tmp_path)
    found = differences(open_pdf(attached(made.pdf, with_manifest({**files, **made.attachments}))))
    assert not any(found.values()), found


def png(colour: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGBA", (40, 20), colour).save(file, "PNG")
    return file.getvalue()


def with_images(files: Files) -> Files:
    """A report's source with a remark that shows two images, as they are attached."""
    config = json.loads(files["config.json"])
    config["author"] = {"name": "王𪛖明"}
    config["remarks"] = {"seq_len": {"en": "elsewhere/remark.md"}}
    return {
        **files,
        "config.json": json.dumps(config).encode(),
        "remark-seq_len-en.md": "Fast 🐇 ![a](../up/a.png) ![b](<shots/b c.svg>)".encode(),
        "remark-seq_len-en-1.png": png("#ff000080"),
        "remark-seq_len-en-2.svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">'
        b'<rect width="5" height="5"/></svg>',
    }


@pytest.fixture(scope="module")
def illustrated(
    report: tuple[bytes, Files], tmp_path_factory: pytest.TempPathFactory
) -> tuple[bytes, Files]:
    """A report with images in a remark and characters that the fonts lack."""
    files = with_images(report[1])
    made = rebuild(files, tmp_path_factory.mktemp("illustrated"))
    return made.pdf, {**files, **made.attachments}


def test_a_report_with_images_and_stand_ins_is_consistent(illustrated: tuple[bytes, Files]) -> None:
    pdf, files = illustrated
    opened = open_pdf(pdf)
    assert "王〓明" in opened.pages[0].text
    assert opened.attachments.keys() >= {"remark-seq_len-en-1.png", "remark-seq_len-en-2.svg"}
    assert told(pdf, with_manifest(files)) == {}


def test_an_image_exchanged_in_the_attachments_is_found_on_the_page(
    illustrated: tuple[bytes, Files],
) -> None:
    pdf, files = illustrated
    for other in (png("#0000ff80"), png("#ff000040")):  # in its colour, in its transparency
        changed = with_manifest({**files, "remark-seq_len-en-1.png": other})
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


@pytest.mark.parametrize("kind", ["stamp", "link", "author", "action"])
def test_what_lies_on_a_page_or_is_said_of_the_file_is_compared(
    report: tuple[bytes, Files], kind: str
) -> None:
    pdf, files = report
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf))
    if kind == "stamp":
        writer.add_annotation(0, FreeText(text="99x faster", rect=(50, 550, 200, 650)))
    elif kind == "link":
        link = next(a.get_object() for a in writer.pages[0]["/Annots"])  # type: ignore[attr-defined]
        link[NameObject("/A")] = DictionaryObject(
            {NameObject("/S"): NameObject("/URI"), NameObject("/URI"): TextStringObject("http://x")}
        )
    elif kind == "author":
        writer.add_metadata({"/Author": "Somebody else"})
    else:
        writer.root_object[NameObject("/OpenAction")] = DictionaryObject()
    out = io.BytesIO()
    writer.write(out)
    found = differences(open_pdf(attached(out.getvalue(), with_manifest(files))))
    assert [name for name, told in found.items() if told] == ["pages"]
