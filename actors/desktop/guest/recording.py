"""A recording of the screen: one at a time, as OSWorld's server makes it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

from envs_node.actors.desktop.guest import windows
from envs_node.actors.desktop.guest.answer import Download, Fields, RefusedError, failed
from envs_node.actors.desktop.guest.running import end

PATH = "/tmp/recording.mp4"
_RATE, _ALIVE_S, _END_S = 30, 0.5, 15.0


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
            size = windows.screen_size(request)
            # libx264 takes even sizes alone
            shape = f"{size['width'] & ~1}x{size['height'] & ~1}"
            argv = ["ffmpeg", "-y", "-loglevel", "error", "-f", "x11grab", "-draw_mouse", "1"]
            argv += ["-video_size", shape, "-framerate", str(_RATE), "-i", ":0"]
            argv += ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", PATH]
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
            self._require_alive(process)
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

    def _require_alive(self, process: subprocess.Popen[bytes]) -> None:
        """Refuse when it ends at once, which is how ffmpeg says what it lacks."""
        try:
            process.wait(_ALIVE_S)
        except subprocess.TimeoutExpired:
            return
        said = process.stderr.read() if process.stderr else b""
        raise failed(f"ffmpeg ended: {said.decode(errors='replace')[-300:]}")
