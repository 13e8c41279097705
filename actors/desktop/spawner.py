"""The launcher's process: forks desktops, and programs inside them, on request.

It has one thread and the standard library alone, because a process that forks must hold no locks
of others; a node's own process has threads. One request is one SEQPACKET datagram of JSON, and so
is its answer. It ends when the other end closes, and every desktop ends with it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import Any, NoReturn

from envs_node.actors.desktop import kernel
from envs_node.actors.desktop.root import USER_ID, build_root

_REQUEST_BYTES_MAX = 1 << 17
_GUEST = "/usr/local/lib/envs/envs_node/actors/desktop/guest"
_OWN = ("PATH", "PYTHONPATH")
"""The variables of this process that are no label: a desktop is not to see the host's paths."""
_INIT = ("/usr/bin/python3", "-S", "-E", f"{_GUEST}/init.py")


def serve(channel: socket.socket) -> None:
    """Answer requests until the channel closes, then kill every desktop."""
    desktops: set[int] = set()
    while request := channel.recv(_REQUEST_BYTES_MAX):
        try:
            answer = _answer(json.loads(request), desktops)
        except (OSError, ValueError, KeyError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        channel.send(json.dumps(answer).encode())
    for pid in list(desktops):
        _destroy(pid, desktops)


def _answer(request: dict[str, Any], desktops: set[int]) -> dict[str, Any]:
    match request["verb"]:
        case "create":
            pid = _create(request["layers"], request["kind"]["limits"]["disk_bytes"])
            desktops.add(pid)
            return {"pid": pid}
        case "spawn":
            if request["pid"] not in desktops:
                raise ValueError(f"no desktop {request['pid']}")
            return {"pid": _spawn(request)}
        case "destroy":
            _destroy(request["pid"], desktops)
            return {}
        case verb:
            raise ValueError(f"unknown verb {verb!r}")


def _create(layers: dict[str, str], disk_bytes: int) -> int:
    """Start a desktop's first process; its number as the host counts."""
    ours, theirs = socket.socketpair()
    outer = os.fork()
    if outer == 0:
        ours.close()
        _become_outer(theirs, layers, disk_bytes)
    theirs.close()
    os.waitpid(outer, 0)
    with ours:
        pid = int(_read_line(ours) or b"0")
        if pid == 0:
            _expect(ours, b"")
            raise OSError("the desktop's first process was not born")
        try:
            _expect(ours, b"built\n")
            # From here on the desktop's parent is this process, so it may tie its life to ours.
            ours.sendall(b"bind\n")
            _expect(ours, b"bound\n")
        except OSError:
            os.waitpid(pid, 0)
            raise
    return pid


def _become_outer(channel: socket.socket, layers: dict[str, str], disk_bytes: int) -> NoReturn:
    try:
        os.setsid()
        kernel.unshare(
            kernel.NEW_MOUNT | kernel.NEW_PID | kernel.NEW_NET | kernel.NEW_IPC | kernel.NEW_UTS
        )
        inner = os.fork()
        if inner == 0:
            _become_init(channel, layers, disk_bytes)
        channel.sendall(b"%d\n" % inner)
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        channel.sendall(f"0\n{error}\n".encode())
    os._exit(0)


def _become_init(channel: socket.socket, layers: dict[str, str], disk_bytes: int) -> NoReturn:
    try:
        build_root(layers, disk_bytes)
        kernel.raise_loopback()
        socket.sethostname("desktop")
        os.umask(0o022)
        channel.sendall(b"built\n")
        _expect(channel, b"bind\n")
        _drop_privileges()
        kernel.control(kernel.PDEATHSIG, signal.SIGKILL)
        channel.sendall(b"bound\n")
        _redirect("/dev/null")
        os.closerange(3, 1024)
        label = {name: os.environ[name] for name in os.environ if name not in _OWN}
        os.execve(_INIT[0], _INIT, {**label, "PATH": "/usr/bin:/bin"})
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        channel.sendall(f"{type(error).__name__}: {error}\n".encode())
    os._exit(1)


def _spawn(request: dict[str, Any]) -> int:
    """Start a program inside a desktop; its number as the desktop counts."""
    reader, writer = os.pipe()
    outer = os.fork()
    if outer == 0:
        _become_visitor(request, writer)
    os.close(writer)
    os.waitpid(outer, 0)
    with os.fdopen(reader, "r") as source:
        number, _, error = source.read().partition("\n")
    if error or not number:
        raise OSError(f"{request['argv'][0]}: {error or 'did not start'}")
    return int(number)


def _become_visitor(request: dict[str, Any], writer: int) -> NoReturn:
    """Enter the desktop, and fork twice: an orphan inside belongs to the desktop's own init."""
    try:
        kernel.enter(request["pid"])
        middle = os.fork()
        if middle:
            os.waitpid(middle, 0)
            os._exit(0)
        program = os.fork()
        if program:
            os.write(writer, b"%d\n" % program)
            os._exit(0)
        _become_program(request)
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        os.write(writer, f"0\n{error}".encode())
    os._exit(127)


def _become_program(request: dict[str, Any]) -> NoReturn:
    os.setsid()
    os.umask(0o022)
    _drop_privileges()
    _redirect(request["log"])
    os.chdir(request["cwd"])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec keeps that
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(request["argv"][0], request["argv"], request["env"])


def _drop_privileges() -> None:
    kernel.control(kernel.NO_NEW_PRIVS, 1)
    os.setgroups([])
    os.setresgid(USER_ID, USER_ID, USER_ID)
    os.setresuid(USER_ID, USER_ID, USER_ID)


def _redirect(log: str) -> None:
    nothing = os.open("/dev/null", os.O_RDONLY)
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(nothing, 0)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(nothing)
    os.close(sink)


def _destroy(pid: int, desktops: set[int]) -> None:
    """Kill a desktop and wait until all of it is gone."""
    if pid in desktops:
        desktops.remove(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _read_line(channel: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = channel.recv(1)
        if not byte:
            break
        line += byte
    return line


def _expect(channel: socket.socket, line: bytes) -> None:
    got = _read_line(channel)
    if got != line:
        raise OSError(got.decode(errors="replace").strip() or "the desktop's first process died")


def main() -> None:
    """Serve on the file descriptor named in the arguments: fd, parent's pid or 0."""
    handle, parent = int(sys.argv[1]), int(sys.argv[2])
    kernel.control(kernel.CHILD_SUBREAPER, 1)
    if parent:
        kernel.control(kernel.PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return
    os.set_inheritable(handle, False)
    with socket.socket(fileno=handle) as channel:
        serve(channel)


if __name__ == "__main__":
    main()
