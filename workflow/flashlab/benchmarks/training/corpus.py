"""The text to train on, which a seed gives: read by characters, nine tenths of it for training."""

from __future__ import annotations

import itertools
import random
import string

CHARACTERS = 1_115_394
"""Characters of the synthetic text: as many as shakespeare_char has."""

VOCABULARY = "\n !$&',-.3:;?" + string.ascii_uppercase + string.ascii_lowercase
"""Characters that the synthetic text consists of: the 65 of shakespeare_char."""

WORDS = 4_000
SENTENCE_WORDS = (4, 14)
TRAINING_SHARE = 0.9


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


def encode(text: str) -> tuple[list[int], int]:
    """The training part of a text as numbers of its sorted characters, and how many those are."""
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    return [numbers[c] for c in text[: int(TRAINING_SHARE * len(text))]], len(numbers)
