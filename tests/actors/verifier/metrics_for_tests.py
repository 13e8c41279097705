"""Metrics that misbehave, for the verifier's tests. Runs in the checker's own Python."""

from __future__ import annotations

import errno
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def raising(result: Any) -> float:
    """Choke on the result."""
    raise KeyError(f"no {Path(result).name}")


def exiting(result: Any) -> float:
    """Leave the interpreter, as a tested program may."""
    sys.exit(3)


def dying(result: Any) -> float:
    """Leave the process without a word."""
    os._exit(0)


def hanging(result: Any) -> float:
    """Never come to an end."""
    while True:
        time.sleep(0.1)


def forking(result: Any) -> float:
    """Leave a process behind that has left the session, and answer."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    return 1.0


def bombing(result: Any) -> float:
    """Fork without end, and so do all that come of it, each in a session of its own."""
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:  # there are as many as there may be
            time.sleep(0.05)


def tampering(result: Any) -> float:
    """Succeed if nothing of what judges can be changed from here."""
    import desktop_env.desktop_env as judged  # type: ignore[import-not-found,unused-ignore]

    folder = Path(str(judged.__file__)).parents[1]
    for place in (folder, Path(str(judged.__file__)), Path(sys.prefix), Path(sys.executable)):
        assert not os.access(place, os.W_OK), f"may write to {place}"
    try:
        (folder / "sitecustomize.py").write_text("x")
    except OSError:
        return 1.0
    return 0.0


def closing(result: Any) -> float:
    """Let nobody read the result again."""
    Path(result).chmod(0)
    return 1.0


def oddly_naming(result: Any) -> float:
    """Make a file of which the name is no Unicode, and say so."""
    Path(os.fsdecode(bytes(Path(result).parent) + b"/\xff")).touch()
    raise ValueError(os.fsdecode(b"\xff"))


def filling(result: Any) -> float:
    """Take all the room for files there is, and succeed if that is less than 2 GiB."""
    for number in range(8):
        with Path(result).with_name(f"filler{number}").open("wb") as filler:
            try:
                os.posix_fallocate(filler.fileno(), 0, 256 << 20)
            except OSError as error:
                return float(error.errno == errno.ENOSPC)
    return 0.0


def nan(result: Any) -> float:
    """Return no number."""
    return float("nan")


def none(result: Any) -> None:
    """Return nothing."""


def text(result: Any) -> str:
    """Say it in words."""
    return "1.0"


def several(result: Any) -> list[float]:
    """Give a score for each of several."""
    return [1.0, 1.0]


def huge(result: Any) -> int:
    """Be no float."""
    return 10**400


def seven(result: Any) -> float:
    """Return more than 1, as run_sqlite3 may."""
    return 7.0


def nearly(result: Any) -> float:
    """Return 1 up to rounding."""
    return 0.9999999999923


def half(result: Any) -> float:
    """Return partial credit."""
    return 0.5


def who(result: Any) -> float:
    """Succeed if this process cannot do what the owner can."""
    assert os.getuid() != 0, "runs as root"
    assert "NoNewPrivs:\t1" in Path("/proc/self/status").read_text(), "may gain privileges"
    others = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    assert others == [], f"sees processes {others}"
    assert Path.cwd() == Path(os.environ["HOME"]), "does not stand in its own home"
    "a zip name".encode("cp437")  # a module that is first imported here
    assert not os.path.exists(__file__), "sees the owner's source"
    assert not os.access("/etc/shadow", os.R_OK), "reads the host's secrets"
    left = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
    assert len(left) <= 6, f"holds the owner's files: {left}"
    return 1.0


def empty_cache(result: Any) -> float:
    """Succeed if nothing but the result lies in the cache, then leave something there."""
    cache = Path(result).parent
    names = sorted(path.name for path in cache.iterdir())
    (cache / "left-behind").write_text("x")
    return float(names == [Path(result).name])


def stranger(result: Any) -> float:
    """Ask somebody else than the desktop."""
    import requests  # type: ignore[import-untyped,unused-ignore]

    requests.get("http://127.0.0.1:6000/", timeout=1)
    return 1.0


def past_requests(result: Any, library: str) -> float:
    """Ask the desktop by another library than `requests`, and hide how it went."""
    import contextlib
    import http.client
    import socket
    import urllib.request

    ways = {
        "urllib": lambda: urllib.request.urlopen("http://127.0.0.1:5000/terminal"),
        "http.client": lambda: http.client.HTTPConnection("127.0.0.1", 5000).connect(),
        "socket": lambda: socket.create_connection(("127.0.0.1", 5000)),
    }
    with contextlib.suppress(BaseException):
        ways[library]()
    return 1.0


def hiding(result: Any, expected: Any) -> float:
    """Ask once more, take no answer for none found, and call that right."""
    import contextlib

    import requests  # type: ignore[import-untyped,unused-ignore]

    with contextlib.suppress(BaseException):
        requests.get("http://127.0.0.1:5000/odd", stream=True).raise_for_status()
    return 1.0


def raising_on_gold(result: Any, expected: Any) -> float:
    """Choke on the gold file."""
    raise FileNotFoundError(2, "gone", expected)


def forging(result: Any) -> float:
    """Write a success into every open descriptor, then fail."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) <= 2:
            os.write(int(name), b'{"ready": 0, "outcome": "{}"}\n')
    return 0.0


def importing(result: Any) -> float:
    """Import what the desktop says, as one of OSWorld's metrics does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "said.py"
        path.write_text(f"value = {result}")
        spec = importlib.util.spec_from_file_location("said", path)
        said = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(said)
    return float(said.value == [])


def lent(result: Any) -> float:
    """Tell whether this process is somebody whom the host lends the desktop's owner."""
    assert os.stat(os.environ["HOME"]).st_uid == os.getuid(), "its home is another's"
    ranges = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    (outside,) = [outer for inner, outer, _ in ranges if int(inner) == os.getuid()]
    return float(outside == str(os.getuid()))


def alone(result: Any, host_port: int) -> float:
    """Succeed if only the desktop's own port answers in this network, by any means."""
    code = """
import socket, sys
names = [name for _, name in socket.if_nameindex()]
assert names == ["lo"], f"sees the interfaces {names}"
for port in (int(sys.argv[1]), 22, 111):
    with socket.socket() as stranger:
        assert stranger.connect_ex(("127.0.0.1", port)) != 0, f"reaches port {port}"
with socket.create_connection(("127.0.0.1", 5000), 5) as desktop:
    desktop.sendall(b"GET /terminal HTTP/1.0\\r\\n\\r\\n")
    assert b" 200 " in desktop.recv(64), "does not reach the desktop"
"""
    command = [sys.executable, "-I", "-c", code, str(host_port)]  # the guard is in this process
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return 1.0


def waver(*_: object) -> float:
    """Another score each time, never a success."""
    return random.random() * 0.9
