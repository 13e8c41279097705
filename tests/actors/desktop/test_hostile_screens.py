"""Hostile guests that show too much, or say what is not so, to whoever looks at their screen."""

from __future__ import annotations

import time

import pytest

from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Type, Wait
from tests.actors.desktop.hostility import (
    ACT_S,
    LIBRARY,
    give_library,
    is_sendable,
    run_inside,
    start_inside,
)
from tests.actors.desktop.looking import inside, wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]
X_CLIENT = f"""
import sys
sys.path.insert(0, '{LIBRARY}')
from Xlib import X, Xatom, display
d = display.Display(':0')
r = d.screen().root
def window(width=200, height=100, **more):
    w = r.create_window(0, 0, width, height, 0, X.CopyFromParent, background_pixel=255, **more)
    w.set_wm_name('flood')
    return w
"""


def test_huge_and_countless_windows_are_seen_through(hostile: Sandbox):
    give_library(hostile)
    said = run_inside(hostile, X_CLIENT + """
kept = []
window(32767, 32767).map()
for n in range(1000):
    kept.append(window(10, 10)); kept[-1].map()
d.sync()
print('done')
d.close
import os, time
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2): os.close(fd)
    time.sleep(600)
""")  # fmt: skip

    assert said == "done"
    seen = hostile.observe()
    assert 1 <= len(hostile.windows()) <= 128
    assert is_sendable(seen)


def test_floods_of_properties_are_cut_short(hostile: Sandbox):
    give_library(hostile)
    said = run_inside(hostile, X_CLIENT + """
import os, time
w = window()
utf8, name = d.intern_atom('UTF8_STRING'), d.intern_atom('_NET_WM_NAME')
w.change_property(name, utf8, 8, b'\\x1b[2J\\x07\\0evil\\xff\\xfe ')
for n in range(100): w.change_property(name, utf8, 8, b'x' * 200_000, mode=X.PropModeAppend)
w.change_property(Xatom.WM_CLASS, Xatom.INTEGER, 32, [1, 2, 3])
w.map()
d.sync()
time.sleep(0.5)
r.change_property(d.intern_atom('_NET_CLIENT_LIST_STACKING'), Xatom.WINDOW, 32, [w.id] * 4000)
r.change_property(d.intern_atom('_NET_ACTIVE_WINDOW'), Xatom.STRING, 8, b'nonsense')
d.sync()
print('done')
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2): os.close(fd)
    time.sleep(600)
""")  # fmt: skip

    assert said == "done"
    seen = hostile.observe()
    assert is_sendable(seen)
    assert max(len(title) for title in seen.signature.windows) <= 1000


def test_endless_repaint_is_reported_and_acts_are_answered(hostile: Sandbox):
    give_library(hostile)
    start_inside(hostile, X_CLIENT + """
w = window(400, 400); w.map()
gc = w.create_gc()
n = 0
while True:
    n += 1
    gc.change(foreground=n * 7919 & 0xffffff)
    w.fill_rectangle(gc, 0, 0, 400, 400)
    d.sync()
""")  # fmt: skip
    assert wait_until(lambda: any(w.title == "flood" for w in hostile.windows()))

    began_s = time.monotonic()
    seen = hostile.act(Type(text="x"))

    assert not seen.settled
    assert time.monotonic() - began_s < ACT_S


def test_an_application_of_endless_depth_is_not_followed_for_ever(hostile: Sandbox):
    give_library(hostile)
    start_inside(hostile, f"import sys\nsys.path.insert(0, '{LIBRARY}')\n" + ENDLESS)
    assert wait_until(lambda: (inside(hostile, "/tmp/embedded")).exists())

    began_s = time.monotonic()
    try:
        seen = hostile.act(Wait(wait_ms=10))
    except DesktopLostError:
        pass
    else:
        assert is_sendable(seen)
    assert time.monotonic() - began_s < 2 * ACT_S


ENDLESS = """
import os, time
from jeepney import DBusAddress, HeaderFields, MessageType, new_method_call, new_method_return
from jeepney.io.blocking import open_dbus_connection
session = open_dbus_connection()
ask = new_method_call(DBusAddress('/org/a11y/bus', 'org.a11y.Bus', 'org.a11y.Bus'), 'GetAddress')
address = session.send_and_get_reply(ask).body[0]
bus = open_dbus_connection(address)
root = DBusAddress('/org/a11y/atspi/accessible/root', 'org.a11y.atspi.Registry',
                   'org.a11y.atspi.Socket')
bus.send_and_get_reply(new_method_call(root, 'Embed', '(so)', ((bus.unique_name,
                       '/org/a11y/atspi/accessible/root'),)))
open('/tmp/embedded', 'w').close()
ROLES = 23
STATES = [1 << 25 | 1 << 30 | 1 << 8, 0]
NAME = 'n' * 100_000
count = 0
while True:
    m = bus.receive()
    if m.header.message_type != MessageType.method_call: continue
    method = m.header.fields.get(HeaderFields.member)
    def node(n):
        return (bus.unique_name, '/n/%d' % n)
    faces = ['org.a11y.atspi.Accessible', 'org.a11y.atspi.Component']
    if method == 'GetItems':
        items = [(node(0), node(0), node(0), 0, 5, faces, NAME, ROLES, '', STATES)]
        reply = new_method_return(m, 'a((so)(so)(so)iiassusau)', (items,))
    elif method == 'GetChildren':
        count += 5
        reply = new_method_return(m, 'a(so)', ([node(count + n) for n in range(5)],))
    elif method == 'GetState': reply = new_method_return(m, 'au', (STATES,))
    elif method == 'GetRole': reply = new_method_return(m, 'u', (ROLES,))
    elif method == 'GetInterfaces': reply = new_method_return(m, 'as', (faces,))
    elif method == 'Get': reply = new_method_return(m, 'v', (('s', NAME),))
    elif method == 'GetExtents':
        reply = new_method_return(m, '(iiii)', ((-2**31, 0, 2**31 - 1, 5),))
    else: reply = new_method_return(m)
    bus.send(reply)
"""
