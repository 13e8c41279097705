"""Any bytes as an envelope: refused, or read and written without a change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from envs_node.messages import codec
from tests.fuzz import seeds as from_messages
from tests.fuzz.marks import Check, shape


def seeds() -> list[bytes]:
    """An envelope of each message."""
    return list(from_messages.envelopes())


@contextlib.contextmanager
def opened() -> Iterator[Check]:
    """The check of one input."""
    yield _check


def _check(data: bytes) -> Iterator[str]:
    try:
        envelope = codec.decode(data)
    except codec.CodecError as error:
        yield shape(error)
        return
    once = codec.encode(envelope)  # type: ignore[arg-type]  # a message of ours is a message
    again = codec.encode(codec.decode(once))  # type: ignore[arg-type]
    assert once == again, "an envelope is another one after it was written and read"
    yield from _kinds(envelope.message)


def _kinds(value: object) -> Iterator[str]:
    """The structs of a message and what stands in them."""
    if isinstance(value, tuple):
        for item in value[:3]:
            yield from _kinds(item)
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            yield f"{type(value).__name__}.{name} {type(inner).__name__} {bool(inner)}"
            yield from _kinds(inner)
