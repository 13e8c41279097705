"""How a program gets into a desktop: enters its namespaces, gives up all privileges, runs.

Runs in the launcher's process and in what it forks. Standard library alone.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Any, NoReturn

from envs_node.actors.desktop import kernel
from envs_node.actors.desktop.bounds import Bounds
from envs_node.actors.desktop.usermap import USER_ID

_POLL_S = 0.002


def spawn(request: dict[str, Any], bounds: Bounds) -> int:
    """Start a program inside a desktop; its number as the desktop counts."""
    reader, writer = os.pipe()
    outer = os.fork()
    if outer == 0:
        _become_visitor(request, bounds, writer)
    os.close(writer)
    os.waitpid(outer, 0)
    with os.fdopen(reader, "r") as source:
        number, _, error = source.read().partition("\n")
    if error or not number:
        raise OSError(f"{request['argv'][0]}: {error or 'did not start'}")
    return int(number)


def start(program: dict[str, Any]) -> int:
    """Start a program from a process that is inside, and unprivileged, already; its number.

    Args:
        program: `argv`, `env`, `log`, `cwd` as in a request; and `after`, unix sockets: it begins
            when somebody listens on each. What goes wrong stands in its log.
    """
    number = os.fork()
    if number == 0:
        _become_part(program)
    return number


def _become_part(program: dict[str, Any]) -> NoReturn:
    try:
        os.setsid()
        redirect(program["log"])
        os.closerange(3, 1024)
        for path in program["after"]:
            _wait_listening(path)
        _execute(program)
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        os.write(2, f"{program['argv'][0]}: {error}\n".encode())
    os._exit(127)


def _wait_listening(path: str) -> None:
    """Whoever waits for this ends with the desktop, and the desktop when that takes too long."""
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                return probe.connect(path)
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(_POLL_S)


def _become_visitor(request: dict[str, Any], bounds: Bounds, writer: int) -> NoReturn:
    """Enter the desktop, and fork twice: an orphan inside belongs to the desktop's own init."""
    try:
        bounds.enter()
        kernel.enter(request["pid"])
        middle = os.fork()
        if middle:
            os.waitpid(middle, 0)
            os._exit(0)
        program = os.fork()
        if program:
            os.write(writer, b"%d\n" % program)
            os._exit(0)
        _become_program(request, bounds)
    except BaseException as error:  # noqa: BLE001 - a forked child must never return
        os.write(writer, f"0\n{error}".encode())
    os._exit(127)


def _become_program(request: dict[str, Any], bounds: Bounds) -> NoReturn:
    os.setsid()
    os.umask(0o022)
    drop_privileges(bounds)
    redirect(request["log"])
    _execute(request)


def _execute(program: dict[str, Any]) -> NoReturn:
    os.chdir(program["cwd"])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec keeps that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(program["argv"][0], program["argv"], program["env"])
    except FileNotFoundError as error:  # which names the last folder that was looked into
        raise OSError("it, or what runs it, is not in the desktop's file tree") from error


def drop_privileges(bounds: Bounds) -> None:
    """Become the desktop's user, for good, under its bounds."""
    kernel.control(kernel.NO_NEW_PRIVS, 1)
    bounds.settle()
    with open("/proc/self/setgroups", encoding="ascii") as source:
        if source.read() == "allow\n":  # else the caller's own groups stay: nobody may drop them
            os.setgroups([])
    os.setresgid(USER_ID, USER_ID, USER_ID)
    os.setresuid(USER_ID, USER_ID, USER_ID)


def redirect(log: str) -> None:
    """Read nothing, and write to a log."""
    nothing = os.open("/dev/null", os.O_RDONLY)
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(nothing, 0)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(nothing)
    os.close(sink)
