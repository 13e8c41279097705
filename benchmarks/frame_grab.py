"""Frame grab and hash: ours, through shared memory, against python-xlib's `get_image`.

Both take the same desktop's picture and hash it, in turns in the same run: one picture each, and
five in a row each, as who waits for a still picture takes them. (python-xlib copies so much that
it pushes our memory out of the processor's cache.) Then the price of waiting for a still picture:
processor time of this process and of the X server, for a second of looking every 8 ms at a screen
on which nothing is drawn.

    python benchmarks/frame_grab.py [--rounds 60] [--width 1920 --height 1080]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

import xxhash
from timing import describe, machine, measure_ms
from Xlib import X

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.screen import frame_digest
from envs_node.actors.desktop.session import Session

POLL_S = 0.008
ROWS = (1, 5)


def server_ms(session: Session) -> float:
    """Processor time that the desktop's X server has used."""
    for stat in session.path("/proc").glob("[0-9]*/stat"):
        name, _, rest = stat.read_text().rpartition(")")
        if "Xvfb" in name or "Xorg" in name:
            fields = rest.split()
            return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")
    raise SystemExit("no X server")


def settling_ms(session: Session, seconds: float) -> tuple[float, float]:
    """Processor time a second of looking takes: in this process, and in the X server."""
    ours_ms, theirs_ms = time.process_time() * 1000, server_ms(session)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        session.screen.digest()
        time.sleep(POLL_S)
    ours_ms, theirs_ms = time.process_time() * 1000 - ours_ms, server_ms(session) - theirs_ms
    return ours_ms / seconds, theirs_ms / seconds


def report(row: int, ours: list[float], theirs: list[float]) -> str:
    """Both, and their ratio, so many taken in a row."""
    ratio = statistics.median(theirs) / statistics.median(ours)
    return (
        f"{row} in a row\n"
        f"{describe('ours (shared memory)', ours)}\n"
        f"{describe('python-xlib get_image', theirs)}\n"
        f"ratio theirs/ours: {ratio:.1f}\n"
    )


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--width", type=int, default=1920)
    parser.add_argument("--height", type=int, default=1080)
    options = parser.parse_args()
    with Launcher() as launcher:
        session = Session(launcher, DesktopKind(width=options.width, height=options.height))
        root = session.connection.root
        place = (0, 0, options.width, options.height, X.ZPixmap, 0xFFFFFFFF)
        try:
            assert root.get_image(*place).data == session.screen.grab().tobytes()
            told = ""
            for row in ROWS:
                ours, theirs = [], []
                for _ in range(options.rounds // row):
                    ours += measure_ms(lambda: frame_digest(session.screen.grab()), row)
                    theirs += measure_ms(
                        lambda: xxhash.xxh3_128_hexdigest(root.get_image(*place).data), row
                    )
                told += report(row, ours, theirs)
            here_ms, there_ms = settling_ms(session, 5)
        finally:
            session.close()
    sys.stdout.write(
        f"{machine()}\n"
        f"{options.width}x{options.height}, {options.rounds} pictures each, same pixels, hashed\n"
        f"{told}"
        f"a second of settling: {here_ms:.1f} ms here, {there_ms:.1f} ms in the X server\n"
    )


if __name__ == "__main__":
    main()
