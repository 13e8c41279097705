"""The base of every message, the ids, and the envelope a message travels in."""

from __future__ import annotations

from typing import Generic, NewType, TypeVar

import msgspec

RunId = NewType("RunId", str)
TaskId = NewType("TaskId", str)
DesktopId = NewType("DesktopId", str)
NodeId = NewType("NodeId", str)
"""A state in one task's search tree: a digest of the fingerprints that lead to it."""
BranchId = NewType("BranchId", str)
ActorName = NewType("ActorName", str)
"""Stable across restarts, for example `search/append-line-003` or `desktop-0/replay`."""
MessageId = NewType("MessageId", str)

WIRE_BYTES_MAX = 16 * 1024 * 1024
"""Limit of one encoded envelope, both ways. Only a frame on its way to a proposer comes near."""


class EnvsError(Exception):
    """Root of every error of this package."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Base of all messages. The tag is the class name; unknown fields are ignored."""


MessageT = TypeVar("MessageT")


class Envelope(msgspec.Struct, Generic[MessageT], frozen=True, kw_only=True):
    """A message with its address. Ids are unique across hosts and repeat when a request does."""

    id: MessageId
    sender: ActorName
    to: ActorName
    run: RunId
    sequence: int
    """Position among all envelopes of this sender's process, from 0."""
    time_ns: int
    """When the receiver's post took it in, in ns since 1970, by a clock that setting the wall clock
    does not move; on its way, when it was sent. The only clock a deciding actor may read."""
    message: MessageT
    cause: MessageId | None = None
    """Id of the request this answers."""
