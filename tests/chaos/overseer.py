"""The overseer: keeps the roles of a run up as an init system would, and knows what it started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tests.chaos.processes import Process, below, look, send

ENVS_NODE = Path(sys.executable).with_name("envs-node")
_RESTART_S = 0.5
"""Between an end and the next start, as systemd's RestartSec."""
_TERMINATE_S = 40.0


class Ended(msgspec.Struct, frozen=True):
    """A service's process that ended: when, and how."""

    service: str
    at_s: float
    status: int
    """Negative for the signal that killed it."""
    is_wanted: bool
    """Whether the storm or the overseer had asked for it."""


class Service:
    """One role, kept up: what ends is started again until it is stopped."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.name = name
        self.arguments = list(arguments)
        self.ends: list[Ended] = []
        self.starts_s: list[float] = []
        self.story_path = folder / f"{name}.stderr"
        self._folder = folder
        self._environment = dict(environment)
        self._is_stopped = threading.Event()
        self._wanted_ends: set[int] = set()
        self._process = self._start()
        self._thread = threading.Thread(target=self._keep_up, name=name, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of its present process, or of the last one."""
        return self._process.pid

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return len(self.starts_s) - 1

    def process(self) -> Process | None:
        """Its present process, if it lives."""
        if self._process.poll() is not None:
            return None
        found = look(self._process.pid)
        return found if found is not None and found.is_alive else None

    def expect_end(self, pid: int) -> None:
        """Note that this process will be killed on purpose."""
        self._wanted_ends.add(pid)

    def story(self) -> str:
        """All that its processes wrote to standard error."""
        return self.story_path.read_text(errors="replace")

    def stop(self) -> None:
        """Ask it to end, wait, and only then kill it."""
        self._is_stopped.set()
        process = self._process
        if process.poll() is None:
            self._wanted_ends.add(process.pid)
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_TERMINATE_S)
            except subprocess.TimeoutExpired:
                self._wanted_ends.discard(process.pid)  # a node that does not stop is a finding
                process.kill()
        self._thread.join(timeout=10)

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts_s.append(time.monotonic())
        with (
            self.story_path.open("ab") as story,
            (self._folder / f"{self.name}.stdout").open("ab") as output,
        ):
            return subprocess.Popen(
                [ENVS_NODE, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=story,
                start_new_session=True,
                cwd=self._folder,
                env=self._environment,
            )

    def _keep_up(self) -> None:
        while True:
            pid = self._process.pid
            status = self._process.wait()
            is_wanted = pid in self._wanted_ends
            self.ends.append(Ended(self.name, time.monotonic(), status, is_wanted))
            if self._is_stopped.wait(_RESTART_S):
                return
            self._process = self._start()


class Overseer:
    """All services of a run. On leaving they are stopped, the last one first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.state = Path(tempfile.mkdtemp(prefix="chaos-"))
        """Where nodes record what they own: a folder of this run, at a path short enough for
        sockets."""
        self.services: dict[str, Service] = {}
        self._clients: list[subprocess.Popen[bytes]] = []
        caches = str(folder / "torch-caches")
        self.environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "XDG_RUNTIME_DIR": str(self.state),
            "TORCHINDUCTOR_CACHE_DIR": caches,  # kept on purpose, and not by us
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, name: str, *arguments: str) -> Service:
        """Start a role and keep it up."""
        service = Service(name, arguments, self.folder, self.environment)
        self.services[name] = service
        return service

    def client(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that ends by itself; its output lies in `<name>.stdout`."""
        with (
            (self.folder / f"{name}.stderr").open("ab") as story,
            (self.folder / f"{name}.stdout").open("ab") as output,
        ):
            client = subprocess.Popen(
                [ENVS_NODE, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=story,
                start_new_session=True,
                cwd=self.folder,
                env=self.environment,
            )
        self._clients.append(client)
        return client

    def parts(self, service: str) -> list[Process]:
        """What lives below a service now, in a stable order."""
        found = [p for p in below([self.services[service].pid]) if p.is_alive]
        return sorted(found, key=lambda p: (p.start_ticks, p.pid))

    def strike(self, service: str, process: Process, number: signal.Signals) -> bool:
        """Signal a process of a service; refused when it is not the service's any more."""
        main = self.services[service]
        is_main = process.pid == main.pid
        if not is_main and all(p.pid != process.pid for p in below([main.pid])):
            return False
        if is_main and number is signal.SIGKILL:
            main.expect_end(process.pid)
        return send(process, number)

    def stop(self) -> None:
        """Stop everything, the last started first; a command that has not ended is killed."""
        for client in self._clients:
            if client.poll() is None:
                client.kill()
                client.wait()
        for service in reversed(self.services.values()):
            service.stop()

    def forget(self) -> None:
        """Remove the folder of what nodes own; what it still records is lost sight of."""
        shutil.rmtree(self.state)

    def unexpected_ends(self) -> list[Ended]:
        """Processes of roles that ended though nobody wanted them to."""
        return [end for s in self.services.values() for end in s.ends if not end.is_wanted]


def tails(folder: Path, lines: int = 40) -> str:
    """The last lines of what every process in a folder told."""
    parts = []
    for path in sorted(folder.glob("*.stderr")):
        last = path.read_text(errors="replace").splitlines()[-lines:]
        parts.append(f"--- {path}\n" + "\n".join(line[:400] for line in last))
    return "\n".join(parts)


def wait_for(claim: Callable[[], bool], timeout_s: float) -> bool:
    """Poll a claim until it holds; whether it did in time."""
    deadline = time.monotonic() + timeout_s
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
