"""A fleet: many desktops driven at once, each with a mark of its own that it must show and save.

What it measures is what `envs-node plan` predicts from (`deploy/profiles.json`), and what
`plan --check` and `benchmarks/density.py` hold the prediction against.
"""

from __future__ import annotations

import io
import json
import os
import resource
import time
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.pool import FreshSessions
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.estate import owner_label
from envs_node.deploy.tasks.documents import letter, workbook
from envs_node.messages.actions import Action, Key, Type
from envs_node.messages.base import TaskId
from envs_node.messages.desktop import Observation
from envs_node.messages.tasks import Task, TaskFile

_SAVED_S = 20.0
_LOOKS_MAX = 10
_POLL_S = 0.02
_HOME = "/home/user"
_T = TypeVar("_T")
_PLAIN = (Key(keys=("right",)), Key(keys=("left",)))
_SAVE = (Key(keys=("ctrl", "s")),)


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """How one application is opened, marked and driven."""

    argv: tuple[str, ...]
    name: str = ""
    """Of its file."""
    data: bytes = b""
    before: str = ""
    """Typed before the mark."""
    after: str = ""
    saves: tuple[Action, ...] = ()
    """What saves the mark to the file; nothing where there is none to save."""
    step: tuple[Action, ...] = _PLAIN
    """Actions that it is driven by, in turn."""


_TYPED = (Type(text="x"), Key(keys=("backspace",)))
_OFFICE = ("libreoffice", "--norestore", "--nologo")
APPLICATIONS: dict[str, Application] = {
    "xterm": Application(
        argv=("xterm",), name="notes.txt", data=b"", before="echo ", after=" >notes.txt; cat *\n",
        saves=(Key(keys=("shift",)),), step=_TYPED,
    ),
    "mousepad": Application(
        argv=("mousepad", f"{_HOME}/notes.txt"), name="notes.txt", data=b"alpha\nbravo\n",
        saves=_SAVE, step=_TYPED,
    ),
    "gedit": Application(
        argv=("gedit", f"{_HOME}/notes.txt"), name="notes.txt", data=b"alpha\nbravo\n",
        saves=_SAVE, step=_TYPED,
    ),
    "thunar": Application(argv=("thunar", _HOME), step=(Key(keys=("ctrl", "h")),)),
    "calc": Application(
        argv=(*_OFFICE, "--calc", f"{_HOME}/sums.xlsx"), name="sums.xlsx",
        data=workbook([["a", "b"], [1, 2]]), after="\n", saves=_SAVE,
        step=(Type(text="7\n"), Key(keys=("up",))),
    ),
    "writer": Application(
        argv=(*_OFFICE, "--writer", f"{_HOME}/letter.docx"), name="letter.docx",
        data=letter(["alpha"]), saves=_SAVE, step=_TYPED,
    ),
    "gimp": Application(argv=("gimp",)),
    "vlc": Application(argv=("vlc", "--no-audio", "--no-video-title-show")),
    "thunderbird": Application(argv=("/usr/bin/thunderbird",)),
    "chromium": Application(
        argv=("google-chrome", f"{_HOME}/page.html"), name="page.html",
        data=b"<textarea autofocus rows=9>alpha</textarea>", step=_TYPED,
    ),
}  # fmt: skip


class Driven(msgspec.Struct, frozen=True, kw_only=True):
    """What one desktop of a fleet did."""

    app: str
    mark: str
    start_frame: str
    marked_frame: str
    is_saved: bool
    """Its file holds its own mark; true where it saves none."""
    reset_s: float
    reset_cpu_s: float
    private_bytes: int
    """Its programs' own pages and what it wrote."""
    shared_bytes: int
    """Its part of the pages of files that others map, too: the more desktops, the less."""
    steps: int
    step_s: float
    """Of one step, while all others were driven."""

    @property
    def memory_bytes(self) -> int:
        """Proportional set size of its programs, and what it wrote."""
        return self.private_bytes + self.shared_bytes


class Fleet:
    """Desktops that are started and driven together. Close it."""

    def __init__(self, apps: Sequence[str], kind: DesktopKind | None = None) -> None:
        """One desktop for each name; nothing is started yet."""
        self._apps = tuple(apps)
        self._stack = ExitStack()
        self._launcher = self._stack.enter_context(Launcher(label=owner_label()))
        sessions = FreshSessions(self._launcher)
        kind = kind or DesktopKind()
        self._desktops = [Sandbox(self._launcher, kind, sessions=sessions) for _ in self._apps]
        for desktop in self._desktops:
            self._stack.callback(desktop.close)
        self._threads = self._stack.enter_context(ThreadPoolExecutor(max(1, len(self._apps))))
        self._cpu_s = 0.0
        self._driven_s = 0.0

    def drive(self, steps: int) -> tuple[Driven, ...]:
        """Start all, mark and save all, then drive all by so many steps at the same time."""
        marks = [f"mark{number:03d}" for number in range(len(self._apps))]
        starts = self._all(lambda n: reset_desktop(self._desktops[n], APPLICATIONS[self._apps[n]]))
        marked = self._all(
            lambda n: mark_desktop(self._desktops[n], APPLICATIONS[self._apps[n]], marks[n])
        )
        sizes = self._all(lambda n: memory_of(self._desktops[n].guest_pid))
        before_s, began_s = self._cpu(), time.monotonic()
        times = self._all(lambda n: _drive(self._desktops[n], APPLICATIONS[self._apps[n]], steps))
        self._driven_s, self._cpu_s = time.monotonic() - began_s, self._cpu() - before_s
        return tuple(
            Driven(
                app=app, mark=marks[n], start_frame=starts[n][0].signature.frame,
                marked_frame=marked[n][0].signature.frame, is_saved=marked[n][1],
                reset_s=starts[n][1], reset_cpu_s=starts[n][2],
                private_bytes=sizes[n][0], shared_bytes=sizes[n][1],
                steps=steps, step_s=times[n] / max(1, steps),
            )
            for n, app in enumerate(self._apps)
        )  # fmt: skip

    def rates(self, steps: int) -> tuple[float, float]:
        """Steps a second of all together, and processor seconds a step, of the last drive."""
        done = steps * len(self._apps)
        return done / self._driven_s, self._cpu_s / done

    def close(self) -> None:
        """Destroy all."""
        self._stack.close()

    def _all(self, work: Callable[[int], _T]) -> list[_T]:
        return list(self._threads.map(work, range(len(self._apps))))

    def _cpu(self) -> float:
        own = resource.getrusage(resource.RUSAGE_SELF)
        desktops = sum(_cpu_of(desktop.guest_pid) for desktop in self._desktops)
        return own.ru_utime + own.ru_stime + desktops


def memory_of(pid: int) -> tuple[int, int]:
    """What a desktop takes, in bytes: its own, and its part of the files that others map, too.

    What it wrote counts as its own; where a program maps that, it counts twice.

    Args:
        pid: its first process, as this host counts.
    """
    root, private, shared = Path(f"/proc/{pid}/root"), 0, 0
    for folder in (root / "proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, KeyError):  # it has ended meanwhile
            lines = (folder / "smaps_rollup").read_text().splitlines()[1:]
            kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
            private += kib["Pss_Anon"] + kib["Pss_Shmem"]
            shared += kib["Pss_File"]
    written = 0
    for inner in ("", "run", "tmp", "dev/shm"):
        with suppress(OSError):
            found = os.statvfs(root / inner)
            written += (found.f_blocks - found.f_bfree) * found.f_frsize
    return private * 1024 + written, shared * 1024


def _cpu_of(pid: int) -> float:
    """Processor seconds of a desktop's programs, those included that have ended."""
    ticks = 0
    for stat in Path(f"/proc/{pid}/root/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _task(application: Application) -> Task:
    files: tuple[TaskFile, ...] = ()
    steps: list[dict[str, object]] = []
    if application.name:
        files = (TaskFile(name=application.name, sha256="", data=application.data),)
        place = {"local_path": application.name, "path": f"{_HOME}/{application.name}"}
        steps.append({"type": "upload_file", "parameters": {"files": [place]}})
    steps.append({"type": "launch", "parameters": {"command": list(application.argv)}})
    return Task(
        id=TaskId("fleet"), instruction="", template="fleet", split="train", apps=(), sha256="",
        json=json.dumps({"config": steps}).encode(), files=files,
    )  # fmt: skip


def reset_desktop(desktop: Sandbox, application: Application) -> tuple[Observation, float, float]:
    """Bring a desktop to the start of an application: what is seen, seconds, processor seconds."""
    began_s, thread_s = time.monotonic(), time.thread_time()
    seen = _still(desktop, desktop.reset(_task(application)))
    cpu_s = time.thread_time() - thread_s + _cpu_of(desktop.guest_pid)
    return seen, time.monotonic() - began_s, cpu_s


def mark_desktop(desktop: Sandbox, application: Application, mark: str) -> tuple[Observation, bool]:
    """Type the mark and save it; the desktop that shows it, and whether its file holds it."""
    seen = desktop.act(Type(text=f"{application.before}{mark}{application.after}"))
    seen = _still(desktop, seen)
    if not application.saves:
        return seen, True
    for action in application.saves:
        desktop.act(action)
    path = Path(f"/proc/{desktop.guest_pid}/root{_HOME}/{application.name}")
    deadline = time.monotonic() + _SAVED_S
    while not _holds(path, mark):
        if time.monotonic() > deadline:
            return seen, False
        time.sleep(_POLL_S)
    return seen, True


def _still(desktop: Sandbox, seen: Observation) -> Observation:
    """Look again while the picture was not still: on a crowded host that may take a while."""
    for _ in range(_LOOKS_MAX):
        if seen.settled:
            break
        seen = desktop.observe()
    return seen


def _holds(path: Path, mark: str) -> bool:
    """Whether a file holds the mark: as text, or in a member of an office document."""
    try:
        data = path.read_bytes()
        if not data.startswith(b"PK"):
            return mark.encode() in data
        with zipfile.ZipFile(io.BytesIO(data)) as document:
            return any(mark.encode() in document.read(name) for name in document.namelist())
    except (OSError, zipfile.BadZipFile):  # it is being written
        return False


def _drive(desktop: Sandbox, application: Application, steps: int) -> float:
    began_s = time.monotonic()
    for number in range(steps):
        desktop.act(application.step[number % len(application.step)])
    return time.monotonic() - began_s
