"""What a check saw, in few words: the fuzzer follows them where it cannot look into the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

Check: TypeAlias = Callable[[bytes], Iterable[str]]
"""Checks one input and says what it saw; an error is a finding."""
_CHARS_MAX = 120
_FROM_INPUT = re.compile(
    r"unknown field `.*` - at|b?([\"']).*\1|\b(that of|named) .*|[0-9]+", re.DOTALL
)
"""What an input puts into a reason: as many marks as inputs would lead nowhere."""


def shape(text: object) -> str:
    """A reason without what an input put into it."""
    return _FROM_INPUT.sub("#", str(text))[:_CHARS_MAX]
