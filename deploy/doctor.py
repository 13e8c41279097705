"""Can this host run desktops, and how is what is missing mended?"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from envs_node.actors.desktop.cgroups import find_place
from envs_node.deploy.checker import checker_folder, is_checker_installed
from envs_node.deploy.criu import NEEDS_ROOT, find_criu
from envs_node.deploy.limits import Need, available_bytes, read_limits
from envs_node.deploy.privileges import check_privileges

PROGRAMS: Mapping[str, str] = {
    "Xvfb": "xvfb",
    "xkbcomp": "x11-xkb-utils",
    "openbox": "openbox",
    "dbus-daemon": "dbus",
    "/usr/libexec/at-spi-bus-launcher": "at-spi2-core",
    "/usr/bin/python3": "python3",
    "mousepad": "mousepad",
    "thunar": "thunar",
    "xterm": "xterm",
    "gedit": "gedit",
    "soffice": "libreoffice-common",
    "/usr/share/applications/libreoffice-calc.desktop": "libreoffice-calc",
    "/usr/share/applications/libreoffice-writer.desktop": "libreoffice-writer",
    "/usr/share/applications/libreoffice-impress.desktop": "libreoffice-impress",
}
"""Each program or file that desktops use, and the apt package that brings it."""
APPLICATIONS: Mapping[str, str] = {
    "galculator": "galculator",
    "eog": "eog",
    "gimp": "gimp",
    "vlc": "vlc",
    "thunderbird": "thunderbird",
    "chromium": "chromium",
    "gnome-shell": "gnome-shell",
    "socat": "socat",
}
"""The same of what OSWorld's tasks use, and ours do without."""
_PROBE_TIMEOUT_S = 60.0
_LIMIT_BYTES = 1 << 30


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a host must have."""

    name: str
    ok: bool
    detail: str
    mend: str = ""
    """The command that mends it, or what to do where no command can."""
    is_needed: bool = True
    """Whether no desktop runs without it."""


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """How much a host must have."""

    programs: Mapping[str, str] = msgspec.field(default_factory=lambda: PROGRAMS)
    memory_bytes: int = 3 * 1024**3
    """Two desktops with LibreOffice, the policy and a checker."""
    disk_bytes: int = 2 * 1024**3
    shared_memory_bytes: int = 64 * 1024**2
    """A desktop's frame buffer takes 4 MB at 1280x720."""
    files: int = 1024
    desktops: int = 2
    """As many as are started unless another number is given."""


def check_host(
    folder: Path = Path("."), needs: Needs | None = None, *, is_quick: bool = False
) -> tuple[Check, ...]:
    """Examine this host; starts short probes, changes nothing.

    Args:
        folder: where runs are to be kept, made yet or not, for the free disk.
        needs: how much is enough.
        is_quick: leave out the import of torch, which takes seconds.
    """
    needs = needs or Needs()
    folder = folder.resolve()
    while not folder.exists():
        folder = folder.parent
    return (
        _linux(),
        _python(),
        *(Check(**finding._asdict()) for finding in check_privileges()),
        _control_groups(),
        *(_program(name, package) for name, package in needs.programs.items()),
        _applications(),
        *(() if is_quick else (_torch(),)),
        _checker(),
        *(() if is_quick else (_forks(),)),
        _enough("memory", available_bytes(), needs.memory_bytes, "close programs"),
        _enough(
            "disk",
            shutil.disk_usage(folder).free,
            needs.disk_bytes,
            f"make room in {folder}, or name another folder for runs",
        ),
        _enough(
            "shared memory",
            shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else 0,
            needs.shared_memory_bytes,
            "mount -o remount,size=1g /dev/shm (a container: --shm-size=1g)",
        ),
        _files(needs.files),
        *_limits(needs.desktops),
    )


def as_text(checks: tuple[Check, ...]) -> str:
    """The checks as lines for people; what fails comes with its mend, apt packages in one go."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        mark = "ok " if check.ok else "NO " if check.is_needed else "-  "
        lines.append(f"{mark} {check.name:<{width}}  {check.detail}")
        if not check.ok:
            lines.append(f"    {'':<{width}}  mend: {check.mend}")
    broken = [check for check in checks if not check.ok and check.is_needed]
    apt = [check.mend.removeprefix(_APT) for check in broken if check.mend.startswith(_APT)]
    if len(apt) > 1:
        lines.append(f"all packages at once: {_APT}{' '.join(apt)}")
    lines.append(f"{len(broken)} to mend" if broken else "this host can run desktops")
    return "\n".join(lines)


def as_data(checks: tuple[Check, ...]) -> dict[str, object]:
    """The checks for `--json`."""
    ok = all(check.ok or not check.is_needed for check in checks)
    return {"ok": ok, "checks": msgspec.to_builtins(checks)}


_APT = "apt-get install "


def _linux() -> Check:
    return Check(
        name="Linux",
        ok=sys.platform == "linux",
        detail=f"{os.uname().sysname} {os.uname().release}",
        mend="use a Linux host: desktops are made of its namespaces",
    )


def _python() -> Check:
    return Check(
        name="Python",
        ok=sys.version_info >= (3, 11),
        detail=".".join(map(str, sys.version_info[:3])),
        mend="apt-get install python3.11",
    )


def _control_groups() -> Check:
    """Which bounds can be put on a desktop; it runs without them, too, but less apart."""
    place = find_place("doctor")
    limits = {"memory_bytes": _LIMIT_BYTES, "processes_max": 1024, "cpus": 1.0}
    group = place.make(limits)
    group.remove()
    place.close()
    versions = sorted({f"v{version}" for version, _ in group.folders.values()})
    had = f"{', '.join(group.folders) or 'none'} ({' and '.join(versions) or 'no version'})"
    lacks = "; ".join(f"no {name}: {why}" for name, why in place.missing.items())
    return Check(
        name="control groups",
        ok=not lacks,
        detail=f"{had}; {lacks}" if lacks else had,
        mend="systemd-run --user --scope -p Delegate=yes envs-node …, or run as root "
        "(a container: --cgroupns=private --privileged); until then limits are a process's own",
        is_needed=False,
    )


def _torch() -> Check:
    return _probe(
        "torch",
        [sys.executable, "-c", "import torch; print(torch.__version__)"],
        "can be imported",
        "pip install -c constraints.txt torch",
    )


def _probe(name: str, command: list[str], detail: str, mend: str) -> Check:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name=name, ok=False, detail=str(error), mend=mend)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return Check(name=name, ok=False, detail=lines[-1], mend=mend)
    return Check(name=name, ok=True, detail=done.stdout.strip() or detail)


def _program(name: str, package: str) -> Check:
    path = name if name.startswith("/") and Path(name).exists() else shutil.which(name)
    label = Path(name).name.removesuffix(".desktop")
    if path is None:
        return Check(name=label, ok=False, detail="not found", mend=f"{_APT}{package}")
    return Check(name=label, ok=True, detail=path)


def _applications() -> Check:
    """One line for all of them, and never a reason to refuse this host."""
    missing = [package for name, package in APPLICATIONS.items() if shutil.which(name) is None]
    detail = f"all {len(APPLICATIONS)}, for tasks that want them"
    if missing:
        detail = f"tasks that want these are left out: {_APT}{' '.join(missing)}"
    return Check(name="further applications", ok=True, detail=detail)


def _forks() -> Check:
    """No host needs them: where there are none, branches replay."""
    found, why = find_criu()
    how = "branches replay"
    if why != NEEDS_ROOT:
        how += "; `envs-node criu install` fetches one that fits, if there is one"
    return Check(
        name="forks",
        ok=True,
        detail=f"CRIU {found.version} in {found.where}" if found else f"none ({why}): {how}",
    )


def _checker() -> Check:
    folder = checker_folder()
    ok = is_checker_installed(folder)
    return Check(
        name="OSWorld's checker",
        ok=ok,
        detail=f"{folder}" if ok else f"not (completely) in {folder}",
        mend="envs-node checker install",
    )


def _enough(name: str, found_bytes: int, wanted_bytes: int, mend: str) -> Check:
    mib = 1024**2
    return Check(
        name=name,
        ok=found_bytes >= wanted_bytes,
        detail=f"{found_bytes // mib} MiB free, {wanted_bytes // mib} MiB wanted",
        mend=mend,
    )


def _files(wanted: int) -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Check(
        name="open files",
        ok=soft >= wanted,
        detail=f"limit {soft} (hard {hard}), {wanted} wanted",
        mend=f"ulimit -n {wanted}",
    )


def _limits(desktops: int) -> Iterator[Check]:
    """What the kernel counts, such as inotify instances: enough for so many desktops?"""
    for limit in read_limits(Need(), spare_bytes=float("inf")):
        if limit.name not in ("memory", "disk", "RLIMIT_NOFILE"):
            wanted = limit.wanted * desktops
            yield Check(
                name=limit.name,
                ok=limit.free >= wanted,
                detail=f"{limit.free:.0f} free, {wanted:.0f} wanted by {desktops} desktops",
                mend=limit.mend,
                is_needed=not limit.is_enough,
            )
