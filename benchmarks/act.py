"""Act: how much later than need be an action is answered with a settled observation.

An action is typed into an application while another process watches the screen through a
connection of its own, every 2 ms. What the application itself takes is the time of its last
repaint, and then its quiet window must pass; whatever the answer takes longer is our overhead:
looking too seldom, reading elements, hashing, packing. A repaint is between two looks of the
watcher, and counts as old as it can be. So the overhead is told too large, by as long as the
watcher slept: on a busy machine by much.

    python benchmarks/act.py [mousepad xterm calc …] [--actions 20]
"""

from __future__ import annotations

import argparse
import bisect
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import xxhash
from desktops import make_task, quiet_logs
from timing import describe, machine

from envs_node.actors.desktop.guest.xclient import XClient
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Type

WATCH_S = 0.002
LAUNCHES = {
    "mousepad": ("mousepad",),
    "gedit": ("gedit",),
    "xterm": ("xterm",),
    "galculator": ("galculator",),
    "chromium": ("google-chrome",),
    "calc": ("libreoffice", "--calc"),
    "writer": ("libreoffice", "--writer"),
}
DEFAULT = ("mousepad", "xterm", "calc", "writer")


class Answer(msgspec.Struct, frozen=True):
    """One action: when it began and was answered, in s, and the quiet window it waited for."""

    began_s: float
    ended_s: float
    quiet_ms: int
    settled: bool


def watch(path: str) -> None:
    """Say of every change of a screen when it had not yet come and when it had, until killed."""
    client, last = XClient(path), ""
    before_s = time.monotonic()
    while True:
        asked_s = time.monotonic()
        if client.has_changed():
            client.take()
            taken_s = time.monotonic()
            digest = xxhash.xxh3_128_hexdigest(client.pixels or b"")
            if digest != last:
                last = digest
                sys.stdout.write(f"{before_s} {taken_s}\n")
                sys.stdout.flush()
        before_s = asked_s
        time.sleep(WATCH_S)


def drive(launcher: Launcher, argv: tuple[str, ...], actions: int) -> tuple[list[Answer], str]:
    """Type so many digits, one an action; the answers, and what the watcher said."""
    sandbox = Sandbox(launcher)
    try:
        sandbox.reset(make_task(argv))
        path = Path(f"/proc/{sandbox.guest_pid}/root/tmp/.X11-unix/X0")
        command = [sys.executable, __file__, "--watch", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
            assert watcher.stdout is not None
            said = watcher.stdout.readline()  # of the picture as it was when it began to watch
            sandbox.observe()
            answers = []
            for number in range(actions):
                began_s = time.monotonic()
                seen = sandbox.act(Type(text=str(number % 10)))
                ended_s = time.monotonic()
                answers.append(Answer(began_s, ended_s, seen.quiet_ms, seen.settled))
            time.sleep(0.1)
            watcher.terminate()
            said += watcher.communicate()[0]
    finally:
        sandbox.close()
    return answers, said


def report(name: str, answers: list[Answer], said: str) -> str:
    """Overheads of one application."""
    looks = [tuple(map(float, line.split())) for line in said.splitlines()]
    taken = [taken_s for _, taken_s in looks]
    whole, own, over = [], [], []
    for answer in (answer for answer in answers if answer.settled):
        place = bisect.bisect(taken, answer.ended_s)
        last_s = max(looks[place - 1][0] if place else 0.0, answer.began_s)
        whole.append((answer.ended_s - answer.began_s) * 1000)
        own.append((last_s - answer.began_s) * 1000)
        over.append((answer.ended_s - last_s) * 1000 - answer.quiet_ms)
    if len(over) < 2:
        return f"{name}: hardly ever settled\n"
    quiet = sorted({answer.quiet_ms for answer in answers})
    return (
        f"{name}: {len(over)} of {len(answers)} actions settled, quiet windows {quiet} ms\n"
        f"{describe('  action to answer', whole)}\n"
        f"{describe('  its own last repaint', own)}\n"
        f"{describe('  overhead', over)}\n"
    )


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("applications", nargs="*", default=DEFAULT)
    parser.add_argument("--actions", type=int, default=20)
    parser.add_argument("--watch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watch:
        watch(options.watch)
    quiet_logs()
    sys.stdout.write(f"{machine()}\n")
    with Launcher() as launcher:
        for name in options.applications:
            answers, said = drive(launcher, LAUNCHES[name], options.actions)
            sys.stdout.write(report(name, answers, said))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
