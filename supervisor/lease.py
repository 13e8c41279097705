"""Who may work on what, until when. Pure: time is a number that the caller gives."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

ItemT = TypeVar("ItemT")


class Lease(msgspec.Struct, Generic[ItemT], frozen=True):
    """The right of a holder to work on an item until a time."""

    item: ItemT
    holder: str
    number: int
    """Fencing number: greater than that of every lease granted before."""
    until_ns: int
    length_ns: int
    """For how long it was granted or last renewed."""


class LeaseTable(Generic[ItemT]):
    """The leases that hold now. At most one an item; an older number is refused for good."""

    def __init__(self) -> None:
        self._leases: dict[ItemT, Lease[ItemT]] = {}
        self._last = 0

    def start_at(self, number: int) -> None:
        """Number the next lease higher than this, so that two tables never share a number."""
        self._last = max(self._last, number)

    def grant(
        self, item: ItemT, holder: str, *, now_ns: int, length_ns: int
    ) -> Lease[ItemT] | None:
        """Lend an item, or return None while somebody holds it."""
        held = self._leases.get(item)
        if held is not None and now_ns < held.until_ns:
            return None
        self._last += 1
        lease = Lease(item, holder, self._last, now_ns + length_ns, length_ns)
        self._leases[item] = lease
        return lease

    def holds(self, item: ItemT, number: int, *, now_ns: int) -> bool:
        """Whether the lease of this number holds the item now."""
        lease = self._leases.get(item)
        return lease is not None and lease.number == number and now_ns < lease.until_ns

    def renew(self, item: ItemT, number: int, *, now_ns: int, length_ns: int) -> bool:
        """Keep a lease that was not taken back; False means it is lost. Never shortens it.

        One that is over, and that nobody took back yet, holds again: the one who lends it has been
        away, and its holder may not have been.
        """
        lease = self._leases.get(item)
        if lease is None or lease.number != number:
            return False
        until_ns = max(lease.until_ns, now_ns + length_ns)
        self._leases[item] = msgspec.structs.replace(lease, until_ns=until_ns, length_ns=length_ns)
        return True

    def release(self, item: ItemT, number: int) -> bool:
        """Give an item back. False when the number is not that of its lease."""
        lease = self._leases.get(item)
        if lease is None or lease.number != number:
            return False
        del self._leases[item]
        return True

    def release_all(self, holder: str) -> tuple[Lease[ItemT], ...]:
        """Give back everything that a holder has, in the order it was granted."""
        return self._end([lease for lease in self._leases.values() if lease.holder == holder])

    def lapse(self, now_ns: int) -> tuple[Lease[ItemT], ...]:
        """Take back what was not renewed in time, in the order it was granted.

        A lease that reaches further than its own length was granted by a clock that has been set
        back since: it is cut to its length, or nobody could have its item for as long as that.
        """
        lapsed = []
        for lease in self._leases.values():
            if now_ns >= lease.until_ns:
                lapsed.append(lease)
            elif lease.until_ns - now_ns > lease.length_ns:
                until_ns = now_ns + lease.length_ns
                self._leases[lease.item] = msgspec.structs.replace(lease, until_ns=until_ns)
        return self._end(lapsed)

    def is_due(self, now_ns: int) -> bool:
        """Whether `lapse` would change anything."""
        return any(
            not 0 < lease.until_ns - now_ns <= lease.length_ns for lease in self._leases.values()
        )

    def held(self) -> tuple[Lease[ItemT], ...]:
        """All leases in the order they were granted."""
        return tuple(sorted(self._leases.values(), key=lambda lease: lease.number))

    def _end(self, leases: list[Lease[ItemT]]) -> tuple[Lease[ItemT], ...]:
        for lease in leases:
            del self._leases[lease.item]
        return tuple(sorted(leases, key=lambda lease: lease.number))
