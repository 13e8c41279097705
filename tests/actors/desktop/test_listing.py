"""Windows are listed while they come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs_node.actors.desktop.guest.answer import RefusedError
from envs_node.actors.desktop.guest.windows import listed

GONE = """#!/bin/sh
echo >> {calls}
if [ "$(wc -l < {calls})" -le {fails} ]; then
  echo "X Error of failed request:  BadWindow (invalid Window parameter)" >&2
  exit 1
fi
[ "$1" = -l ] && echo "0x01200003  0 host Notes"
[ "$1" = -l ] || echo "0x01200003  0 10 20 640 480 pad.Pad host Notes"
"""


def fake_wmctrl(
    folder: Path, fails: int, monkeypatch: pytest.MonkeyPatch, said: str = "BadWindow"
) -> None:
    program = folder / "wmctrl"
    text = GONE.format(calls=folder / "calls", fails=fails)
    program.write_text(text.replace("BadWindow", said))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_window_that_goes_while_it_is_listed_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_wmctrl(tmp_path, 1, monkeypatch)

    assert [(window.title, window.width) for window in listed()] == [("Notes", 640)]


def test_a_window_manager_that_has_no_list_yet_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_wmctrl(tmp_path, 1, monkeypatch, "Cannot get client list properties")

    assert [(window.title, window.width) for window in listed()] == [("Notes", 640)]


def test_windows_that_never_stop_going_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_wmctrl(tmp_path, 99, monkeypatch)

    with pytest.raises(RefusedError) as refused:
        listed()

    assert "wmctrl -l ended with 1: X Error" in str(refused.value.body)
