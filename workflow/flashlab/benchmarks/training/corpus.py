"""The text to train on: a synthetic one from a seed, or a file that is there or is downloaded.

All are read by characters. The first nine tenths are for training, as in nanoGPT.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import string
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashlab.files import open_atomically

SYNTHETIC = "synthetic"

CHARACTERS = 1_115_394
"""Characters of the synthetic text: as many as shakespeare_char has."""

VOCABULARY = "\n !$&',-.3:;?" + string.ascii_uppercase + string.ascii_lowercase
"""Characters that the synthetic text consists of: the 65 of shakespeare_char."""

WORDS = 4_000
SENTENCE_WORDS = (4, 14)
TRAINING_SHARE = 0.9

FETCHED = Path("results", "corpora")
"""The folder of downloaded texts, which are named by their hash; below the working directory."""

DOWNLOAD_SECONDS = 60.0


class FetchError(Exception):
    """A file from elsewhere that cannot be had, or is not the one asked for; with the remedy."""


def synthesize(seed: int) -> str:
    """A text of invented words, `CHARACTERS` long, in which each of `VOCABULARY` occurs.

    Words are drawn by Zipf's law and stand in sentences on lines, so that there is something to
    learn: spelling, frequencies, capitals after a full stop.
    """
    generator = random.Random(seed)
    letters = generator.choices(range(1, 27), k=26)  # their weights
    words = [
        "".join(generator.choices(string.ascii_lowercase, letters, k=generator.randint(2, 9)))
        for _ in range(WORDS)
    ]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, WORDS + 1)))
    pieces, length = [VOCABULARY], len(VOCABULARY)
    while length < CHARACTERS:
        count = generator.randint(*SENTENCE_WORDS)
        chosen = generator.choices(words, cum_weights=weights, k=count)
        middle = generator.choice([" ", ", ", "; ", ": "])
        end = generator.choice([". ", ".\n", "!\n", "?\n", ".\n\n"])
        sentence = middle.join([" ".join(chosen[: count // 2]), " ".join(chosen[count // 2 :])])
        pieces.append(sentence.capitalize() + end)
        length += len(pieces[-1])
    return "".join(pieces)[:CHARACTERS]


def _kept_file(corpus: Mapping[str, Any]) -> Path:
    return FETCHED / f"{corpus['sha256']}.txt"


def _check(content: bytes, corpus: Mapping[str, Any], where: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != corpus["sha256"]:
        raise FetchError(
            f"{where}: is not {corpus['name']}: its sha256 is {digest}, and corpus.sha256 in the "
            f"configuration is {corpus['sha256']}. Put the right file there, or correct sha256"
        )


def fetch(corpus: Mapping[str, Any]) -> None:
    """Have a corpus ready: nothing to do for a synthetic one; else check the file, or download it.

    Raises:
        FetchError: no such file, no network, or a file with another hash.
    """
    if corpus["name"] == SYNTHETIC:
        return
    if "file" in corpus:
        try:
            _check(Path(corpus["file"]).read_bytes(), corpus, corpus["file"])
        except OSError as error:
            raise FetchError(
                f"{corpus['file']}: the corpus {corpus['name']} cannot be read "
                f"({error.strerror}); correct corpus.file, or leave it out to download it"
            ) from error
        return
    kept = _kept_file(corpus)
    if kept.exists():
        return
    try:
        with urllib.request.urlopen(corpus["url"], timeout=DOWNLOAD_SECONDS) as response:
            content: bytes = response.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise FetchError(
            f"{corpus['url']}: the corpus {corpus['name']} cannot be downloaded ({reason}). "
            "Name a local copy as corpus.file, or train on the synthetic text: "
            "--config measure='{training: {corpus: {name: synthetic}}}'"
        ) from error
    _check(content, corpus, corpus["url"])
    with open_atomically(kept) as file:
        file.write(content.decode("utf-8"))


def read_text(corpus: Mapping[str, Any]) -> str:
    """The text of a corpus that `fetch` has made ready.

    Raises:
        FetchError: a file with another hash.
    """
    if corpus["name"] == SYNTHETIC:
        return synthesize(corpus["seed"])
    path = Path(corpus["file"]) if "file" in corpus else _kept_file(corpus)
    content = path.read_bytes()
    _check(content, corpus, str(path))
    return content.decode("utf-8")


def encode(text: str) -> tuple[list[int], int]:
    """The training part of a text as numbers of its sorted characters, and how many those are."""
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    return [numbers[c] for c in text[: int(TRAINING_SHARE * len(text))]], len(numbers)
