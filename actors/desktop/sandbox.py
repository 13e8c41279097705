"""The sandbox: one desktop out of namespaces and the host's own programs, reset in a moment.

with Launcher() as launcher:                       # in the main thread, one for all
    sandbox = Sandbox(launcher, DesktopKind(width=1280, height=720))
    try:
        seen = sandbox.reset(task)                 # messages.desktop.Observation
        seen = sandbox.act(Key(keys=("ctrl", "s")))
        png = sandbox.frame_png(seen.signature.frame)
        text = Path(f"/proc/{sandbox.guest_pid}/root/home/user/notes.txt").read_text()
    finally:
        sandbox.close()
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from msgspec import structs

from envs_node.actors.desktop import network
from envs_node.actors.desktop.accessibility import Reading
from envs_node.actors.desktop.elements import list_elements
from envs_node.actors.desktop.errors import DesktopLostError, ForkRefusedError
from envs_node.actors.desktop.frames import trim_frames
from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest
from envs_node.actors.desktop.interface import Forked
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.ocr import read_lines, require_ocr
from envs_node.actors.desktop.pool import FreshSessions, Sessions
from envs_node.actors.desktop.quiet import Quiet, quiet_window
from envs_node.actors.desktop.recording import Films
from envs_node.actors.desktop.screen import frame_digest, pack_frame, png_of_frame
from envs_node.actors.desktop.session import Session
from envs_node.actors.desktop.settle import Look, Stillness, Work, wait_still
from envs_node.actors.desktop.setup import Setup, check_setup
from envs_node.actors.desktop.signature import files_digest, sign
from envs_node.actors.desktop.starts import Starts
from envs_node.actors.desktop.windows import (
    bare_elements,
    place,
    require_drawn,
    silent_windows,
    tell,
)
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.actions import Action
from envs_node.messages.desktop import Observation
from envs_node.messages.tasks import Task

_BLINK_TRIES = 3
"""So often a picture that blinks is looked at, should it turn while it is looked at."""


class Sandbox:
    """One desktop at a time, in one place. Every method blocks; call from one thread at a time.

    `close` and `kill` alone may come from another thread, while a call is under way: what it is
    about to create is destroyed, and the call fails.
    """

    def __init__(
        self,
        launcher: Launcher,
        kind: DesktopKind | None = None,
        *,
        sessions: Sessions | None = None,
        starts: Starts | None = None,
        allowed_hosts: tuple[str, ...] = (),
    ) -> None:
        """Of this launcher.

        Args:
            sessions: where its desktops come from; all are fresh ones unless given.
            starts: how the tasks start on other desktops; a task starts as it does unless given.
            allowed_hosts: what a task may reach that asks for it.
        """
        self._starts = starts
        self._allowed_hosts = allowed_hosts
        self._kind = kind or DesktopKind()
        self._sessions = sessions or FreshSessions(launcher)
        self._size = (self._kind.width, self._kind.height)
        self._session: Session | None = None
        self.films = Films(lambda: None)
        """Films what each branch shows; nothing unless it is exchanged for another."""
        self._is_closed = False
        self._lock = threading.Lock()
        self._frames: OrderedDict[str, bytes] = OrderedDict()
        self._reader = Look(self._read)
        self._reading = Reading(nodes=[])
        self._observed = self._input_ns = 0

    @property
    def guest_pid(self) -> int:
        """The desktop's first process, as this host counts. Changes with every reset."""
        return self._living().pid

    @property
    def living_pid(self) -> int:
        """The same, or 0 while there is no desktop. May be called from another thread."""
        session = self._session
        return session.pid if session is not None else 0

    @property
    def is_begun(self) -> bool:
        """Whether its task's start has been looked at. May be called from another thread."""
        return self._observed > 0

    @property
    def can_fork(self) -> bool:
        """Whether `keep_fork` and `reset_forked` do anything: see `fork/sandbox.py`."""
        return False

    def keep_fork(self, key: str, seen: tuple[Observation, ...]) -> int:
        """Keep the desktop as it is.

        Raises:
            ForkRefusedError: always.
        """
        raise ForkRefusedError(f"no desktop of this node is forked: {key} of {len(seen)} states")

    def reset_forked(self, _task: Task, _prefix: Sequence[Action]) -> Forked | None:
        """Become a clone behind some of these actions: there is none."""
        return None

    def check(self, task: Task, branch: str = "") -> None:
        """Refuse what `reset` could not set up, without touching the desktop.

        Args:
            branch: whose task it is; a film of the episodes that follow is named after that.

        Raises:
            SetupFailedError: a step is unknown, incomplete, or names a file that is not there.
        """
        check_setup(task)
        self.films.name(branch)

    def reset(self, task: Task) -> Observation:
        """Destroy the desktop, take a fresh one, and bring it to the task's start.

        One that starts unlike its peers is destroyed, and another taken, once.

        Raises:
            SetupFailedError: a set-up step failed.
            LauncherError: the host refused.
            DesktopLostError: the desktop broke or was closed meanwhile.
        """
        seen = self._restart(task)
        windows = seen.signature.windows
        if self._starts is not None and not self._starts.admits(task, windows):
            seen = self._restart(task)
            self._starts.settle(task, windows, seen.signature.windows)
        return seen

    def _restart(self, task: Task) -> Observation:
        check_setup(task)
        if self._kind.ocr:
            require_ocr()
        self._end_session()
        granted = network.grant(task, self._allowed_hosts)
        session = self._sessions.take(structs.replace(self._kind, allowed_hosts=granted))
        self._begin_session(session)
        with session.watched():
            Setup(task, Guest(session.path(SOCKET_PATH)), self, self._size).run()
            session.input.park()
        return self.observe()

    def act(self, action: Action) -> Observation:
        """Perform an action, wait until the picture is still, and look.

        Raises:
            ActionRefusedError: the action makes no sense on this screen; nothing was done.
            DesktopLostError: the desktop broke.
        """
        session = self._living()
        session.require_whole()
        with session.watched():
            session.input.perform(action)
        self._input_ns = time.time_ns()
        return self.observe()

    def observe(self) -> Observation:
        """Wait until the picture is still, and look.

        Raises:
            DesktopLostError: the desktop broke.
        """
        session = self._living()
        with session.watched():
            return self._look(session)

    def _look(self, session: Session) -> Observation:
        for _ in range(_BLINK_TRIES):
            stillness = self.wait_still(self._reader)
            windows = session.connection.windows()
            focused = session.connection.focused()
            if not stillness.looked:
                self._read()
            pixels = session.screen.grab()
            if not stillness.blinks or frame_digest(pixels) == stillness.frame:
                break
        require_drawn(pixels, windows)
        time_ns = time.time_ns()
        nodes = place(self._reading.nodes, windows)
        listing = list_elements(nodes, session.width, session.height)
        self.films.show(lambda: pixels, is_still=True)
        elements = listing.elements + bare_elements(windows, focused, listing.elements)
        files = files_digest(session.path("/home/user"))
        signature = sign(pixels, windows, focused, elements, files)
        silent = silent_windows(windows, nodes)
        cuts = self._reading.cuts | listing.cuts
        if self._kind.ocr and silent:
            lines, is_cut = read_lines(pixels, windows, silent)  # the picture speaks for them
            elements, cuts = elements + lines, cuts | {"time"} if is_cut else cuts
        session.require_whole()
        if signature.frame not in self._frames:
            self._frames[signature.frame] = pack_frame(pixels)
            trim_frames(self._frames)
        self._observed += 1
        return Observation(
            width=session.width, height=session.height, elements=elements, signature=signature,
            time_ns=time_ns, settled=stillness.settled, settle_ms=stillness.settle_ms,
            frame_id=self._observed, input_ns=self._input_ns, windows=tell(windows, focused),
            quiet_ms=stillness.quiet.quiet_ms, quiet_class=stillness.quiet.app_class,
            cuts=tuple(sorted(cuts)), silent=silent,
        )  # fmt: skip

    def frame_png(self, digest: str) -> bytes | None:
        """The PNG of a frame seen since the reset.

        None if it is unknown, was dropped, or is too large to be sent: a large screen may show
        what hardly compresses.
        """
        packed = self._frames.get(digest)
        return png_of_frame(packed, *self._size) if packed is not None else None

    def close(self) -> None:
        """Destroy the desktop, for good. Twice does no harm."""
        with self._lock:
            self._is_closed = True
        self._end_session()

    def kill(self) -> None:
        """Kill the desktop without waiting, so that whoever hangs on it fails. `close` it after."""
        with self._lock, suppress(ProcessLookupError):
            if self._session is not None:
                os.kill(self._session.pid, signal.SIGKILL)

    def windows(self) -> tuple[Window, ...]:
        """The top-level windows, bottom to top."""
        return self._living().connection.windows()

    def wait_still(self, look: Look | None = None) -> Stillness:
        """Wait until the picture is still, for as long as the applications on it need."""
        session = self._living()

        def find_quiet() -> Quiet:
            windows = session.connection.windows()
            shown = (window.app_class for window in windows if not window.is_hidden)
            return quiet_window(shown, has_menu=session.connection.has_menu())

        def digest() -> str:
            frame = session.screen.digest()
            if frame != filmed[-1]:
                filmed[:] = [frame]
                self.films.show(session.screen.grab)
            return frame

        filmed = [""]
        return wait_still(digest, find_quiet, session.work, look)

    def _read(self) -> None:
        """Ask all applications what they show."""
        self._reading = self._living().accessibility.read()

    def work(self) -> Work:
        """Processor time of its programs, in ms, and whether one runs or waits to."""
        return self._living().work()

    def clients(self) -> int:
        """How many connections its X server has."""
        return self._living().clients()

    def _begin_session(self, session: Session) -> None:
        """Drive this one from now on.

        Raises:
            DesktopLostError: we were closed meanwhile, and so is it.
        """
        with self._lock:
            self._session = None if self._is_closed else session
        if self._session is None:
            session.close()
            raise DesktopLostError("the desktop was closed while it started")
        self.films.begin(session.width, session.height)

    def _end_session(self) -> None:
        with self._lock:
            session, self._session = self._session, None
        self.films.end()
        self._frames.clear()
        self._observed = self._input_ns = 0
        if session is not None:
            session.close()

    def _living(self) -> Session:
        if self._session is None:
            raise DesktopLostError("there is no desktop: reset it first")
        return self._session
