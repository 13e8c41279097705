"""Films of branches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from structlog.testing import capture_logs

from envs_node.actors.desktop.recording import FILE_BYTES_MAX, Films, Recording, film_name
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Type
from tests.actors.desktop.looking import wait_until
from tests.fakes_desktop import open_task

WIDTH, HEIGHT = 322, 241


def plain(level: int) -> NDArray[np.uint8]:
    return np.full((HEIGHT, WIDTH, 4), level, np.uint8)


def probe(path: Path) -> dict[str, str]:
    said = subprocess.run(
        ("ffprobe", "-v", "error", "-count_frames", "-show_entries",
         "stream=width,height,nb_read_frames:format=duration", "-of", "json", str(path)),
        capture_output=True, check=True, timeout=30,
    ).stdout  # fmt: skip
    told = json.loads(said)
    return {**told["streams"][0], **told["format"]}


def decode(path: Path, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    """All frames, as grey levels.  # (frames, height, width)"""
    raw = subprocess.run(
        ("ffmpeg", "-v", "error", "-i", str(path), "-fps_mode", "passthrough", "-f", "rawvideo",
         "-pix_fmt", "gray", "pipe:1"),
        capture_output=True, check=True, timeout=30,
    ).stdout  # fmt: skip
    return np.frombuffer(raw, np.uint8).reshape(-1, height + height % 2, width)[:, :height]


def test_a_film_holds_every_still_picture_at_its_time(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.mp4", WIDTH, HEIGHT)
    for count, level in enumerate((10, 120, 240), start=1):
        recording.show(plain(level), is_still=True)
        recording.show(plain(level), is_still=True)  # the same again: nothing new
        assert wait_until(lambda count=count: recording.frames == count)
        time.sleep(0.3)

    film = recording.close()

    told = probe(film.path)
    assert (film.frames, film.left_out) == (4, 0)
    assert (int(told["width"]), int(told["height"])) == (WIDTH, HEIGHT + 1)
    assert 0.8 < float(told["duration"]) < 5
    frames = decode(film.path)
    assert [round(float(frame.mean()) / 10) for frame in frames] == [1, 12, 24, 24]
    assert film.size_bytes == film.path.stat().st_size


def test_nobody_waits_for_an_encoder_that_hangs(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.mp4", WIDTH, HEIGHT)
    os.kill(recording.pid, signal.SIGSTOP)
    began_s = time.monotonic()

    for level in range(60):
        recording.show(plain(level), is_still=True)
    shown_s = time.monotonic() - began_s
    film = recording.close()

    assert shown_s < 1
    assert film.left_out > 40
    assert time.monotonic() - began_s < 10
    assert not Path(f"/proc/{recording.pid}").exists()


def test_a_killed_encoder_leaves_what_was_filmed_and_hurts_nobody(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.mp4", WIDTH, HEIGHT)
    recording.show(plain(10), is_still=True)
    os.kill(recording.pid, signal.SIGKILL)
    assert wait_until(lambda: recording.is_over)

    recording.show(plain(99), is_still=True)
    film = recording.close()

    assert film.left_out >= 1


def test_an_encoder_ends_with_the_process_that_films(tmp_path: Path) -> None:
    script = (
        "import os, sys, time, numpy, pathlib\n"
        "from envs_node.actors.desktop.recording import Recording\n"
        "r = Recording(pathlib.Path(sys.argv[1]), 320, 240)\n"
        "r.show(numpy.zeros((240, 320, 4), numpy.uint8), is_still=True)\n"
        "print(r.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        (sys.executable, "-c", script, str(tmp_path / "a.mp4")), stdout=subprocess.PIPE, cwd=root,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        encoder = int(process.stdout.readline())
        process.kill()

    assert wait_until(lambda: not Path(f"/proc/{encoder}").exists())


@pytest.mark.live
def test_a_branch_of_a_real_desktop_is_filmed_from_its_start_to_its_end(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    sandbox.films = Films(lambda: tmp_path)
    task = open_task("mousepad", "/home/user/a.txt", files={"a.txt": b"alpha"})
    with capture_logs() as logs:
        sandbox.check(task, "t-1/explore/7")
        start = sandbox.reset(task)
        end = sandbox.act(Type(text="bravo\n" * 20))
        pictures = [sandbox.frame_png(seen.signature.frame) for seen in (start, end)]
        sandbox.close()
        assert wait_until(lambda: any(log["event"] == "branch.recorded" for log in logs))

    (film,) = [log for log in logs if log["event"] == "branch.recorded"]
    assert film["path"] == str(tmp_path / "recordings" / "t-1_explore_7.mp4")
    assert (film["branch_id"], film["left_out"]) == ("t-1/explore/7", 0)
    assert 0 < film["size_bytes"] < FILE_BYTES_MAX
    frames = decode(Path(film["path"]), start.width, start.height).astype(int)
    first, last = (
        np.asarray(Image.open(BytesIO(png or b"")).convert("L")).astype(int) for png in pictures
    )
    assert film["frames"] == len(frames) >= 3
    assert min(abs(frame - first).mean() for frame in frames) < 3
    assert abs(frames[-1] - last).mean() < abs(frames[-1] - first).mean() / 2


@pytest.mark.parametrize("branch", ["calc-7/b3", "../../etc/passwd", "a" * 400])
def test_a_film_is_named_after_its_branch_and_stays_in_its_folder(branch: str) -> None:
    name = film_name(branch)

    assert "/" not in name
    assert name.endswith(".mp4")
    assert len(name) < 200
