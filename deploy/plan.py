"""The packing plan: how many desktops a host holds, which bound binds, and what one costs.

Pure arithmetic on measured profiles. A desktop takes what its programs and files take for
themselves; what desktops share (the pages of programs) is paid once a host and application. A
desktop keeps a processor busy for a part of its time only: the rest it waits for the policy and for
its screen to be still. So memory and processors bind apart, and the smaller bound is the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from envs_node.deploy.profiles import PlanError, Profile, Profiles

_USED_PART = 0.9
"""Of the processors: beyond it the queue for them grows faster than the work done."""
_SPREAD = 2.0
"""Standard deviations of memory that are kept for many large applications at the same time."""
_GIB = 1 << 30


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A host to be packed, and what is done on it."""

    ram_bytes: int
    cores: int
    steps: int = 15
    """Of an episode; a reset goes before it."""
    think_s: float = 1.0
    """The policy takes for a step, elsewhere."""
    reserve_bytes: int = 2 * _GIB
    """For the system, the node and what is never promised."""
    price_hour: float = 0.0
    """Of the host; costs are in hosts unless given."""


class Packing(msgspec.Struct, frozen=True, kw_only=True):
    """So many desktops on the host: one point of the curve."""

    desktops: int
    memory_bytes: int
    fits: bool
    steps_s: float
    desktop_day: float
    """Cost of one desktop for a day."""
    working_day: float
    """Cost of a day's work of one desktop that never waits for a processor."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How many fit."""

    mix: dict[str, float]
    memory_bound: int
    cpu_bound: int
    desktops: int
    binds: Literal["memory", "processors"]
    memory_bytes: float
    """Of one desktop, what is shared left out."""
    steps_s: float
    desktop_day: float
    currency: Literal["price", "hosts"]
    curve: tuple[Packing, ...]
    is_merged: bool = False


def make_plan(
    profiles: Profiles, mix: Mapping[str, float], host: Host, *, is_merged: bool = False
) -> Plan:
    """Pack a host.

    Args:
        mix: how often each application is open, in any unit.

    Raises:
        PlanError: an application without a profile, or a mix of nothing.
    """
    parts = _shares(profiles, mix, is_merged=is_merged)
    sizes = [(share, _own(profile, is_merged=is_merged)) for profile, share in parts]
    mean = sum(share * size for share, size in sizes)
    deviation = math.sqrt(sum(share * (size - mean) ** 2 for share, size in sizes))
    shared = sum(profile.shared_bytes for profile, _ in parts)
    wall_s = sum(s * (p.reset_s + host.steps * (p.step_s + host.think_s)) for p, s in parts)
    cpu_s = sum(s * (p.reset_cpu_s + host.steps * p.step_cpu_s) for p, s in parts)
    budget = host.ram_bytes - host.reserve_bytes

    def memory(desktops: int) -> float:
        return shared + desktops * mean + _SPREAD * deviation * math.sqrt(desktops)

    memory_bound = _most(lambda count: memory(count) <= budget)
    cpu_bound = max(1, int(_USED_PART * host.cores * wall_s / cpu_s))
    best = min(memory_bound, cpu_bound)

    def pack(desktops: int) -> Packing:
        working = min(desktops, cpu_bound)
        day = 24 * host.price_hour or 1.0
        return Packing(
            desktops=desktops,
            memory_bytes=int(memory(desktops)),
            fits=desktops <= memory_bound,
            steps_s=working * host.steps / wall_s,
            desktop_day=day / desktops,
            working_day=day / working,
        )

    counts = {2**power for power in range(11) if 2**power <= 4 * max(memory_bound, cpu_bound)}
    chosen = pack(best) if best else None
    return Plan(
        mix=dict(mix),
        memory_bound=memory_bound,
        cpu_bound=cpu_bound,
        desktops=best,
        binds="memory" if memory_bound <= cpu_bound else "processors",
        memory_bytes=mean,
        steps_s=chosen.steps_s if chosen else 0.0,
        desktop_day=chosen.desktop_day if chosen else math.inf,
        currency="price" if host.price_hour else "hosts",
        curve=tuple(pack(count) for count in sorted(counts | ({best} if best else set()))),
        is_merged=is_merged,
    )


def can_merge(profiles: Profiles, mix: Mapping[str, float]) -> bool:
    """Whether merged pages were measured for all applications of a mix."""
    found = {profile.app: profile for profile in profiles.profiles}
    return all(app in found and found[app].merged_bytes is not None for app in mix)


def predict(profiles: Profiles, apps: Mapping[str, int], cores: int) -> tuple[float, float]:
    """Bytes, and steps a second, of so many desktops that are driven as fast as they go.

    Raises:
        PlanError: an application without a profile.
    """
    parts = _shares(profiles, apps, is_merged=False)
    count = sum(apps.values())
    memory = sum(apps[p.app] * p.private_bytes + p.shared_bytes for p, _ in parts)
    step_s = sum(share * p.step_s for p, share in parts)
    cpu_s = sum(share * p.step_cpu_s for p, share in parts)
    return memory, min(count / step_s, cores / cpu_s)


def _shares(
    profiles: Profiles, mix: Mapping[str, float], *, is_merged: bool
) -> list[tuple[Profile, float]]:
    found = {profile.app: profile for profile in profiles.profiles}
    if unknown := [app for app in mix if app not in found]:
        raise PlanError(f"no profile of {', '.join(unknown)}; there are: {', '.join(found)}")
    whole = sum(mix.values())
    if whole <= 0 or min(mix.values()) < 0:
        raise PlanError("the mix has no application: give shares such as calc=.5,chromium=.5")
    if is_merged and not can_merge(profiles, mix):
        raise PlanError("merged pages were not measured for all of the mix")
    return [(found[app], share / whole) for app, share in mix.items() if share]


def _own(profile: Profile, *, is_merged: bool) -> int:
    if is_merged and profile.merged_bytes is not None:
        return profile.merged_bytes
    return profile.private_bytes


def _most(fits: Callable[[int], bool], bound: int = 1 << 20) -> int:
    """The largest count that fits; fewer always fit, too."""

    least, most = 0, bound
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least
