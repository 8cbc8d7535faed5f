"""A report verified from its PDF alone: consistent as it was made, and not with a digit changed."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2
import pytest
import yaml
from conftest import elsewhere
from numpy._core._multiarray_umath import __cpu_dispatch__ as DISPATCHED
from numpy._core._multiarray_umath import __cpu_features__ as AVAILABLE
from PIL import Image
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.config import Layer, reported_config, resolve_config
from flashlab.files import json_text
from flashlab.plan.experiments import experiments_of, protocol_of
from flashlab.report.attachments import manifest_of, software
from flashlab.report.rebuild import read_records, rebuild
from flashlab.sources import PACKAGE
from flashlab_grading import verification
from flashlab_grading.verification import UnsoundPdfError, attachments_of

TINY = Path(__file__).parents[1] / "tiny.yaml"
HERE = software()
Files = dict[str, bytes]
Rebuilt = Callable[..., bytes]
Verified = Callable[..., tuple[int, str]]


def packed(records: Mapping[str, Any]) -> bytes:
    """Records as a report holds them: a line of JSON each, packed."""
    lines = [json.dumps({"file": x, "record": records[x]}) + "\n" for x in sorted(records)]
    return gzip.compress("".join(lines).encode(), mtime=0)


def with_manifest(files: Mapping[str, bytes | None], **stated: Any) -> Files:
    """The files but None with the manifest that is theirs, or says that others rendered them."""
    contents = {name: x for name, x in files.items() if x is not None and name != "manifest.json"}
    return {**contents, "manifest.json": manifest_of("local", contents, {**HERE, **stated})}


def small_config() -> dict[str, Any]:
    """One quick experiment; the remark is a file that is there, and that no report may read."""
    config = yaml.safe_load(TINY.read_text("utf-8"))
    config |= {"experiments": config["experiments"][:1], "languages": ["en"]}
    config |= {"author": {"name": "王𪛖明"}, "remarks": {"seq_len": {"en": __file__}}}
    resolved = resolve_config([Layer(str(TINY), config)], find_implementations())
    return {**reported_config(resolved), "dataset": "local"}


def measured(factor: float = 1.0, spread: float = 0.02) -> dict[str, Any]:
    """The documents of its records, by file name; `factor` and `spread` of Flash2 at N 64."""
    config, chance, found = small_config(), random.Random(4), dict[str, Any]()
    for experiment in experiments_of(config, ATTENTION, ("float32", "cpu")):
        for run, process in itertools.product(experiment.runs, range(3)):
            level = 1e-5 * Shape.of(run).seq_len * (3 if run.implementation == "Pytorch" else 1)
            is_altered = run.slug.startswith("flash2-b1-n64")
            forward = (factor, spread) if is_altered else (1, 0.02)
            samples = {
                name: [times * level * chance.lognormvariate(0, width) for _ in range(15)]
                for name, (times, width) in {"forward": forward, "backward": (2.5, 0.02)}.items()
            }
            record = record_of(run, protocol=protocol_of(config, "cpu"), **samples)
            record = replace(record, sources={"process": process})
            found.setdefault(f"{run.slug}-{process}123456789ab.json", record.to_json())
    return found


@pytest.fixture(scope="module", autouse=True)
def rebuilt() -> Iterator[Rebuilt]:
    """Rebuilds a report; the same data once, because it always gives the same."""
    known, used = dict[str, bytes](), ("remark-", "config", "records", "ceilings")

    def remembered(files: Mapping[str, bytes], folder: Path) -> bytes:
        stated = json.loads(files.get("manifest.json", b"{}")).get("software")
        key = repr(([(x, files[x]) for x in sorted(files) if x.startswith(used)], stated))
        if key not in known:
            known[key] = rebuild(files, folder)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "rebuild", remembered)
        yield remembered


@pytest.fixture(scope="module")
def report(rebuilt: Rebuilt, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A report with images in a remark and characters that the fonts lack."""
    png, jpeg = io.BytesIO(), io.BytesIO()
    Image.new("RGBA", (40, 20), "#ff000080").save(png, "PNG")
    Image.new("RGB", (40, 20), "#00ff00").save(jpeg, "JPEG")
    source = {
        "config.json": json_text(small_config()).encode(),
        "records.jsonl.gz": packed(measured()),
        "remark-seq_len-en.md": "Fast 🐇 ![a](../up/a.png) ![b](<shots/b c.jpg>)".encode(),
        "remark-seq_len-en-1.png": png.getvalue(),
        "remark-seq_len-en-2.jpg": jpeg.getvalue(),
    }
    return rebuilt(with_manifest(source), tmp_path_factory.mktemp("first"))


@pytest.fixture
def files(report: bytes) -> Files:
    return attachments_of(report)


@pytest.fixture
def verify(report: bytes, tmp_path: Path) -> Verified:
    """Exit status and what is printed of a report, or of the one with these files attached."""

    def verified(content: bytes = report, files: Files | None = None) -> tuple[int, str]:
        path = tmp_path / "lab5.pdf"
        path.write_bytes(saved(partial(attach, files), content) if files else content)
        status, lines = verification.verified(path)
        return status, "\n".join(lines)

    return verified


def differences(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("difference: ")]


def test_a_report_as_it_was_made_is_consistent(report: bytes, tmp_path: Path) -> None:
    """Under any name; what the author wrote is listed and not verified."""
    tmp_path.joinpath("report of ann").write_bytes(report)
    status, (data, own, verdict, _) = verification.verified(tmp_path / "report of ann")
    assert (status, data) == (0, "data: grading's checks of the records fail nothing")
    assert verdict == "verdict: consistent: its data give this file, byte for byte"
    assert own.startswith("the author's own, not verified: author.name, the experiments' titles, ")
    assert {"remark-seq_len-en.md", "remark-seq_len-en-1.png"} <= set(own.split(", "))
    assert [path.name for path in tmp_path.iterdir()] == ["report of ann"]


@pytest.mark.scheduled  # the page alone: report/test_render.py
def test_the_same_data_give_the_same_bytes_anywhere_and_at_any_time_on_another_processor(
    report: bytes, tmp_path: Path
) -> None:
    """numpy's exp and log differ in their last bits: what is derived is rounded when written."""
    features = [name for name in DISPATCHED if AVAILABLE.get(name)]
    path = tmp_path / "lab5.pdf"
    path.write_bytes(report)
    lowest = {"NPY_DISABLE_CPU_FEATURES": " ".join(features)}
    environment = elsewhere(tmp_path, PACKAGE.parent) | lowest
    command = [sys.executable, "-m", "flashlab", "verify", "--pdf", str(path)]
    subprocess.run(command, check=True, cwd=tmp_path, env=environment)


def saved(alter: Callable[[Any], object], content: bytes) -> bytes:
    """The PDF as pikepdf saves it after an alteration of its objects."""
    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as pdf:
        alter(pdf)
        pdf.save(out)
    return out.getvalue()


def attach(files: Mapping[str, bytes], pdf: Any) -> None:
    """Attach exactly these files; those that are keep their places."""
    for name in {*pdf.attachments} - {*files}:
        del pdf.attachments[name]
    for name, file in files.items():
        if name in pdf.attachments:
            pdf.attachments[name].obj.EF.F.write(file)
        else:
            pdf.attachments[name] = file


def by_qpdf(arguments: str, content: bytes) -> bytes:
    """The PDF as qpdf writes it."""
    with tempfile.NamedTemporaryFile() as source, tempfile.NamedTemporaryFile() as target:
        source.write(content)
        source.flush()
        pikepdf.Job(["qpdf", source.name, *arguments.split(), target.name]).run()
        return target.read()


def put(path: str, text: str, pdf: Any) -> None:
    """Set keys, in the syntax of PDF, of what keys and positions lead to from the catalog."""
    found = pdf.Root
    for step in path.split():
        found = found[int(step) if step.isdigit() else f"/{step}"]
    for key, value in pikepdf.Object.parse(f"<<{text}>>".encode()).items():
        found[key] = value


def rewrite(key: str, old: bytes, new: bytes, pdf: Any) -> None:
    """Replace bytes once in the first stream under this key."""
    holders = (x for x in pdf.objects if isinstance(x, pikepdf.Dictionary | pikepdf.Stream))
    stream = next(x[key] for x in holders if isinstance(x.get(key), pikepdf.Stream))
    content = stream.read_bytes()
    stream.write(re.sub(old, new, content, count=1, flags=re.DOTALL))
    assert stream.read_bytes() != content


def number_twice(content: bytes) -> bytes:
    """A number twice in an object stream, of which programs take one or the other."""
    plain = by_qpdf("--object-streams=generate --compress-streams=n", content)
    head = re.search(rb"(?s)/ObjStm.*?stream\n(?:\d+ \d+ ){50}(\d+) \d+ (\d+) ", plain)
    assert head
    return plain[: head.start(2)] + head[1].rjust(len(head[2])) + plain[head.end(2) :]


PAGE, UNREADABLE = "Pages Kids 0", "it cannot be read as a PDF"
SET = {
    tuple(keys): said
    for *keys, said in csv.reader(Path(__file__).with_name("altered.csv").open(encoding="utf-8"))
    if said != "said"
}
SET |= {
    ("", f"/Deep {'[' * 400}{']' * 400}"): "it is added (Deep)",
    ("", f"/Long [{'0 ' * 200_000}]"): "it is added (Long)",
}
OBJECTS: dict[str, tuple[Callable[[Any], object], str]] = {
    "a box": (lambda pdf: pdf.pages[0].contents_add(b"9 9 9 9 re f"), "(Contents"),
    "hidden text": (partial(rewrite, "/Contents", b"$", b"BT 3 Tr ( ) Tj ET"), "its bytes differ"),
    "a page more": (lambda pdf: pdf.pages.append(pdf.pages[0]), "the list of pages: it is"),
    "pages exchanged": (lambda pdf: pdf.pages.reverse(), "page 1: "),
    "pages in a circle": (lambda pdf: pdf.Root.Pages.Kids.append(pdf.Root.Pages), UNREADABLE),
    "copied text": (partial(rewrite, "/ToUnicode", b"<0031>|<0032>", b"<0039>"), "ToUnicode)"),
    "a bomb": (lambda pdf: pdf.pages[0].Contents.write(b" " * 2**27), UNREADABLE),
    "a title": (lambda pdf: pdf.docinfo.update({"/Title": "99x"}), "it is “99x”"),
    "XMP": (partial(rewrite, "/Metadata", b"FlashLab", b"Flashlab"), "bytes differ (Metadata)"),
    "a file outside the list": (lambda pdf: pdf.Root.AF.append(pdf.Root.AF[0]), "it is a list of"),
    "one twice": (lambda pdf: (x := pdf.Root.Names.EmbeddedFiles.Names).extend(x[:2]), UNREADABLE),
}
ALTERED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    **{" ".join(key)[:60]: (partial(saved, partial(put, *key)), SET[key]) for key in SET},
    **{name: (partial(saved, alter), words) for name, (alter, words) in OBJECTS.items()},
    "qdf": (partial(by_qpdf, "--qdf"), "page 1: its bytes differ (Contents)"),
    "encrypted": (partial(by_qpdf, "--encrypt --owner-password=x --bits=256 --"), "is encrypted"),
    "a number twice": (number_twice, "it has an object twice"),
    "zeros behind it": (lambda content: content + b"\0" * 2000, UNREADABLE),
    "a wrong place": (lambda content: content.replace(b"startxref\n", b"startxref\n9"), UNREADABLE),
    "no PDF": (lambda content: b"\xff" * 100, UNREADABLE),
}
"""What is not the report that its data give, with part of what is said then."""
QPDF = ("--object-streams=disable", "--linearize", "--recompress-flate", "--coalesce-contents")
SAME: dict[str, Callable[[bytes], bytes]] = {
    **{f"qpdf {x}": partial(by_qpdf, x) for x in (*QPDF, "--qdf --normalize-content=n")},
    "pikepdf": partial(saved, str),
    "single precision": partial(saved, partial(put, PAGE, "/MediaBox [0 0 595.27557 841.8898]")),
    "an object out of reach": partial(saved, lambda pdf: pdf.make_indirect(pikepdf.Array([1]))),
    "another writer": partial(saved, lambda pdf: pdf.docinfo.update({"/Producer": "x"})),
    "a page of HTML behind it": lambda content: content + b"<html>99x</html>",
}
"""What shows the same, such as files that other programs save."""


@pytest.mark.parametrize("name", [*ALTERED, *SAME])
def test_all_that_a_reader_can_reach_is_compared_and_nothing_else(
    name: str, report: bytes, verify: Verified, tmp_path: Path
) -> None:
    alter, words = ALTERED[name] if name in ALTERED else (SAME[name], "saved by another program")
    try:
        status, said = verify(alter(report))
    except UnsoundPdfError as error:
        assert name in ALTERED and words in str(error)
        return
    lines = differences(said) if name in ALTERED else said.splitlines()
    assert any(words in line for line in lines) and "verdict: consistent" not in said, said
    assert (status, bool(differences(said))) == ((1, True) if name in ALTERED else (4, False))
    assert (tmp_path / "lab5.rebuilt.pdf").read_bytes() == report


def test_what_readers_show_otherwise_than_qpdf_reads_it_is_found(
    report: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = saved(partial(put, PAGE, "/UserUnit 3"), report)
    read = pypdfium2.PdfDocument
    monkeypatch.setattr(pypdfium2, "PdfDocument", lambda _: read(shown))
    (difference,) = verification.differences(report, report)
    assert difference == ("page 1", "as other programs read it, it is added (UserUnit)")


def test_what_is_attached_otherwise_is_found_by_the_records(files: Files, verify: Verified) -> None:
    metrics = re.sub(rb",0\.", b",9.", files["seq_len-metrics.csv"], count=1)
    for name, content, words in (
        ("seq_len-metrics.csv", metrics, "its bytes differ (EF F)"),
        ("extra.exe", b"MZ", "it is added"),
        ("seq_len-samples.csv", None, "it is missing"),
    ):
        status, said = verify(files=with_manifest({**files, name: content}))
        assert status == 1 and f"difference: attachment {name}: {words}" in said


def test_a_sample_changed_is_found_by_tables_and_pages_and_all_data_made_anew_by_pages(
    files: Files, verify: Verified, rebuilt: Rebuilt, tmp_path: Path
) -> None:
    altered = with_manifest({**files, "records.jsonl.gz": packed(measured(factor=2))})
    status, said = verify(files=altered)
    page, *others = differences(said)
    assert status == 1 and page.startswith("difference: page 1: ") and ": it says “" in page
    assert not any(": it says “" in other for other in others)
    assert "seq_len-samples.csv: its bytes differ" in said
    status, said = verify(files=attachments_of(rebuilt(altered, tmp_path)))
    assert (status, differences(said)[0], "its bytes differ (EF" in said) == (1, page, False)


def test_what_is_no_report_is_one_message(files: Files, verify: Verified, tmp_path: Path) -> None:
    name, data = "records.jsonl.gz", files["records.jsonl.gz"]
    records = read_records(files)
    some = packed({x: record for x, record in records.items() if "flash2-b1-n64" not in x})
    one, mine = next(iter(records.values())), gzip.decompress(data).replace(b"Flash2", b"Mine")
    unnumbered = {**one, "record": {**one["record"], "sources": {"process": "1"}}}
    secret, fewer = {**small_config(), "baseline": "Secret"}, small_config()
    del fewer["experiments"][0]["cpu"]["seq_len"][0]
    wrong: list[tuple[str, str, bytes | None]] = [
        (name, "it is truncated, or has more than", data[:-9]),
        (name, "something follows the packed records", data + some),
        (name, "more than 67108864 bytes", gzip.compress(b"\n" * 100_000_000)),
        (name, "must be of one device and one number format; found none", packed({})),
        (name, "config.json asks for; they differ in Flash2 B1 N64", some),
        (name, "kernels/ has no Mine; put the author's files there", gzip.compress(mine)),
        (name, "is attached twice", packed({**records, "again.json": one})),
        (name, "sources.process", packed({"a.json": unnumbered})),
        (name, "neither UTF-8", packed({"\ud800.json": one})),
        ("config.json", "they differ in Flash2 B1 N16", json_text(fewer).encode()),
        ("config.json", "kernels or settings that are not here", json_text(secret).encode()),
        ("config.json", "config.json is not attached", None),
        ("ceilings.json", "cannot be rebuilt from its data", b"[]"),
        ("observations.json", "memory limit", b" " * 100_000_000),
        ("remark-seq_len-en.md", "remark-seq_len-en.md is not attached", None),
        ("remark-seq_len-en-2.jpg", "neither PNG nor JPEG", b"<svg><script/></svg>"),
    ]
    bad = ("../x.json", "a\0.json", "\u202e.json", ".x.json", "x" * 300, "")
    wrong += [(name, "is not a file name, or occurs twice", packed({x: one})) for x in bad]
    for changed, expected, content in wrong:
        with pytest.raises(UnsoundPdfError, match=re.escape(expected)):
            verify(files=with_manifest({**files, changed: content}))
    with pytest.raises(UnsoundPdfError, match="occurs twice"):
        verify(files={**files, "manifest.json": b'{"files": {}, "files": {}}'})
    with pytest.raises(UnsoundPdfError, match="No such file"):
        verification.verified(tmp_path / "gone.pdf")


@pytest.mark.parametrize("key", ["flashlab", "code", "weasyprint"])
def test_what_other_software_rendered_is_verified_by_that_alone(
    key: str, files: Files, verify: Verified
) -> None:
    """Whether its data give another report here, or none; they are checked all the same."""
    libraries = {"libraries": {**HERE["libraries"], key: "0.0.9"}}
    stated = {key: "0.0.9"} if key in HERE else libraries
    secret = json_text({**small_config(), "baseline": "Secret"}).encode()
    for config in (files["config.json"], secret):
        status, said = verify(files=with_manifest({**files, "config.json": config}, **stated))
        assert (status, differences(said)) == (3, []), said
        assert f"not verified here: it states other software: {key} 0.0.9 (here" in said
        assert "data: grading's checks of the records fail nothing" in said


@pytest.mark.parametrize("stated", [None, [], {}, {**HERE, "code": 7}, {**HERE, "fonts": []}])
def test_what_states_no_software_is_compared(stated: Any, files: Files, verify: Verified) -> None:
    manifest = {**json.loads(files["manifest.json"]), "software": stated}
    assert verify(files={**files, "manifest.json": json_text(manifest).encode()})[0] == 1


def test_invented_data_that_were_rendered_agree_and_cannot_have_been_measured(
    files: Files, verify: Verified, rebuilt: Rebuilt, tmp_path: Path
) -> None:
    invented = with_manifest({**files, "records.jsonl.gz": packed(measured(spread=0))})
    status, said = verify(made := rebuilt(invented, tmp_path))
    assert status == 1 and "file, byte for byte; but no measurement gives its data" in said
    for words in ("data: no measurement gives these records", "samples in the record are equal"):
        assert words in said
    assert verify(saved(str, made))[0] == 1
