"""A figure's SVG as a part of the page: small, its languages apart, its implementations named.

Matplotlib names every group, states every style where it is used, and writes numbers with six
decimals. A page with dozens of figures is a third as large without that.
"""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Iterable, Iterator, Mapping

from flashlab.report.document import FigureEntry

TEXT_POINTS = 180 / 25.4 * 72
"""Width of the text in the PDF, which figures are drawn for."""

XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
WHITE = "fill: #ffffff"
"""The style of the paper behind a figure and its panels, which the page has already."""

HAIR = 0.1
"""The points by which a path may reach out of a clip that cuts nothing off."""

LEAST_PART = 6
"""The fewest characters by which a line is recognised as a part of a longer Latin text."""

_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_DECIMALS = re.compile(r"(\d+)(?:\.0|(\.\d))\d*(?=\D|$)")
"""A tenth of a point is a fifth of a pixel where a figure is as wide as the page."""

_COMMAND = re.compile(r" ?([A-Za-z]) ?")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

_FONT = re.compile(r"font-family: [^;]+;? ?")
_HAN = re.compile("[\u3000-\u9fff]")
_LENGTHS = ("d", "x", "y", "transform", "viewBox", "width", "height")

Part = tuple[str, str]
"""A part of a text, and the tag of its language, empty for one that belongs to every language."""

Element = ElementTree.Element
Styles = dict[str, str]
"""The styles of all figures of a page, each with its class of the page's style sheet."""


class FigureLanguages:
    """The figures' bilingual texts taken apart again: each label is one that the report knows."""

    def __init__(self, known: Iterable[Mapping[str, str]], tags: Mapping[str, str]) -> None:
        self._whole: dict[str, str] = {}
        pairs: dict[str, list[Part]] = {}
        for texts in known:
            if len(set(texts.values())) < 2:
                continue
            parts = [(text, tags[language]) for language, text in texts.items()]
            self._whole |= dict(parts)
            # The space between two languages belongs to neither.
            spaced = [each for part in parts for each in ((" ", ""), part)][1:]
            pairs[" ".join(texts.values())] = spaced
        self._pairs = dict(sorted(pairs.items(), key=lambda pair: -len(pair[0])))

    def split(self, text: str) -> list[Part]:
        """The parts of a text of a figure; one part without a language if it is the same in all."""
        for joined, parts in self._pairs.items():
            before, shared, after = text.partition(joined)
            if shared:
                return [*self._rest(before), *parts, *self._rest(after)]
        return [(text, self._language_of(text))]

    def _rest(self, text: str) -> list[Part]:
        return self.split(text) if text else []

    def _language_of(self, text: str) -> str:
        """The language of a text that stands alone, the others being in other lines."""
        if text in self._whole:
            return self._whole[text]
        is_latin = not _HAN.search(text)
        if is_latin and len(text) < LEAST_PART:
            return ""
        # A part of a Latin text is at least whole words.
        part = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)" if is_latin else re.escape(text))
        return next((tag for whole, tag in self._whole.items() if part.search(whole)), "")


def inline(
    figure: FigureEntry,
    styles: Styles,
    languages: FigureLanguages,
    alt: str,
    numbers: Iterator[int],
) -> str:
    """The figure as an ``<svg>`` element, its width a share of the page.

    Its ids have `numbers` that no other figure of the page has.
    """
    root = ElementTree.fromstring(figure.path.read_bytes())
    for node in root.iter():
        node.tag = node.tag.rpartition("}")[2]
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("metadata", "style") or child.get("style") == WHITE:
                parent.remove(child)
    _drop_idle_clips(root)
    referenced = (
        old
        for node in root.iter()
        for key, value in node.items()
        for old in ([value[1:]] if key == XLINK_HREF else _REFERENCE.findall(value))
    )
    names = {old: f"m{next(numbers)}" for old in dict.fromkeys(referenced)}
    for node in root.iter():
        _shorten(node, names, styles)
    for text in list(root.iter("text")):
        _take_apart(text, languages)
    # A group's opacity is not inherited by its parts, as all other properties are.
    _collapse(root, {name for style, name in styles.items() if "opacity" not in style})
    # As wide a share of the page as on paper; the height follows.
    width = float(root.attrib.pop("width").removesuffix("pt"))
    del root.attrib["height"], root.attrib["version"]
    root.set("style", f"width: {min(100, 100 * width / TEXT_POINTS):.1f}%")
    root.set("role", "img")
    root.set("aria-label", alt)
    # The serialiser escapes all text and attributes.
    return ElementTree.tostring(root, encoding="unicode")


def _drop_idle_clips(root: Element) -> None:
    """Take away clips that cut nothing off a path."""
    bounds: dict[str, tuple[float, float, float, float]] = {}
    for clip in root.iter("clipPath"):
        if (rect := clip.find("rect")) is not None:
            x, y, width, height = (float(rect.get(key, 0)) for key in ("x", "y", "width", "height"))
            bounds[f"url(#{clip.get('id')})"] = (x, y, x + width, y + height)
    for path in root.iter("path"):
        within = bounds.get(path.get("clip-path", ""))
        points = [float(number) for number in _NUMBER.findall(path.get("d", ""))]
        if within and points and "transform" not in path.attrib:
            left, top, right, bottom = within
            across, down = points[::2], points[1::2]
            if (
                left - HAIR <= min(across)
                and max(across) <= right + HAIR
                and top - HAIR <= min(down)
                and max(down) <= bottom + HAIR
            ):
                del path.attrib["clip-path"]


def _shorten(node: Element, names: Mapping[str, str], styles: Styles) -> None:
    """Drop a node's needless attributes, and shorten the others."""
    if node.tag != "text":
        node.text = None
    node.tail = None
    name = node.attrib.pop("id", "")
    if name.startswith("implementation:"):
        node.set("data-of", name.split(":")[1])
    if name in names:
        node.set("id", names[name])
    target = node.attrib.pop(XLINK_HREF, None)
    if target:
        node.set("href", f"#{names[target.removeprefix('#')]}")
    for key, value in list(node.items()):
        value = _REFERENCE.sub(lambda found: f"url(#{names[found[1]]})", value)
        if key in _LENGTHS:
            value = " ".join(_DECIMALS.sub(r"\1\2", value).split())
            if key == "d":
                value = _COMMAND.sub(r"\1", value)
        node.set(key, value)
    if node.get("transform", "").startswith("rotate(-0 "):
        del node.attrib["transform"]
    style = _FONT.sub("", node.attrib.pop("style", "")).strip("; ")
    if style:
        node.set("class", styles.setdefault(style, f"f{len(styles)}"))


def _take_apart(text: Element, languages: FigureLanguages) -> None:
    """Mark the language of a text, or of each of its parts."""
    parts = languages.split(text.text or "")
    if len(parts) == 1:
        if parts[0][1]:
            text.set("lang", parts[0][1])
        return
    text.text = None
    for part, tag in parts:
        span = ElementTree.SubElement(text, "tspan")
        span.text = part
        if tag:
            span.set("lang", tag)


def _collapse(parent: Element, inherited: Collection[str]) -> None:
    """Dissolve needless groups, and gather neighbours of one implementation in a group.

    A class that all children of a group share becomes the group's, if it is one of `inherited`.
    """
    children: list[Element] = []
    for child in parent:
        _collapse(child, inherited)
        if child.tag in ("g", "defs") and not len(child):
            continue
        if child.tag != "g":
            children.append(child)
        elif not child.attrib:
            children.extend(child)
        elif len(child) == 1 and all(key.startswith("data-") for key in child.attrib):
            child[0].attrib.update(child.attrib)
            children.append(child[0])
        else:
            children.append(child)
    grouped = itertools.groupby(children, lambda node: node.get("data-of", ""))
    parent[:] = [node for name, near in grouped for node in _gathered(name, list(near))]
    look, *others = {child.get("class", "") for child in parent} or {""}
    is_group = parent.tag == "g" and len(parent) > 1 and "class" not in parent.attrib
    if is_group and not others and look in inherited:
        parent.set("class", look)
        for child in parent:
            del child.attrib["class"]


def _gathered(name: str, near: list[Element]) -> list[Element]:
    """Neighbours of one implementation as a group that names it; unchanged if only one."""
    if not name or len(near) == 1:
        return near
    group = ElementTree.Element("g", {"data-of": name})
    for node in near:
        del node.attrib["data-of"]
        group.extend([node] if node.attrib or node.tag != "g" else node)
    return [group]
