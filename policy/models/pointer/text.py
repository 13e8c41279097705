"""Words of an instruction, and trigrams instead of a tokenizer."""

from __future__ import annotations

import re
import zlib
from functools import lru_cache

import msgspec

WORDS_MAX = 48
GRAMS = 24
"""Trigrams kept of one text."""

_QUOTES = "\"'\u201c\u201d\u2018\u2019"
_TOKEN = re.compile(rf"[{_QUOTES}]|[^\s{_QUOTES}]+")
_GRAM_WORD = re.compile(r"[\w+]+|[^\w\s]+")
_TRAILING = ".,;:!?"


class Word(msgspec.Struct, frozen=True, array_like=True):
    """A word of the instruction and where it stands, in characters."""

    text: str
    start: int
    end: int


def split_words(instruction: str) -> tuple[Word, ...]:
    """Split at spaces, quotes and closing punctuation; at most `WORDS_MAX` words."""
    words: list[Word] = []
    for match in _TOKEN.finditer(instruction):
        start, end = match.span()
        core = end
        while core - start > 1 and instruction[core - 1] in _TRAILING:
            if instruction[start:core].endswith("..."):
                break  # an ellipsis belongs to the name of a menu item
            core -= 1
        words.append(Word(instruction[start:core], start, core))
        if core < end:
            words.append(Word(instruction[core:end], core, end))
    return tuple(words[:WORDS_MAX])


@lru_cache(maxsize=65536)
def trigrams(text: str, buckets: int) -> tuple[int, ...]:
    """Hashed character trigrams of a text's first words, padded with `buckets` to `GRAMS`."""
    grams: list[int] = []
    for word in _GRAM_WORD.findall(text.lower())[:8] or [""]:
        marked = f"^{word}$"
        grams += [
            zlib.crc32(marked[i : i + 3].encode()) % buckets for i in range(max(1, len(marked) - 2))
        ]
    return tuple(grams[:GRAMS]) + (buckets,) * (GRAMS - min(GRAMS, len(grams)))


def find_phrase(phrase: str, words: tuple[Word, ...]) -> int:
    """Index of the first word where the phrase stands in the instruction; -1 for nowhere."""
    wanted = [_plain(word.text) for word in split_words(phrase)]
    if not wanted or not any(wanted):
        return -1
    said = [_plain(word.text) for word in words]
    for first in range(len(said) - len(wanted) + 1):
        if said[first : first + len(wanted)] == wanted:
            return first
    return -1


def _plain(word: str) -> str:
    return word.lower().rstrip(".…:")
