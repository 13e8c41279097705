"""Delivery: knows when an application has taken in what was typed, by evidence and not by time.

An application answers `_NET_WM_PING` in its turn, after every event that was sent to it before: who
answers has read them. A program that knows no pings (xterm) has read them when it and the server
sleep at one moment: then neither has anything left for the other, which would have woken it. That
the server answers us proves less: what it has for a program whose own requests wait it keeps back,
and on a busy host it answers others first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from Xlib import X, Xatom, error
from Xlib.ext import res
from Xlib.protocol import event

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.guest.ready import wait_ready

TIMEOUT_S = 20.0
_LOOK_S = 0.05
"""How often it is looked whether the window that was asked is still the one with the keyboard."""
_POLL_S = 0.002
_STARVED_S = 0.3
"""How long a program must sleep if the server never does, for some window is painted for ever."""
_MANAGER_S = 1.0
_DEPTH_MAX = 16
_LATE_CLASSES = (b"libreoffice", b"soffice")
_REST_S = 0.05
_REST_CAP_S, _REST_CAP_MIN_S = 10.0, 0.3
"""The longest wait for rest, halved each time that it was in vain: some programs never rest."""


class Delivery:
    """Waits for the application that has the keyboard.

    Args:
        display: a connection whose events nobody else reads.
        path: where this host sees a path of the desktop.
    """

    def __init__(self, display: Any, path: Callable[[str], Path]) -> None:
        self._display = display
        self._path = path
        self._root = display.screen().root
        self._protocols = display.intern_atom("WM_PROTOCOLS")
        self._ping = display.intern_atom("_NET_WM_PING")
        self._manager = display.intern_atom("_NET_SUPPORTING_WM_CHECK")
        self._numbers = count(1)
        self._rest_cap_s = _REST_CAP_S

    def wait(self, timeout_s: float = TIMEOUT_S) -> None:
        """Return once it has taken in all input that was made so far.

        Raises:
            DesktopLostError: it has not within the timeout. What it will make of it is unknown.
        """
        if not self.is_done(timeout_s):
            raise DesktopLostError(
                f"the application with the keyboard took in no input for {timeout_s:g} s"
            )

    def is_done(self, timeout_s: float) -> bool:
        """Whether it has taken in all input that was made so far, within the timeout."""
        deadline = time.monotonic() + timeout_s
        while True:
            window = self._focus()
            if window is None:
                return True
            try:
                asked = self._who_answers(window)
                if self._is_answered(asked, deadline) if asked else self._rests(window, deadline):
                    return True
            except error.XError:  # the window is gone: look who has the keyboard now
                pass
            if time.monotonic() > deadline:
                return False

    def wait_manager(self) -> None:
        """Return once the window manager has done what it does over a key, or soon.

        It takes the keyboard over when keys are its own, as Alt and Tab are, and is to see how they
        are let go of: what is let go of before has not been held for it.
        """
        listed = self._root.get_full_property(self._manager, Xatom.WINDOW)
        if listed is not None and listed.format == 32 and listed.value:
            window = self._display.create_resource_object("window", listed.value[0])
            with suppress(error.XError):  # it has ended, or named a window that is none
                self._rests(window, time.monotonic() + _MANAGER_S)

    def is_late(self) -> bool:
        """Whether the application is one that puts keys off: it has read them, and not done them.

        LibreOffice inserts letters after 20 ms, does Return and Tab when there is nothing else to
        read, and inserts what is beyond the Basic Multilingual Plane at once.
        """
        window = self._focus()
        try:
            for _ in range(_DEPTH_MAX):
                if window is None or isinstance(window, int) or window.id == self._root.id:
                    return False
                named = window.get_full_property(Xatom.WM_CLASS, Xatom.STRING)
                if named is not None:
                    value = named.value
                    text = value.encode() if isinstance(value, str) else bytes(value)
                    return any(late in text.lower() for late in _LATE_CLASSES)
                window = window.query_tree().parent
        except error.XError:  # the window is gone
            pass
        return False

    def wait_rested(self) -> None:
        """Return once the application has taken in all input, and done what it had put off.

        It has when all its threads slept for 50 ms while the server owed it no answer, and no other
        program of the desktop worked, for one of those might: the accessibility bus, say. Whatever
        it puts off for less would have woken it. One that never sleeps so long is waited for a
        while.

        Raises:
            DesktopLostError: it took in no input.
        """
        self.wait()
        window = self._focus()
        folder = self._process(window) if window is not None else None
        if folder is None:
            return
        deadline = time.monotonic() + self._rest_cap_s
        last, since = "", time.monotonic()
        while (now := time.monotonic()) < deadline:
            self._display.sync()  # nor does it wait for the server then
            runs = _runs_of(folder)
            if not runs or runs != last or self._others_work():
                last, since = runs, now
            elif now - since >= _REST_S:
                self._rest_cap_s = _REST_CAP_S
                return
            time.sleep(_POLL_S)
        self._rest_cap_s = max(self._rest_cap_s / 2, _REST_CAP_MIN_S)

    def _others_work(self) -> bool:
        """Whether any program of the desktop runs, or waits for a processor or a disk."""
        for stat in self._path("/proc").glob("[0-9]*/stat"):
            try:
                if stat.read_text().rpartition(")")[2].split()[0] in "RD":
                    return True
            except OSError:  # it has ended
                continue
        return False

    def _focus(self) -> Any:
        """The window that keys go to; none when they go to nobody."""
        focus = self._display.get_input_focus().focus
        if focus == X.PointerRoot:
            focus = self._root.query_pointer().child
        return None if isinstance(focus, int) or focus.id == self._root.id else focus

    def _who_answers(self, window: Any) -> Any:
        """The window of the same application that answers pings."""
        for _ in range(_DEPTH_MAX):
            listed = window.get_property(self._protocols, X.AnyPropertyType, 0, 64)
            if listed is not None and listed.format == 32 and self._ping in listed.value:
                return window
            window = window.query_tree().parent
            if isinstance(window, int) or window.id == self._root.id:
                return None
        return None

    def _is_answered(self, window: Any, deadline: float) -> bool:
        """Ping a window. False when it is late, or no longer the one with the keyboard."""
        number = next(self._numbers)
        data = (32, [self._ping, number, window.id, 0, 0])
        self._root.change_attributes(event_mask=X.SubstructureNotifyMask)
        try:
            window.send_event(event.ClientMessage(
                window=window, client_type=self._protocols, data=data
            ))  # fmt: skip
            while time.monotonic() < deadline:
                if self._has_pong(number, _LOOK_S):
                    return True
                window.get_geometry()
            return False
        finally:
            self._root.change_attributes(event_mask=X.NoEventMask)
            self._display.sync()
            while self._display.pending_events():
                self._display.next_event()

    def _has_pong(self, number: int, timeout_s: float) -> bool:
        self._display.flush()
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            if not self._display.pending_events():
                wait_ready([self._display], timeout_s=left)
                continue
            heard = self._display.next_event()
            if heard.type == X.ClientMessage and heard.client_type == self._protocols:
                format_bits, data = heard.data
                if format_bits == 32 and list(data[:2]) == [self._ping, number]:
                    return True
        return False

    def _rests(self, window: Any, deadline: float) -> bool:
        """Whether the process of a window sleeps while there is nothing left to send to it."""
        folder, server = self._process(window), self._process(self._root)
        last, since = "", time.monotonic()
        while folder is not None and (now := time.monotonic()) < deadline:
            self._display.sync()
            if _sleep_at_once(folder, server):
                return True
            runs = _runs_of(folder)
            if not runs or runs != last:
                last, since = runs, now
            elif now - since >= _STARVED_S:
                return True
            time.sleep(_POLL_S)
        return folder is None

    def _process(self, window: Any) -> Path | None:
        specs = [{"client": window.id, "mask": res.LocalClientPIDMask}]
        for answer in res.query_client_ids(self._display, specs).ids:
            if answer.value:
                return self._path(f"/proc/{answer.value[0]}")
        return None


def _sleep_at_once(program: Path, server: Path | None) -> bool:
    """Whether there was a moment at which both slept."""
    before = [_runs_of(folder) for folder in (program, server) if folder]
    after = [_runs_of(folder) for folder in (program, server) if folder]
    return all(before) and before == after


def _runs_of(folder: Path) -> str:
    """How often and how long the threads of a process have run, if all sleep; else nothing.

    All of them: the one that reads the keyboard may wait for another that waits for a processor.
    """
    try:
        runs = []
        for task in sorted((folder / "task").iterdir()):
            state = (task / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            if state != "S":
                return ""
            runs.append((task / "schedstat").read_text())
        return " ".join(runs)
    except OSError:  # one has ended
        return "" if folder.exists() else "ended"
