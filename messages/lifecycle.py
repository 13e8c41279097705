"""What nodes and actors say of themselves."""

from __future__ import annotations

from typing import Literal

import msgspec

from envs_node.messages.base import ActorName, Message
from envs_node.messages.status import NodeReport

Role = Literal["all", "head", "desktop", "policy", "trainer"]
Cause = Literal["fault", "preempted", "abandoned"]
"""Why a child died: by itself, because what it stands on went away, or it would not end."""


class Join(Message, frozen=True, kw_only=True):
    """A node introduces itself to the head. Answered by `Joined` or `JoinFailed`."""

    node: str
    role: Role
    url: str
    """Where it listens; empty for a node that only dials."""
    actors: tuple[ActorName, ...]
    version: str
    report: NodeReport = NodeReport()
    instance: str = ""
    """Made when the node's process starts: tells two nodes of one name apart."""


class Joined(Message, frozen=True, kw_only=True):
    """Answers `Join`."""

    head: str
    version: str


class JoinFailed(Message, frozen=True, kw_only=True):
    """Refuses `Join`: another version, or a name that is taken."""

    reason: str
    is_taken: bool = False
    """True when another node of this name is alive: ask again, it may be a dead one's echo."""


class Leave(Message, frozen=True, kw_only=True):
    """A node is being stopped and will not join again. Answered by `Left`."""

    node: str
    instance: str


class Left(Message, frozen=True, kw_only=True):
    """Answers `Leave`."""

    node: str


class Resolve(Message, frozen=True, kw_only=True):
    """Where does an actor of this kind live? Answered by `Resolved`."""

    prefix: str
    """For example `proposer/`."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """An actor and the address of its node."""

    actor: ActorName
    url: str


class Resolved(Message, frozen=True, kw_only=True):
    """Answers `Resolve`; empty when there is none yet."""

    places: tuple[Place, ...]


class Crashed(Message, frozen=True, kw_only=True):
    """A supervisor saw its child die."""

    child: str
    error: str
    restarts: int
    cause: Cause = "fault"
    traceback: str = ""


class ActorFailed(Message, frozen=True, kw_only=True):
    """Answers a request whose actor crashed over it, or that nobody took: ask again or give up."""

    to: ActorName
    reason: str


class ActorBusy(Message, frozen=True, kw_only=True):
    """Answers a request that found the mailbox full: the sender's post waits and asks again."""

    to: ActorName


class SearchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to search, and how much may be spent."""

    samples: int = 8
    """Proposals sampled at each step."""
    temperature: float = 0.7
    support_min: int = 2
    """Proposals that must agree before a bucket may earn a branch."""
    branches_node_max: int = 3
    """Buckets of one node that may earn a branch, the followed one included."""
    looks_max: int = 3
    """How often an unsolved task with nothing left to try is driven from its start again, each
    time at half as much more temperature: what the policy then agrees on earns branches, too."""
    leaves_task_max: int = 8
    """Judged leaves a task may spend, certifications apart."""
    successes_task_max: int = 3
    """Distinct certified successes after which a task is let go."""
    certify_replays: int = 1
    """Replays on fresh desktops, one after another, that must all succeed before a success counts
    as certified."""
    actions_task_max: int = 200
    steps_max: int = 10
    lease_ms: int = 20_000
    infra_retries_max: int = 2
    """How often a branch is sent out again when its desktop, its set-up or its checker broke."""
    interruptions_max: int = 100
    """How often a branch is sent out again when something else broke: its node or the head was
    killed, its policy was away. Far more than happens, so that nothing goes round for ever."""
    keep_frames: Literal["all", "certified", "none"] = "all"
    """Of which branches the ledger keeps the pictures, each picture once; `envs-node replay
    --branch` shows them. Those of branches that are not certified are dropped when the ledger has
    no time for them within 10 s."""
    seed: int = 0
    rollouts: int = 0
    """Of an eval: sampled rollouts a task, beside one greedy; 0 searches the tree."""
    fingerprint: Literal["element", "grid"] = "element"
    """`grid` is the published 50-px fingerprint; `element` snaps to the element that was hit."""


class StartRun(Message, frozen=True, kw_only=True):
    """Search these tasks on the head. Answered by `RunStarted` or `RunRefused`."""

    tasks: tuple[bytes, ...]
    """Each a msgpack `Task`."""
    settings: SearchSettings
    run: str
    """Name of the run's folder on the head."""
    is_resumed: bool = False
    """Go on with a run that is there, with its own tasks and settings. One that is on goes on."""
    is_forced: bool = False
    """Of a resumed run: though policy, checker, version or settings are not those it began with."""
    request_id: str = ""
    """Of whoever asks, for this run: asked again, after the head died over it, it goes on with what
    was begun, and is not refused for it."""


class RunStarted(Message, frozen=True, kw_only=True):
    """Answers `StartRun`."""

    run: str


class RunRefused(Message, frozen=True, kw_only=True):
    """Refuses `StartRun`: another run is on, the folder exists, a task is broken."""

    reason: str


class StopRun(Message, frozen=True, kw_only=True):
    """End the run now; what is kept stays kept. Answered by `RunStopped`."""

    run: str


class RunStopped(Message, frozen=True, kw_only=True):
    """Answers `StopRun`."""

    run: str
