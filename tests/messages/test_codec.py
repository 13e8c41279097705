"""Every message survives its encoding, and what is no message is refused."""

from __future__ import annotations

import typing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from envs_node.messages.base import WIRE_BYTES_MAX, ActorName, Envelope, Message, MessageId, RunId
from envs_node.messages.codec import AnyMessage, CodecError, decode, encode
from envs_node.messages.desktop import FrameFetched

MESSAGES: tuple[type[Message], ...] = typing.get_args(AnyMessage)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def values(info: inspect.Type) -> st.SearchStrategy[typing.Any]:
    """Values of a type, as its decoder knows it."""
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            wanted = {field.name: values(field.type) for field in fields}
            return st.builds(cls, **wanted)
        case inspect.UnionType(types=types):
            return st.one_of([values(kind) for kind in types])
        case inspect.VarTupleType(item_type=item):
            return st.lists(st.deferred(lambda: values(item)), max_size=3).map(tuple)
        case inspect.TupleType(item_types=items):
            return st.tuples(*[values(item) for item in items])
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(values(key), values(value), max_size=3)
        case inspect.LiteralType(values=options):
            return st.sampled_from(options)
        case inspect.Metadata(type=inner):
            return values(inner)
        case inspect.IntType(ge=low, le=high):
            return st.integers(
                -(2**63) if low is None else low, 2**63 - 1 if high is None else high
            )
        case inspect.FloatType():
            return st.floats(allow_nan=False)
        case inspect.StrType():
            return text
        case inspect.BytesType():
            return st.binary(max_size=50)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
    raise AssertionError(f"no strategy for {info}")


def messages(kind: type[Message]) -> st.SearchStrategy[Message]:
    return values(inspect.type_info(kind))


def envelopes(message: st.SearchStrategy[Message]) -> st.SearchStrategy[Envelope[Message]]:
    return st.builds(
        Envelope[Message],
        id=text.map(MessageId),
        sender=text.map(ActorName),
        to=text.map(ActorName),
        run=text.map(RunId),
        sequence=st.integers(0, 2**63 - 1),
        time_ns=st.integers(0, 2**63 - 1),
        message=message,
        cause=st.none() | text.map(MessageId),
    )


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_every_message_survives_its_encoding(kind: type[Message], data: st.DataObject) -> None:
    envelope = data.draw(envelopes(messages(kind)))

    assert decode(encode(envelope)) == envelope


def test_every_message_class_can_be_sent() -> None:
    def subclasses(kind: type[Message]) -> set[type[Message]]:
        found = set(kind.__subclasses__())
        return found.union(*map(subclasses, found))

    ours = {kind for kind in subclasses(Message) if kind.__module__.startswith("envs_node.")}
    actions = {kind for kind in ours if kind.__module__.endswith(".actions")}

    assert ours - actions == set(MESSAGES)


@given(st.binary(max_size=300))
def test_noise_is_refused_and_nothing_else_happens(noise: bytes) -> None:
    with pytest.raises(CodecError):
        decode(noise)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_changed_byte_gives_an_envelope_or_a_refusal(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(MESSAGES))
    raw = bytearray(encode(data.draw(envelopes(messages(kind)))))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))

    try:
        decoded = decode(bytes(raw))
    except CodecError:
        return
    assert isinstance(decoded, Envelope)


def test_too_large_is_refused_both_ways() -> None:
    large = FrameFetched(frame="f", png=bytes(WIRE_BYTES_MAX))
    envelope = Envelope[Message](
        id=MessageId("m"),
        sender=ActorName("a"),
        to=ActorName("b"),
        run=RunId("r"),
        sequence=0,
        time_ns=0,
        message=large,
    )

    with pytest.raises(CodecError, match=r"FrameFetched is \d+ bytes; at most"):
        encode(envelope)
    with pytest.raises(CodecError, match="are taken"):
        decode(msgspec.msgpack.encode(envelope))
