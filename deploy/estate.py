"""What a node's process owns on this host, kept under a lock that lives as long as the process.

Each process that starts others, or makes files outside a run's folder, first makes itself an
estate: a folder with a record of who it is and a lock that the kernel lets go when it dies. Its
temporary files lie in the estate's scratch folder, and what it starts inherits the owner's id in
the environment. So what has an owner without a lock is nobody's, and `deploy/sweep.py` removes it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from envs_node.deploy.process import Process
from envs_node.messages.base import EnvsError

OWNER_VARIABLE = "ENVS_NODE_OWNER"
"""In the environment of every process that a node starts: the id of its owner."""
LOCK_FILE, RECORD_FILE = "lock", "owner.json"
PREFIX = "envs-node-"
"""Before the owner's id, in the name of all that lies elsewhere: scratch folders, cgroups."""


class EstateError(EnvsError):
    """The folder that records who owns what cannot be used."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who a process is, as its record says."""

    id: str
    process: Process
    node: str
    uid: int
    scratch: str
    """Its folder for temporary files."""
    sockets: tuple[str, ...] = ()
    """Socket files of its own that lie elsewhere."""
    since: str
    """When it started, for people."""


def state_folder() -> Path:
    """Where the estates of this user lie: in the runtime folder, else in the temporary one.

    Raises:
        EstateError: it is not ours alone.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR") or ("/run" if os.geteuid() == 0 else "")
    folder = Path(runtime) / "envs-node"
    if not runtime or not os.access(runtime, os.W_OK):
        folder = Path(tempfile.gettempdir()) / f"envs-node-of-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise EstateError(
            f"{folder} cannot be made: {error.strerror}; set XDG_RUNTIME_DIR to a folder of yours"
        ) from error
    is_ours = found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode)
    if not is_ours or found.st_mode & 0o022:
        raise EstateError(
            f"{folder} is not a folder of yours alone; remove it, or set XDG_RUNTIME_DIR"
        )
    return folder


@contextmanager
def estate(
    node: str,
    *,
    sockets: tuple[str, ...] = (),
    state: Path | None = None,
    scratch_in: Path | None = None,
) -> Iterator[Owner]:
    """Own an estate while the block runs: temporary files and child processes are marked with it.

    Args:
        node: for people who read the record.
        sockets: paths of socket files that will be made elsewhere.
        state: where it lies; `state_folder()` unless given.
        scratch_in: where its temporary files lie; the usual place unless given.

    Raises:
        EstateError: there is no place for it.
    """
    state = state or state_folder()
    name = f"{os.getpid()}-{secrets.token_hex(6)}"
    owner = Owner(
        id=name,
        process=Process.of(os.getpid()),
        node=node,
        uid=os.geteuid(),
        scratch=os.path.join(scratch_in or tempfile.gettempdir(), PREFIX + name),
        sockets=tuple(os.path.abspath(path) for path in sockets),
        since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )
    try:
        handle = _settle(state, owner)
    except OSError as error:
        raise EstateError(
            f"{error.filename}: {error.strerror}; make room there, or set XDG_RUNTIME_DIR"
        ) from error
    try:
        with _marked(owner):
            yield owner
    finally:
        shutil.rmtree(owner.scratch, ignore_errors=True)
        shutil.rmtree(state / owner.id, ignore_errors=True)
        os.close(handle)


def owner_label() -> dict[str, str]:
    """What goes into the environment of a process that is not to inherit the whole of ours."""
    return {name: os.environ[name] for name in (OWNER_VARIABLE,) if name in os.environ}


def lock_nowait(path: Path) -> int | None:
    """Take the lock in a file. None when somebody holds it, or it is no longer that file."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_ino == path.stat().st_ino:
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _settle(state: Path, owner: Owner) -> int:
    """Make the folders, locked from the moment on at which others can see them; the lock."""
    draft = state / f".{owner.id}"
    draft.mkdir(mode=0o700)
    handle = lock_nowait(draft / LOCK_FILE)
    assert handle is not None, "nobody else knows of it"
    try:
        (draft / RECORD_FILE).write_bytes(msgspec.json.encode(owner))
        os.mkdir(owner.scratch)
        os.chmod(owner.scratch, 0o711)  # for the checker's other user to pass, not to look round
        draft.rename(state / owner.id)
    except BaseException:
        shutil.rmtree(owner.scratch, ignore_errors=True)
        shutil.rmtree(draft, ignore_errors=True)
        os.close(handle)
        raise
    return handle


@contextmanager
def _marked(owner: Owner) -> Iterator[None]:
    """Let temporary files and child processes carry the owner's mark."""
    names = (OWNER_VARIABLE, "TMPDIR")
    before, folder = {name: os.environ.get(name) for name in names}, tempfile.tempdir
    os.environ.update({OWNER_VARIABLE: owner.id, "TMPDIR": owner.scratch})
    tempfile.tempdir = owner.scratch
    try:
        yield
    finally:
        tempfile.tempdir = folder
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
