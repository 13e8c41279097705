"""A recording of the screen: one at a time, as OSWorld's server makes it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from contextlib import suppress

from envs_node.actors.desktop.guest import screen
from envs_node.actors.desktop.guest.answer import Download, Fields, RefusedError, failed
from envs_node.actors.desktop.guest.running import end

PATH = "/tmp/recording.mp4"
_PROGRESS = "/tmp/recording.progress"
_PICTURES = re.compile(rb"^frame=[1-9]", re.MULTILINE)
_RATE, _START_S, _END_S, _POLL_S = 30, 15.0, 15.0, 0.02


class Recorder:
    """Starts and ends ffmpeg. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, request: Fields) -> Fields:
        """Begin a recording."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                message = "Recording is already in progress."
                raise RefusedError(400, {"status": "error", "message": message})
            size = screen.screen_size(request)
            # libx264 takes even sizes alone
            shape = f"{size['width'] & ~1}x{size['height'] & ~1}"
            argv = ["ffmpeg", "-y", "-loglevel", "error", "-f", "x11grab", "-draw_mouse", "1"]
            argv += ["-video_size", shape, "-framerate", str(_RATE), "-i", ":0"]
            argv += [
                "-progress",
                _PROGRESS,
                "-stats_period",
                "0.1",
                "-c:v",
                "libx264",
                "-preset",
                "ultrafast",
                "-pix_fmt",
                "yuv420p",
                PATH,
            ]
            with suppress(FileNotFoundError):
                os.unlink(_PROGRESS)
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                raise failed(f"{error}; recordings need ffmpeg") from error
            self._wait_picture(process)
            self._process = process
            return {"status": "success", "message": "Started recording."}

    def stop(self, _request: Fields) -> Download:
        """End the recording, and send it."""
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                message = "No recording in progress to stop."
                raise RefusedError(400, {"status": "error", "message": message})
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired as error:
                end(process)
                raise failed(f"ffmpeg did not end within {_END_S:g} s") from error
            said = process.stderr.read() if process.stderr else b""
            try:
                with open(PATH, "rb") as source:
                    data = source.read()
                os.unlink(PATH)
            except OSError as error:
                detail = said.decode(errors="replace")[-300:]
                raise failed(f"no recording was made: {detail or error}") from error
            return Download(data, "video/mp4", os.path.basename(PATH))

    def _wait_picture(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until it has taken a picture. What ends before that says what it lacks."""
        deadline = time.monotonic() + _START_S
        while not _PICTURES.search(_read(_PROGRESS)):
            if process.poll() is not None:
                said = process.stderr.read() if process.stderr else b""
                raise failed(f"ffmpeg ended: {said.decode(errors='replace')[-300:]}")
            if time.monotonic() > deadline:
                end(process)
                raise failed(f"ffmpeg took no picture within {_START_S:g} s")
            time.sleep(_POLL_S)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as source:
            return source.read()
    except FileNotFoundError:
        return b""
