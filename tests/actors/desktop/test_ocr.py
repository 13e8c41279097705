"""Text that is read off the picture of applications without accessibility."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.ocr import ROLE, read_lines
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.actions import Click, Type
from envs_node.messages.desktop import Element, Observation
from tests.actors.desktop.applications import APPLICATIONS
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live


@pytest.fixture
def reader(launcher: Launcher) -> Iterator[Sandbox]:
    """A desktop whose silent windows are read."""
    sandbox = Sandbox(launcher, DesktopKind(ocr=True))
    yield sandbox
    sandbox.close()


def lines(seen: Observation) -> dict[str, Element]:
    return {element.name: element for element in seen.elements if element.role == ROLE}


def test_what_a_terminal_shows_is_read_where_it_stands(reader: Sandbox) -> None:
    reader.reset(open_task("xterm", "-T", "Shell"))

    seen = reader.act(Type(text="clear; echo Seven brown foxes\n"))

    assert "Seven brown foxes" in lines(seen), lines(seen).keys()
    line = lines(seen)["Seven brown foxes"]
    (window,) = seen.windows
    assert window.x <= line.x < window.x + 20
    assert 8 <= line.height <= 20
    assert window.y <= line.y < window.y + 20
    assert seen.silent == ("Shell",)


def test_an_application_with_accessibility_is_not_read(reader: Sandbox) -> None:
    assert not lines(reader.reset(open_task("mousepad")))


@pytest.mark.slow
def test_a_menu_of_gimp_is_found_and_opened(reader: Sandbox) -> None:
    start = reader.reset(open_task(*APPLICATIONS["gimp"].argv))

    menu = lines(start)["Image"]
    opened = reader.act(Click(x=menu.x + menu.width // 2, y=menu.y + menu.height // 2))

    assert start.cuts == ()
    new = set(lines(opened)) - set(lines(start))
    assert {"Duplicate", "Mode"} & new, new


def test_reading_that_takes_too_long_is_cut_and_says_so() -> None:
    rows = np.random.default_rng(1).integers(0, 255, (720, 1280, 4), dtype=np.uint8)
    window = Window(
        id=1, title="Shell", app_class="", x=0, y=0, width=1280, height=720, is_hidden=False
    )
    began_s = time.monotonic()

    found, is_cut = read_lines(rows, [window], ["Shell"], within_s=0.05)

    assert (found, is_cut) == ((), True)
    assert time.monotonic() - began_s < 5
