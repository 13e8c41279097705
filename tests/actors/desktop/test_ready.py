"""Who of several sockets is ready."""

from __future__ import annotations

import socket
import time

import pytest

from envs_node.actors.desktop.guest.ready import wait_ready


def test_those_that_can_be_read_or_have_ended_are_told_and_no_others() -> None:
    spoken, speaker = socket.socketpair()
    quiet, other = socket.socketpair()
    ended, gone = socket.socketpair()
    with spoken, speaker, quiet, other, ended:
        speaker.send(b"x")
        gone.close()

        assert wait_ready([spoken, quiet, ended], [quiet], 5) == ([spoken, ended], [quiet])


def test_it_waits_no_longer_than_it_is_told_and_not_for_what_is_closed() -> None:
    ours, theirs = socket.socketpair()
    began_s = time.monotonic()

    assert wait_ready([ours], timeout_s=0.05) == ([], [])

    assert time.monotonic() - began_s >= 0.05
    ours.close()
    theirs.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        wait_ready([ours], timeout_s=5)
