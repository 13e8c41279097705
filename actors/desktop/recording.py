"""Films what a branch shows: each new picture, when it came, into an mp4 file.

Pictures that somebody has looked at anyway are handed to `ffmpeg`, which encodes them outside this
process. Nobody ever waits for it: while it is busy pictures are left out, and counted.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import structlog

from envs_node.actors.desktop.errors import LauncherError
from envs_node.actors.desktop.screen import Pixels

FILE_BYTES_MAX = 32 << 20
"""Of one film. What comes after is left out."""
_WAITING_MAX = 8
"""Pictures on their way to the encoder, 3.7 MB each at 1280x720."""
_EVERY_S = 0.1
"""Between two pictures of a screen that keeps changing."""
_CLOSE_S = 3.0
_PROGRAM = "ffmpeg"
_FOLDER = "recordings"

_log = structlog.get_logger(__name__)


class Film(msgspec.Struct, frozen=True, kw_only=True):
    """What was filmed."""

    path: Path
    frames: int
    left_out: int
    """Pictures for which the encoder had no time, or the file no room."""
    size_bytes: int


class Recording:
    """One film. Its encoder ends with it, and with this process whatever happens."""

    def __init__(
        self,
        path: Path,
        width: int,
        height: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the encoder.

        Args:
            environment: of the encoder: it carries the mark of who started it.

        Raises:
            LauncherError: there is no ffmpeg.
        """
        self._path = path
        self._size = (height, width)
        self._waiting: deque[bytes] = deque()
        self._wake = threading.Condition()
        self._frames = self._left_out = 0
        self._last, self._last_s = b"", 0.0
        self._is_closing = False
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._encoder = subprocess.Popen(
                _command(path, width, height), stdin=subprocess.PIPE, env=environment,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            raise LauncherError(f"desktop.record needs {_PROGRAM}: {error}") from error
        self._writer = threading.Thread(target=self._write, name=f"film {path.name}", daemon=True)
        self._writer.start()

    @property
    def pid(self) -> int:
        """The encoder's process."""
        return self._encoder.pid

    @property
    def frames(self) -> int:
        """Pictures that the encoder has taken."""
        return self._frames

    @property
    def is_over(self) -> bool:
        """Whether the encoder has ended."""
        return self._encoder.poll() is not None

    def show(self, pixels: Pixels, *, is_still: bool = False) -> None:
        """Film this picture, if there is time for it. Returns at once.

        Args:
            is_still: whether it has come to rest: then it is filmed though another was just now.
        """
        now_s = time.monotonic()
        if pixels.shape[:2] != self._size or (not is_still and now_s - self._last_s < _EVERY_S):
            return
        picture = pixels.tobytes()
        if picture == self._last:
            return
        with self._wake:
            if len(self._waiting) >= _WAITING_MAX:
                self._left_out += 1
                return
            self._last, self._last_s = picture, now_s
            self._waiting.append(picture)
            self._wake.notify()

    def close(self) -> Film:
        """End the film: its last picture stands until now. Waits 3 s at most."""
        with self._wake:
            self._is_closing = True
            if self._last:
                self._waiting.append(self._last)
            self._wake.notify()
        self._writer.join(_CLOSE_S)
        try:
            self._encoder.wait(_CLOSE_S if not self._writer.is_alive() else 0)
        except subprocess.TimeoutExpired:
            self._encoder.kill()
            self._encoder.wait()
            self._writer.join()
        size_bytes = self._path.stat().st_size if self._path.exists() else 0
        return Film(
            path=self._path, frames=self._frames, left_out=self._left_out + len(self._waiting),
            size_bytes=size_bytes,
        )  # fmt: skip

    def _write(self) -> None:
        """Hand the pictures on, one after the other. Runs in a thread of its own."""
        sink = self._encoder.stdin
        assert sink is not None, "the encoder was started with a pipe"
        try:
            with sink:
                while (picture := self._next()) is not None:
                    sink.write(picture)
                    sink.flush()
                    self._frames += 1
        except OSError:  # the file is full, or the encoder was killed: no more pictures
            with self._wake:
                self._left_out += 1

    def _next(self) -> bytes | None:
        with self._wake:
            while not self._waiting and not self._is_closing:
                self._wake.wait()
            return self._waiting.popleft() if self._waiting else None


class Films:
    """The films of one desktop, one a branch."""

    def __init__(
        self, find_folder: Callable[[], Path | None], environment: Mapping[str, str] | None = None
    ) -> None:
        """Put films into the folder that is the run's when they begin; None for no film."""
        self._find_folder = find_folder
        self._environment = environment
        self._branch = self._filmed = ""
        self._recording: Recording | None = None

    def name(self, branch: str) -> None:
        """Say whose the next film is."""
        self._branch = branch

    def begin(self, width: int, height: int) -> None:
        """Film from now on.

        Raises:
            LauncherError: there is no ffmpeg.
        """
        folder = self._find_folder()
        if folder is not None and self._branch:
            self._filmed = self._branch
            path = _free(folder / _FOLDER, self._branch)
            self._recording = Recording(path, width, height, self._environment)

    def show(self, grab: Callable[[], Pixels], *, is_still: bool = False) -> None:
        """Film a picture, which is taken only if there is a film."""
        if self._recording is not None:
            self._recording.show(grab(), is_still=is_still)

    def end(self) -> None:
        """End the film, without waiting for its encoder."""
        recording, self._recording = self._recording, None
        if recording is not None:
            threading.Thread(target=_finish, args=(recording, self._filmed), daemon=True).start()


def _finish(recording: Recording, branch: str) -> None:
    film = recording.close()
    _log.info(
        "branch.recorded", branch_id=branch, path=str(film.path), frames=film.frames,
        left_out=film.left_out, size_bytes=film.size_bytes,
    )  # fmt: skip


def _free(folder: Path, branch: str) -> Path:
    """A file that nobody has. A branch that was lost and sent out again has several films."""
    first = folder / film_name(branch)
    paths = (first.with_stem(f"{first.stem}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([first], paths) if not path.exists())


def film_name(branch: str) -> str:
    """The file of a branch's film."""
    return re.sub(r"[^\w.-]+", "_", branch)[:150] + ".mp4"


def _command(path: Path, width: int, height: int) -> tuple[str, ...]:
    return (
        "nice", "-n", "15", _PROGRAM, "-nostdin", "-loglevel", "error", "-y",
        # Each picture counts from when it comes.
        "-use_wallclock_as_timestamps", "1", "-f", "rawvideo", "-pixel_format", "bgr0",
        "-video_size", f"{width}x{height}", "-i", "pipe:0", "-fps_mode", "vfr",
        "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-c:v", "libx264", "-preset", "ultrafast",
        "-crf", "23", "-pix_fmt", "yuv420p", "-threads", "1", "-fs", str(FILE_BYTES_MAX),
        # Whole at any moment, so that a killed encoder leaves a film that can be seen.
        "-movflags", "+frag_keyframe+empty_moov+default_base_moof", str(path),
    )  # fmt: skip
