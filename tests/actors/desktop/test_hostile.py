"""Hostile guests: real programs in a real desktop, with a neighbour that must not notice them."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
import trio

from envs_node.actors.desktop.actor import DesktopActor
from envs_node.actors.desktop.doors import connect_inside, read_inside
from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.actors.desktop.guestclient import SOCKET_PATH, Guest
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.screen import Screen
from envs_node.actors.desktop.signature import files_digest
from envs_node.actors.desktop.xserver import XConnection
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError
from envs_node.actors.post import Post
from envs_node.messages.actions import Type, Wait
from envs_node.messages.base import ActorName, DesktopId, RunId
from envs_node.messages.desktop import Act, Configure, Reset
from tests.actors.desktop.hostility import (
    ACT_S,
    MIB,
    SMALL,
    is_sendable,
    loss_of,
    run_inside,
    start_inside,
)
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.fakes_desktop import make_task
from tests.stranger import run_as_stranger

pytestmark = pytest.mark.live
D0 = DesktopId("d-0")
FILLER = """
import errno, os
total = 0
for folder in ('/home/user', '/tmp', '/dev/shm', '/run/share', '/run/user/1000'):
    with open(folder + '/fill', 'wb', buffering=0) as sink:
        try:
            while True:
                total += sink.write(bytes(1 << 16))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
print(total)
"""


# What it takes of the host.


def require_memory_group(launcher: Launcher, pid: int) -> None:
    """Skip where the kernel does not count a desktop's memory for this user."""
    if "memory" not in launcher.group(pid).folders:
        pytest.skip("no control group for memory here")


def test_a_memory_bomb_loses_its_desktop_which_says_how_much(launcher: Launcher, hostile: Sandbox):
    """Row D20."""
    require_memory_group(launcher, hostile.guest_pid)
    start_inside(hostile, "data = []\nwhile True: data.append(b'x' * (1 << 20))")

    why = loss_of(hostile)

    assert why.startswith("out of memory: the kernel killed "), why
    assert "may take 400 MiB" in why


async def test_whoever_drives_it_is_told_that_it_was_the_memory(launcher: Launcher):
    """Row D20: the actor crashes with the reason, and the branch is `infra` for it."""
    pid = launcher.create(SMALL)
    require_memory_group(launcher, pid)
    launcher.destroy(pid)
    name, me = ActorName("desktop/d-0"), ActorName("t")
    bomb = "import time\ntime.sleep(1)\ndata = []\nwhile True: data.append(b'x' * (1 << 20))"
    task = make_task(("launch", {"command": ["xterm", "-e", "sh", "-c", f'python3 -c "{bomb}"']}))
    post = Post(RunId("r"))
    ref = post.ref(name, sender=me)

    async def act() -> None:
        for step in range(100):
            await ref.ask(
                Act(desktop_id=D0, episode=1, step=step, action=Wait(wait_ms=200)), timeout_s=60
            )

    async def drive() -> None:
        async with trio.open_nursery() as nursery:
            actor = DesktopActor(D0, Sandbox(launcher, SMALL))
            await nursery.start(run_actor, actor, name, post)
            await ref.ask(Configure(desktop_id=D0, task=task), timeout_s=30)
            await ref.ask(Reset(desktop_id=D0, episode=1), timeout_s=60)
            with pytest.raises(ActorCrashedError, match="out of memory: the kernel killed"):
                await act()

    with pytest.raises(ExceptionGroup) as crashed:
        await drive()

    assert crashed.group_contains(DesktopLostError, match="may take 400 MiB")


def test_a_fork_bomb_is_stopped_by_its_limit(hostile: Sandbox):
    source = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    running = inside(hostile, "/proc")

    start_inside(hostile, source)

    def count() -> int:
        return sum(name.isdigit() for name in os.listdir(running))

    assert wait_until(lambda: count() >= 150)
    assert not wait_until(lambda: count() > SMALL.limits.processes_max, timeout_s=1)


def test_a_full_disk_is_an_error_inside_and_bounded_in_sum(hostile: Sandbox):
    written = run_inside(hostile, FILLER)

    assert written.isdigit(), written
    assert 100 * MIB < int(written) <= SMALL.limits.disk_bytes
    seen = hostile.act(Type(text="echo still here\n"))
    assert is_sendable(seen)
    with pytest.raises(DesktopLostError, match="No space left"):
        Guest(inside(hostile, SOCKET_PATH), timeout_s=20).upload("/home/user/more", bytes(MIB))


@pytest.mark.slow
def test_as_many_files_as_fit_deep_trees_and_odd_names_are_looked_at(hostile: Sandbox):
    made = run_inside(hostile, """
import os
os.chdir('/home/user')
for n in range(100_000):
    try: open(f'f{n}', 'w').close()
    except OSError as error: break
try:
    os.mkdir('deep'); os.chdir('deep')
    for n in range(3000):
        os.mkdir('d'); os.chdir('d')
except OSError: pass
os.chdir('/home/user')
for name in (b'\\xff\\xfe' * 100, b'n' * 255, '\\u202e\\u0007'.encode()):
    try: open(name, 'w').close()
    except OSError as error: pass
print(len(os.listdir('.')))
""")  # fmt: skip

    began_s = time.monotonic()
    seen = hostile.act(Wait(wait_ms=10))

    assert int(made) > 10_000
    assert is_sendable(seen)
    assert time.monotonic() - began_s < ACT_S


# Whom it kills.


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("kill -9 -1", "has ended|is gone|no picture"),
        ("kill -9 $(pidof Xvfb)", "gone|has ended|no picture"),
        pytest.param("kill -STOP $(pidof Xvfb)", "is stopped|not answer", marks=pytest.mark.slow),
        ("kill -9 $(pidof openbox)", "wm has ended"),
        ("pkill -9 -f guest.server", "guest has ended"),
        ("kill -9 $(pidof dbus-daemon)", "dbus has ended|is gone"),
    ],
)
def test_a_desktop_that_kills_its_own_parts_is_lost_soon(hostile: Sandbox, command: str, why: str):
    guest = Guest(inside(hostile, SOCKET_PATH), timeout_s=20)
    guest.post("/setup/launch", {"command": f"sh -c 'sleep 0.2; {command}'", "shell": True})

    lost = loss_of(hostile)

    assert any(part in lost for part in why.split("|")), lost


# What it opens.


def test_no_socket_of_the_host_can_be_reached(launcher: Launcher, hostile: Sandbox, tmp_path: Path):
    name = f"\0envs-test-{os.getpid()}"
    with (
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as plain,
        socket.create_server(("127.0.0.1", 0)) as port,
    ):
        abstract.bind(name)
        plain.bind(str(tmp_path / "docker.sock"))
        for listener in (abstract, plain):
            listener.listen()
        said = run_inside(hostile, f"""
import os, socket
def reach(family, address):
    with socket.socket(family) as s:
        s.settimeout(2)
        try: s.connect(address)
        except OSError as error: return error.errno
        return 'reached'
print(reach(socket.AF_UNIX, '\\0' + {name[1:]!r}),
      reach(socket.AF_UNIX, {str(tmp_path / "docker.sock")!r}),
      reach(socket.AF_UNIX, '/run/docker.sock'), reach(socket.AF_UNIX, '/var/run/docker.sock'),
      reach(socket.AF_INET, ('127.0.0.1', {port.getsockname()[1]})),
      reach(socket.AF_INET, ('192.0.2.1', 80)), reach(socket.AF_INET, ('169.254.169.254', 80)))
print(sorted(os.listdir('/tmp/.X11-unix')))
for family in (40, 38, 17):  # to a hypervisor, to the kernel's ciphers, to the wire
    try: socket.socket(family, socket.SOCK_STREAM if family == 40 else socket.SOCK_RAW)
    except OSError as error: print('refused')
held = [os.readlink(f'/proc/1/fd/{{fd}}') for fd in os.listdir('/proc/1/fd')]
print([path for path in held if path != '/dev/null'])
""")  # fmt: skip

    assert "reached" not in said
    assert said.splitlines()[1:] == ["['X0']", "refused", "refused", "refused", "[]"], said


def test_neither_the_host_nor_a_neighbour_can_be_traced_signalled_or_looked_into(
    launcher: Launcher, neighbour: Sandbox, hostile: Sandbox
):
    numbers = [os.getpid(), launcher.pid, neighbour.guest_pid, hostile.guest_pid]
    said = run_inside(hostile, f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for pid in {numbers}:
    print(libc.ptrace(16, pid, 0, 0), libc.kill(pid, 0), os.path.exists(f'/proc/{{pid}}/root'))
visible = [int(name) for name in os.listdir('/proc') if name.isdigit()]
print(max(visible) < {min(numbers)} or len(visible), os.path.exists('/proc/1/root/home/user'))
for path in ('/sys/kernel', '/proc/kcore', '/proc/kmsg', '/dev/mem', '/dev/kvm', '/dev/sda',
             '/dev/vda', '/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern', '/etc/shadow',
             '/home/user/../../etc/gshadow'):
    for mode in ('rb', 'r+b'):
        try:
            open(path, mode).close()
            print('opened', path, mode)
        except OSError: pass
""")  # fmt: skip

    allowed = {"opened /proc/sys/kernel/core_pattern rb"}
    lines = said.splitlines()
    assert lines[:4] == ["-1 -1 False"] * 4
    assert {line for line in lines if line.startswith("opened")} <= allowed, said


def test_what_reaches_beyond_a_desktop_is_no_system_call_for_it(hostile: Sandbox):
    said = run_inside(hostile, """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def refused(name, *arguments):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    if result != -1 or ctypes.get_errno() != 1: print(name, result, ctypes.get_errno())
os.mkdir('/tmp/m')
refused('mount', b'tmpfs', b'/tmp/m', b'tmpfs', 0, None)
refused('mount', b'/', b'/tmp/m', None, 4096, None)
refused('umount2', b'/proc', 2)
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000):
    refused('unshare', flag)
refused('setns', os.open('/proc/1/ns/net', os.O_RDONLY), 0)
refused('chroot', b'/tmp')
refused('sethostname', b'x', 1)
refused('reboot', 0x1234567)
refused('swapon', b'/tmp/m', 0)
if os.uname().machine == 'x86_64':
    for number in (321, 298, 250, 248, 323, 425, 175, 246, 304, 430, 227):
        refused('syscall', number, 0, 0, 0, 0, 0)
    ctypes.set_errno(0)
    print(libc.syscall(435, 0, 0), ctypes.get_errno())
""")  # fmt: skip

    assert said == "-1 38", said


def test_nothing_tells_of_the_host_and_its_users(hostile: Sandbox):
    said = shell(
        hostile,
        "cat /proc/self/mountinfo /proc/self/cgroup /etc/hostname /proc/sys/kernel/hostname "
        "/proc/1/environ /proc/self/environ /etc/mtab 2>/dev/null; ls /sys /home /root /opt /srv "
        "/mnt /media 2>/dev/null; env",
    )

    host = Path("/etc/hostname").read_text().strip() if Path("/etc/hostname").exists() else ""
    secrets = {host, os.uname().nodename, str(Path(__file__).parents[3])}
    assert not [word for word in secrets - {"", "desktop", "localhost"} if word in said]


def test_links_that_come_and_go_never_lead_the_host_to_its_own_files(
    hostile: Sandbox, tmp_path: Path
):
    """A folder that was one when it was listed may be a link when it is gone into."""
    (tmp_path / "key.txt").write_bytes(b"secret")
    source = f"""
import os, time
os.chdir('/home/user')
open('aaa', 'wb').write(bytes(20 << 20))
os.mkdir('folder')
os.symlink({str(tmp_path)!r}, 'link')
while True:
    os.rename('folder', 'aside'); os.rename('link', 'folder')
    time.sleep(0.002)
    os.rename('folder', 'link'); os.rename('aside', 'folder')
    time.sleep(0.002)
"""
    start_inside(hostile, source)
    assert wait_until(lambda: os.path.lexists(inside(hostile, "/home/user/link")))

    for _ in range(60):
        files_digest(inside(hostile, "/home/user"))

    key = (tmp_path / "key.txt").stat()
    assert key.st_atime_ns <= key.st_mtime_ns, "the host has read its own file"


def test_a_link_in_place_of_a_socket_leads_nowhere(hostile: Sandbox, tmp_path: Path):
    """Else the host would talk to a socket of its own, or of a neighbour."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.settimeout(0.5)
        shell(
            hostile,
            f"ln -sT {tmp_path} /tmp/way; ln -s {path} /tmp/x; ln -s {path} /tmp/y;"
            f"rm /tmp/.X11-unix/X0; mv /tmp/x /tmp/.X11-unix/X0; mv /tmp/y {SOCKET_PATH}",
        )

        for door in (SOCKET_PATH, "/tmp/.X11-unix/X0", "/tmp/way/s"):
            with socket.socket(socket.AF_UNIX) as handle, pytest.raises(OSError, match="symbolic"):
                connect_inside(handle, inside(hostile, door))
        with pytest.raises(DesktopLostError):
            Guest(inside(hostile, SOCKET_PATH), timeout_s=2).get("/health")
        with pytest.raises(DesktopLostError):
            XConnection(inside(hostile, "/tmp/.X11-unix/X0"), 0.3)
        with pytest.raises(DesktopLostError):
            Screen(inside(hostile, "/tmp/.X11-unix/X0"), 1280, 720)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_log_that_is_a_link_or_a_pipe_is_not_read(hostile: Sandbox, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    shell(hostile, f"cd /tmp; echo plain > a; ln -s {secret} b; mkfifo c")

    said = [read_inside(inside(hostile, f"/tmp/{name}"), 100) for name in "abcd"]

    assert said == ["plain\n", "", "", ""]


def test_the_memory_of_the_picture_cannot_be_cut_off(hostile: Sandbox):
    said = run_inside(hostile, """
import os
found = 0
for pid in filter(str.isdigit, os.listdir('/proc')):
    try: handles = os.listdir(f'/proc/{pid}/fd')
    except OSError: continue
    for handle in handles:
        path = f'/proc/{pid}/fd/{handle}'
        try:
            if 'memfd:frame' not in os.readlink(path): continue
            found += 1
            with open(path, 'r+b') as picture: picture.truncate(0)
            print('cut')
        except OSError as error: print(error.errno)
print('done')
""")  # fmt: skip

    assert "cut" not in said
    assert said.endswith("done")
    assert hostile.act(Type(text="x")).signature.frame


@pytest.mark.slow
def test_guests_of_a_user_without_root_are_contained_as_well():
    """The same tests, run by a stranger, whom this host lends no control groups."""
    some = "fork_bomb or full_disk or socket_of or traced or system_call or picture"
    here = "tests/actors/desktop/test_hostile.py"

    done = run_as_stranger("-m", "pytest", "-q", "-p", "no:cacheprovider", here, "-k", some)

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-500:]
