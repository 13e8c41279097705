"""What is kept of an episode's frames."""

from __future__ import annotations

from collections import OrderedDict

from envs_node.actors.desktop.frames import FRAMES_BYTES_MAX, FRAMES_MAX, trim_frames


def test_frames_of_noise_are_dropped_before_they_fill_the_memory() -> None:
    small = OrderedDict((str(number), b"x") for number in range(FRAMES_MAX + 1))
    large = OrderedDict((str(number), bytes(FRAMES_BYTES_MAX // 4)) for number in range(6))
    vast = OrderedDict({"old": b"x", "new": bytes(FRAMES_BYTES_MAX + 1)})

    for frames in (small, large, vast):
        trim_frames(frames)

    assert (len(small), "0" in small) == (FRAMES_MAX, False)
    assert list(large) == ["2", "3", "4", "5"]
    assert list(vast) == ["new"]
