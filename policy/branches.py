"""The branches of one task that are under way: who holds which, which wait, how often each broke.

A branch is never lost by a fault of others: it waits here until somebody drives it to its end, or
until what broke it was its own doing too often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from envs_node.messages.base import ActorName, BranchId
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import Assign, LeafReached, LossCause
from envs_node.messages.status import LeaseStatus
from envs_node.policy.patience import is_resting, rest_ms

OWN_CAUSES: tuple[LossCause, ...] = ("", "task", "desktop", "verifier")
"""What counts against a branch: it may well be what the branch does that broke these. A desktop or
a head that was killed, and a policy that is away, say nothing about the branch."""

_AT_ONCE = 2
"""So many interruptions are nobody's pattern: the branch goes out again without a rest."""


class Lease(Protocol):
    """The right to work on a branch."""

    @property
    def item(self) -> BranchId:
        """The branch."""

    @property
    def number(self) -> int:
        """Fencing number: higher than that of every lease before it."""

    @property
    def holder(self) -> str:
        """Who works on it."""

    @property
    def until_ns(self) -> int:
        """When it lapses."""


class Leases(Protocol):
    """Who may work on which branch, until when; `supervisor/lease.py` has the real one."""

    def start_at(self, number: int) -> None:
        """Number the next lease higher than this."""

    def grant(self, item: BranchId, holder: str, *, now_ns: int, length_ns: int) -> Lease | None:
        """Lend a branch; None while somebody holds it."""

    def renew(self, item: BranchId, number: int, *, now_ns: int, length_ns: int) -> bool:
        """Extend a lease; False when the number is not the holder's."""

    def release(self, item: BranchId, number: int) -> bool:
        """End a lease; False when the number is not the holder's."""

    def release_all(self, holder: str) -> Sequence[Lease]:
        """End every lease of a holder, and return them."""

    def lapse(self, now_ns: int) -> Sequence[Lease]:
        """End the leases that were not renewed in time, and return them."""

    def is_due(self, now_ns: int) -> bool:
        """Whether `lapse` would change anything."""

    def held(self) -> Sequence[Lease]:
        """The leases that hold."""


class Branch(msgspec.Struct, kw_only=True):
    """A piece of work, from the first time it is handed out until it is judged or given up."""

    assign: Assign
    number: int = 0
    """Which look or which rollout of the task it is, or belongs to; 0 for others."""
    holder: ActorName = ActorName("")
    """Whom it was lent to last."""
    source: LeafReached | None = None
    """Of a certification: the success it must reproduce."""
    reproduced: int = 0
    """Of a certification: how often that was done before."""
    losses: int = 0
    """How often it broke by a cause of its own."""
    interruptions: int = 0
    """How often it broke by a cause of others."""
    not_before_ns: int = 0
    """It rests until then."""


class Branches:
    """The branches under way of one task."""

    def __init__(self, leases: Leases, settings: SearchSettings) -> None:
        self._leases = leases
        self._settings = settings
        self._lease_ns = settings.lease_ms * 1_000_000
        self._running: dict[BranchId, Branch] = {}
        self._waiting: list[Branch] = []

    @property
    def is_empty(self) -> bool:
        """True when nothing is driven and nothing waits for a desktop."""
        return not self._running and not self._waiting

    def exploring(self) -> int:
        """Branches under way that may end in a judged leaf."""
        under_way = (*self._running.values(), *self._waiting)
        return sum(branch.assign.kind == "explore" for branch in under_way)

    def put(self, branch: Branch) -> None:
        """Let a branch wait for a desktop, before all others."""
        self._waiting.insert(0, branch)

    def take(self, now_ns: int, is_wanted: Callable[[Branch], bool]) -> Branch | None:
        """The first branch that waits, has rested and is wanted."""
        for place, branch in enumerate(self._waiting):
            if not is_resting(branch.not_before_ns, now_ns) and is_wanted(branch):
                return self._waiting.pop(place)
        return None

    def lend(self, branch: Branch, worker: ActorName, now_ns: int) -> Assign:
        """Hand a branch to a worker under a lease of its own."""
        branch_id = branch.assign.branch_id
        lease = self._leases.grant(branch_id, worker, now_ns=now_ns, length_ns=self._lease_ns)
        assert lease is not None, "a branch that waits is held by nobody"
        branch.assign = msgspec.structs.replace(branch.assign, lease=lease.number)
        branch.holder = worker
        self._running[branch_id] = branch
        return branch.assign

    def renew(self, branch_id: BranchId, lease: int, now_ns: int) -> bool:
        """Extend a lease; False when it is over."""
        is_held = self._leases.renew(branch_id, lease, now_ns=now_ns, length_ns=self._lease_ns)
        return is_held and branch_id in self._running

    def lent(self, now_ns: int) -> tuple[LeaseStatus, ...]:
        """Who holds what, and for how long yet."""
        return tuple(
            LeaseStatus(
                branch_id=lease.item,
                holder=ActorName(lease.holder),
                number=lease.number,
                left_ms=max(lease.until_ns - now_ns, 0) // 1_000_000,
            )
            for lease in self._leases.held()
        )

    def get(self, branch_id: BranchId) -> Branch | None:
        """A branch that is driven now."""
        return self._running.get(branch_id)

    def end(self, branch_id: BranchId, lease: int) -> Branch | None:
        """Take a branch back from its holder; None when the lease is not the one that holds."""
        if branch_id not in self._running or not self._leases.release(branch_id, lease):
            return None
        return self._running.pop(branch_id)

    def freed(self, worker: ActorName) -> list[Branch]:
        """Take back what a worker holds: it asks for work, so it drives nothing."""
        return self._taken_back(self._leases.release_all(worker))

    def is_due(self, now_ns: int) -> bool:
        """Whether something was not renewed in time, or seems to be lent for too long."""
        return self._leases.is_due(now_ns)

    def lapsed(self, now_ns: int) -> list[Branch]:
        """Take back what was not renewed in time."""
        return self._taken_back(self._leases.lapse(now_ns))

    def send_again(self, branch: Branch, cause: LossCause, now_ns: int, *, is_own: bool) -> bool:
        """Count a loss, and let the branch wait for its next try; False when it has none left."""
        if is_own:
            branch.losses += 1
            if branch.losses > self._settings.infra_retries_max:
                return False
        else:
            branch.interruptions += 1
            if branch.interruptions > self._settings.interruptions_max:
                return False
            # A policy that is away keeps its whole task waiting, see `TaskSearch`.
            rests = 0 if cause == "policy" else branch.interruptions - _AT_ONCE
            branch.not_before_ns = now_ns + rest_ms(rests) * 1_000_000
        self.put(branch)
        return True

    def _taken_back(self, leases: Sequence[Lease]) -> list[Branch]:
        found = (self._running.pop(lease.item, None) for lease in leases)
        return [branch for branch in found if branch is not None]
