"""Remarks and their images, read from the project's folder."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from flashlab.remarks import RemarkError, image_addresses, read_remarks, remark_files

FILE = Path("remarks", "seq_len.en.md")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.joinpath("remarks").mkdir(parents=True)
    monkeypatch.chdir(project)
    return project


def picture(path: str, kind: str = "PNG") -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, kind)
    Path(path).write_bytes(file.getvalue())


def huge(path: str | Path) -> None:
    with Path(path).open("wb") as file:
        file.truncate(2**40)  # takes no room on the disk


def remark(text: str | bytes) -> dict[str, Any]:
    """A configuration with one remark."""
    FILE.write_bytes(text.encode() if isinstance(text, str) else text)
    return {"remarks": {"seq_len": {"en": str(FILE)}}}


def test_images_are_found_with_their_lines() -> None:
    text = "One\n![a](a.png) and\n![b](<b c.png>)\n\n- ![d](圖.jpg)\n\n![a again](a.png)\n"
    assert image_addresses(text) == {"a.png": 2, "b%20c.png": 3, "%E5%9C%96.jpg": 5}


def test_images_lie_beside_the_remark_and_have_flat_names_in_the_pdf() -> None:
    picture("remarks/shots/圖 1.PNG", "JPEG")
    picture("figures/b.png")
    config = remark("![a](<shots/圖 1.PNG>) ![b](../figures/b.png) ![a](<shots/圖 1.PNG>)")
    (found,) = read_remarks(config)
    names = ("remark-seq_len-en.md", "remark-seq_len-en-1.png", "remark-seq_len-en-2.png")
    assert found.attachments().keys() == {*names}
    types = {image.media_type for image in found.images.values()}
    assert types == {"image/jpeg", "image/png"}  # whatever they are called
    files = (str(FILE), "remarks/shots/圖 1.PNG", "remarks/../figures/b.png")
    assert remark_files(config) == files


def test_every_image_that_cannot_be_shown_is_in_one_message(folder: Path) -> None:
    picture("../outside.png")
    Path("remarks/link.png").symlink_to(folder.parent / "outside.png")
    Path("remarks/broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    huge("remarks/huge.png")
    Path("remarks/folder.png").mkdir()
    Path("remarks/a.gif").write_bytes(b"GIF89a")
    no_file = "it is no file beside the remark"
    addresses = {
        "gone.png": "there is no file remarks/gone.png; add it, or correct the name",
        "../../outside.png": "outside the project's folder",
        "link.png": "outside the project's folder",
        str(folder.parent / "outside.png"): "outside the project's folder",
        "broken.jpg": "it is neither PNG nor JPEG",
        "huge.png": "The file has 1099511627776 bytes; the limit is 67108864",
        "folder.png": "is not a file",
        "a.gif": "only .png, .jpg, .jpeg can be shown",
        **dict.fromkeys(("https://example.org/a.png", "//example.org/a.png"), no_file),
        **dict.fromkeys(("file:///etc/a.png", "data:image/png;base64,AAAA"), no_file),
        "C:/shots/a.png": no_file,
        "a{b}.png": "a brace",
    }
    with pytest.raises(RemarkError) as caught:
        remark_files(remark("".join(f"![x]({address})\n" for address in addresses)))
    lines = str(caught.value).splitlines()[1:]
    for number, (line, why) in enumerate(zip(lines, addresses.values(), strict=True), start=1):
        assert line.startswith(f"  {FILE}: line {number}: the image ")
        assert why in line


def test_a_remark_that_cannot_be_read_is_named() -> None:
    with pytest.raises(RemarkError, match=r"seq_len\.en\.md: line 2: it is not UTF-8; save it as"):
        read_remarks(remark(b"first\n" + "注意力".encode("big5")))
    (found,) = read_remarks(remark(b"\xef\xbb\xbf# Heading"))
    assert found.text == "# Heading"
    huge(FILE)
    with pytest.raises(RemarkError, match=r"remarks/seq_len\.en\.md: The file has 1099511627776"):
        read_remarks({"remarks": {"seq_len": {"en": str(FILE)}}})
    with pytest.raises(RemarkError, match=r"remarks\.seq_len\.zh_TW: there is no file remarks"):
        remark_files({"remarks": {"seq_len": {"zh_TW": "remarks/gone.md"}}})
