"""The roll of a head: which nodes joined, and which of them live. Pure; time is a number."""

from __future__ import annotations

import msgspec

from envs_node.messages.lifecycle import Join, JoinFailed, Place
from envs_node.messages.status import NodeStatus

ALIVE_NS = 10 * 10**9
"""A node that was not heard for so long is taken for dead."""
NODES_MAX = 1024
_ECHO_NS = 4 * 10**9
"""Two heartbeats: a node that was silent for so long gives its name to another of that name."""


class _Known(msgspec.Struct, frozen=True):
    join: Join
    heard_ns: int


class Roll:
    """The nodes by name. Dead ones stay listed until the run is over; only so many are kept."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Known] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def take(self, join: Join, now_ns: int) -> bool | JoinFailed:
        """Note a heartbeat. Whether the node is new, or why it may not bear its name."""
        known = self._nodes.get(join.node)
        is_same = known is not None and known.join.instance == join.instance
        if known is not None and not is_same and now_ns - known.heard_ns < _ECHO_NS:
            return JoinFailed(
                reason=f"a node named {join.node} is alive at {known.join.url or 'no address'}: "
                "give this one a name of its own with --link.node",
                is_taken=True,
            )
        if known is None and len(self._nodes) >= NODES_MAX:
            oldest = min(self._nodes, key=lambda name: self._nodes[name].heard_ns)
            if now_ns - self._nodes[oldest].heard_ns < ALIVE_NS:
                return JoinFailed(reason=f"{NODES_MAX} nodes are on the roll, and all are alive")
            del self._nodes[oldest]
        self._nodes[join.node] = _Known(join, now_ns)
        return not is_same

    def strike(self, node: str, instance: str) -> bool:
        """Forget a node that leaves; False when that name is another's."""
        known = self._nodes.get(node)
        if known is None or known.join.instance != instance:
            return False
        del self._nodes[node]
        return True

    def forget_dead(self, now_ns: int) -> None:
        """A run begins or is over: who has died by then is no trouble of anybody's any more."""
        self._nodes = {
            name: known for name, known in self._nodes.items() if _is_alive(known, now_ns)
        }

    def places(self, prefix: str, now_ns: int) -> tuple[Place, ...]:
        """Where the actors of this kind live."""
        return tuple(
            Place(actor, known.join.url)
            for known in self._nodes.values()
            if known.join.url and _is_alive(known, now_ns)
            for actor in known.join.actors
            if actor.startswith(prefix)
        )

    def statuses(self, now_ns: int) -> tuple[NodeStatus, ...]:
        """Every node, the dead ones too, in the order they joined."""
        return tuple(
            NodeStatus(
                node=known.join.node,
                role=known.join.role,
                url=known.join.url,
                heard_ms=max(now_ns - known.heard_ns, 0) // 10**6,
                is_alive=_is_alive(known, now_ns),
                report=known.join.report,
            )
            for known in self._nodes.values()
        )


def _is_alive(known: _Known, now_ns: int) -> bool:
    return now_ns - known.heard_ns < ALIVE_NS
