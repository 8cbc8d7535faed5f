"""Remarks and their images, read from the project's folder."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from flashlab.pictures import MAX_BYTES
from flashlab.remarks import RemarkError, image_addresses, read_remarks, remark_files


def png(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path, "PNG")
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.joinpath("remarks").mkdir(parents=True)
    monkeypatch.chdir(project)
    return project


def remark(text: str | bytes) -> dict[str, Any]:
    """A configuration with one remark."""
    content = text.encode() if isinstance(text, str) else text
    Path("remarks/seq_len.en.md").write_bytes(content)
    return {"remarks": {"seq_len": {"en": "remarks/seq_len.en.md"}}}


def test_images_are_found_with_their_lines() -> None:
    text = "One\n![a](a.png) and\n![b](<b c.png>)\n\n- ![d](圖.jpg)\n\n![a again](a.png)\n"
    assert image_addresses(text) == {"a.png": 2, "b%20c.png": 3, "%E5%9C%96.jpg": 5}


def test_images_lie_beside_the_remark_and_have_flat_names_in_the_pdf(folder: Path) -> None:
    png(folder / "remarks" / "shots" / "圖 1.PNG")
    png(folder / "figures" / "b.png")
    config = remark("![a](<shots/圖 1.PNG>) ![b](../figures/b.png) ![a](<shots/圖 1.PNG>)")
    (found,) = read_remarks(config)
    assert found.attachments().keys() == {
        "remark-seq_len-en.md",
        "remark-seq_len-en-1.png",
        "remark-seq_len-en-2.png",
    }
    files = ("remarks/seq_len.en.md", "remarks/shots/圖 1.PNG", "remarks/../figures/b.png")
    assert remark_files(config) == files


def test_everything_that_cannot_be_shown_is_one_message(folder: Path) -> None:
    png(folder.parent / "outside.png")
    folder.joinpath("remarks/link.png").symlink_to(folder.parent / "outside.png")
    folder.joinpath("remarks/broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    folder.joinpath("remarks/large.png").write_bytes(b"\0" * (MAX_BYTES + 1))
    with folder.joinpath("remarks/huge.png").open("wb") as file:
        file.truncate(2**40)
    folder.joinpath("remarks/folder.png").mkdir()
    folder.joinpath("remarks/a.gif").write_bytes(b"GIF89a")
    addresses = {
        "gone.png": "there is no file remarks/gone.png; add it, or correct the name",
        "../../outside.png": "outside the project's folder",
        "link.png": "outside the project's folder",
        str(folder.parent / "outside.png"): "outside the project's folder",
        "broken.jpg": "it is neither PNG nor JPEG",
        "large.png": "5.0 MiB, and the most is 5 MiB; scale it down",
        "huge.png": "The file has 1099511627776 bytes; the limit is 67108864",
        "folder.png": "is not a file",
        "a.gif": "only .png, .jpg, .jpeg can be shown",
        "https://example.org/a.png": "it is no file beside the remark",
        "//example.org/a.png": "it is no file beside the remark",
        "file:///etc/a.png": "it is no file beside the remark",
        "data:image/png;base64,AAAA": "it is no file beside the remark",
        "C:/shots/a.png": "it is no file beside the remark",
        "a{b}.png": "a brace",
    }
    text = "".join(f"![x]({address})\n" for address in addresses)
    with pytest.raises(RemarkError) as caught:
        remark_files(remark(text))
    lines = str(caught.value).splitlines()[1:]
    assert len(lines) == len(addresses)
    for number, (line, why) in enumerate(zip(lines, addresses.values(), strict=True), start=1):
        assert line.startswith(f"  remarks/seq_len.en.md: line {number}: the image ")
        assert why in line


def test_a_remark_in_another_encoding_is_named_with_the_line(folder: Path) -> None:
    with pytest.raises(RemarkError, match=r"seq_len\.en\.md: line 2: it is not UTF-8; save it as"):
        read_remarks(remark(b"first\n" + "注意力".encode("big5")))


def test_a_byte_order_mark_is_no_text(folder: Path) -> None:
    (found,) = read_remarks(remark(b"\xef\xbb\xbf# Heading"))
    assert found.text == "# Heading"


def test_a_remark_without_an_end_is_named(folder: Path) -> None:
    config = remark("")
    with folder.joinpath("remarks/seq_len.en.md").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(RemarkError, match=r"remarks/seq_len\.en\.md: The file has 1099511627776"):
        read_remarks(config)


def test_a_remark_that_is_missing_is_named(folder: Path) -> None:
    config = {"remarks": {"seq_len": {"zh_TW": "remarks/gone.md"}}}
    with pytest.raises(RemarkError, match=r"remarks\.seq_len\.zh_TW: there is no file remarks"):
        remark_files(config)


def test_a_picture_is_what_it_is_whatever_it_is_called(folder: Path) -> None:
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "JPEG")
    folder.joinpath("remarks/a.png").write_bytes(file.getvalue())
    (found,) = read_remarks(remark("![a](a.png)"))
    assert found.images["a.png"].media_type == "image/jpeg"
