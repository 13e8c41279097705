"""Text is typed exactly, read back from the application that took it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from Xlib import X

from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.xserver import XConnection
from envs_node.messages.actions import Key, Type
from tests.actors.desktop.looking import inside, shell
from tests.actors.desktop.typing_places import (
    PLACES,
    distinct,
    long_text,
    open_place,
    type_into,
    whole_set,
)

pytestmark = pytest.mark.live
QUICK = ("mousepad", "xterm")
OTHERS = [name for name in PLACES if name not in (*QUICK, "cells")]
ROUNDS = 20
STOP_S = 0.3


@contextmanager
def stopping(sandbox: Sandbox, program: str) -> Iterator[list[int]]:
    """Stop a program for 300 ms, again and again, and let it run for a moment in between."""
    (number, *_) = shell(sandbox, f"pidof -s {program}").split()
    stat = f"/proc/{sandbox.guest_pid}/root/proc/{number}/status"
    host_pid = _host_pid(sandbox.guest_pid, int(number))
    assert os.path.exists(stat)
    stops: list[int] = []
    is_over = threading.Event()

    def stop() -> None:
        while not is_over.is_set():
            os.kill(host_pid, signal.SIGSTOP)
            time.sleep(STOP_S)
            os.kill(host_pid, signal.SIGCONT)
            stops.append(1)
            is_over.wait(0.1)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield stops
    finally:
        is_over.set()
        thread.join()


def _host_pid(guest_pid: int, number: int) -> int:
    """The pid on this host of a process that calls itself `number` in a desktop."""
    space = os.readlink(f"/proc/{guest_pid}/ns/pid")
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/ns/pid") != space:
                continue
            with open(f"/proc/{name}/status") as status:
                (inner,) = (line for line in status if line.startswith("NSpid:"))
        except (OSError, ValueError):
            continue
        if int(inner.split()[-1]) == number:
            return int(name)
    raise AssertionError(f"no process {number} in the desktop")


@pytest.mark.parametrize("application", QUICK)
def test_every_kind_of_text_is_typed_exactly(sandbox: Sandbox, application: str) -> None:
    place = open_place(sandbox, application)

    assert type_into(sandbox, place, whole_set()) == place.shows(whole_set())


@pytest.mark.parametrize("application", QUICK)
def test_text_is_exact_though_the_application_is_stopped_amid_it(
    sandbox: Sandbox, application: str
) -> None:
    place = open_place(sandbox, application)
    text = distinct(120)

    place.prepare(sandbox)
    with stopping(sandbox, place.program) as stops:
        sandbox._living().input.perform(Type(text=text))

    assert stops
    assert place.read(sandbox).removesuffix("\n") == text


def test_text_is_exact_though_the_keyboard_is_held_back_meanwhile(sandbox: Sandbox) -> None:
    """As a window manager does that decides over a click: the application sleeps, and has nothing.

    Its keys come later, all at once, and must not be read by the keymap of the last of them.
    """
    place = open_place(sandbox, "xterm")
    place.prepare(sandbox)
    text = distinct(120)
    other = XConnection(inside(sandbox, "/tmp/.X11-unix/X0"), 5.0)
    other.root.grab_keyboard(True, X.GrabModeSync, X.GrabModeSync, X.CurrentTime)
    other.display.sync()
    thaw = threading.Timer(1.0, other.close)  # which lets go of the keyboard
    thaw.start()

    sandbox._living().input.perform(Type(text=text))
    thaw.join()

    assert place.read(sandbox).removesuffix("\n") == text


@pytest.mark.slow
@pytest.mark.parametrize("application", [*QUICK, *OTHERS])
def test_five_thousand_characters_are_exact_on_a_busy_host(
    sandbox: Sandbox, application: str
) -> None:
    place = open_place(sandbox, application)
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        found = type_into(sandbox, place, long_text())
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()

    assert found == place.shows(long_text())


@pytest.mark.slow
def test_a_dialog_gets_what_is_typed_fifty_times(sandbox: Sandbox) -> None:
    open_place(sandbox, "mousepad")

    for number in range(50):
        sandbox.act(Key(keys=("ctrl", "r")))
        sandbox.act(Key(keys=("ctrl", "a")))
        seen = sandbox.act(Type(text=f"word {number} é"))
        fields = [element for element in seen.elements if "focused" in element.states]
        assert f"word {number} é" in [field.value for field in fields], fields
        sandbox.act(Key(keys=("esc",)))


@pytest.mark.slow
def test_what_was_copied_last_is_pasted_whole(sandbox: Sandbox) -> None:
    place = open_place(sandbox, "mousepad")
    shell(sandbox, "python3 -c \"print('0123456789é\\n' * 16000, end='')\" > /home/user/long.txt")
    copy = "xclip -selection clipboard -i {} >/dev/null 2>&1"

    shell(sandbox, copy.format("/home/user/long.txt"))
    sandbox.act(Key(keys=("ctrl", "v")))
    assert place.read(sandbox) == "0123456789é\n" * 16000

    place.prepare(sandbox)
    for number in range(50):
        shell(sandbox, f"echo {number} | xclip -selection clipboard -i >/dev/null 2>&1")
        sandbox.act(Key(keys=("ctrl", "v")))
    assert place.read(sandbox) == "".join(f"{number}\n" for number in range(50))


@pytest.mark.slow
def test_cells_are_filled_in_their_order(sandbox: Sandbox) -> None:
    """Tab and Return go to another cell: whatever overtakes them lands in the wrong one."""
    place = open_place(sandbox, "cells")
    text = "\n".join("\t".join(f"r{row}c{column} é😀" for column in range(4)) for row in range(6))

    assert type_into(sandbox, place, text + "\n") == text


@pytest.mark.slow
@pytest.mark.parametrize("application", OTHERS)
def test_every_application_gets_every_kind_of_text_exactly(
    sandbox: Sandbox, application: str
) -> None:
    place = open_place(sandbox, application)

    assert type_into(sandbox, place, whole_set()) == place.shows(whole_set())


@pytest.mark.slow
@pytest.mark.parametrize("application", OTHERS)
def test_every_application_gets_text_exactly_though_it_is_stopped_amid_it(
    sandbox: Sandbox, application: str
) -> None:
    place = open_place(sandbox, application)
    text = distinct(120)

    place.prepare(sandbox)
    with stopping(sandbox, place.program) as stops:
        sandbox._living().input.perform(Type(text=text))

    assert stops
    assert place.read(sandbox).removesuffix("\n") == text
