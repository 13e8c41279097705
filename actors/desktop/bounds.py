"""The bounds of one desktop, as its processes are put under them. Stdlib only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs_node.actors.desktop import seccomp
from envs_node.actors.desktop.cgroups import Group, Place, limit_process


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Made before the desktop's first process; every process of it passes through both doors."""

    group: Group
    limits: Mapping[str, float]
    missing: Mapping[str, str]
    """Controllers that could not be had, and why."""
    calls: bytes
    """The filter of system calls; empty for none."""

    def enter(self) -> None:
        """Count this process, still the launcher's, and all that it starts, to the desktop."""
        self.group.enter()

    def settle(self) -> None:
        """Bound this process, which is about to become the desktop's user, for good.

        It can gain no privileges any more, without which the kernel takes no filter.
        """
        limit_process(self.limits, self.missing)
        if self.calls:
            seccomp.install_filter(self.calls)


def make_bounds(place: Place, kind: Mapping[str, Any]) -> Bounds:
    """The bounds of a desktop of this kind (`DesktopKind`, as plain data)."""
    limits = kind["limits"]
    group = place.make(limits)
    is_filtered = kind["filters_calls"] and seccomp.is_known()
    calls = seccomp.build_filter() if is_filtered else b""
    return Bounds(group=group, limits=limits, missing=dict(place.missing), calls=calls)
