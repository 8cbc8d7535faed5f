"""Ways to alter a report's PDF, each with the exit status that verify gives and part of its words.

None of them depends on what is on a particular page: each finds a place of its kind.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import numpy
import pikepdf
import pypdfium2
from pikepdf import Array, Dictionary, Name, Stream, String

Alteration = Callable[[bytes], bytes]


def saved(content: bytes, alter: Callable[[Any], object], **options: Any) -> bytes:
    """The PDF as pikepdf saves it after an alteration of its objects."""
    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as pdf:
        alter(pdf)
        pdf.save(out, **{"fix_metadata_version": False, **options})
    return out.getvalue()


def by_qpdf(arguments: str, content: bytes) -> bytes:
    """The PDF as qpdf writes it."""
    with tempfile.NamedTemporaryFile() as source, tempfile.NamedTemporaryFile() as target:
        source.write(content)
        source.flush()
        pikepdf.Job(["qpdf", source.name, *arguments.split(), target.name]).run()
        return target.read()


def by_pdfium(content: bytes) -> bytes:
    out = io.BytesIO()
    pypdfium2.PdfDocument(content).save(out)
    return out.getvalue()


def with_attachments(content: bytes, files: Mapping[str, bytes]) -> bytes:
    """The PDF with exactly these files attached; those that it has keep their places."""

    def alter(pdf: Any) -> None:
        for name in [name for name in pdf.attachments if name not in files]:
            del pdf.attachments[name]
        kept = {str(x.UF): x for x in list(at(pdf, "Names EmbeddedFiles").get("/Names", []))[1::2]}
        for name, file in files.items():
            if name in kept:
                kept[name].EF.F.write(file)
            else:
                pdf.attachments[name] = file

    return saved(content, alter)


def updated(content: bytes, *changes: Callable[[Any], Any]) -> bytes:
    """The PDF with updates behind its end; each change alters an object and returns it."""
    for change in changes:
        with pikepdf.open(io.BytesIO(content)) as pdf:
            roots = (int(pdf.trailer.Size), pdf.Root.objgen[0], pdf.trailer.Info.objgen[0])
            altered = change(pdf)
            number, text = altered.objgen[0], altered.unparse(resolved=True)
            if isinstance(altered, Stream):
                data = altered.read_bytes()
                text = b"<</Type/ObjStm/N %d/First %d" % (altered.get("/N", 0), altered.get("/First", 0))
                text += b"/Length %d>>\nstream\n%s\nendstream" % (len(data), data)
        start, before = len(content), content.rpartition(b"startxref")[2].split()[0]
        body = b"%d 0 obj\n%s\nendobj\n" % (number, text)
        table = b"xref\n%d 1\n%010d 00000 n \ntrailer\n" % (number, start)
        trailer = b"<</Size %d/Root %d 0 R/Info %d 0 R/Prev %s>>" % (*roots, before)
        content += body + table + trailer + b"\nstartxref\n%d\n%%%%EOF\n" % (start + len(body))
    return content


def a_page_twice(content: bytes) -> bytes:
    """Page one twice in an object stream: programs take the first, or the last."""

    def alter(pdf: Any) -> Any:
        page, other = pdf.pages[0].obj, pdf.pages[-1].obj
        packed = next(x for x in pdf.objects if isinstance(x, Stream) and "/First" in x)
        data, first = packed.read_bytes(), int(packed.First)
        head = b"%s %d %d " % (data[:first].strip(), page.objgen[0], len(data) - first)
        packed.write(head + data[first:] + other.unparse(resolved=True))
        packed.First, packed.N = len(head), packed.N + 1
        return packed

    return updated(by_qpdf("--object-streams=generate", content), alter)


def at(pdf: Any, path: str) -> Any:
    """What keys and positions lead to from the catalog."""
    found = pdf.Root
    for step in path.split():
        found = found[int(step) if step.isdigit() else f"/{step}"]
    return found


def change(path: str, text: str, pdf: Any) -> Any:
    """Set these keys there, in the syntax of PDF; null removes one."""
    found = at(pdf, path)
    for key, value in pikepdf.Object.parse(f"<<{text}>>".encode()).items():
        found[key] = value
    return found


def round_the_page(pdf: Any) -> None:
    """As programs do that keep single precision."""
    page = pdf.pages[0].obj
    page.MediaBox = Array([Decimal(str(numpy.float32(x))) for x in page.MediaBox])


def annotate(text: str, pdf: Any) -> Any:
    """Put an annotation on page one."""
    entry = pikepdf.Object.parse(f"<</Type/Annot/Rect[50 550 200 650]{text}>>".encode())
    page = pdf.pages[0].obj
    page.Annots = Array([*page.get("/Annots", []), pdf.make_indirect(entry)])
    return page


def draw(operators: bytes, pdf: Any) -> Any:
    """Draw on page one over all else."""
    contents = pdf.pages[0].Contents
    contents.write(contents.read_bytes() + b"\n" + operators)
    return contents


def rewrite(key: str, old: bytes, new: bytes, pdf: Any) -> None:
    """Replace bytes once in the first stream under this key."""
    objects = (x for x in pdf.objects if isinstance(x, Dictionary | Stream))
    stream = next(x[key] for x in objects if isinstance(x.get(key), Stream))
    content = stream.read_bytes()
    stream.write(re.sub(old, new, content, count=1, flags=re.DOTALL))
    assert stream.read_bytes() != content


def attach_twice(pdf: Any) -> None:
    names = pdf.Root.Names.EmbeddedFiles.Names
    names.extend([names[0], names[1]])


def attach_outside(pdf: Any) -> None:
    file = pdf.make_indirect(Stream(pdf, b"MZ"))
    entry = Dictionary(Type=Name.Filespec, F=String("x.exe"), EF=Dictionary(F=file))
    pdf.Root.AF.append(pdf.make_indirect(entry))


def list_in_a_circle(pdf: Any) -> None:
    files = pdf.Root.Names.EmbeddedFiles = pdf.make_indirect(Dictionary())
    files.Kids = Array([files])


def nest(pdf: Any) -> None:
    for _ in range(400):
        pdf.Root.Deep = Array([pdf.Root.get("/Deep", 0)])


PAGE, FILE, SCRIPT = "Pages Kids 0", "Names EmbeddedFiles Names 1", "<</S/JavaScript/JS(x())>>"
NOTE, UNREADABLE = "page 1: a link, note or form field", "it cannot be read as a PDF"

SET = {
    (PAGE, "/MediaBox [0 0 30000 30000]"): "page 1: it is 30000",
    (PAGE, "/CropBox [0 0 300 300]"): "page 1: it is added (CropBox)",
    ("Pages", "/Rotate 180"): "page 1: it is added (Rotate)",
    (PAGE, "/UserUnit 3"): "page 1: its size, it is added (UserUnit)",
    (f"{PAGE} Resources", "/ExtGState <<>>"): "page 1: ",
    (PAGE, "/Trans <</S/Fly>> /Dur 1"): "page 1: it is added (Dur)",
    (PAGE, f"/AA <</O {SCRIPT}>>"): "page 1: an action, it is added (AA)",
    ("", f"/AA <</WP {SCRIPT}>>"): "the document: an action, it is added (AA)",
    ("", f"/OpenAction {SCRIPT}"): "the document: it is added (OpenAction)",
    ("Names", f"/JavaScript <</Names[(x){SCRIPT}]>>"): "it is added (Names JavaScript)",
    ("", "/AcroForm <</Fields[]/NeedAppearances true>>"): "it is added (AcroForm)",
    ("", "/OCProperties <</OCGs[]/D<<>> >>"): "the layers, it is added (OCProperties)",
    ("Outlines First", "/Title (99x)"): "the bookmarks, it is “99x”",
    ("Outlines First", "/Dest (summary)"): "the bookmarks, it is “summary”",
    ("", "/PageLabels <</Nums[0<</S/r>>]>>"): "it is added (PageLabels)",
    ("", "/PageMode /FullScreen"): "it is added (PageMode)",
    ("ViewerPreferences", "/HideToolbar true"): "(ViewerPreferences HideToolbar)",
    ("", "/URI <</Base(http://x)>>"): "it is added (URI)",
    ("", "/Collection <</View/T>>"): "it is added (Collection)",
    ("", "/Perms <</DocMDP<<>> >>"): "it is added (Perms)",
    ("", "/Lang (fr)"): "it is “fr”",
    ("", "/Lang /zh-TW"): "it is /zh-TW, and the data give “",
    ("StructTreeRoot K 0", "/ActualText (99x)"): "what screen readers say, it is added",
    ("StructTreeRoot K 0", "/S /Artifact"): "what screen readers say, it is /Artifact",
    ("MarkInfo", "/Marked false"): "it is False, and the data give True (MarkInfo Marked)",
    ("MarkInfo", "/Marked 1"): "it is 1, and the data give True (MarkInfo Marked)",
    (FILE, "/UF (x.exe)"): "it is “x.exe”",
    (FILE, "/F (x.exe)"): "it is “x.exe”",
    (FILE, "/Desc (99x)"): "it is “99x”",
    (f"{FILE} EF F Params", "/ModDate (D:2020)"): "it is “D:2020”",
}
"""Keys that are set, with words of what is said then."""

OBJECTS: dict[str, tuple[Callable[[Any], object], str]] = {
    "a box over a number": (partial(draw, b"q 1 1 1 rg 60 600 90 20 re f Q"), "page 1: its text or"),
    "hidden text": (partial(draw, b"BT 3 Tr ( ) Tj ET"), "page 1: its text or drawing, its bytes"),
    "a thumbnail": (lambda pdf: setattr(pdf.pages[0].obj, "Thumb", Stream(pdf, b"x")), "(Thumb)"),
    "a page less": (lambda pdf: pdf.pages.__delitem__(-1), "the list of pages: it is"),
    "a page more": (lambda pdf: pdf.pages.append(pdf.pages[0]), "the list of pages: it is"),
    "pages exchanged": (lambda pdf: pdf.pages.reverse(), "page 1: "),
    "another font": (partial(rewrite, "/FontFile2", b".$", b"!"), "its bytes differ"),
    "copied text": (partial(rewrite, "/ToUnicode", b"<0031>|<0032>", b"<0039>"), "that is copied"),
    "a picture": (partial(rewrite, "/SMask", b"^.", b"!"), "a figure, its bytes differ"),
    "colours": (lambda pdf: at(pdf, "OutputIntents 0 DestOutputProfile").write(b""), "bytes differ"),
    "a title of XMP": (partial(rewrite, "/Metadata", b"FlashLab", b"Flashlab"), "(Metadata)"),
    "a stamp": (partial(annotate, "/Subtype/FreeText/Contents(99x)"), NOTE),
    "a square": (partial(annotate, "/Subtype/Square/IC[1 1 1]"), NOTE),
    "a web link": (partial(annotate, "/Subtype/Link/A<</S/URI/URI(http://x)>>"), NOTE),
    "a script on a link": (partial(annotate, f"/Subtype/Link/A{SCRIPT}"), NOTE),
    "a file on a page": (partial(annotate, "/Subtype/FileAttachment"), NOTE),
    "a field": (partial(annotate, "/Subtype/Widget/FT/Tx/T(x)/V(99x)"), NOTE),
    "a target": (lambda pdf: at(pdf, "Names Dests Names 1").append(7), "it is a list of 6"),
    "a title": (lambda pdf: pdf.docinfo.update({"/Title": "99x"}), "it is “99x”"),
    "keywords": (lambda pdf: pdf.docinfo.update({"/Keywords": "99x"}), "it is added (Info Keywords)"),
    "a date": (lambda pdf: pdf.docinfo.update({"/CreationDate": "D:2020"}), "it is “D:2020”"),
    "a file for others": (lambda pdf: setattr(at(pdf, f"{FILE} EF"), "UF", Stream(pdf, b"")), "UF)"),
    "a file outside the list": (attach_outside, "the document: it is a list of"),
    "a file twice": (attach_twice, "is attached twice"),
    "pages in a circle": (lambda pdf: pdf.Root.Pages.Kids.append(pdf.Root.Pages), ""),
    "files in a circle": (list_in_a_circle, "listed in a circle"),
    "nested lists": (nest, "it is added (Deep)"),
    "a long list": (partial(change, "", f"/Long [{'0 ' * 200_000}]"), "it is added (Long)"),
    "a bomb": (lambda pdf: pdf.pages[0].Contents.write(b" " * 2**27), UNREADABLE),
}
"""Alterations of the objects."""

FILES: dict[str, tuple[Alteration, str]] = {
    "qdf": (partial(by_qpdf, "--qdf"), "page 1: its text or drawing"),
    "PDFium": (by_pdfium, "(Metadata)"),
    "pages alone": (lambda content: saved(content, lambda pdf: pdf.Root.__delitem__("/Names")), ""),
    "encrypted": (partial(by_qpdf, "--encrypt --owner-password=x --bits=256 --"), "it is encrypted"),
    "an update": (lambda content: updated(content, partial(annotate, "/Subtype/Text")), NOTE),
    "an update of the catalog": (
        lambda content: updated(content, partial(change, "", "/Lang (fr)")),
        "it is “fr”",
    ),
    "a page twice in a stream": (a_page_twice, "it has an object twice"),
    "zeros behind it": (lambda content: content + b"\0" * 2000, UNREADABLE),
    "half of it": (lambda content: content[: len(content) // 2], UNREADABLE),
    "its end missing": (lambda content: content[:-40], UNREADABLE),
    "its begin missing": (lambda content: content[40:], UNREADABLE),
    "a wrong place": (lambda content: content.replace(b"startxref\n", b"startxref\n9"), UNREADABLE),
    "no PDF": (lambda content: b"\xff" * 100, UNREADABLE),
    "nothing": (lambda content: b" ", UNREADABLE),
}
"""Alterations of the file."""

QPDF = ("", "--object-streams=disable", "--object-streams=generate", "--linearize")
QPDF += ("--compress-streams=n", "--recompress-flate", "--coalesce-contents", "--min-version=2.0")
QPDF += ("--qdf --normalize-content=n",)

SAME: dict[str, Alteration] = {
    **{f"qpdf {arguments}": partial(by_qpdf, arguments) for arguments in QPDF},
    "pikepdf": partial(saved, alter=str, fix_metadata_version=True),
    "an object out of reach": partial(saved, alter=lambda pdf: pdf.make_indirect(Dictionary(x=1))),
    "another writer": partial(saved, alter=lambda pdf: pdf.docinfo.update({"/Producer": "x"})),
    "single precision": partial(saved, alter=round_the_page),
    "a page behind it": lambda content: content + b"<html>99x</html>",
    "an update of nothing": lambda content: updated(content, lambda pdf: pdf.Root),
    "an update undone": lambda content: updated(
        content, *(partial(change, "", f"/MarkInfo <</Marked {x}>>") for x in ("false", "true"))
    ),
}
"""Files that show the same, such as those that other programs save."""

ALTERED: dict[str, tuple[Alteration, int, str]] = {
    **{f"{key[0]} {key[1][:40]}": (partial(saved, alter=partial(change, *key)), 1, words) for key, words in SET.items()},
    **{name: (partial(saved, alter=alter), 1, words) for name, (alter, words) in OBJECTS.items()},
    **{name: (alter, 1, words) for name, (alter, words) in FILES.items()},
    **{name: (alter, 4, "saved by another program") for name, alter in SAME.items()},
}
"""All, with the exit status and words of what is said."""
