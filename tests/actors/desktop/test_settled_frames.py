"""A settled frame holds every repaint that came within the quiet window of the one before."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Any

import pytest

from envs_node.actors.desktop.quiet import Quiet
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.session import X_SOCKET
from envs_node.actors.desktop.xserver import XConnection
from tests.actors.desktop.looking import inside
from tests.fakes_desktop import make_task

pytestmark = [pytest.mark.live, pytest.mark.slow]
QUIET_S = Quiet().quiet_ms / 1000
ROUNDS = 200
REPAINTS = 6


class Painter:
    """Fills a window with one colour after the other, over a connection of its own."""

    def __init__(self, connection: XConnection) -> None:
        self._display: Any = connection.display
        self._window = connection.root.create_window(
            200, 200, 60, 40, 0, connection.display.screen().root_depth, override_redirect=True
        )
        self._window.map()
        self._pen = self._window.create_gc()

    def paint(self, number: int) -> tuple[float, float]:
        """Show a number as a colour; when the server was asked to, and when it had."""
        self._pen.change(foreground=0x200000 + 0x1010 * number)
        asked_s = time.monotonic()
        self._window.fill_rectangle(self._pen, 0, 0, 60, 40)
        self._display.sync()
        return asked_s, time.monotonic()


def due(painted: list[tuple[float, float]], began_s: float) -> int:
    """How many repaints must be seen: each surely came within the window of the one before."""
    last_asked_s = began_s
    for number, (asked_s, done_s) in enumerate(painted):
        if done_s - last_asked_s >= QUIET_S:
            return number
        last_asked_s = asked_s
    return len(painted)


def paint_all(
    painter: Painter,
    gaps_s: list[float],
    painted: list[tuple[float, float]],
    has_begun: threading.Event,
) -> None:
    """Paint once after each gap, and note when."""
    has_begun.wait()
    due_s = time.monotonic()
    for number, gap_s in enumerate(gaps_s, 1):
        due_s += gap_s
        time.sleep(max(0.0, due_s - time.monotonic()))
        painted.append(painter.paint(number))


@pytest.mark.parametrize("seed", [1])
def test_a_settled_frame_holds_every_repaint_within_the_window_of_the_one_before(
    sandbox: Sandbox, seed: int
) -> None:
    """Row C1."""
    sandbox.reset(make_task())
    connection = XConnection(inside(sandbox, X_SOCKET), 5)
    painter = Painter(connection)
    screen = sandbox._living().screen
    shows: dict[str, int] = {}
    for number in range(REPAINTS + 1):
        painter.paint(number)
        shows[screen.digest()] = number
    assert len(shows) == REPAINTS + 1
    chance = Random(seed)
    sure = 0

    for _ in range(ROUNDS):
        painter.paint(0)
        sandbox.wait_still()
        painted: list[tuple[float, float]] = []
        gaps_s = [chance.uniform(0, QUIET_S) for _ in range(REPAINTS)]
        has_begun = threading.Event()

        thread = threading.Thread(target=paint_all, args=(painter, gaps_s, painted, has_begun))
        thread.start()
        began_s = time.monotonic()
        has_begun.set()
        stillness = sandbox.wait_still()
        thread.join()

        assert stillness.settled
        assert shows[stillness.frame] >= due(painted, began_s), (gaps_s, painted)
        sure += due(painted, began_s)

    connection.close()
    assert sure > ROUNDS, "most rounds asked for something"
