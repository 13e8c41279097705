"""Whether a desktop of this host can be forked: tried with a terminal, in about a second."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from envs_node.actors.desktop.errors import DesktopLostError, LauncherError
from envs_node.actors.desktop.fork.store import Forking
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.session import Clone, Session
from envs_node.messages.actions import Type

_BYTES_MAX = 1 << 30
_PATIENCE_S, _POLL_S = 20.0, 0.005


class ForkTried(msgspec.Struct, frozen=True, kw_only=True):
    """How it went."""

    reason: str
    """Why desktops of this host cannot be forked; empty if they can."""
    wall_ms: int


def try_fork(launcher: Launcher, kind: DesktopKind, forking: Forking) -> ForkTried:
    """Write a desktop out, bring a clone back, and compare what they show."""
    start_s = time.monotonic()
    try:
        reason = _try(launcher, kind, forking)
    except (LauncherError, DesktopLostError) as error:
        reason = str(error)
    return ForkTried(reason=reason, wall_ms=round((time.monotonic() - start_s) * 1000))


def _try(launcher: Launcher, kind: DesktopKind, forking: Forking) -> str:
    origin = Session(launcher, kind)
    try:
        empty = origin.screen.digest()
        origin.spawn(["xterm", "-e", "cat"], "selftest")
        if not _within(lambda: origin.screen.digest() != empty):
            return "xterm does not start"
        origin.hang_up()
        dump = forking.dump(origin.pid, bytes_max=_BYTES_MAX)
        origin.take_up()
        try:
            pid = forking.restore(dump.point, kind)
        finally:
            forking.drop(dump.point)
        clone = Session(launcher, kind, Clone(pid=pid, parts=origin.parts))
        try:
            return _difference(origin, clone)
        finally:
            clone.close()
    finally:
        origin.close()


def _difference(origin: Session, clone: Session) -> str:
    """What is wrong with a clone: it shows something else, or does once both were typed in."""

    def is_same() -> bool:
        return origin.screen.digest() == clone.screen.digest()

    if not _within(is_same):
        return "a clone shows something else than its origin"
    before = clone.screen.digest()
    for session in (origin, clone):
        session.input.perform(Type(text="fork"))
    if not _within(lambda: clone.screen.digest() != before):
        return "a clone does not answer its keyboard"
    return "" if _within(is_same) else "a clone does something else than its origin"


def _within(claim: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not claim():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True
