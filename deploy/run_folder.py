"""A run's folder: everything about the run is in it, and nothing of it needs this machine."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from envs_node import __version__
from envs_node.deploy.config import Config
from envs_node.deploy.tasks.bundle import write_tasks
from envs_node.messages.base import EnvsError, RunId
from envs_node.messages.tasks import Task

_LIBRARIES = ("torch", "transformers", "trio", "pynng", "msgspec", "sqlalchemy", "numpy")


class RunFolderError(EnvsError):
    """A run folder that is there already, is missing, or is none."""


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
    ) -> RunFolder:
        """Make a new run folder.

        Raises:
            RunFolderError: there is something at that path.
        """
        folder = cls(path)
        if path.exists() and (not path.is_dir() or any(p.name != "logs" for p in path.iterdir())):
            raise RunFolderError(
                f"{path} exists; choose another with --run, or go on with it by --resume"
            )
        try:
            folder.logs.mkdir(parents=True, exist_ok=True)
            write_tasks(folder.tasks, tasks)
        except OSError as error:
            raise RunFolderError(f"cannot make {path}: {error.strerror}") from error
        folder._packed_tasks.write_bytes(msgspec.msgpack.encode(tasks))
        manifest = Manifest(
            run=folder.run,
            version=__version__,
            libraries={name: metadata.version(name) for name in _LIBRARIES},
            config=config,
            policy=policy,
            checker=checker,
            tasks=tuple(task.id for task in tasks),
            kind=kind,
        )
        write_json(folder._manifest, manifest)
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

    def load_tasks(self) -> tuple[Task, ...]:
        """The run's tasks, complete.

        Raises:
            RunFolderError: they are missing or damaged.
        """
        try:
            return msgspec.msgpack.decode(self._packed_tasks.read_bytes(), type=tuple[Task, ...])
        except (OSError, msgspec.DecodeError) as error:
            raise RunFolderError(f"{self._packed_tasks} is damaged: {error}") from error


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
    partial.write_bytes(data + b"\n")
    os.replace(partial, path)
