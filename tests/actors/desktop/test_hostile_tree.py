"""Accessibility trees that have no end, or lie: the list is cut, says so, and holds nobody up."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from jeepney import (
    DBusAddress,
    HeaderFields,
    Message,
    MessageType,
    new_method_call,
    new_method_return,
)
from jeepney.io.blocking import DBusConnection, prep_socket

from envs_node.actors.desktop.accessibility import READ_S_MAX
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.desktop import Observation
from tests.actors.desktop.looking import inside
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
ROOT = "/org/a11y/atspi/accessible/root"
NULL = ("", "/org/a11y/atspi/null")
SHOWING = [1 << 25 | 1 << 30 | 1 << 24, 0]
FRAME, BUTTON = 23, 43
FACES = ["org.a11y.atspi.Accessible", "org.a11y.atspi.Component"]
HUGE: list[Any] = []
CACHE = "a((so)(so)(so)iiassusau)"


class Liar:
    """An application that answers as it likes. Speaks to the desktop's bus from the host."""

    def __init__(self, sandbox: Sandbox, kind: str) -> None:
        self._kind, self._connection = kind, self._connect(sandbox)
        self.name = str(self._connection.unique_name)
        registry = DBusAddress(ROOT, "org.a11y.atspi.Registry", "org.a11y.atspi.Socket")
        plug = ((self.name, ROOT),)
        self._connection.send_and_get_reply(new_method_call(registry, "Embed", "(so)", plug))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._connection.sock.shutdown(2)
        self._thread.join()
        self._connection.close()

    @staticmethod
    def _connect(sandbox: Sandbox) -> DBusConnection:
        with DBusConnection(prep_socket(str(inside(sandbox, "/run/user/1000/bus")))) as session:
            bus = DBusAddress("/org/a11y/bus", "org.a11y.Bus", "org.a11y.Bus")
            answer = session.send_and_get_reply(new_method_call(bus, "GetAddress"))
        path = answer.body[0].partition("path=")[2].split(",")[0]
        return DBusConnection(prep_socket(str(inside(sandbox, path))))

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                call = self._connection.receive()
                if call.header.message_type != MessageType.method_call:
                    continue
                answer = self._answer(
                    call.header.fields[HeaderFields.path], call.header.fields[HeaderFields.member]
                )
                if answer is not None and answer[1] is HUGE:
                    self._send_huge(call)
                elif answer is not None:
                    self._connection.send(new_method_return(call, answer[0], (answer[1],)))

    def _answer(self, path: str, method: str) -> tuple[str, Any] | None:
        match self._kind, method:
            case "mute", _:
                return None
            case "wrong", _:
                return "s", "what do you mean?"
            case "huge", "GetItems":
                return CACHE, HUGE
            case "claims", "GetItems":
                return CACHE, [self._item(0, role=FRAME, children=1_000_000_000)]
            case _, "GetItems":
                return CACHE, []
            case "wide", "GetChildren" if path == ROOT:
                return "a(so)", [(self.name, f"/wide/{n}") for n in range(3_000)]
            case "bush", "GetChildren":
                return "a(so)", [(self.name, f"/wide/{n}") for n in range(3_000)]
            case "deep", "GetChildren":
                return "a(so)", [(self.name, f"{path}/x")]
            case _, "GetChildren":
                return "a(so)", []
            case _, "GetState":
                return "au", SHOWING
            case _, "GetRole":
                return "u", BUTTON
            case _, "GetInterfaces":
                return "as", FACES
            case _, "GetExtents":
                return "(iiii)", (0, 0, 100, 50)
            case _, "Get":
                return "v", ("s", "Lie")
        return None

    def _send_huge(self, call: Message) -> None:
        """50,000 items, of which jeepney makes one: it would take longer than anybody waits."""
        one = new_method_return(call, CACHE, ([self._item(0)],))
        raw = one.serialise(serial=next(self._connection.outgoing_serial))
        head, body = raw[: -one.header.body_length], raw[-one.header.body_length :]
        item = body[8:]
        items = item.ljust(-(-len(item) // 8) * 8, b"\0") * 49_999 + item
        size = len(items).to_bytes(4, "little")
        whole = head[:4] + (len(items) + 8).to_bytes(4, "little") + head[8:]
        self._connection.sock.sendall(whole + size + bytes(4) + items)

    def _item(self, number: int, *, role: int = BUTTON, children: int = 0) -> tuple[Any, ...]:
        here, name = (self.name, f"/item/{number}"), f"Lie {number}"
        return (here, (self.name, ROOT), NULL, 0, children, FACES, name, role, "", SHOWING)


@contextlib.contextmanager
def lying(sandbox: Sandbox, kind: str) -> Iterator[None]:
    liar = Liar(sandbox, kind)
    try:
        yield
    finally:
        liar.close()


def names(seen: Observation) -> set[str]:
    return {element.name for element in seen.elements}


@pytest.mark.parametrize(
    ("kind", "cut"),
    [
        ("huge", "size"), ("claims", "children"), ("deep", "depth"), ("wrong", None),
        *(pytest.param(*case, marks=pytest.mark.slow)
          for case in (("wide", "children"), ("mute", "time"), ("bush", "time"))),
    ],
)  # fmt: skip
def test_a_tree_without_an_end_is_cut_in_time_and_says_so(
    sandbox: Sandbox, kind: str, cut: str | None
) -> None:
    """Row D2."""
    before = sandbox.reset(open_task("mousepad"))

    with lying(sandbox, kind):
        began_s = time.monotonic()
        seen = sandbox.observe()
        took_s = time.monotonic() - began_s

    assert took_s < READ_S_MAX + 3
    assert before.cuts == ()
    assert (cut in seen.cuts) if cut else not seen.cuts
    assert names(before) <= names(seen), "the honest application is listed as before"
    assert sandbox.observe().cuts == (), "and it is over with the liar"
