"""Where a fit stands: its checkpoints, whose they are, and who fits there now."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from envs_node.fit.examples import Example
from envs_node.messages.base import EnvsError
from envs_node.messages.fit import FitReport, FitSettings

_OWNER = "fit.txt"
_LOCK = "fit.lock"
_SEAL = "whole.json"
_REPORT = "fit-report.json"


class FolderHeldError(EnvsError):
    """Somebody fits into this folder at this moment."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"another fit is under way in {folder}: wait for its end, or name another")
        self.folder = folder


class _Done(msgspec.Struct, frozen=True, kw_only=True):
    fit: str
    report: FitReport


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Be the only one who fits into a folder, made if need be; a process that dies lets go.

    Raises:
        FolderHeldError: somebody else is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderHeldError(folder) from None
        yield


def digest_fit(base: str, examples: Sequence[Example], settings: FitSettings) -> str:
    """Names a fit by what goes into it: the base policy, the examples and the settings."""
    digest = hashlib.sha256(base.encode())
    digest.update(msgspec.json.encode(settings))
    for example in examples:
        digest.update(msgspec.msgpack.encode(example))
    return digest.hexdigest()


def seal_checkpoint(folder: Path) -> None:
    """Say that a checkpoint is whole, once all of it is on the disk."""
    sizes = {}
    for file in sorted(folder.iterdir()):
        if file.name != _SEAL:
            sizes[file.name] = file.stat().st_size
            _sync(file)
    _write(folder / _SEAL, msgspec.json.encode(sizes))


def open_checkpoints(folder: Path, fit: str) -> Path | None:
    """The last whole checkpoint of this fit, if any; torn ones and another fit's are removed."""
    owner = folder / _OWNER
    is_ours = owner.is_file() and owner.read_text() == fit
    if folder.is_dir() and not is_ours:
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not is_ours:
        _write(owner, fit.encode())
    found = sorted(folder.glob("checkpoint-*"), key=lambda one: int(one.name.rpartition("-")[2]))
    whole = [one for one in found if _is_whole(one)]
    for torn in set(found) - set(whole):
        shutil.rmtree(torn)
    return whole[-1] if whole else None


def publish_files(made: Path, folder: Path) -> None:
    """Move finished files into a folder, each whole or not at all."""
    for file in sorted(made.iterdir()):
        _sync(file)
        file.replace(folder / file.name)
    made.rmdir()


def read_report(out: Path, fit: str) -> FitReport | None:
    """The report of this very fit, when it is done."""
    file = out / _REPORT
    if not file.is_file():
        return None
    try:
        done = msgspec.json.decode(file.read_bytes(), type=_Done)
    except msgspec.MsgspecError:
        return None
    return done.report if done.fit == fit else None


def write_report(out: Path, fit: str, report: FitReport) -> None:
    """Say that this fit is done. The last thing a fit writes."""
    _write(out / _REPORT, msgspec.json.format(msgspec.json.encode(_Done(fit=fit, report=report))))


def _is_whole(checkpoint: Path) -> bool:
    try:
        sizes = msgspec.json.decode((checkpoint / _SEAL).read_bytes(), type=dict[str, int])
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, msgspec.DecodeError):
        return False


def _write(file: Path, data: bytes) -> None:
    partial = file.with_name(file.name + ".partial")
    partial.write_bytes(data)
    _sync(partial)
    partial.replace(file)


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
