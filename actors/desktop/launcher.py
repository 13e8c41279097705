"""The launcher: asks a small process of its own to start desktops, and programs in them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec
import structlog

import envs_node
from envs_node.actors.desktop.cgroups import Group
from envs_node.actors.desktop.errors import DesktopLostError, LauncherError
from envs_node.actors.desktop.handles import receive
from envs_node.actors.desktop.kind import DesktopKind

_FOLDER = Path(__file__).parent
_GUEST = "usr/local/lib/envs/envs_node/actors/desktop/guest"
LAYERS = {f"{_FOLDER}/settings": "", f"{_FOLDER}/guest": _GUEST}
_ANSWER_TIMEOUT_S = 30.0

_log = structlog.get_logger(__name__)


class Program(NamedTuple):
    """What a desktop is started with."""

    name: str
    """That of its log, too."""
    argv: Sequence[str]
    after: Sequence[str] = ()
    """Unix sockets: it begins when somebody listens on each."""


class Launcher:
    """Starts desktops. One a node; make it in the main thread, close it last.

    As root it makes desktops itself; anybody else's live in user namespaces. Its process dies with
    this one, whatever happens, and every desktop dies with its process: no mount, process or file
    stays behind. Safe to use from several threads.
    """

    def __init__(
        self,
        *,
        label: Mapping[str, str] | None = None,
        answer_timeout_s: float = _ANSWER_TIMEOUT_S,
        is_quiet: bool = False,
    ) -> None:
        """Start its process.

        Args:
            label: variables that mark it, and every desktop's first process, as the caller's.
            answer_timeout_s: how long its process may take for an answer.
            is_quiet: do not log which bounds cannot be set here.

        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(answer_timeout_s)
        is_main = threading.current_thread() is threading.main_thread()
        package = Path(envs_node.__file__).parents[1]
        self._channel = ours
        self._is_quiet = is_quiet
        self._lock = threading.Lock()
        self._groups: dict[int, Group] = {}
        self._missing: dict[str, str] | None = None
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "envs_node.actors.desktop.spawner",
                 str(theirs.fileno()), str(os.getpid() if is_main else 0)],
                pass_fds=[theirs.fileno()],
                cwd="/",
                env={
                    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
                    "PYTHONPATH": str(package),
                    **(label or {}),
                },
                start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """The launcher's process."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """How its process ended, below 0 by a signal; None while it runs."""
        return self._process.poll()

    def create(self, kind: DesktopKind) -> int:
        """Start an empty desktop; the pid of its first process, as this host counts.

        Raises:
            LauncherError: the host refused a namespace or a mount.
            DesktopLostError: the launcher's process is gone.
        """
        return self.start(kind, (), {})[0]

    def start(
        self, kind: DesktopKind, programs: Sequence[Program], env: Mapping[str, str]
    ) -> tuple[int, Sequence[int]]:
        """As `create`, with programs in it; their pids, as the desktop counts, come second.

        One that could not be started has ended, and its log says why.
        """
        answer = self.ask({
            "verb": "create", "layers": LAYERS, "kind": msgspec.to_builtins(kind),
            "programs": [
                {**_request(program.argv, env, program.name), "after": program.after}
                for program in programs
            ],
        })  # fmt: skip
        return self.adopt(answer), answer["programs"]

    def adopt(self, answer: Mapping[str, Any]) -> int:
        """Take in what its process says of a new desktop; the pid of its first process."""
        self._groups[answer["pid"]] = Group(answer["group"])
        self._tell_missing(answer["missing"])
        return int(answer["pid"])

    def group(self, pid: int) -> Group:
        """The control groups of a desktop: what it takes, and a way to freeze it."""
        return self._groups.get(pid) or Group({})

    def spawn(self, pid: int, argv: Sequence[str], env: Mapping[str, str], log: str) -> int:
        """Start a program as the desktop's user; its pid as the desktop counts.

        Args:
            log: name of the file below `/run/share/log` that takes its output.
        """
        return int(self.ask({"verb": "spawn", "pid": pid, **_request(argv, env, log)})["pid"])

    def destroy(self, pid: int) -> None:
        """Kill a desktop and wait until nothing of it is left. Twice does no harm."""
        self._groups.pop(pid, None)
        self.ask({"verb": "destroy", "pid": pid})

    def close(self) -> None:
        """End the launcher's process and every desktop with it."""
        with self._lock:
            self._channel.close()
        try:
            self._process.wait(_ANSWER_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ask(self, request: dict[str, Any], handles: list[int] | None = None) -> dict[str, Any]:
        """Have its process do something; `handles` takes the descriptors that it answers with.

        Raises:
            LauncherError: it refused.
            DesktopLostError: it is gone.
        """
        with self._lock:
            try:
                self._channel.send(json.dumps(request).encode())
                data, received = receive(self._channel, 1 << 16)
            except OSError as error:
                # A late answer would be taken for that of the next request.
                self._process.kill()
                raise DesktopLostError(f"the launcher does not answer: {error}") from error
        if handles is not None:
            handles += received
        if not data:
            raise DesktopLostError("the launcher's process is gone")
        answer: dict[str, Any] = json.loads(data)
        if "error" in answer:
            raise LauncherError(f"{request['verb']}: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def _tell_missing(self, missing: dict[str, str]) -> None:
        """Say once what desktops are not bounded by, and why."""
        if missing and missing != self._missing and not self._is_quiet:
            _log.warning("desktop.unbounded", **missing)
        self._missing = missing


def _request(argv: Sequence[str], env: Mapping[str, str], log: str) -> dict[str, Any]:
    """A program, as the launcher's process is told of it."""
    return {
        "argv": list(argv), "env": dict(env), "log": f"/run/share/log/{log}.log",
        "cwd": "/home/user",
    }  # fmt: skip
