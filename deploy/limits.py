"""What this host can still give to desktops, limit by limit, with the way out of each.

Nothing is changed and nothing is started: all of it is read from `/proc` and the control groups.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

DESKTOP_USER = 1000
"""Whom the programs of all desktops belong to, where they are started by root."""
_MIB = 1 << 20
_UNLIMITED = float(1 << 60)
_MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
_GROUPS = Path("/sys/fs/cgroup")


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What one more desktop is reckoned to take: a guess on the safe side for most applications."""

    memory_bytes: int = 256 * _MIB
    """By `profiles.json` a text editor takes 57 MiB, LibreOffice Calc 252 and Chromium 306."""
    disk_bytes: int = 64 * _MIB
    """Of the temporary folder: what its checker fetches."""
    processes: int = 96
    """Threads count. 18 were seen with mousepad and 21 with Calc; the rest is for browsers."""
    instances: int = 5
    """Of inotify: the two buses have one each, their launcher, and so has every GTK application."""
    watches: int = 64
    files: int = 16
    """Open in the node's own process: the X server, the bus, the picture."""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a host has only so much of."""

    name: str
    free: float
    wanted: float
    """By one more desktop."""
    detail: str
    """What it is at, in words."""
    mend: str
    """The command that gives more of it, or what to do where no command can."""

    @property
    def is_enough(self) -> bool:
        """Whether one more desktop fits in."""
        return self.free >= self.wanted

    def refusal(self) -> str:
        """Why one more desktop is refused, and the way out."""
        return f"{self.name}: {self.detail}; {self.mend}"


def read_limits(
    need: Need, *, spare_bytes: float, promised: int = 0, user: int | None = None
) -> tuple[Limit, ...]:
    """All limits, the memory first.

    Args:
        spare_bytes: the memory that may still be promised, as whoever promises it counts.
        promised: desktops that were let in and do not run yet: what they want counts as used.
        user: whom the desktops' programs belong to.
    """
    if user is None:
        user = DESKTOP_USER if os.geteuid() == 0 else os.geteuid()
    folder = tempfile.gettempdir()
    limits = (
        Limit(
            name="memory",
            free=spare_bytes,
            wanted=need.memory_bytes,
            detail=f"{max(0, spare_bytes) / _MIB:.0f} MiB may still be promised, "
            f"{need.memory_bytes / _MIB:.0f} MiB are wanted by one more desktop",
            mend="drive fewer desktops (--desktop.count), or add memory",
        ),
        Limit(
            name="disk",
            free=shutil.disk_usage(folder).free,
            wanted=need.disk_bytes,
            detail=f"{shutil.disk_usage(folder).free / _MIB:.0f} MiB are free in {folder}, "
            f"{need.disk_bytes / _MIB:.0f} MiB are wanted by one more desktop",
            mend="make room there, or set TMPDIR",
        ),
        *_process_limits(need, user),
        *_inotify_limits(need, user),
        *_file_limits(need),
    )
    memory, *others = limits
    return (memory, *(_less(limit, promised) for limit in others))


def available_bytes() -> int:
    """Memory that new programs may take: of the host, or less where a control group says so."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    for group in own_groups("memory"):
        for most, now, idle in _MEMORY_FILES:
            limit, used = _number(group / most), _number(group / now)
            if limit is not None and used is not None:
                reclaimable = _fields(group / "memory.stat").get(idle, 0)
                available = min(available, int(limit) - int(used) + reclaimable)
    return max(0, available)


def used_bytes(pid: int) -> int:
    """Memory that is a desktop's alone: its programs' own pages, and what it wrote.

    Args:
        pid: its first process, as this host counts.
    """
    root, page = Path(f"/proc/{pid}/root"), os.sysconf("SC_PAGE_SIZE")
    total = 0
    for statm in (root / "proc").glob("[0-9]*/statm"):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            fields = statm.read_text().split()
            total += (int(fields[1]) - int(fields[2])) * page
    for inner in ("", "run", "tmp", "dev/shm"):
        with suppress(OSError):
            found = os.statvfs(root / inner)
            total += (found.f_blocks - found.f_bfree) * found.f_frsize
    return total


def own_groups(controller: str) -> Iterator[Path]:
    """The control groups that this process counts in, up to the root; of version 1 or 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        top = _GROUPS / controller if controller in controllers.split(",") else _GROUPS
        if controllers and controller not in controllers.split(","):
            continue
        group = top / path.strip("/")
        while group != top:
            yield group
            group = group.parent
        yield top


def _less(limit: Limit, promised: int) -> Limit:
    if promised == 0:
        return limit
    return msgspec.structs.replace(
        limit,
        free=limit.free - promised * limit.wanted,
        detail=f"{limit.detail}, and by each of {promised} that are about to start",
    )


def _process_limits(need: Need, user: int) -> Iterator[Limit]:
    whole = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    for name in ("kernel.pid_max", "kernel.threads-max"):
        most = _number(Path("/proc/sys") / name.replace(".", "/")) or _UNLIMITED
        yield _counted(name, whole, most, need.processes, f"sysctl {name}={_more(most)}")
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft != resource.RLIM_INFINITY and user != 0:
        name = f"RLIMIT_NPROC of user {user}"
        used = sum(_threads(process) for process in _processes_of(user))
        yield _counted(name, used, soft, need.processes, f"ulimit -u {_more(soft)}")
    for group in own_groups("pids"):
        bound, now = _number(group / "pids.max"), _number(group / "pids.current")
        if bound is not None and now is not None:
            mend = f"echo {_more(bound)} > {group}/pids.max (a container: --pids-limit)"
            yield _counted(f"pids.max of {group}", now, bound, need.processes, mend)


def _inotify_limits(need: Need, user: int) -> Iterator[Limit]:
    instances = watches = 0
    for process in _processes_of(user):
        found = list(_inotify(process))
        instances += len(found)
        watches += sum(found)
    for name, used, wanted in (
        ("max_user_instances", instances, need.instances),
        ("max_user_watches", watches, need.watches),
    ):
        most = _number(Path("/proc/sys/fs/inotify") / name) or _UNLIMITED
        mend = f"sysctl fs.inotify.{name}={_more(most)}"
        yield _counted(f"fs.inotify.{name}", used, most, wanted, mend)


def _file_limits(need: Need) -> Iterator[Limit]:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    used = len(os.listdir("/proc/self/fd"))
    yield _counted("RLIMIT_NOFILE", used, soft, need.files, f"ulimit -n {_more(soft)}")
    opened, _, most = Path("/proc/sys/fs/file-nr").read_text().split()
    wanted = need.processes * need.files
    mend = f"sysctl fs.file-max={_more(float(most))}"
    yield _counted("fs.file-max", int(opened), float(most), wanted, mend)


def _counted(name: str, used: float, most: float, wanted: int, mend: str) -> Limit:
    detail = f"{used:.0f} of {most:.0f} are used, {wanted} are wanted by one more desktop"
    return Limit(name=name, free=most - used, wanted=wanted, detail=detail, mend=mend)


def _more(most: float) -> int:
    return int(max(most, 128) * 4)


def _processes_of(user: int) -> Iterator[Path]:
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if entry.name.isdigit() and entry.stat().st_uid == user:
                yield entry


def _threads(process: Path) -> int:
    try:
        return len(os.listdir(process / "task"))
    except OSError:
        return 0


def _inotify(process: Path) -> Iterator[int]:
    """The watches of each inotify instance of a process."""
    try:
        numbers = os.listdir(process / "fd")
    except OSError:
        return
    for number in numbers:
        with suppress(OSError):
            if os.readlink(process / "fd" / number).endswith("inotify"):
                yield (process / "fdinfo" / number).read_text().count("inotify wd:")


def _number(path: Path) -> float | None:
    """The number in a file; None where there is none, or the word `max`."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None


def _fields(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {words[0]: int(words[1]) for line in lines if len(words := line.split()) == 2}
