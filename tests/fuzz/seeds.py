"""Envelopes of every message, made by code: what the fuzzing starts from."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import msgspec
from msgspec import inspect

from envs_node.messages import codec
from envs_node.messages.base import ActorName, Envelope, Message, MessageId, RunId

KINDS: tuple[type[Message], ...] = typing.get_args(codec.AnyMessage)


def addressed(message: Message, *, sender: str = "work/w-0", to: str = "echo") -> bytes:
    """A message on its way."""
    envelope = Envelope(
        id=MessageId("9f1c-7"),
        sender=ActorName(sender),
        to=ActorName(to),
        run=RunId("r"),
        sequence=7,
        time_ns=1_790_000_000_000_000_000,
        message=message,
        cause=MessageId("9f1c-6"),
    )
    return codec.encode(envelope)


def envelopes() -> Iterator[bytes]:
    """Each message twice: with every field as full as it can be, and as empty."""
    for kind in KINDS:
        for is_full in (True, False):
            yield addressed(typing.cast(Message, _value(inspect.type_info(kind), is_full)))


def words() -> set[bytes]:
    """Tags and names of fields, as they stand in an encoded message."""
    names = {kind.__name__ for kind in KINDS} | {"type"}
    for kind in (Envelope, *KINDS):
        names |= set(kind.__struct_encode_fields__)
    return {msgspec.msgpack.encode(name) for name in names}


def _value(info: inspect.Type, is_full: bool) -> typing.Any:
    """A value of a type, as its decoder knows it."""
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            wanted = [field for field in fields if is_full or field.required]
            return cls(**{field.name: _value(field.type, is_full) for field in wanted})
        case inspect.UnionType(types=types):
            return _value(types[0 if is_full else -1], is_full)
        case inspect.VarTupleType(item_type=item):
            return (_value(item, is_full),) * 2 if is_full else ()
        case inspect.TupleType(item_types=items):
            return tuple(_value(item, is_full) for item in items)
        case inspect.DictType(key_type=key, value_type=value):
            return {_value(key, is_full): _value(value, is_full)} if is_full else {}
        case inspect.LiteralType(values=options):
            return options[0 if is_full else -1]
        case inspect.Metadata(type=inner):
            return _value(inner, is_full)
        case inspect.IntType(ge=low):
            return max(low or 0, 300 if is_full else 0)
        case inspect.FloatType():
            return 0.5
        case inspect.StrType():
            return "text-é" if is_full else ""
        case inspect.BytesType():
            return b"\x00bytes" if is_full else b""
        case inspect.BoolType():
            return is_full
        case inspect.NoneType():
            return None
    raise AssertionError(f"no seed for {info}")
