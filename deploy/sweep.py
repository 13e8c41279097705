"""Removes what dead nodes left on this host, and only that."""

from __future__ import annotations

import functools
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import structlog

from envs_node.actors.desktop.cgroups import thaw_folder
from envs_node.actors.desktop.kernel import unmount
from envs_node.deploy.estate import (
    LOCK_FILE,
    OWNER_VARIABLE,
    PREFIX,
    RECORD_FILE,
    Owner,
    estate,
    lock_nowait,
    state_folder,
)
from envs_node.deploy.process import Process, processes_with

_KILL_S = 5.0
_DRAFT_S = 60.0
"""An estate that has not been made after so long never will be."""
_RECORD_BYTES_MAX = 64 * 1024
_MOUNTS = Path("/proc/self/mountinfo")

_log = structlog.get_logger(__name__)


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a dead owner had left."""

    owner: str
    node: str = ""
    since: str = ""
    processes: tuple[str, ...] = ()
    """Each with its number and its program's name."""
    mounts: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """What could not be removed, and why; the next sweep tries again."""


@contextmanager
def owning(node: str, *urls: str, scratch_in: Path | None = None) -> Iterator[None]:
    """Remove what dead nodes left, then own what is started while the block runs.

    Args:
        node: its name, for people.
        urls: where it will listen; the socket files of those of `ipc` are its own.
        scratch_in: where its temporary files lie; the usual place unless given.

    Raises:
        EstateError: there is no place to write down what it owns.
    """
    sweep()
    sockets = tuple(url.removeprefix("ipc://") for url in urls if url.startswith("ipc://"))
    with estate(node, sockets=sockets, scratch_in=scratch_in):
        yield


def sweep(state: Path | None = None, *, is_dry: bool = False) -> tuple[Swept, ...]:
    """Remove what owners whose lock is free have left. Those who live are never touched.

    Safe to do at any time, by several at once: each dead owner is locked while it is swept.

    Args:
        state: where the estates lie; `state_folder()` unless given.
        is_dry: remove nothing, and say what would be.
    """
    state = state or state_folder()
    folders = sorted(path for path in state.iterdir() if path.is_dir() and not path.is_symlink())
    spared = frozenset((os.getpid(), *_ancestors(), *_living(folders)))
    groups = functools.cache(_our_cgroups)  # a walk that a start without dead owners is spared
    found = []
    for folder in folders:
        try:
            with _taken(folder) as owner:
                if owner is not None:
                    found.append(_sweep_owner(folder, owner, spared, groups(), is_dry=is_dry))
        except FileNotFoundError:  # somebody else has just swept it, or it went by itself
            continue
        except OSError as error:
            found.append(Swept(owner=folder.name, left=(f"{folder}: {error.strerror or error}",)))
    for swept in found:
        if not is_dry:
            _log.info("owner.swept", **msgspec.structs.asdict(swept))
    return tuple(found)


def _living(folders: list[Path]) -> Iterator[int]:
    """The owners who live: one may have been started from what another had started."""
    for folder in folders:
        try:
            owner = _read(folder)
        except OSError:
            continue
        if owner.process.is_alive():
            yield owner.process.pid


@contextmanager
def _taken(folder: Path) -> Iterator[Owner | None]:
    """Hold the lock of a dead owner; None for one that lives, or is being made or swept."""
    is_draft = folder.name.startswith(".")
    if is_draft and time.time() - folder.stat().st_mtime < _DRAFT_S:
        yield None
        return
    handle = lock_nowait(folder / LOCK_FILE)
    try:
        owner = _read(folder) if handle is not None else None
        # A lock that is free and an owner that lives: its lock file was lost. It is no less alive.
        yield None if owner is None or owner.process.is_alive() else owner
    finally:
        if handle is not None:
            os.close(handle)


def _read(folder: Path) -> Owner:
    """The owner that the record names; nobody where there is none, or none of ours."""
    name = folder.name.removeprefix(".")
    try:
        owner = msgspec.json.decode(_read_little(folder / RECORD_FILE), type=Owner)
        if owner.id == name and "\0" not in "".join((owner.scratch, *owner.sockets)):
            return owner
    except (FileNotFoundError, msgspec.DecodeError):
        pass
    nobody = Process(pid=0, start_ticks=0, boot="")
    return Owner(id=name, process=nobody, node="", uid=os.geteuid(), scratch="", since="")


def _read_little(path: Path) -> bytes:
    """A plain file's first bytes; none of what is no file, and would let us wait."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        is_file = stat.S_ISREG(os.fstat(handle).st_mode)
        return os.read(handle, _RECORD_BYTES_MAX) if is_file else b""
    finally:
        os.close(handle)


def _sweep_owner(
    folder: Path, owner: Owner, spared: frozenset[int], cgroups: list[str], *, is_dry: bool
) -> Swept:
    """Processes first, for they use the rest; the record last, so that a sweep can be repeated."""
    left: list[str] = []

    def each(kind: str, things: list[str], remove: Callable[[str], None]) -> tuple[str, ...]:
        gone = []
        for thing in things:
            try:
                if not is_dry:
                    remove(thing)
                gone.append(thing)
            except OSError as error:
                left.append(f"{kind} {thing}: {error.strerror or error}")
        return tuple(gone)

    groups = [group for group in cgroups if PREFIX + owner.id in group.split("/")]
    for group in () if is_dry else groups:
        thaw_folder(group)
    processes = _processes(owner, groups, spared)
    killed = each("process", list(processes), lambda name: _kill(processes[name]))
    mine = [folder, *_scratch(owner)]
    unmounted = each("mount", _mounts_below(mine), unmount)
    ungrouped = each("cgroup", groups, os.rmdir)
    unlinked = each("socket", [path for path in owner.sockets if _is_dead_socket(path)], os.unlink)
    if not left:
        folders = each("folder", [str(path) for path in reversed(mine)], _remove)
    return Swept(
        owner=owner.id,
        node=owner.node,
        since=owner.since,
        processes=killed,
        mounts=unmounted,
        cgroups=ungrouped,
        sockets=unlinked,
        folders=folders if not left else (),
        left=tuple(left),
    )


def _processes(owner: Owner, groups: list[str], spared: frozenset[int]) -> dict[str, Process]:
    """Those that carry the owner's mark or are in its cgroups, and are nobody else's."""
    found = [process for process, _ in processes_with(OWNER_VARIABLE, frozenset((owner.id,)))]
    for group in groups:
        for pid in Path(group, "cgroup.procs").read_text().split():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                found.append(Process.of(int(pid)))
    return {f"{p.pid} {_name(p.pid)}": p for p in found if p.pid not in spared}


def _kill(process: Process) -> None:
    if not process.kill(_KILL_S):
        raise TimeoutError(f"it goes on after {_KILL_S:g} s")


def _ancestors() -> Iterator[int]:
    pid = os.getpid()
    while pid > 1:
        stat_line = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        pid = int(stat_line.rpartition(")")[2].split()[1])
        yield pid


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def _scratch(owner: Owner) -> list[Path]:
    """The scratch folder, if it is the one that the record may name."""
    path = Path(owner.scratch)
    try:
        found = path.lstat()
    except OSError:
        return []
    is_its = path.name == PREFIX + owner.id and stat.S_ISDIR(found.st_mode)
    return [path] if is_its and found.st_uid == owner.uid else []


def _mounts_below(folders: list[Path]) -> list[str]:
    """Mount points inside these folders, the innermost first."""
    points = []
    for line in _MOUNTS.read_text(errors="replace").splitlines():
        escaped = line.split()[4]
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), escaped)
        if any(point.startswith(f"{folder.resolve()}/") for folder in folders):
            points.append(point)
    return sorted(points, key=len, reverse=True)


def _our_cgroups() -> list[str]:
    """Control groups that are named after owners, and those in them, the innermost first."""
    found: list[str] = []
    for line in _MOUNTS.read_text(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] not in ("cgroup", "cgroup2"):
            continue
        for folder, _, _ in os.walk(before.split()[4]):
            if any(part.startswith(PREFIX) for part in folder.split("/")):
                found.append(folder)
    return sorted(found, key=len, reverse=True)


def _is_dead_socket(path: str) -> bool:
    """Whether it is a socket file that nobody listens at; another node may have taken it over."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def _remove(path: str) -> None:
    if mounted := _mounts_below([Path(path)]):
        raise OSError(f"{mounted[0]} is still mounted in it")
    shutil.rmtree(path)
