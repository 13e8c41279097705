"""The stretches of an instruction that may be typed."""

from __future__ import annotations

import re

import msgspec

from envs_node.policy.models.pointer.text import Word

SPANS_MAX = 160
SPAN_KINDS = ("quoted", "number", "word", "phrase")
_PHRASE_WORDS_MAX = 4

_QUOTED = re.compile(
    "(?<!\\w)(?:'([^']+)'|\"([^\"]+)\"|\u201c([^\u201d]+)\u201d|\u2018([^\u2019]+)\u2019)(?!\\w)"
)
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)?%?")


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of the instruction that may be typed; `first` and `last` are word indices."""

    text: str
    first: int
    last: int
    kind: int


def find_spans(instruction: str, words: tuple[Word, ...]) -> tuple[Span, ...]:
    """List what may be typed, each text once: quoted strings, numbers, words, short phrases."""
    spans: dict[str, Span] = {}
    for match in _QUOTED.finditer(instruction):
        start, end = match.span(match.lastindex or 0)
        inside = [i for i, word in enumerate(words) if word.start >= start and word.end <= end]
        if inside:
            text = instruction[start:end]
            spans.setdefault(text, Span(text, inside[0], inside[-1], 0))
    for length in range(1, _PHRASE_WORDS_MAX + 1):
        for first in range(len(words) - length + 1):
            run = words[first : first + length]
            if any(not any(map(str.isalnum, word.text)) for word in run):
                continue
            text = instruction[run[0].start : run[-1].end]
            kind = 3 if length > 1 else 1 if _NUMBER.fullmatch(text) else 2
            spans.setdefault(text, Span(text, first, first + length - 1, kind))
    return tuple(spans.values())[:SPANS_MAX]
