"""Control groups: what one desktop may take of its host, on both versions of the interface.

Version 1 has a tree a controller, version 2 one tree for all; a host may have some controllers in
one and the rest in the other. Which file does what stands in one table a version. Whatever cannot
be had is named, and the desktop runs without it, under the limits of `limit_process`.
Stdlib only: the launcher's process works with it.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, TypeAlias

CONTROLLERS = ("memory", "pids", "cpu", "freezer")
_MARK, _PREFIX = "ENVS_NODE_OWNER", "envs-node-"
"""As in `deploy/estate.py`: a sweep knows a group by its owner's name."""
_LOOSE = f"{_PREFIX}unowned-"
_PERIOD_US = 100_000
_DEADLINE_S, _POLL_S = 2.0, 0.002
_OOM_FIRST = 500
"""When the host itself is out of memory, a desktop goes before the node that drives it."""

_Folders: TypeAlias = "dict[str, tuple[int, str]]"
"""Of each controller: the version of its interface, and a folder."""

_FILES: Mapping[int, Mapping[str, tuple[str, str]]] = {
    1: {
        "memory_max": ("memory", "memory.limit_in_bytes"),
        "swap_max": ("memory", "memory.memsw.limit_in_bytes"),
        "memory_now": ("memory", "memory.usage_in_bytes"),
        "memory_peak": ("memory", "memory.max_usage_in_bytes"),
        "killed": ("memory", "memory.oom_control"),
        "processes_max": ("pids", "pids.max"),
        "processes_now": ("pids", "pids.current"),
        "cpu_max": ("cpu", "cpu.cfs_quota_us"),
        "freeze": ("freezer", "freezer.state"),
        "is_frozen": ("freezer", "freezer.state"),
    },
    2: {
        "memory_max": ("memory", "memory.max"),
        "swap_max": ("memory", "memory.swap.max"),
        "memory_now": ("memory", "memory.current"),
        "memory_peak": ("memory", "memory.peak"),
        "killed": ("memory", "memory.events"),
        "processes_max": ("pids", "pids.max"),
        "processes_now": ("pids", "pids.current"),
        "cpu_max": ("cpu", "cpu.max"),
        "freeze": ("freezer", "cgroup.freeze"),
        "is_frozen": ("freezer", "cgroup.events"),
        "kill": ("freezer", "cgroup.kill"),
    },
}
_FREEZE = {1: ("THAWED", "FROZEN"), 2: ("0", "1")}
_FROZEN = {1: "FROZEN", 2: "frozen 1"}


class Usage(NamedTuple):
    """What a desktop takes; 0 where that cannot be known."""

    memory_bytes: int
    memory_peak_bytes: int
    kills: int
    """Programs that the kernel killed for memory."""
    processes: int


class Group:
    """The control groups of one desktop: a folder for each controller that could be had."""

    def __init__(self, folders: Mapping[str, tuple[int, str]]) -> None:
        self.folders: _Folders = {name: (where[0], where[1]) for name, where in folders.items()}

    def enter(self) -> None:
        """Move this process in, and with it all that it starts.

        Raises:
            OSError: a group is gone.
        """
        for folder in {folder for _, folder in self.folders.values()}:
            _write(f"{folder}/cgroup.procs", "0")

    def usage(self) -> Usage:
        """What it takes now."""
        killed = [line.split() for line in self._read("killed").splitlines()]
        return Usage(
            memory_bytes=_number(self._read("memory_now")),
            memory_peak_bytes=_number(self._read("memory_peak")),
            kills=next((int(words[1]) for words in killed if words[:1] == ["oom_kill"]), 0),
            processes=_number(self._read("processes_now")),
        )

    def memory_loss(self) -> str:
        """Why the desktop is lost, if its memory is the reason; else nothing."""
        used = self.usage()
        if not used.kills:
            return ""
        peak, most = used.memory_peak_bytes >> 20, _number(self._read("memory_max")) >> 20
        return (
            f"out of memory: the kernel killed {used.kills} of the desktop's programs; "
            f"it took {peak} MiB at most, and may take {most} MiB"
        )

    def freeze(self) -> bool:
        """Stop all its processes, where they are; False where that cannot be done."""
        return self._set_frozen(1)

    def thaw(self) -> bool:
        """Let them go on."""
        return self._set_frozen(0)

    def kill(self) -> None:
        """Kill every process in it, and what they start meanwhile."""
        if path := self._path("kill"):
            with suppress(OSError):
                return _write(path, "1")
        self.freeze()  # nobody forks on
        for folder in {folder for _, folder in self.folders.values()}:
            with suppress(FileNotFoundError), open(f"{folder}/cgroup.procs") as listed:
                for pid in listed.read().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
        self.thaw()
        return None

    def remove(self) -> None:
        """Remove the groups, which are empty or will be in a moment. What stays is for a sweep."""
        deadline = time.monotonic() + _DEADLINE_S
        for folder in {folder for _, folder in self.folders.values()}:
            while not _removed(folder) and time.monotonic() < deadline:
                time.sleep(_POLL_S)

    def limit(self, limits: Mapping[str, float]) -> None:
        """Set what it may take: `memory_bytes`, `processes_max`, `cpus` (0: all there are)."""
        self._write("memory_max", str(int(limits["memory_bytes"])))
        version, _ = self.folders.get("memory", (0, ""))
        with suppress(OSError):  # a kernel that does not count swap
            self._write("swap_max", str(int(limits["memory_bytes"])) if version == 1 else "0")
        self._write("processes_max", str(int(limits["processes_max"])))
        if limits["cpus"] > 0:
            quota_us = str(int(limits["cpus"] * _PERIOD_US))
            version, _ = self.folders.get("cpu", (0, ""))
            self._write("cpu_max", quota_us if version == 1 else f"{quota_us} {_PERIOD_US}")

    def _set_frozen(self, wanted: int) -> bool:
        version, _ = self.folders.get("freezer", (0, ""))
        if not version:
            return False
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            # Version 1 may fall short of FROZEN while a process ends, until it is asked again.
            self._write("freeze", _FREEZE[version][wanted])
            if (_FROZEN[version] in self._read("is_frozen")) == bool(wanted):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)

    def _path(self, what: str) -> str:
        for controller, (version, folder) in self.folders.items():
            if _FILES[version].get(what, ("",))[0] == controller:
                return f"{folder}/{_FILES[version][what][1]}"
        return ""

    def _read(self, what: str) -> str:
        try:
            with open(self._path(what)) as source:
                return source.read()
        except OSError:
            return ""

    def _write(self, what: str, value: str) -> None:
        if path := self._path(what):
            _write(path, value)


class Place:
    """Where this process may make groups. They are named after the run's owner."""

    def __init__(self, parents: _Folders, missing: Mapping[str, str], owner: str = "") -> None:
        """Take the folders found by `find_place`.

        Args:
            owner: the id that stands in the run's label; by it a sweep knows the groups.
        """
        self.missing = dict(missing)
        self._parents = parents
        self._name = _PREFIX + owner if owner else f"{_LOOSE}{os.getpid()}"
        self._count = 0
        for _, folder in set(parents.values()):
            _remove_loose(folder)

    def make(self, limits: Mapping[str, float]) -> Group:
        """Make the group of one desktop. A controller that refuses is `missing` from then on."""
        self._count += 1
        folders: _Folders = {}
        for controller, (version, parent) in list(self._parents.items()):
            mine = f"{parent}/{self._name}"
            folder = f"{mine}/desktop-{os.getpid()}-{self._count}"
            try:
                os.makedirs(folder, exist_ok=True)
                if version == 2 and controller != "freezer":
                    _enable(mine, controller)
                group = Group({controller: (version, folder)})
                group.limit(limits)
            except OSError as error:
                self.missing[controller] = f"{folder}: {error.strerror}"
                del self._parents[controller]
            else:
                folders[controller] = (version, folder)
        return Group(folders)

    def close(self) -> None:
        """Remove what all its groups lay in."""
        for _, parent in set(self._parents.values()):
            _removed(f"{parent}/{self._name}")


def find_place(
    owner: str | None = None, *, mounts: str | None = None, own: str | None = None
) -> Place:
    """Find where this process may make control groups: below its own, controller by controller.

    Args:
        owner: in whose name; the one in the run's label unless given.
        mounts: what `/proc/self/mountinfo` says, if not the file itself.
        own: what `/proc/self/cgroup` says, likewise.
    """
    mounts = mounts if mounts is not None else _text("/proc/self/mountinfo")
    own = own if own is not None else _text("/proc/self/cgroup")
    paths: dict[str, str] = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    parents: _Folders = {}
    missing = dict.fromkeys(CONTROLLERS, "the kernel, or whoever mounts them here, has none")
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split()[3:5]
        names = options.split(",") if kind == "cgroup" else [""] if kind == "cgroup2" else []
        for name in names:
            if name not in paths or (name and name not in CONTROLLERS):
                continue
            folder = _below(point, root, paths[name])
            found = _usable_v2(folder, point) if not name else {name: (1, folder)}
            for controller, (version, parent) in found.items():
                if controller in parents and version == 2:
                    continue
                if os.access(parent, os.W_OK):
                    parents[controller] = (version, parent)
                elif controller not in parents:
                    missing[controller] = f"{parent} is not this user's to write"
            for controller in CONTROLLERS if not name else ():
                if controller not in found:
                    missing[controller] = f"it is not handed down to groups below {folder}"
    left = {name: why for name, why in missing.items() if name not in parents}
    return Place(parents, left, os.environ.get(_MARK, "") if owner is None else owner)


def limit_process(limits: Mapping[str, float], missing: Mapping[str, str]) -> None:
    """Put bounds on this process and its children that need no control group.

    Where there is none for memory, each process may fill only so much; where there is none for
    processes, the desktop's user may have only so many, in all desktops that share the user.
    """
    # Not 0: a program that the host starts on a crash would run even so; 1 means none at all.
    _lower(resource.RLIMIT_CORE, 1)
    if "memory" in missing:
        _lower(resource.RLIMIT_DATA, int(limits["memory_bytes"]))
    if "pids" in missing:
        _lower(resource.RLIMIT_NPROC, int(limits["processes_max"]))
    with suppress(OSError):  # it stands higher already
        _write("/proc/self/oom_score_adj", str(_OOM_FIRST))


def thaw_folder(folder: str) -> None:
    """Let what is frozen in a group go on, of either version: else it could not even be killed."""
    for version, files in _FILES.items():
        with suppress(OSError):
            _write(f"{folder}/{files['freeze'][1]}", _FREEZE[version][0])


def _lower(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


def _usable_v2(own: str, point: str) -> _Folders:
    """Of each controller of version 2 the closest folder whose children may have it.

    A group of that version either has processes or hands controllers down: the one that we are in
    does so only when it is the root. Another one above may.
    """
    found: _Folders = {"freezer": (2, own)}
    folder = own
    while True:
        offered = _text(f"{folder}/cgroup.controllers").split()
        for controller in CONTROLLERS:
            if controller in offered and controller not in found:
                with suppress(OSError):
                    try:
                        _enable(folder, controller)
                    except OSError as error:
                        if error.errno != errno.EBUSY or folder != point:
                            raise
                        make_room(folder)
                        _enable(folder, controller)
                    found[controller] = (2, folder)
        if len(found) == len(CONTROLLERS) or not folder.startswith(f"{point}/"):
            # One folder for all: what is frozen must be what is counted.
            counted = [parent for name, (_, parent) in found.items() if name != "freezer"]
            return {**found, "freezer": (2, counted[0] if counted else own)}
        folder = os.path.dirname(folder)


def make_room(folder: str) -> None:
    """Move the processes of a container's outermost group of version 2 into one below it.

    It looks like a root in there, and is none: only without processes it hands controllers down.
    """
    leaf = f"{folder}/{_PREFIX}others"
    os.makedirs(leaf, exist_ok=True)
    for pid in _text(f"{folder}/cgroup.procs").split():
        with suppress(OSError):  # it has ended meanwhile
            _write(f"{leaf}/cgroup.procs", pid)


def _enable(folder: str, controller: str) -> None:
    path = f"{folder}/cgroup.subtree_control"
    if controller not in _text(path).split():
        _write(path, f"+{controller}")


def _below(point: str, root: str, path: str) -> str:
    """A group's folder, where not all of the tree is mounted."""
    inner = os.path.relpath(path, root)
    if inner.startswith("..") or inner == ".":
        return point
    folder = f"{point}/{inner}"
    return folder if os.path.isdir(folder) else point


def _remove_loose(parent: str) -> None:
    """Remove the empty groups of launchers that had no owner and are dead."""
    with suppress(OSError):
        for name in os.listdir(parent):
            pid = name.removeprefix(_LOOSE)
            if pid != name and not os.path.exists(f"/proc/{pid}"):
                for inner in os.scandir(f"{parent}/{name}"):
                    if inner.is_dir():
                        _removed(inner.path)
                _removed(f"{parent}/{name}")


def _removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def _number(text: str) -> int:
    words = text.split()
    return int(words[0]) if words and words[0].isdigit() else 0


def _text(path: str) -> str:
    try:
        with open(path) as source:
            return source.read()
    except OSError:
        return ""


def _write(path: str, value: str) -> None:
    # No O_CREAT: in a group that is gone, or a file system that is none, nothing is to appear.
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, value.encode())
    finally:
        os.close(handle)
