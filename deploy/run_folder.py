"""A run's folder: everything about the run is in it, and nothing of it needs this machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import structlog

from envs_node import __version__
from envs_node.deploy.config import Config
from envs_node.deploy.tasks.bundle import write_tasks
from envs_node.messages.base import EnvsError, RunId
from envs_node.messages.tasks import Task

_log = structlog.get_logger(__name__)

_LIBRARIES = ("torch", "transformers", "trio", "pynng", "msgspec", "sqlalchemy", "numpy")


class RunFolderError(EnvsError):
    """A run folder that is there already, is missing, or is none."""


class RunChangedError(RunFolderError):
    """A run that would go on otherwise than it began."""

    def __init__(self, run: str, what: str, began: str, now: str) -> None:
        super().__init__(
            f"the run {run} began with {what} {began!r}, and now it is {now!r}: go on with the "
            "same, or add --force"
        )


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended; without this file it is on, or what had it on has died."""

    run: str
    is_over: bool
    """False when it was stopped before all was done: it can be resumed."""
    why: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was started with."""

    run: str
    version: str
    libraries: dict[str, str]
    config: Config
    policy: str
    """Name and digest of the searching policy."""
    checker: str
    tasks: tuple[str, ...]
    kind: str
    """`search` or `eval`."""
    tasks_sha256: str = ""
    """Of `tasks.msgpack`."""
    request_id: str = ""
    """Of who asked a head for the run."""


class RunFolder:
    """Paths of a run, and the few files that belong to no actor."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = RunId(path.name)
        self.tasks = path / "tasks"
        self.journal = path / "journal"
        self.ledger = path / "ledger.sqlite"
        self.logs = path / "logs"
        self.summary = path / "summary.json"
        self.progress = path / "progress.json"
        self._ended = path / "ended.json"
        self._manifest = path / "manifest.json"
        self._packed_tasks = path / "tasks.msgpack"

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        config: Config,
        tasks: tuple[Task, ...],
        policy: str,
        checker: str,
        kind: str,
        request_id: str = "",
    ) -> RunFolder:
        """Make a new run folder. One whose making was cut short is made again.

        Raises:
            RunFolderError: there is something at that path.
        """
        folder = cls(path)
        unfinished = path / "unfinished"
        is_ours = unfinished.is_file() and not folder.is_run()
        is_free = is_ours or not path.exists()
        if not is_free and (not path.is_dir() or any(p.name != "logs" for p in path.iterdir())):
            raise RunFolderError(
                f"{path} exists; choose another with --run, or go on with it by --resume"
            )
        try:
            folder.logs.mkdir(parents=True, exist_ok=True)
            unfinished.touch()
            write_tasks(folder.tasks, tasks)
        except OSError as error:
            raise RunFolderError(f"cannot make {path}: {error.strerror}") from error
        packed = msgspec.msgpack.encode(tasks)
        folder._packed_tasks.write_bytes(packed)
        manifest = Manifest(
            run=folder.run,
            version=__version__,
            libraries={name: metadata.version(name) for name in _LIBRARIES},
            config=config,
            policy=policy,
            checker=checker,
            tasks=tuple(task.id for task in tasks),
            kind=kind,
            tasks_sha256=hashlib.sha256(packed).hexdigest(),
            request_id=request_id,
        )
        write_json(folder._manifest, manifest)
        unfinished.unlink()
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run folder that is there.

        Raises:
            RunFolderError: no run is at that path.
        """
        folder = cls(path)
        if not folder.is_run():
            raise RunFolderError(
                f"{path} is no run: it has no manifest.json; see `ls {path.parent}`"
            )
        return folder

    def is_run(self) -> bool:
        """Whether a run is here; a desktop node's folder has a journal and no more."""
        return self._manifest.is_file()

    def manifest(self) -> Manifest:
        """What the run was started with.

        Raises:
            RunFolderError: the manifest is damaged.
        """
        try:
            return msgspec.json.decode(self._manifest.read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError) as error:
            raise RunFolderError(f"{self._manifest} is damaged: {error}") from error

    def change_config(self, config: Config) -> None:
        """Let the run go on with another configuration, and say so in the manifest."""
        write_json(self._manifest, msgspec.structs.replace(self.manifest(), config=config))

    def require_same(self, *, policy: str, checker: str) -> None:
        """Refuse to go on with a run with other things than it began with.

        Raises:
            RunChangedError: the tasks were changed, or policy, checker or version are others.
        """
        manifest = self.manifest()
        if manifest.tasks_sha256:
            found = hashlib.sha256(self._packed_tasks.read_bytes()).hexdigest()
            if found != manifest.tasks_sha256:
                raise RunChangedError(self.run, "tasks of digest", manifest.tasks_sha256, found)
        now = {"policy": policy, "checker": checker, "version": __version__}
        for what, value in now.items():
            if getattr(manifest, what) != value:
                raise RunChangedError(self.run, what, getattr(manifest, what), value)

    def end(self, *, is_over: bool, why: str) -> None:
        """Mark that the run is not on any more."""
        write_json(self._ended, Ended(run=self.run, is_over=is_over, why=why))

    def has_ended(self) -> bool:
        """Whether the run was brought to an end, or stopped; one that died was not."""
        return self._ended.exists() or self.summary.exists()

    def reopen(self) -> None:
        """Take the mark away: the run goes on, and its sums will be others."""
        for path in (self._ended, self.summary, self.progress):
            path.unlink(missing_ok=True)

    def load_tasks(self) -> tuple[Task, ...]:
        """The run's tasks, complete.

        Raises:
            RunFolderError: they are missing or damaged.
        """
        try:
            return msgspec.msgpack.decode(self._packed_tasks.read_bytes(), type=tuple[Task, ...])
        except (OSError, msgspec.DecodeError) as error:
            raise RunFolderError(f"{self._packed_tasks} is damaged: {error}") from error


def find_unfinished(root: Path, *, has_policy: bool) -> RunFolder | None:
    """The run below a head's folder that was on when the head died; the latest of several.

    Args:
        has_policy: whether the head brings a policy and desktops of its own. A run that was done
            by the other kind, or that another process is doing, is not this head's.
    """
    if not root.is_dir():
        return None
    folders = [RunFolder(path) for path in root.iterdir() if path.is_dir()]
    left = [
        folder
        for folder in folders
        if folder.is_run()
        and not folder.has_ended()
        and _is_of_kind(folder, has_policy=has_policy)
        and not _is_written(folder.journal)
    ]
    return max(left, key=lambda folder: folder.path.stat().st_mtime_ns, default=None)


def _is_of_kind(folder: RunFolder, *, has_policy: bool) -> bool:
    """Whether such a head has begun it. A damaged one is told of, and keeps no other back."""
    try:
        return bool(folder.manifest().policy) == has_policy
    except RunFolderError as error:
        _log.warning("run.skipped", path=str(folder.path), why=str(error))
        return False


def _is_written(journal: Path) -> bool:
    """Whether another process has a journal open."""
    if not journal.is_dir():
        return False
    descriptor = os.open(journal, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def require_writable(folder: Path, loss: str) -> None:
    """Refuse a folder, made yet or not, in which nothing can be kept.

    Raises:
        RunFolderError: naming what stands in the way, and what is lost by it.
    """
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        lack = "cannot be written to" if place.is_dir() else "is no folder"
        raise RunFolderError(f"{place} {lack}: {loss} in {folder}; name another folder")


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people and machines, whole or not at all."""
    data = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2)
    partial = path.with_suffix(path.suffix + ".partial")
    with partial.open("wb") as file:
        file.write(data + b"\n")
        file.flush()
        os.fsync(file.fileno())  # or a machine that loses its power may leave an empty file
    os.replace(partial, path)
