"""`envs-node plan`: how many desktops a host holds, and what one costs."""

from __future__ import annotations

import math
import os
import platform
import re
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.deploy.cli.console import show, tell
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.fleet import APPLICATIONS, Fleet
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.plan import Host, Plan, can_merge, make_plan, predict
from envs_node.deploy.plan_chart import svg_of
from envs_node.deploy.profiles import (
    PROFILES,
    PlanError,
    Profile,
    Profiles,
    keep_others,
    read_profiles,
)
from envs_node.deploy.sweep import owning

_MIB, _GIB = 1 << 20, 1 << 30
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([MGT])i?B?", re.IGNORECASE)
_UNITS = {"M": _MIB, "G": _GIB, "T": 1 << 40}
_MEASURED_STEPS = 20


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction, and what came of it."""

    apps: dict[str, int]
    predicted_bytes: float
    measured_bytes: float
    memory_deviation: float
    """Measured over predicted, less 1."""
    predicted_steps_s: float
    measured_steps_s: float
    steps_deviation: float
    unsaved: int
    """Desktops that did not save their mark."""
    load: float
    """Of the machine before it: other work slows the steps."""


class PlanVerb(Verb, frozen=True, kw_only=True):
    """Predict desktops on a host, which bound binds, and the cost of a desktop for a day."""

    ram: str = ""
    """Memory of the host, such as 64G; this one's unless given."""
    cores: int = 0
    """Processors of the host; this one's unless given."""
    app_mix: str = "mousepad=.25,calc=.25,writer=.25,chromium=.25"
    """How often each application is open."""
    price_per_hour: float = 0.0
    """Of the host; costs are in host-days unless given."""
    steps: int = 15
    """Actions of an episode."""
    think_s: float = 1.0
    """How long the policy takes for an action, on another machine."""
    picture: Path | None = None
    """Write the curve as SVG."""
    profiles: Path = PROFILES
    """What desktops take: measured profiles."""
    measure: bool = False
    """Measure profiles here, of all applications of the mix, and write them to `--profiles`; what
    was measured of others on the same machine stays there."""
    check: bool = False
    """Start desktops of the mix here, drive them, and hold what they take against the plan."""
    desktops: int = 4
    """How many, for `--check`."""
    json: bool = False
    """Print JSON."""

    def run(self) -> int:
        """Plan, measure or check."""
        self._check_numbers()
        mix = read_mix(self.app_mix)
        if self.measure:
            with keep_logs(node="plan"), owning("plan"):
                return self._measure(mix)
        profiles = read_profiles(self.profiles)
        if self.check:
            with keep_logs(node="plan"), owning("plan"):
                checked = check_here(profiles, mix, self.desktops)
            show(checked, _checked_text(checked), as_json=self.json)
            return int(checked.unsaved > 0)
        host = Host(
            ram_bytes=read_size(self.ram) if self.ram else _own_ram(),
            cores=self.cores or os.cpu_count() or 1,
            steps=self.steps,
            think_s=self.think_s,
            price_hour=self.price_per_hour,
        )
        plans = [make_plan(profiles, mix, host)]
        if can_merge(profiles, mix):
            plans.append(make_plan(profiles, mix, host, is_merged=True))
        if self.picture is not None:
            self.picture.write_text(svg_of(plans[0]), encoding="utf-8")
        found = {"host": host, "profiles_of": profiles.machine, "plans": plans}
        show(found, _plan_text(profiles, host, plans), as_json=self.json)
        return 0 if plans[0].desktops else 1

    def _check_numbers(self) -> None:
        """Refuse what no host has.

        Raises:
            PlanError: naming the option, its value and what is possible.
        """
        bounds: tuple[tuple[str, float, float, float], ...] = (
            ("--cores", self.cores, 0, 100_000),
            ("--steps", self.steps, 1, 100_000),
            ("--think-s", self.think_s, 0, 86_400),
            ("--price-per-hour", self.price_per_hour, 0, 1e9),
            ("--desktops", self.desktops, 1, 512),
        )
        for name, value, least, most in bounds:
            if not least <= value <= most:
                raise PlanError(f"{name} is {value}; it must be between {least:g} and {most:g}")

    def _measure(self, mix: Mapping[str, float]) -> int:
        kind = DesktopKind()
        found = []
        for app in mix:
            tell(f"measuring {app}")
            found.append(measure_profile(app))
        profiles = Profiles(
            machine=_machine(),
            date=time.strftime("%Y-%m-%d"),
            width=kind.width,
            height=kind.height,
            profiles=tuple(found),
        )
        if self.profiles.exists():
            profiles = keep_others(read_profiles(self.profiles), profiles)
        data = msgspec.json.format(msgspec.json.encode(profiles), indent=1)
        self.profiles.write_bytes(data + b"\n")
        show(profiles, f"wrote {self.profiles}", as_json=self.json)
        return 0


def _read_share(part: str, share: str) -> float:
    try:
        number = float(share or 1)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise PlanError(f"{part!r} is no share; write calc=.5,chromium=.5")
    return number


def read_mix(text: str) -> dict[str, float]:
    """`calc=.5,chromium=.5` as numbers.

    Raises:
        PlanError: it is no mix, or of applications that are not driven here.
    """
    mix: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        app, _, share = part.partition("=")
        mix[app.strip()] = _read_share(part, share)
    if unknown := [app for app in mix if app not in APPLICATIONS]:
        raise PlanError(f"no such application: {unknown[0]}; there are {', '.join(APPLICATIONS)}")
    return mix


def read_size(text: str) -> int:
    """`64G` in bytes.

    Raises:
        PlanError: it is no size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise PlanError(f"{text!r} is no size; write 64G or 512M")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def measure_profile(app: str) -> Profile:
    """Drive one desktop of an application, alone."""
    fleet = Fleet([app])
    try:
        (driven,) = fleet.drive(_MEASURED_STEPS)
        _, cpu_s = fleet.rates(_MEASURED_STEPS)
    finally:
        fleet.close()
    return Profile(
        app=app,
        private_bytes=driven.private_bytes,
        shared_bytes=driven.shared_bytes,
        step_s=round(driven.step_s, 4),
        step_cpu_s=round(cpu_s, 4),
        reset_s=round(driven.reset_s, 3),
        reset_cpu_s=round(driven.reset_cpu_s, 3),
    )


def check_here(profiles: Profiles, mix: Mapping[str, float], desktops: int) -> Checked:
    """Start that many desktops of the mix here, and hold them against the prediction.

    Raises:
        PlanError: an application without a profile.
    """
    apps = share_out(mix, desktops)
    memory, steps_s = predict(profiles, apps, os.cpu_count() or 1)
    load = os.getloadavg()[0]
    fleet = Fleet([app for app, count in apps.items() for _ in range(count)])
    try:
        driven = fleet.drive(_MEASURED_STEPS)
        measured_steps_s, _ = fleet.rates(_MEASURED_STEPS)
    finally:
        fleet.close()
    measured = sum(one.memory_bytes for one in driven)
    return Checked(
        apps=apps,
        predicted_bytes=memory,
        measured_bytes=measured,
        memory_deviation=measured / memory - 1,
        predicted_steps_s=steps_s,
        measured_steps_s=measured_steps_s,
        steps_deviation=measured_steps_s / steps_s - 1,
        unsaved=sum(not one.is_saved for one in driven),
        load=load,
    )


def share_out(mix: Mapping[str, float], desktops: int) -> dict[str, int]:
    """Whole desktops for each application, as near to its share as can be."""
    whole = sum(mix.values())
    exact = {app: desktops * share / whole for app, share in mix.items()}
    counts = {app: int(number) for app, number in exact.items()}
    by_rest = sorted(exact, key=lambda app: counts[app] - exact[app])
    for app in by_rest[: desktops - sum(counts.values())]:
        counts[app] += 1
    return {app: count for app, count in counts.items() if count}


def _plan_text(profiles: Profiles, host: Host, plans: list[Plan]) -> str:
    unit = "" if host.price_hour else " host-days"
    lines = [
        f"a host of {host.ram_bytes / _GIB:.0f} GiB and {host.cores} processors; "
        f"profiles of {profiles.machine}, {profiles.date}"
    ]
    for plan in plans:
        mix = ", ".join(f"{app} {share:g}" for app, share in plan.mix.items())
        lines += [
            f"{mix}{', equal pages merged' if plan.is_merged else ''}: {plan.desktops} desktops; "
            f"{plan.binds} bind (memory for {plan.memory_bound}, processors for {plan.cpu_bound})",
            f"{plan.memory_bytes / _MIB:.0f} MiB each, {plan.steps_s:.1f} steps/s together, "
            f"{plan.desktop_day:.4g}{unit} a desktop-day",
            "desktops   memory GiB   steps/s   a desktop-day   a working desktop-day",
        ]
        for point in plan.curve:
            fits = "" if point.fits else "   does not fit"
            lines.append(
                f"{point.desktops:8d}   {point.memory_bytes / _GIB:10.1f}   {point.steps_s:7.1f}"
                f"   {point.desktop_day:13.4g}   {point.working_day:21.4g}{fits}"
            )
    return "\n".join(lines)


def _checked_text(checked: Checked) -> str:
    apps = ", ".join(f"{count} {app}" for app, count in checked.apps.items())
    return (
        f"{apps}, load before {checked.load:.1f}\n"
        f"memory: predicted {checked.predicted_bytes / _MIB:.0f} MiB, measured "
        f"{checked.measured_bytes / _MIB:.0f} ({checked.memory_deviation:+.1%})\n"
        f"steps/s: predicted {checked.predicted_steps_s:.1f}, measured "
        f"{checked.measured_steps_s:.1f} ({checked.steps_deviation:+.1%})\n"
        f"marks not saved: {checked.unsaved}"
    )


def _own_ram() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _machine() -> str:
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((x.split(":")[1].strip() for x in cpus.splitlines() if "model name" in x), "?")
    ram = _own_ram() // _GIB
    return f"{os.cpu_count()} x {model}, {ram} GiB, {platform.system()} {platform.release()}"
