"""Frame grab: ours, from the server's frame buffer file, against python-xlib's `get_image`.

Both copy the same desktop's picture, one after the other, in the same run.

    python benchmarks/frame_grab.py [--rounds 60] [--width 1280 --height 720]
"""

from __future__ import annotations

import argparse
import statistics
import sys

from timing import describe, measure_ms
from Xlib import X

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.session import Session


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=720)
    options = parser.parse_args()
    with Launcher() as launcher:
        session = Session(launcher, DesktopKind(width=options.width, height=options.height))
        root = session.connection.root
        place = (0, 0, options.width, options.height, X.ZPixmap, 0xFFFFFFFF)
        try:
            assert root.get_image(*place).data == session.screen.grab().tobytes()
            ours, theirs = [], []
            for _ in range(options.rounds):
                ours += measure_ms(session.screen.grab, 1)
                theirs += measure_ms(lambda: root.get_image(*place), 1)
        finally:
            session.close()
    ratio = statistics.median(theirs) / statistics.median(ours)
    sys.stdout.write(
        f"{options.width}x{options.height}, {options.rounds} rounds each, same pixels\n"
        f"{describe('ours (frame buffer file)', ours)}\n"
        f"{describe('python-xlib get_image', theirs)}\n"
        f"ratio theirs/ours: {ratio:.1f}\n"
    )


if __name__ == "__main__":
    main()
