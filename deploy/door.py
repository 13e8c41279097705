"""The door of a run: a unix socket where its status may be asked, and no more.

So a run in one process, which has no address, can be looked at from outside. The socket lies among
the process's temporary files: their way is short enough for one, which that of a run need not be.
The run's folder says where it is.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec
import structlog
import trio

from envs_node.actors.address import AddressError
from envs_node.actors.nng import serve
from envs_node.actors.post import Post
from envs_node.actors.transport import Deliver, Reply
from envs_node.messages.base import ActorName, Envelope, EnvsError, Message
from envs_node.messages.status import StatusWanted

_ADDRESS = "status.address"
_SOCKET = "status.sock"
_NOBODY = ActorName("door")
_LOOK_S = 0.2

_log = structlog.get_logger(__name__)


class NoDoorError(EnvsError):
    """No run is on in this folder, or none that can be looked at."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(
            f"no run can be looked at in {folder}: {reason}; while one is on there its process "
            "answers, and a head answers at --head URL"
        )
        self.folder = folder


async def keep_door(
    post: Post,
    where: Callable[[], Path | None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Answer in the folder of the run that is on, wherever that is, until cancelled.

    A run whose door cannot be opened goes on without one.
    """
    task_status.started()
    while True:
        folder = where()
        if folder is not None:
            await _hold_door(post, folder, where)
        await trio.sleep(_LOOK_S)


def find_door(folder: Path) -> str:
    """The address at which the run in this folder answers, if it is on.

    Raises:
        NoDoorError: nothing says that a run is on there.
    """
    try:
        url = (folder / _ADDRESS).read_text(errors="replace")
    except OSError as error:
        reason = f"no {_ADDRESS}" if folder.is_dir() else str(error.strerror)
        raise NoDoorError(folder, reason) from error
    if not Path(url.removeprefix("ipc://")).is_socket():
        raise NoDoorError(folder, "the process that was on there has died")
    return url


async def _hold_door(post: Post, folder: Path, where: Callable[[], Path | None]) -> None:
    """Answer as long as this is the folder of the run that is on."""
    place = Path(tempfile.mkdtemp(prefix="door-"))
    address = folder / _ADDRESS
    try:
        async with trio.open_nursery() as nursery:
            deliver = _only_status(post.deliver)
            address.write_text(await nursery.start(serve, deliver, f"ipc://{place / _SOCKET}"))
            await _wait_moved(folder, where)
            nursery.cancel_scope.cancel()
    except* (AddressError, OSError) as errors:
        _log.warning("door.refused", reason=str(errors.exceptions[0]))
        await _wait_moved(folder, where)
    finally:
        address.unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)


async def _wait_moved(folder: Path, where: Callable[[], Path | None]) -> None:
    while True:
        if where() != folder:
            return
        await trio.sleep(_LOOK_S)


def _only_status(deliver: Deliver) -> Deliver:
    def deliver_status(envelope: Envelope[Message], reply: Reply | None) -> None:
        if not isinstance(envelope.message, StatusWanted):
            envelope = msgspec.structs.replace(envelope, to=_NOBODY)  # who is not here, it says
        deliver(envelope, reply)

    return deliver_status
