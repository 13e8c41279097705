"""How a desktop is born: its namespaces, its file tree, and its first process.

Runs in the launcher's process and in what it forks. Standard library alone.
"""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass
from typing import Any, NoReturn

from envs_node.actors.desktop import kernel
from envs_node.actors.desktop.bounds import Bounds
from envs_node.actors.desktop.root import Plan, build_root
from envs_node.actors.desktop.usermap import UserMap
from envs_node.actors.desktop.visitor import drop_privileges, redirect, start

_GUEST = "/usr/local/lib/envs/envs_node/actors/desktop/guest"
_INIT = ("/usr/bin/python3", "-S", "-E", f"{_GUEST}/init.py")
_OWN = ("PATH", "PYTHONPATH")
"""The variables of this process that are no label: a desktop is not to see the host's paths."""
_LINE_BYTES_MAX = 4096


@dataclass(frozen=True, kw_only=True)
class Desktop:
    """A desktop, as the launcher's process holds it."""

    pid: int
    """Its first process, as the host counts."""
    stage: int
    """A descriptor of the tmpfs that its file tree lies on, with `upper`, `work` and `layer`: no
    path of the host leads there. -1 where nobody needs it: without root nothing is forked."""
    bounds: Bounds
    keeper: int = 0
    """Of a clone: the process around it, which ends with it, and it with that; else 0."""
    programs: tuple[int, ...] = ()
    """What it was started with, as it counts."""

    def description(self) -> dict[str, Any]:
        """What whoever drives it has to know."""
        group, missing = self.bounds.group.folders, dict(self.bounds.missing)
        programs = list(self.programs)
        return {"pid": self.pid, "group": group, "missing": missing, "programs": programs}

    def destroy(self) -> None:
        """Kill it, wait until all of it is gone, and let its files go."""
        last = self.keeper or self.pid
        os.kill(last, signal.SIGKILL)
        self.bounds.group.thaw()  # what is frozen does not even die
        os.waitpid(last, 0)
        if self.stage >= 0:
            os.close(self.stage)
        self.bounds.group.remove()


def create(
    plan: Plan, users: UserMap | None, bounds: Bounds, programs: list[dict[str, Any]]
) -> Desktop:
    """Start a desktop's first process, and programs in it.

    Args:
        users: who it is in a user namespace of its own; None where root needs none.
        programs: as `visitor.start` takes them.

    Raises:
        OSError: the host refused a namespace or a mount.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    outer = os.fork()
    if outer == 0:
        ours.close()
        _become_outer(theirs, plan, users, bounds, programs)
    theirs.close()
    with ours:
        try:
            if users is not None:
                _hear(ours, "apart")
                users.write(outer)
                ours.send(b"mapped")
            pid = int(_hear(ours, "born")[0])
        finally:
            os.kill(outer, signal.SIGKILL)  # it waits for nothing any more, unless we broke off
            os.waitpid(outer, 0)
        handles: list[int] = []
        try:
            # From here on the desktop's parent is this process, so it may tie its life to ours.
            ours.send(b"build")
            if users is None:
                handles = _hear(ours, "laid")[1]
            said = _hear(ours, "built")[0]
            # Its end of the channel closes as its program begins: only then may we look into it.
            if refusal := ours.recv(_LINE_BYTES_MAX):
                raise OSError(refusal.decode(errors="replace"))
        except OSError:
            os.waitpid(pid, 0)
            for handle in handles:
                os.close(handle)
            raise
    begun = tuple(int(number) for number in said.split())
    return Desktop(pid=pid, stage=handles[0] if handles else -1, bounds=bounds, programs=begun)


def _become_outer(
    channel: socket.socket, plan: Plan, users: UserMap | None, bounds: Bounds,
    programs: list[dict[str, Any]],
) -> NoReturn:  # fmt: skip
    try:
        bounds.enter()
        os.setsid()
        own = kernel.NEW_MOUNT | kernel.NEW_PID | kernel.NEW_NET | kernel.NEW_IPC | kernel.NEW_UTS
        if users is None:
            kernel.unshare(own)
        else:
            kernel.unshare(own | kernel.NEW_USER)
            channel.send(b"apart")
            _hear(channel, "mapped")
        inner = os.fork()
        if inner == 0:
            _become_init(channel, plan, users, bounds, programs)
        channel.send(b"born %d" % inner)
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        channel.send(f"{type(error).__name__}: {error}".encode())
    os._exit(0)


def _become_init(
    channel: socket.socket, plan: Plan, users: UserMap | None, bounds: Bounds,
    programs: list[dict[str, Any]],
) -> NoReturn:  # fmt: skip
    try:
        os.setsid()  # within its process namespace, or it could not be written out
        _hear(channel, "build")
        if users is None or users.has_root:
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
        stage = build_root(plan)
        kernel.raise_loopback()
        socket.sethostname("desktop")
        os.umask(0o022)
        if users is None:
            # As root still: of a desktop's user, whom another desktop has made send more
            # descriptors than the kernel keeps on their way, it would take no more of them.
            socket.send_fds(channel, [b"laid"], [stage])
        drop_privileges(bounds)
        kernel.control(kernel.PDEATHSIG, signal.SIGKILL)
        # They are born inside: nobody has to enter the desktop, or to be moved into its group.
        begun = " ".join(str(start(program)) for program in programs)
        channel.send(f"built {begun}".encode())
        redirect("/dev/null")
        os.closerange(3, channel.fileno())
        os.closerange(channel.fileno() + 1, 1024)
        label = {name: os.environ[name] for name in os.environ if name not in _OWN}
        os.execve(_INIT[0], _INIT, {**label, "PATH": "/usr/bin:/bin"})
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        channel.send(f"{type(error).__name__}: {error}".encode())
    os._exit(1)


def _hear(channel: socket.socket, word: str) -> tuple[str, list[int]]:
    """Wait for a word; what is said with it, and the descriptors that come along.

    Raises:
        OSError: something else was said, which is what went wrong; or nothing.
    """
    data, handles, _, _ = socket.recv_fds(channel, _LINE_BYTES_MAX, 1)
    for handle in handles:  # no program of a desktop inherits what lies below another
        os.set_inheritable(handle, False)
    said, _, rest = data.decode(errors="replace").partition(" ")
    if said != word:
        raise OSError(f"{said} {rest}".strip() or "the desktop's first process died")
    return rest, handles
