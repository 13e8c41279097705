"""The conversation with a verifier: is the task done on this desktop?"""

from __future__ import annotations

from typing import Literal

import msgspec

from envs_node.messages.base import Message
from envs_node.messages.tasks import Task

VerdictClass = Literal[
    "success", "failure", "infra", "checker_error", "unsupported", "vacuous", "infeasible"
]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A file the checker looked at."""

    name: str
    sha256: str
    size_bytes: int
    is_gold: bool = False
    """Whether it is a reference of the task, not something that came from the desktop."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the checker that judged."""

    module: str
    sha256: str


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the checker to the desktop."""

    method: str
    path: str
    status: int
    """HTTP status; 0 when there was no answer."""
    size_bytes: int
    error: str = ""
    phase: str = ""
    """What it was made for: see `Verdict.phase`."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What OSWorld's checker said, and what it rests on."""

    verdict: VerdictClass
    score: float | None = None
    """The raw score, not clamped; None when the checker gave none."""
    reason: str = ""
    phase: str = ""
    """In which part of the check it was decided: `enter`, `probe`, `prepare`, `postconfig`,
    `result`, `gold`, `metric`, `score`, `sources`; empty when the desktop was not looked at, or
    nobody knows how far the check came."""
    wall_ms: int = 0
    judged_ns: int = 0
    """When, in nanoseconds since 1970 by the clock of the host that judged; 0 when not told."""
    task_sha256: str = ""
    checker: str = ""
    """Package and version that judged, for example `desktop-env 1.0.2`."""
    checker_sha256: str = ""
    """Digest of `sources`."""
    sources: tuple[Source, ...] = ()
    """The files of the checker that the task's metrics and getters rest on, by module."""
    evidence: tuple[Evidence, ...] = ()
    exchanges: tuple[Exchange, ...] = ()


class Verify(Message, frozen=True, kw_only=True):
    """Judge the desktop once: checking changes it. Answered by `Verified`, whatever happens."""

    verify_id: str
    """A repeated id is answered, not judged again."""
    task: Task
    guest_pid: int
    last_action: Literal["DONE", "FAIL"]


class Verified(Message, frozen=True, kw_only=True):
    """Answers `Verify`."""

    verify_id: str
    verdict: Verdict
