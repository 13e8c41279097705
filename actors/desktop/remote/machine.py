"""One machine that somebody else keeps: how it is reached, and how it becomes fresh again."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from envs_node.actors.desktop.errors import DesktopLostError, LauncherError
from envs_node.actors.desktop.remote.address import Address
from envs_node.actors.desktop.remote.guest import RemoteGuest

TOKEN_VARIABLE = "ENVS_MACHINE_TOKEN"
"""Where the token is that machines want which are not OSWorld's own."""
READY_TIMEOUT_S = 60.0
_ASK_S, _POLL_S = 5.0, 0.25
_LAST_WORDS_BYTES = 500


class Renews(Protocol):
    """Whoever can make a machine fresh: its provider, or a command."""

    def renew(self, address: Address) -> None:
        """Have it be as it was before anybody used it. Raises `LauncherError` when that fails."""

    def break_off(self) -> None:
        """Have a `renew` that is under way fail. From any thread."""


class RevertCommand:
    """Makes a machine fresh by a command of the operator's. No shell reads it.

    Args:
        argv: program and arguments; `{machine}`, `{host}` and `{port}` are replaced in each. It
            ends when the machine is reverted.
    """

    def __init__(self, argv: Sequence[str], *, timeout_s: float = READY_TIMEOUT_S) -> None:
        self._argv = tuple(argv)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def renew(self, address: Address) -> None:
        """Run the command, to its end or its deadline."""
        values = {"{machine}": str(address), "{host}": address.host, "{port}": str(address.port)}
        argv = [_filled(word, values) for word in self._argv]
        environment = {name: v for name, v in os.environ.items() if name != TOKEN_VARIABLE}
        # Not a pipe: a machine that it starts in the background may hold that open for ever.
        with tempfile.TemporaryFile() as said:
            try:
                process = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
                    env=environment, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise LauncherError(f"desktop.revert_command cannot be run: {error}") from error
            with self._lock:
                self._process = process
            try:
                status = process.wait(self._timeout_s)
            except subprocess.TimeoutExpired as error:
                self.break_off()
                process.wait()
                late = f"desktop.revert_command took more than {self._timeout_s:g} s: {argv}"
                raise LauncherError(late) from error
            finally:
                with self._lock:
                    self._process = None
            if status:
                said.seek(max(0, said.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
                words = said.read().decode(errors="replace").strip()
                raise LauncherError(f"desktop.revert_command ended with {status}: {words}")

    def break_off(self) -> None:
        """Kill it, and what it started and left in its session."""
        with self._lock, suppress(ProcessLookupError):
            if self._process is not None and self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)


class Machine:
    """A machine with OSWorld's server. Outlives the actors that drive it, one after the other.

    Args:
        token: what its server wants, if it wants one.
        renews: makes it fresh; without, it serves one episode, as it stands.
    """

    def __init__(
        self,
        address: Address,
        *,
        token: str = "",
        renews: Renews | None = None,
        ready_timeout_s: float = READY_TIMEOUT_S,
    ) -> None:
        self.address = address
        self.token = token
        self._renews = renews
        self._ready_timeout_s = ready_timeout_s
        self._is_used = False

    @property
    def can_reset(self) -> bool:
        """Whether it serves more than one episode."""
        return self._renews is not None

    def guest(self) -> RemoteGuest:
        """A client of its server."""
        return RemoteGuest(self.address, token=self.token)

    def begin(self, guest: RemoteGuest) -> tuple[int, int]:
        """Be fresh, and answer. Returns the size of its screen.

        Raises:
            LauncherError: it was used and nobody can revert it, or it does not come up in time.
        """
        if self._renews is not None:
            self._renews.renew(self.address)
        elif self._is_used:
            raise LauncherError(
                f"{self.address} was used, and OSWorld's server cannot revert its machine: say how "
                'with desktop.revert_command, for example ["virsh", "snapshot-revert", …]'
            )
        self._is_used = True
        return self._wait_ready(guest.with_timeout(_ASK_S), guest)

    def break_off(self) -> None:
        """Have a `begin` that reverts fail. From any thread."""
        if self._renews is not None:
            self._renews.break_off()

    def _wait_ready(self, impatient: RemoteGuest, guest: RemoteGuest) -> tuple[int, int]:
        deadline = time.monotonic() + self._ready_timeout_s
        while True:
            guest.require_open()
            try:
                answer = impatient.ask("/screen_size", {})
                return int(answer["width"]), int(answer["height"])
            except (DesktopLostError, KeyError, TypeError, ValueError) as error:
                if time.monotonic() > deadline:
                    waited = f"{self.address} is not ready after {self._ready_timeout_s:g} s"
                    raise LauncherError(f"{waited}: {error}") from error
            time.sleep(_POLL_S)


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word
