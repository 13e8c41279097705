"""Where a sandbox gets its desktops from: fresh ones, or some that run already.

    pool = Pool(FreshSessions(launcher), places=1)
    place = pool.places[0]
    place.fill(pool.fresh, kind)             # in the background, when the host has nothing to do
    sandbox = Sandbox(launcher, kind, sessions=pool)
    sandbox.reset(task)                      # takes what stands in the place, within a millisecond

Each desktop is used for one episode. A place looks after its own desktop, and nobody else does.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Protocol

from envs_node.actors.desktop.errors import DesktopLostError, LauncherError
from envs_node.actors.desktop.guestclient import SOCKET_PATH
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.session import Session


class Sessions(Protocol):
    """Gives desktops that run and are set up for no task. Safe to use from several threads."""

    def take(self, kind: DesktopKind) -> Session:
        """One of this kind, which is the caller's: to be used for one episode and closed.

        Raises:
            LauncherError: the host refused.
            DesktopLostError: a part of it did not come up.
        """


class FreshSessions:
    """Starts a desktop when one is wanted, and so many at the same time at most.

    More starts at once than processors take each other's time: none is ready sooner, and all wait.
    """

    def __init__(self, launcher: Launcher, starts_max: int = 0) -> None:
        """Of this launcher. Twice as many starts as processors at once, unless given."""
        self._launcher = launcher
        self._starting = threading.BoundedSemaphore(starts_max or 2 * (os.cpu_count() or 1))

    def take(self, kind: DesktopKind) -> Session:
        """See `Sessions`."""
        with self._starting:
            session = Session(self._launcher, kind)
            try:
                session.wait_path(SOCKET_PATH)
            except BaseException:
                session.close()
                raise
            return session


class Place:
    """Room for one desktop that is started before it is wanted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._is_closed = False

    @property
    def pid(self) -> int:
        """The first process of the desktop that stands here, as this host counts; 0 for none."""
        session = self._session
        return session.pid if session is not None else 0

    def fill(self, sessions: Sessions, kind: DesktopKind) -> None:
        """Start a desktop and let it stand here. Blocks.

        Raises:
            LauncherError: the host refused.
            DesktopLostError: a part of it did not come up.
        """
        session = sessions.take(kind)
        with self._lock:
            is_wanted = self._session is None and not self._is_closed
            if is_wanted:
                self._session = session
        if not is_wanted:
            session.close()

    def take(self, kind: DesktopKind) -> Session | None:
        """The desktop that stands here, if there is one, and it is whole and of this kind.

        One of another kind stays: a task that wants its own kind is not the last one.
        """
        with self._lock:
            if self._session is None or self._session.kind != kind:
                return None
        session = self._lift()
        if session is None or not lack_of(session):
            return session
        _throw_away(session)
        return None

    def look(self) -> str:
        """What has happened to the desktop that stands here; it is then thrown away."""
        session = self._session
        lack = lack_of(session) if session is not None else ""
        if not lack:
            return ""
        with self._lock:
            is_here = self._session is session
            if is_here:
                self._session = None
        if not is_here:  # somebody has taken it, and finds out
            return ""
        assert session is not None, "it lacks something"
        _throw_away(session)
        return lack

    def clear(self) -> bool:
        """Destroy the desktop that stands here, to make room; whether there was one."""
        session = self._lift()
        if session is not None:
            _throw_away(session)
        return session is not None

    def close(self) -> None:
        """Destroy the desktop, and let none stand here any more. Twice does no harm."""
        with self._lock:
            self._is_closed = True
        self.clear()

    def _lift(self) -> Session | None:
        with self._lock:
            session, self._session = self._session, None
        return session


class Pool:
    """Desktops from places where they stand ready; a fresh one where all places are empty."""

    def __init__(self, fresh: Sessions, places: int) -> None:
        self.fresh = fresh
        self.places = tuple(Place() for _ in range(places))
        self._lock = threading.Lock()
        self._counts = {"ready": 0, "fresh": 0}

    def take(self, kind: DesktopKind) -> Session:
        """See `Sessions`."""
        for place in () if kind.allowed_hosts else self.places:  # none stands ready with a way out
            session = place.take(kind)
            if session is not None:
                self._count("ready")
                return session
        self._count("fresh")
        return self.fresh.take(kind)

    def statistics(self) -> dict[str, int]:
        """How many were taken that stood ready, and how many had to be started."""
        return dict(self._counts)

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1


def lack_of(session: Session) -> str:
    """Why a desktop cannot be used; nothing where it can."""
    try:
        session.require_whole()
    except DesktopLostError as error:
        return str(error)
    return ""


def _throw_away(session: Session) -> None:
    with suppress(DesktopLostError, LauncherError):  # the launcher is gone, and all desktops too
        session.close()
