"""Ways to alter a report so that it shows, says or does something else.

None of them depends on what is on a particular page: each finds a place of its kind.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pikepdf
from pikepdf import Array, Dictionary, Name, Stream, String

Alteration = Callable[[pikepdf.Pdf], None]


def altered(content: bytes, alter: Alteration) -> bytes:
    """The PDF with an alteration, its objects packed as before."""
    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as pdf:
        alter(pdf)
        pdf.save(out, fix_metadata_version=False)
    return out.getvalue()


def with_attachments(content: bytes, files: Mapping[str, bytes]) -> bytes:
    """The PDF with exactly these files attached; those that it has keep their places."""

    def alter(pdf: pikepdf.Pdf) -> None:
        for name in list(pdf.attachments):
            if name not in files:
                del pdf.attachments[name]
        kept = {str(specification.UF): specification for specification in _specifications(pdf)}
        for name, file in files.items():
            if name in kept:
                kept[name].EF.F.write(file)
            else:
                pdf.attachments[name] = file

    return altered(content, alter)


def _specifications(pdf: pikepdf.Pdf) -> Any:
    names = pdf.Root.get("/Names", Dictionary()).get("/EmbeddedFiles", Dictionary())
    return list(names.get("/Names", Array()))[1::2]


def _objects(pdf: pikepdf.Pdf, kind: Callable[[Any], bool]) -> Iterator[Any]:
    for found in pdf.objects:
        if isinstance(found, (Dictionary, Stream)) and kind(found):
            yield found


def _draw(pdf: pikepdf.Pdf, operators: bytes) -> None:
    """Draw on page one over all else."""
    contents = pdf.pages[0].Contents
    contents.write(contents.read_bytes() + b"\n" + operators)


# What a page shows


def cover_a_number(pdf: pikepdf.Pdf) -> None:
    box, digits = b"1 1 1 rg 60 600 90 20 re f\n", b"0 0 0 RG 62 602 m 70 602 l 70 615 l S\n"
    _draw(pdf, b"q " + box + digits + b"Q BT ( ) Tj ET")


def enlarge_a_page(pdf: pikepdf.Pdf) -> None:
    """To the size of a field, which is drawn within bounds all the same."""
    pdf.pages[0].obj["/MediaBox"] = Array([0, 0, 30_000, 30_000])


def remove_a_page(pdf: pikepdf.Pdf) -> None:
    del pdf.pages[-1]


def give_other_text_to_copy(pdf: pikepdf.Pdf) -> None:
    font = next(_objects(pdf, lambda found: "/ToUnicode" in found))
    content = font.ToUnicode.read_bytes()
    font.ToUnicode.write(re.sub(rb"<0031>|<0032>", b"<0039>", content, count=1) + b"\n")


# What a page or the document does or says


def run_a_script(pdf: pikepdf.Pdf) -> None:
    action = Dictionary(S=Name.JavaScript, JS=String("app.alert(1)"))
    pdf.Root.Names["/JavaScript"] = Dictionary(Names=Array([String("x"), action]))


def stamp_a_page(pdf: pikepdf.Pdf) -> None:
    stamp = Dictionary(
        Type=Name.Annot,
        Subtype=Name.FreeText,
        Rect=Array([50, 550, 200, 650]),
        Contents=String("99x faster"),
    )
    pdf.pages[0].Annots.append(pdf.make_indirect(stamp))


def only_save(pdf: pikepdf.Pdf) -> None:
    """As any other program writes the same objects."""


def rename_a_bookmark(pdf: pikepdf.Pdf) -> None:
    pdf.Root.Outlines.First["/Title"] = String("99x faster")


def magnify_all_pages(pdf: pikepdf.Pdf) -> None:
    """Threefold, by a unit that PDFium does not draw."""
    for page in pdf.pages:
        page.obj["/UserUnit"] = 3


# Attachments beside their content


def attach_outside_the_tree(pdf: pikepdf.Pdf) -> None:
    file = pdf.make_indirect(Stream(pdf, b"MZ"))
    specification = Dictionary(Type=Name.Filespec, F=String("x.exe"), EF=Dictionary(F=file))
    pdf.Root.AF.append(pdf.make_indirect(specification))


def attach_twice_under_one_name(pdf: pikepdf.Pdf) -> None:
    names = pdf.Root.Names.EmbeddedFiles.Names
    names.append(names[0])
    names.append(names[1])


SHOWN: Mapping[Alteration, str] = {
    cover_a_number: "page 1: its words are right, but it looks otherwise",
    enlarge_a_page: "page 1: its words are right, but it looks otherwise",
    remove_a_page: "pages, and its data give",
    stamp_a_page: "page 1: its words are right, but it looks otherwise",
    give_other_text_to_copy: ": it says",
}
"""Alterations that text or picture shows, each with a part of its message."""

UNSEEN = (
    *(only_save, rename_a_bookmark, run_a_script, magnify_all_pages),
    attach_outside_the_tree,
)
"""Alterations that neither text nor pictures show."""
