"""Conducts a run from the outside: starts it on a head, watches it, stops it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.post import Post
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.config import Config
from envs_node.deploy.links import open_links_to
from envs_node.deploy.membership import HEAD
from envs_node.deploy.node import open_head, route_to_head
from envs_node.messages.base import WIRE_BYTES_MAX, ActorName, EnvsError, RunId
from envs_node.messages.lifecycle import Resolve, RunStarted, StartRun, StopRun
from envs_node.messages.search import Progress, ProgressWanted
from envs_node.messages.status import Status, StatusWanted
from envs_node.messages.tasks import Task
from envs_node.policy.backend import Policy

_HELLO_S = 15.0
"""A head that is there answers a question at once; starting a run may take it long."""
_START_S = 180.0
_POLL_S = 0.5
_LOOK_S = 5.0
_STOP_S = 30.0
_TASKS_BYTES_MAX = WIRE_BYTES_MAX - 256 * 1024
_CLIENT = ActorName("client")
_POLL_TIMEOUT_S = 5.0
"""A head that died answers nothing: so long it takes to see that another is in its place."""
_SILENCE_S = 300.0
"""After so long without an answer the run is given up here; it may go on without us."""

Watch = Callable[[Progress], None]


class RunNotStartedError(EnvsError):
    """The head refused the run, and why."""


class HeadLostError(EnvsError):
    """No head answers."""


class RunLostError(EnvsError):
    """The head died in the middle of a run and did not come back; what was found is with it."""

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(
            f"the head has lost the run {run}: {reason}; once it is back, go on with "
            f"`envs-node search --head <its address> --resume {run}`"
        )


def run_request(
    run: str,
    config: Config,
    tasks: tuple[Task, ...],
    *,
    is_resumed: bool = False,
    is_forced: bool = False,
) -> StartRun:
    """What is asked of a head to start a run; one that is resumed has its tasks already."""
    return StartRun(
        run=run,
        tasks=() if is_resumed else tuple(msgspec.msgpack.encode(task) for task in tasks),
        settings=config.search,
        is_resumed=is_resumed,
        is_forced=is_forced,
    )


async def conduct_here(
    request: StartRun,
    watch: Watch,
    *,
    config: Config,
    root: Path,
    policy: Policy,
    checker: CheckerSource,
) -> Progress:
    """Do a run in this process, with desktops, policy and ledger of its own."""
    async with open_head(config, root=root, policy=policy, checker=checker) as post:
        return await _conduct(post, request, watch)


async def conduct_at(
    url: str,
    request: StartRun,
    watch: Watch,
    *,
    folder: Path = Path("runs"),
    silence_s: float = _SILENCE_S,
) -> Progress:
    """Do a run on the head at an address. A head that dies and comes back goes on with it.

    Args:
        folder: where a certificate of this host is kept, if the address needs one.
        silence_s: how long a head that went away is waited for.

    Raises:
        HeadLostError: no head is there to begin with.
        RunNotStartedError: it refused the run, or the tasks are too large to be sent to it.
        RunLostError: it went away and did not go on with the run within `silence_s`.
    """
    size_bytes = sum(map(len, request.tasks))
    if size_bytes > _TASKS_BYTES_MAX:
        raise RunNotStartedError(
            f"{len(request.tasks)} tasks with their files are {size_bytes} bytes, and at most "
            f"{_TASKS_BYTES_MAX} can be sent to a head: search them in several runs"
        )
    post = Post(RunId(request.run))
    request = msgspec.structs.replace(request, request_id=secrets.token_hex(8))
    async with open_links_to(url, folder=folder) as links:
        route_to_head(post, links, url)
        return await _conduct(post, request, watch, silence_s)


async def _conduct(
    post: Post, request: StartRun, watch: Watch, silence_s: float = _SILENCE_S
) -> Progress:
    head = post.ref(HEAD, sender=_CLIENT)
    answer = await _ask_head(post, request)
    if answer is not None and not isinstance(answer, RunStarted):
        raise RunNotStartedError(f"the run was not started: {getattr(answer, 'reason', answer)}")
    is_lost = False
    try:
        return await _watch(post, request, watch, silence_s)
    except RunLostError:
        is_lost = True
        raise
    finally:
        if not is_lost:
            with (
                trio.CancelScope(shield=True),
                contextlib.suppress(AskTimeoutError, ActorCrashedError),
            ):
                await head.ask(StopRun(run=request.run), timeout_s=_STOP_S)


async def _ask_head(post: Post, request: StartRun) -> object:
    head = post.ref(HEAD, sender=_CLIENT)
    try:
        await head.ask(Resolve(prefix=HEAD), timeout_s=_HELLO_S)
    except (AskTimeoutError, ActorCrashedError) as error:
        raise HeadLostError(
            f"no head answers: {error}; is `envs-node start --role head` running?"
        ) from error
    try:
        return await head.ask(request, timeout_s=_START_S)
    except (AskTimeoutError, ActorCrashedError):
        return None  # it died over it, and may have begun
    except trio.Cancelled:
        if request.request_id:
            await _take_back(head, request)
        raise


async def _take_back(head: Ref, request: StartRun) -> None:
    """We are stopped while the head begins the run: stop that, once it has begun, if it is ours."""
    with (
        trio.CancelScope(shield=True),
        contextlib.suppress(AskTimeoutError, ActorCrashedError),
    ):
        answer = await head.ask(request, timeout_s=_STOP_S)  # by its id it is the same request
        if isinstance(answer, RunStarted):
            await head.ask(StopRun(run=request.run), timeout_s=_STOP_S)


async def _watch(post: Post, request: StartRun, watch: Watch, silence_s: float) -> Progress:
    scheduler = post.ref(ActorName("scheduler"), sender=_CLIENT)
    pauses = _Pauses(post)
    heard_s = trio.current_time()
    while True:
        try:
            progress = await scheduler.ask(ProgressWanted(), timeout_s=_POLL_TIMEOUT_S)
        except (AskTimeoutError, ActorCrashedError) as error:
            reason = await _go_on(post, request)
            if not reason:  # it is on, and its scheduler is busy or starts again
                heard_s = trio.current_time()
            if trio.current_time() - heard_s > silence_s:
                raise RunLostError(request.run, reason or str(error)) from error
        else:
            heard_s = trio.current_time()
            if isinstance(progress, Progress):
                if progress.run != request.run:
                    raise RunLostError(request.run, f"the run {progress.run} is on there now")
                watch(await pauses.told(progress))
                if progress.is_over:
                    return progress
        await trio.sleep(_POLL_S)


class _Pauses:
    """Asks the head now and then why the run does not go on: it knows who has died."""

    def __init__(self, post: Post) -> None:
        self._head = post.ref(HEAD, sender=_CLIENT)
        self._asked_s = trio.current_time()
        self._reason = ""

    async def told(self, progress: Progress) -> Progress:
        """The progress with the reason of a pause, if there is one."""
        if progress.reason or progress.is_over:
            return progress
        if trio.current_time() - self._asked_s >= _LOOK_S:
            self._reason = ""
            with contextlib.suppress(AskTimeoutError, ActorCrashedError):
                status = await self._head.ask(StatusWanted(), timeout_s=_LOOK_S)
                paused = status.paused if isinstance(status, Status) else ""
                self._reason = f"paused: {paused}" if paused else ""
            self._asked_s = trio.current_time()
        return msgspec.structs.replace(progress, reason=self._reason)


async def _go_on(post: Post, request: StartRun) -> str:
    """Ask the head to go on with the run, which changes nothing if it does. Why not, if it did not.

    A head that was restarted has no run on; one that is going on with ours is left alone.
    """
    head = post.ref(HEAD, sender=_CLIENT)
    again = msgspec.structs.replace(request, tasks=(), is_resumed=True)
    reason = ""
    try:
        await head.ask(Resolve(prefix=HEAD), timeout_s=_POLL_TIMEOUT_S)
        for asked in (again, request):  # it may have died before the run was begun
            answer = await head.ask(asked, timeout_s=_START_S)
            if isinstance(answer, RunStarted):
                return ""
            reason = reason or str(getattr(answer, "reason", answer))
    except (AskTimeoutError, ActorCrashedError) as error:
        return str(error)
    return reason
