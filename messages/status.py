"""How a run and its nodes stand: what `envs-node status` shows."""

from __future__ import annotations

from typing import Literal

import msgspec

from envs_node.messages.base import ActorName, BranchId, DesktopId, Message

DesktopState = Literal["starting", "idle", "working", "broken", "stopped", "waiting"]
"""`waiting`: the host has no room for it."""


class DesktopReport(msgspec.Struct, frozen=True, kw_only=True):
    """One desktop of a node."""

    desktop_id: DesktopId
    state: DesktopState
    branch_id: BranchId | None = None
    detail: str = ""
    """Why it is broken, or has to wait."""


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself with every heartbeat."""

    desktops: tuple[DesktopReport, ...] = ()
    queues: tuple[tuple[ActorName, int], ...] = ()
    """Messages that wait, of the mailboxes where some do."""
    restarts: int = 0
    """Of its children, since the node started."""
    refusals: int = 0
    """Messages and peers it refused."""
    degraded: tuple[str, ...] = ()
    """Each a reason in plain words; empty for a node in good health."""
    doing: str = ""
    """What it is at, in a few words; desktops say it for themselves."""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the head sees it."""

    node: str
    role: str
    url: str
    heard_ms: int
    """Since its last heartbeat."""
    is_alive: bool
    report: NodeReport


class LeaseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A branch that is lent."""

    branch_id: BranchId
    holder: ActorName
    number: int
    left_ms: int
    """Until it lapses unless it is renewed."""


class StatusWanted(Message, frozen=True, kw_only=True):
    """How does everything stand? Answered by `Status`."""


class Status(Message, frozen=True, kw_only=True):
    """Answers `StatusWanted`."""

    head: str
    version: str
    run: str
    """The run that is on; empty for none."""
    nodes: tuple[NodeStatus, ...]
    leases: tuple[LeaseStatus, ...] = ()
    tasks: tuple[tuple[str, int], ...] = ()
    """State of tasks and how many are in it."""
    reassigned: int = 0
    lost: int = 0
    refused: int = 0
    """Reports of lapsed leases."""
    paused: str = ""
    """Why the run is paused; empty while it goes on."""
