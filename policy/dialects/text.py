"""What all dialects share: fields that are checked, and text without a model's own closing tags."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from envs_node.messages.base import EnvsError

Fields: TypeAlias = Mapping[str, Any]
"""A decoded JSON object, of whatever the model wrote."""
_CLOSING_TAG = re.compile(r"\s*</([A-Za-z_][\w:.-]*)>\s*\Z")


class DialectError(EnvsError):
    """A model's words are no action of its dialect."""


class NotExpressibleError(EnvsError):
    """A dialect has no words for an action."""


def number(fields: Fields, name: str, default: float | None = None) -> float:
    """A finite number among the fields.

    Raises:
        DialectError: it is not there, or no number.
    """
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DialectError(f"`{name}` must be a number, not {value!r:.60}")
    return float(value)


def words(fields: Fields, name: str, default: str | None = None) -> str:
    """A string among the fields.

    Raises:
        DialectError: it is not there, or no string.
    """
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise DialectError(f"`{name}` must be a string, not {value!r:.60}")
    return value


def point(value: object, name: str) -> tuple[int, int]:
    """A pair of numbers, rounded.

    Raises:
        DialectError: it is none.
    """
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise DialectError(f"`{name}` must be two numbers, not {value!r:.60}")
    x, y = (number({name: part}, name) for part in value)
    return round(x), round(y)


def without_closing_tags(text: str) -> str:
    """Cut the closing tags at the end that nothing in the text opened: they are the protocol's."""
    while (tag := _CLOSING_TAG.search(text)) is not None:
        if re.search(rf"<{re.escape(tag[1])}[\s>]", text):
            return text
        text = text[: tag.start()]
    return text
