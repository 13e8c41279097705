"""What other processes send in vain: all of it counted, each kind logged once a peer."""

from __future__ import annotations

import structlog

_LOGGED_MAX = 200
_DETAIL_CHARS_MAX = 300


class Refusals:
    """Counts refusals. Remembers a bounded number of peers and reasons, so that none floods us."""

    def __init__(self) -> None:
        self._count = 0
        self._logged: set[tuple[str, str]] = set()

    def note(self, peer: str, reason: str, detail: str = "") -> None:
        """Something was refused.

        Args:
            peer: who sent it, without anything that changes when it connects anew.
            reason: one of a few constant ones.
            detail: of this very refusal; may hold what the peer wrote.
        """
        self._count += 1
        key = (peer, reason)
        if key not in self._logged and len(self._logged) < _LOGGED_MAX:
            self._logged.add(key)
            structlog.get_logger().warning(
                "message.refused", peer=peer, reason=reason, detail=detail[:_DETAIL_CHARS_MAX]
            )

    def count(self) -> None:
        """Something was refused that is logged elsewhere."""
        self._count += 1

    def statistics(self) -> dict[str, int]:
        """Refusals so far."""
        return {"refused": self._count}
