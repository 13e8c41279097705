"""Programs that name things, and change keyboards, as no reader of theirs expects."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from envs_node.actors.desktop.errors import ActionRefusedError
from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Key, Type
from tests.actors.desktop.forking import desktops, open_store
from tests.actors.desktop.hostility import start_inside
from tests.actors.desktop.looking import shell, wait_until
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
TASK = open_task("xterm")
LISTENER = """
import socket, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(b"\\0caf\\xe9")
time.sleep(1000)
"""
FLOOD = """
import os, resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
sent, pairs = os.open("/dev/null", os.O_RDONLY), []
try:
    while True:
        pairs.append(socket.socketpair())
        socket.send_fds(pairs[-1][0], [b"x"], [sent] * 250)
except OSError as error:
    with open("/tmp/said", "w") as sink:
        sink.write(error.strerror)
time.sleep(1000)
"""
ODD_NAME = "x$(printf '\\351')"
"""Of a file, and so of a process: a Latin-1 letter, which is no UTF-8."""
_DESCRIPTORS = 1100


@contextmanager
def many_descriptors() -> Iterator[None]:
    """More open files than `select` can count, as a node of many desktops has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(_DESCRIPTORS)]
    try:
        yield
    finally:
        for handle in held:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_socket_whose_name_is_no_text_is_counted_past(sandbox: Sandbox):
    sandbox.reset(TASK)
    before = sandbox.clients()

    start_inside(sandbox, LISTENER)

    assert wait_until(lambda: "@caf" in shell(sandbox, "cat -v /proc/net/unix"))
    assert sandbox.clients() == before


def test_a_program_whose_name_is_no_text_is_typed_into(sandbox: Sandbox):
    sandbox.reset(TASK)
    shell(sandbox, f"cp /usr/bin/xterm /tmp/{ODD_NAME}")
    start = f"setsid /tmp/{ODD_NAME} -T odd -e 'cat > /tmp/typed' >/dev/null 2>&1 &"
    shell(sandbox, start)
    assert wait_until(lambda: "odd" in {window.title for window in sandbox.windows()})
    shell(sandbox, "wmctrl -a odd")

    sandbox.act(Type(text="hello\n"))

    assert wait_until(lambda: shell(sandbox, "cat /tmp/typed") == "hello\n")


def test_without_a_shift_key_what_needs_it_is_refused_and_the_rest_is_typed(sandbox: Sandbox):
    sandbox.reset(open_task("xterm", "-e", "cat > /tmp/typed"))
    shell(sandbox, "xmodmap -e 'clear shift' -e 'keycode 50 =' -e 'keycode 62 ='")

    for action in (Type(text="aB"), Type(text="\N{LATIN SMALL LETTER E WITH ACUTE}"),
                   Key(keys=("?",))):  # fmt: skip
        with pytest.raises(ActionRefusedError, match="no Shift"):
            sandbox.act(action)

    sandbox.act(Type(text="plain\n"))
    assert wait_until(lambda: shell(sandbox, "cat /tmp/typed") == "plain\n")


def test_a_desktop_that_lies_about_its_spare_keys_is_kept_and_copied(launcher: Launcher):
    with open_store(launcher) as store, desktops(launcher, store, 2) as (origin, clone):
        seen = (origin.reset(TASK),)
        lie = "250,3,90,4000000000"
        shell(origin, f"xprop -root -f _ENVS_SPARE_KEYCODES 32c -set _ENVS_SPARE_KEYCODES {lie}")

        origin.keep_fork(prefix_keys(TASK, ())[-1], seen)

        assert clone.reset_forked(TASK, ()) is not None
        assert clone.act(Type(text="x")).settled


def test_a_desktop_is_driven_beside_more_files_than_select_can_count(sandbox: Sandbox):
    with many_descriptors():
        assert sandbox.reset(TASK).settled
        assert sandbox.act(Type(text="x")).settled
        sandbox.close()


def test_a_flood_of_descriptors_on_their_way_keeps_no_other_desktop_from_starting(
    launcher: Launcher, sandbox: Sandbox
):
    """The kernel counts them by user, and all desktops of root have the same."""
    sandbox.reset(TASK)
    start_inside(sandbox, FLOOD)
    assert wait_until(lambda: "references" in shell(sandbox, "cat /tmp/said"), 30)
    other = Sandbox(launcher)

    try:
        assert other.reset(TASK).settled
        assert other.act(Type(text="x")).settled
    finally:
        other.close()
