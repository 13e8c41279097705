"""Under which privileges this host lets desktops be made, tried out rather than read up."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from envs_node.actors.desktop.errors import DesktopLostError, LauncherError
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.patchwork import mount_points
from envs_node.actors.desktop.usermap import lent_map, may_mount, probe

ADDRESS_BYTES = 16 << 30
"""Browsers reserve far more addresses than they use memory; the checker is given half of it."""
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc", "/var")
_HIDDEN = ("/var/tmp", "/var/log", "/var/spool", "/var/mail", "/var/backups", "/var/www")
_SETTINGS = (
    ("user/max_user_namespaces", "0", "15000"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
)
"""Each setting that may forbid user namespaces, by which value, and the value that allows them."""
_STEPS = (
    ("unshare", "this kernel, or the container's seccomp filter, refuses user namespaces",
     "run as root (a container: --security-opt seccomp=unconfined)"),
    ("mount proc", "/proc is partly covered here, as in containers, so that no other can be "
     "mounted", "run as root, or give the container --security-opt systempaths=unconfined"),
    ("mount overlay", "this kernel mounts no overlay in a user namespace; it takes Linux 5.11",
     "modprobe overlay, use a newer kernel, or run as root"),
)  # fmt: skip
"""How the message of a step begins, what its refusal means, and the way out."""


class Finding(NamedTuple):
    """One thing a host must have, or had better have."""

    name: str
    ok: bool
    detail: str
    mend: str = ""
    is_needed: bool = True


def check_privileges() -> Iterator[Finding]:
    """Make an empty desktop as whoever asks, and let it go."""
    is_root = may_mount()
    who = "root" if is_root else f"user {os.geteuid()}, rootless: possible"
    refusal = _try_desktop()
    if not refusal:
        yield Finding("privilege", ok=True, detail=who)
    elif is_root:
        mend = "modprobe overlay (a container: --privileged --security-opt seccomp=unconfined)"
        yield Finding("privilege", ok=False, detail=f"root, but refused: {refusal}", mend=mend)
    else:
        cause, mend = explain_refusal(refusal)
        yield Finding(
            "privilege", ok=False, detail=f"user {os.geteuid()}, rootless: {cause}", mend=mend
        )
    if not is_root:
        yield _lent_ids()
    yield _address_space()
    yield _mounts_apart(mount_points(), is_root=is_root)


def explain_refusal(refusal: str, settings: Path = Path("/proc/sys")) -> tuple[str, str]:
    """What of this host forbids desktops without root, and how it is mended."""
    for name, forbidding, allowing in _SETTINGS:
        try:
            value = (settings / name).read_text().strip()
        except OSError:  # this kernel has no such setting
            continue
        if value == forbidding:
            dotted = name.replace("/", ".")
            return f"{dotted} is {value} ({refusal})", f"sysctl -w {dotted}={allowing}"
    for start, meaning, mend in _STEPS:
        if start in refusal:
            return f"{meaning} ({refusal})", mend
    return refusal, "run as root: sudo envs-node …"


def _try_desktop() -> str:
    """Why no desktop can be made; empty if one can."""
    try:
        with Launcher(is_quiet=True) as launcher:
            launcher.destroy(launcher.create(DesktopKind()))
    except (LauncherError, DesktopLostError) as error:
        return str(error)
    return ""


def _lent_ids() -> Finding:
    """Without them desktops run as well, but with one user inside, who then has no root above."""
    user, name = os.geteuid(), "lent ids"
    mend = f"apt-get install uidmap; usermod --add-subuids 100000-165535 {user} (and "
    mend += f"--add-subgids 100000-165535 {user})"
    try:
        probe(lent_map())
    except OSError as error:
        detail = f"not needed; none: {error}"
        return Finding(name, ok=False, detail=detail, mend=mend, is_needed=False)
    return Finding(name, ok=True, detail="desktops have a root of their own above their user")


def _address_space() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    is_enough = soft == resource.RLIM_INFINITY or soft >= ADDRESS_BYTES
    found = "no limit" if soft == resource.RLIM_INFINITY else f"limit {soft >> 20} MiB a process"
    detail = f"{found}, {ADDRESS_BYTES >> 20} MiB wanted"
    return Finding("address space", ok=is_enough, detail=detail, mend="ulimit -v unlimited")


def _mounts_apart(points: frozenset[str], *, is_root: bool) -> Finding:
    """An overlay does not see what is mounted below it; only the first level is laid out again."""
    deeper = [
        point for point in sorted(points)
        if any(point.startswith(f"{folder}/") for folder in _SYSTEM)
        and not any(f"{point}/".startswith(f"{folder}/") for folder in _HIDDEN)
        and os.path.isdir(point)
    ]  # fmt: skip
    if is_root and deeper:
        detail = f"desktops do not see what is mounted at {', '.join(deeper[:3])}"
        mend = "if they need it: name a folder that holds all as desktop.lower, or run without root"
        return Finding("file tree", ok=False, detail=detail, mend=mend, is_needed=False)
    apart = [folder for folder in _SYSTEM if folder in points]
    detail = f"mounts of their own, which are seen: {', '.join(apart)}" if apart else "one mount"
    return Finding("file tree", ok=True, detail=detail)
