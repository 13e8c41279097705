"""What a machine may answer: pictures, trees and windows that are none, answers without an end."""

from __future__ import annotations

import ast
import http.server
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from envs_node.actors.desktop.elements import list_elements
from envs_node.actors.desktop.errors import ActionRefusedError, DesktopLostError
from envs_node.actors.desktop.remote.address import Address, parse_address
from envs_node.actors.desktop.remote.gestures import Gestures
from envs_node.actors.desktop.remote.guest import RemoteGuest
from envs_node.actors.desktop.remote.look import read_surroundings
from envs_node.actors.desktop.remote.picture import read_picture
from envs_node.actors.desktop.remote.tree import read_tree
from envs_node.messages.actions import (
    Action,
    Click,
    Drag,
    Finish,
    Key,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Point,
    Scroll,
    Type,
    Wait,
)

SIZE = (64, 48)
SPACE = "https://accessibility.ubuntu.example.org/ns/"


def png(width: int = 64, height: int = 48) -> bytes:
    sink = BytesIO()
    Image.effect_noise((width, height), 90).convert("RGB").save(sink, "PNG")
    return sink.getvalue()


def test_a_picture_arrives_as_it_was_sent() -> None:
    data = png()

    pixels = read_picture(data, *SIZE)

    with Image.open(BytesIO(data)) as image:
        assert pixels[..., 2::-1].tobytes() == image.tobytes()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no PNG, but 0 bytes"),
        (b"<html>busy</html>", "no PNG"),
        (png()[:-200], "cut off"),
        (png()[:-200] + png()[-12:], "damaged"),
        (png()[:40] + png()[-12:], "damaged"),
        (png(48, 64), "48x64, and the screen 64x48"),
        (png(6400, 4800), "6400x4800"),
    ],
)
def test_a_picture_that_is_none_loses_the_desktop(data: bytes, reason: str) -> None:
    with pytest.raises(DesktopLostError, match=reason):
        read_picture(data, *SIZE)


@given(at=st.integers(8, 400), byte=st.integers(0, 255))
def test_a_damaged_picture_is_read_or_lost_and_nothing_else(at: int, byte: int) -> None:
    data = bytearray(png())
    data[at] = byte
    with suppress(DesktopLostError):
        assert read_picture(bytes(data), *SIZE).shape == (48, 64, 4)


def tree(inner: str) -> str:
    names = {"st": "state", "cp": "component", "val": "value"}
    spaces = " ".join(f'xmlns:{short}="{SPACE}{name}"' for short, name in names.items())
    return f'<desktop-frame {spaces} name="main">{inner}</desktop-frame>'


def thing(tag: str, name: str, box: tuple[int, int, int, int], inner: str = "") -> str:
    x, y, width, height = box
    return (
        f'<{tag} name="{name}" st:showing="true" st:enabled="true" st:editable="true" '
        f'cp:screencoord="({x}, {y})" cp:size="({width}, {height})">{inner}</{tag}>'
    )


def test_what_applications_say_becomes_elements() -> None:
    inner = thing("push-button", "Save &amp; close", (10, 20, 30, 10)) + thing(
        "text", "", (10, 40, 40, 5), "milk &lt;!\n"
    )
    window = thing("frame", "Notes", (0, 0, 64, 48), inner)
    hidden = '<push-button name="Hidden" st:enabled="true"/>'

    reading = read_tree(
        tree(f'<application name="pad" st:showing="true">{window}{hidden}</application>')
    )

    found = list_elements(reading.nodes, *SIZE).elements
    assert [(e.role, e.name, e.value) for e in found] == [
        ("frame", "Notes", ""),
        ("push button", "Save & close", ""),
        ("text", "text area" if found[2].height > 80 else "", "milk <!\n"),
    ]
    assert (found[1].x, found[1].y, found[1].width, found[1].height) == (10, 20, 30, 10)
    assert not reading.cuts


def test_a_tree_that_declares_entities_is_refused_before_any_is_expanded() -> None:
    bomb = (
        '<!DOCTYPE a [<!ENTITY b "'
        + "x" * 1000
        + '"><!ENTITY c "'
        + "&b;" * 1000
        + '">]><a>&c;</a>'
    )

    with pytest.raises(DesktopLostError, match="declares"):
        read_tree(bomb)


@pytest.mark.parametrize("text", ["", "no tree", "<a><b></a>", "<a>&nbsp;</a>", "\0"])
def test_a_tree_that_is_no_xml_loses_the_desktop(text: str) -> None:
    with pytest.raises(DesktopLostError, match="no XML"):
        read_tree(text)


def test_a_tree_without_an_end_is_cut_and_says_so() -> None:
    wide = read_tree(
        tree("<application>" + thing("label", "x", (0, 0, 9, 9)) * 5000 + "</application>")
    )
    deep = read_tree(tree("<a>" + '<b st:showing="true">' * 500 + "</b>" * 500 + "</a>"))
    large = read_tree("x" * (17 << 20))

    assert (len(wide.nodes), wide.cuts) == (4000, {"nodes"})
    assert deep.cuts == {"depth"}
    assert large.cuts == {"size"}


def test_windows_are_read_from_what_wmctrl_lists() -> None:
    listed = read_surroundings(
        "d1ge57  -\n_NET_ACTIVE_WINDOW(WINDOW): window id # 0x1200003\n"
        "0x01200003  0 10   20   640  480  gedit.Gedit           host a: 1 - b\n"
        "0x01400003 -1 0    0    1280 720  xfdesktop.Xfdesktop   N/A Desktop\n"
        "nonsense\n0x01600003  0 1 2 3 4 pad.Pad host\n"
    )

    assert listed.files == "d1ge57"
    assert listed.focused == 0x1200003
    assert [(w.title, w.app_class, w.x, w.height) for w in listed.windows] == [
        ("a: 1 - b", "gedit Gedit", 10, 480),
        ("Desktop", "xfdesktop Xfdesktop", 0, 720),
        ("", "pad Pad", 1, 4),
    ]


@settings(max_examples=30)
@given(st.text())
def test_any_list_of_windows_is_read(text: str) -> None:
    read_surroundings(text)


def code_of(action: Action) -> str:
    return Gestures(1280, 720).code(action).partition("p.PAUSE = 0.02; ")[2]


def test_actions_become_calls() -> None:
    assert code_of(Click(x=1, y=2, button=3, count=2, keys=("ctrl",))) == (
        "p.moveTo(1, 2); p.keyDown('ctrl'); p.click(clicks=2, button='right'); p.keyUp('ctrl')"
    )
    assert code_of(Key(keys=("ctrl", "shift", "t"))) == (
        "p.keyDown('ctrl'); p.keyDown('shift'); p.keyDown('t'); "
        "p.keyUp('t'); p.keyUp('shift'); p.keyUp('ctrl')"
    )
    assert code_of(Scroll(x=5, y=6, dx=2, dy=3)) == "p.moveTo(5, 6); p.scroll(-3); p.hscroll(2)"
    assert code_of(Type(text="a<b\n")) == (
        "p.write('a', interval=0.005); p.hotkey('shift', ','); p.write('b\\n', interval=0.005)"
    )
    assert code_of(Wait(wait_ms=500)) == "time.sleep(0.500)"
    assert code_of(Finish()) == ""
    drag = code_of(Drag(path=(Point(0, 0), Point(10, 20))))
    assert drag.startswith("p.moveTo(0, 0); p.mouseDown(button='left'); p.moveTo(5, 10")
    assert drag.endswith("p.moveTo(10, 20, duration=0.15); p.mouseUp(button='left')")


@given(text=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_text_is_a_literal_and_never_code(text: str) -> None:
    tree = ast.parse(Gestures(1280, 720).code(Type(text=text)) or "pass")

    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert {ast.unparse(call.func) for call in calls} <= {"p.write", "p.hotkey"}
    typed = [
        "<" if ast.unparse(c.func) == "p.hotkey" else ast.literal_eval(c.args[0]) for c in calls
    ]
    assert "".join(typed) == text


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Click(x=1280, y=0), "outside the screen"),
        (Click(x=0, y=0, button=8), "no button 8"),
        (Type(text="naïve"), "'ï' cannot be typed"),
        (Type(text="x" * 5001), "5000 at most"),
        (Key(keys=("kp_enter",)), "no key 'kp_enter'"),
        (Key(keys=("é",)), "no key 'é'"),
        (Key(keys=("nonsense",)), "no key is named"),
        (MouseUp(x=0, y=0), "button 1 is not down"),
        (KeyUp(key="ctrl"), "key ctrl is not down"),
    ],
)
def test_what_pyautogui_cannot_do_is_refused_and_not_tried(action: Action, reason: str) -> None:
    with pytest.raises(ActionRefusedError, match=reason):
        code_of(action)


def test_what_is_kept_down_is_let_go_in_the_end() -> None:
    gestures = Gestures(1280, 720)
    gestures.code(KeyDown(key="ctrl"))
    gestures.code(MouseDown(x=1, y=1))

    with pytest.raises(ActionRefusedError, match="key control is down"):
        gestures.code(KeyDown(key="control"))
    assert gestures.code(Finish()).endswith("p.mouseUp(button='left'); p.keyUp('ctrl')")


@pytest.mark.parametrize(
    "text", ["http://10.0.0.7:5000", "http://[fe80::1]:80/", "http://box-1.lab.example:5000"]
)
def test_an_address_is_read(text: str) -> None:
    assert str(parse_address(text)) == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    ["10.0.0.7:5000", "https://a:1", "http://a", "http://u:p@a:1", "http://a:1/x", "http://a:1?x",
     "http://a:99999", "http://:5000", "http://a b:1", "file:///etc/passwd"],
)  # fmt: skip
def test_what_is_no_address_says_what_one_looks_like(text: str) -> None:
    with pytest.raises(ValueError, match=r"write http://HOST:PORT"):
        parse_address(text)


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers as the test says."""

    answer: Callable[[Answering], None]
    heard: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.heard.append((self.path, self.headers.get("Authorization", "")))
        type(self).answer(self)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Quiet(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client has gone, as it should."""


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[Answering], None]], tuple[Address, list[Any]]]]:
    """Serve answers; where, and what was asked."""
    servers: list[_Quiet] = []

    def start(answer: Callable[[Answering], None]) -> tuple[Address, list[Any]]:
        heard: list[Any] = []
        handler = type("H", (Answering,), {"answer": staticmethod(answer), "heard": heard})
        servers.append(_Quiet(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return Address(*servers[-1].server_address[:2]), heard

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def drip(handler: Answering) -> None:
    """A byte now and then, for ever: each comes in time, and the answer never."""
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.05)


def drip_body(handler: Answering) -> None:
    handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.05)


@pytest.mark.parametrize("answer", [drip, drip_body])
def test_an_answer_that_drips_is_cut_off_at_its_deadline(serve, answer) -> None:
    address, _ = serve(answer)
    start = time.monotonic()

    with pytest.raises(DesktopLostError):
        RemoteGuest(address, timeout_s=0.4).look("/platform")

    assert time.monotonic() - start < 3


def test_a_request_under_way_is_broken_off_by_another_thread(serve) -> None:
    address, heard = serve(drip_body)
    guest = RemoteGuest(address, timeout_s=60)
    threading.Thread(target=lambda: (_until(heard), guest.break_off()), daemon=True).start()
    start = time.monotonic()

    with pytest.raises(DesktopLostError):
        guest.with_timeout(50).look("/platform")

    assert time.monotonic() - start < 10
    with pytest.raises(DesktopLostError, match="no longer driven"):
        guest.look("/platform")


def _until(heard: list[Any]) -> None:
    while not heard:
        time.sleep(0.01)


def say(status: int, body: bytes, **headers: str) -> Callable[[Answering], None]:
    def answer(handler: Answering) -> None:
        handler.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (b"nonsense", {}, "not answered with JSON"),
        (b"[1]", {}, "answered with list"),
        (b"[" * 100_000, {}, "JSON"),
        (b"{}", {"Content_Length": "100"}, "lacks its last 98 bytes"),
    ],
)
def test_an_answer_that_is_none_loses_the_desktop(serve, body, headers, reason) -> None:
    address, _ = serve(say(200, body, **headers))

    with pytest.raises(DesktopLostError, match=reason):
        RemoteGuest(address).ask("/execute", {})


def test_nobody_is_led_elsewhere_and_a_token_goes_to_its_machine_alone(serve) -> None:
    elsewhere, led = serve(say(200, b"{}"))
    address, heard = serve(say(302, b"", Location=f"{elsewhere}/accessibility"))

    with pytest.raises(DesktopLostError, match="302"):
        RemoteGuest(address, token="Zx9-secret").look("/accessibility")

    assert heard == [("/accessibility", "Bearer Zx9-secret")]
    assert not led


def test_a_token_is_in_no_message(serve) -> None:
    address, _ = serve(say(401, json.dumps({"error": "no"}).encode()))
    guest = RemoteGuest(address, token="Zx9-secret")

    with pytest.raises(DesktopLostError) as caught:
        guest.look("/platform")

    assert "Zx9" not in f"{caught.value} {caught.value!r} {guest!r}"
