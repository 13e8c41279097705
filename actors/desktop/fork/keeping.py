"""Fork points in the launcher's process: desktops written out, and brought back as clones.

Both take long beside what else that process does, so each is done by a child of it. Whoever asked
gets a channel to that child, and hears of its end there. Stdlib only.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from envs_node.actors.desktop import kernel
from envs_node.actors.desktop.birth import Desktop
from envs_node.actors.desktop.bounds import Bounds
from envs_node.actors.desktop.fork import criu
from envs_node.actors.desktop.fork.files import copy_written
from envs_node.actors.desktop.fork.filesystem import make_file_system
from envs_node.actors.desktop.root import STAGE, Plan, build_stage
from envs_node.actors.desktop.usermap import USER_ID

_IMAGES, _UPPER, _LOG = "images", "upper", "criu.log"
_SCRIPT, _MOUNTS = "script", "mounts.json"
_COPYING = """#!/bin/sh
# The desktop is still frozen then, so that its files are those of its memory.
[ "$CRTOOLS_SCRIPT_ACTION" != post-dump ] ||
  exec cp -a {source}/upper {target}/upper
"""
_CRIU_TIMEOUT_S = 20.0
_FACTS = "/run/criu.kdat"
"""What CRIU has found out about the kernel, which takes it 50 ms; it notes that on a tmpfs only."""
_FACTS_BYTES_MAX = 1 << 16


class Forks:
    """The fork points of one launcher. Each is a file system that is mounted nowhere."""

    def __init__(self) -> None:
        self._points: dict[int, int] = {}
        self._dumping: dict[int, int] = {}
        """The child that writes a point out, by point."""
        self._coming: dict[int, Bounds] = {}
        """Of clones that are being brought back, by keeper."""
        self._count = 0
        self._facts = os.memfd_create("criu-facts")

    def dump(self, request: dict[str, Any], desktop: Desktop, handles: list[int]) -> dict[str, Any]:
        """Begin to write a desktop out, into a point of its own."""
        options = {"size": str(request["bytes_max"]), "mode": "755"}
        folder = make_file_system("tmpfs", options)
        self._count += 1
        self._points[self._count] = folder
        self._dumping[self._count] = _fork_worker(
            lambda channel: _write_out(request, desktop, folder, channel), handles
        )
        return {"point": self._count}

    def dumped(self, point: int) -> dict[str, Any]:
        """The child that wrote it out has told of its end, or is given up."""
        if point in self._dumping:
            worker = self._dumping.pop(point)
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
        return {}

    def drop(self, point: int) -> dict[str, Any]:
        """Give a point up; its memory goes once no clone is brought back from it any more."""
        self.dumped(point)
        os.close(self._points.pop(point))
        return {}

    def restore(
        self, request: dict[str, Any], plan: Plan, bounds: Bounds, handles: list[int]
    ) -> dict[str, Any]:
        """Begin to bring a clone back; the number of the process around it."""
        folder = self._points.get(request["point"])
        ours, theirs = socket.socketpair()
        try:
            if folder is None:
                raise OSError("that fork point was given up")
            outer = os.fork()
            if outer == 0:
                ours.close()
                _become_keeper({**request, "facts": self._facts}, folder, plan, bounds, theirs)
            theirs.close()
            os.waitpid(outer, 0)
            keeper = int(_read_line(ours) or b"0")
            if keeper == 0:
                raise OSError(_read_line(ours).decode(errors="replace").strip())
        except OSError:
            bounds.group.remove()
            ours.close()
            theirs.close()
            raise
        # From here on the keeper's parent is this process, so it may tie its life to ours.
        ours.sendall(b"bind\n")
        self._coming[keeper] = bounds
        handles.append(ours.detach())
        return {"keeper": keeper}

    def restored(self, keeper: int, pid: int) -> Desktop | None:
        """A clone is there; or, where it has no pid, did not come up and is cleared away."""
        bounds = self._coming.pop(keeper)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            stage = os.open(f"/proc/{keeper}/root", flags)
        except OSError:  # it has ended already
            stage, pid = os.open("/", flags), 0
        desktop = Desktop(pid=pid, stage=stage, bounds=bounds, keeper=keeper)
        if pid:
            return desktop
        desktop.destroy()
        return None


def _fork_worker(work: Callable[[socket.socket], None], handles: list[int]) -> int:
    ours, theirs = socket.socketpair()
    worker = os.fork()
    if worker == 0:
        ours.close()
        _run_worker(work, theirs)
    theirs.close()
    handles.append(ours.detach())
    return worker


def _run_worker(work: Callable[[socket.socket], None], channel: socket.socket) -> NoReturn:
    try:
        kernel.control(kernel.PDEATHSIG, signal.SIGKILL)
        work(channel)
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        _tell(channel, error=f"{type(error).__name__}: {error}")
    os._exit(0)


def _write_out(
    request: dict[str, Any], desktop: Desktop, folder: int, channel: socket.socket
) -> None:
    """Write memory and files of a desktop into a fork point; it goes on afterwards."""
    start_s = time.monotonic()
    held = f"/proc/{os.getpid()}/fd"  # CRIU's script inherits no descriptor, and finds these
    place = f"{held}/{folder}"
    os.mkdir(f"{place}/{_IMAGES}", 0o777)
    os.chmod(f"{place}/{_IMAGES}", 0o777)
    images = os.open(f"{place}/{_IMAGES}", os.O_RDONLY | os.O_DIRECTORY)
    pid = request["pid"]
    net = os.stat(f"/proc/{pid}/ns/net").st_ino
    mounts = criu.outer_mounts(pid)
    with open(f"{place}/{_MOUNTS}", "x", encoding="utf-8") as sink:
        json.dump(mounts, sink)
    command = criu.dump_command(request["criu"], pid, images, net, mounts, log=_LOG)
    script = f"{place}/{_SCRIPT}"
    with open(script, "x") as sink:
        sink.write(_COPYING.format(source=f"{held}/{desktop.stage}", target=place))
    os.chmod(script, 0o755)
    command += ["--action-script", script]
    user_id = 0 if criu.may_raise_limits() else USER_ID
    _run_criu(command, (images, folder, desktop.stage), f"{place}/{_IMAGES}/{_LOG}", user_id)
    space = os.statvfs(folder)
    used = (space.f_blocks - space.f_bfree) * space.f_frsize
    _tell(channel, bytes=used, ms=_since_ms(start_s))


def _become_keeper(
    request: dict[str, Any], folder: int, plan: Plan, bounds: Bounds, channel: socket.socket
) -> NoReturn:
    """Become the parent of the keeper, and leave it to the launcher's process."""
    try:
        bounds.enter()
        os.setsid()
        kernel.unshare(kernel.NEW_MOUNT | kernel.NEW_PID | kernel.NEW_NET | kernel.NEW_IPC)
        keeper = os.fork()
        if keeper == 0:
            _keep_clone(request, folder, plan, channel)
        channel.sendall(b"%d\n" % keeper)
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        channel.sendall(f"0\n{error}\n".encode())
    os._exit(0)


def _keep_clone(
    request: dict[str, Any], folder: int, plan: Plan, channel: socket.socket
) -> NoReturn:
    """Be the first process around a clone: bring it back, wait for its end, end with it.

    A clone's own first process forgets to die with its parent. This one does not, and is the
    init of the process namespace that the clone's lies in: when it dies, all of it dies.
    """
    try:
        _expect_bind(channel)
        kernel.control(kernel.PDEATHSIG, signal.SIGKILL)
        _bring_back(request, folder, plan, channel)
        channel.close()
        _close_all_but(())
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        _tell(channel, error=f"{type(error).__name__}: {error}")
    os._exit(0)


def _bring_back(request: dict[str, Any], folder: int, plan: Plan, channel: socket.socket) -> None:
    start_s = time.monotonic()
    kernel.make_private()
    kernel.mount("proc", "/proc", "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC)
    place = f"/proc/self/fd/{folder}"
    command, handles = criu.by_handle(request["criu"])  # before something is mounted over it
    build_stage(plan, lambda upper: copy_written(f"{place}/{_UPPER}", upper))
    kernel.raise_loopback()
    net = os.open("/proc/self/ns/net", os.O_RDONLY)
    images = os.open(f"{place}/{_IMAGES}", os.O_RDONLY | os.O_DIRECTORY)
    with open(f"{place}/{_MOUNTS}", encoding="utf-8") as source:
        mounts = json.load(source)
    files_ms = _since_ms(start_s)
    log = f"restore-{request['serial']}.log"
    whole = criu.restore_command(command, images, net, mounts, root=f"{STAGE}/root", log=log)
    with _known_facts(request["facts"]):
        _run_criu(whole, (images, net, folder, *handles), f"{place}/{_IMAGES}/{log}", 0)
    os.unlink(f"{place}/{_IMAGES}/{log}")
    kernel.change_root(STAGE)
    _tell(channel, ms=_since_ms(start_s), files_ms=files_ms)


@contextmanager
def _known_facts(handle: int) -> Iterator[None]:
    """Let CRIU find what it has found out before; if it has not, keep what it does find out."""
    kernel.mount("tmpfs", "/run", "tmpfs", kernel.NOSUID | kernel.NODEV, "size=1m,mode=755")
    if facts := os.pread(handle, _FACTS_BYTES_MAX, 0):
        with open(_FACTS, "xb") as sink:
            sink.write(facts)
    yield
    if not facts:
        with suppress(FileNotFoundError), open(_FACTS, "rb") as source:
            os.pwrite(handle, source.read(_FACTS_BYTES_MAX), 0)  # at once: others may read it


def _run_criu(command: list[str], handles: tuple[int, ...], log: str, user_id: int) -> None:
    def prepare() -> None:
        if user_id:
            criu.become_with_rights(user_id)
        kernel.control(kernel.PDEATHSIG, signal.SIGKILL)

    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        pass_fds=handles, preexec_fn=prepare, timeout=_CRIU_TIMEOUT_S, check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip
    if done.returncode:
        raise OSError(_complaint(log, done.stderr))


def _complaint(log: str, said: bytes) -> str:
    """The errors of a log, the first of which is the cause; or what was said aloud."""
    try:
        with open(log, errors="replace") as source:
            errors = [line.split(":", 2)[-1].strip() for line in source if "Error" in line]
    except OSError:
        errors = []
    return " / ".join(errors[:3]) or said.decode(errors="replace").strip()[-300:]


def _close_all_but(kept: tuple[int, ...]) -> None:
    for number in range(3, 1024):
        if number not in kept:
            try:
                os.close(number)
            except OSError:
                continue


def _expect_bind(channel: socket.socket) -> None:
    if _read_line(channel) != b"bind\n":
        raise OSError("nobody waits for the clone")


def _read_line(channel: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = channel.recv(1)
        if not byte:
            break
        line += byte
    return line


def _tell(channel: socket.socket, **said: object) -> None:
    channel.sendall(json.dumps(said).encode() + b"\n")


def _since_ms(start_s: float) -> int:
    return round((time.monotonic() - start_s) * 1000)
