"""Conducts a run from the outside: starts it on a head, watches it, stops it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError
from envs_node.actors.nng import open_links
from envs_node.actors.post import Post
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.config import Config
from envs_node.deploy.membership import HEAD
from envs_node.deploy.node import open_head, route_to_head
from envs_node.messages.base import ActorName, EnvsError, RunId
from envs_node.messages.lifecycle import Resolve, RunStarted, StartRun, StopRun
from envs_node.messages.search import Progress, ProgressWanted
from envs_node.messages.tasks import Task
from envs_node.policy.backend import Policy

_HELLO_S = 15.0
"""A head that is there answers a question at once; starting a run may take it long."""
_START_S = 180.0
_POLL_S = 0.5
_STOP_S = 30.0
_CLIENT = ActorName("client")
_POLL_TIMEOUT_S = 30.0
_SILENCE_S = 60.0
"""After so long without an answer the run is given up here; it may go on without us."""

Watch = Callable[[Progress], None]


class RunNotStartedError(EnvsError):
    """The head refused the run, and why."""


class HeadLostError(EnvsError):
    """No head answers."""


class RunLostError(EnvsError):
    """The head died or was restarted in the middle of a run; what was found is in its folder."""

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(
            f"the head has lost the run {run}: {reason}; go on with it where the head keeps its "
            f"runs by `envs-node search --resume {run}`"
        )


def run_request(
    run: str, config: Config, tasks: tuple[Task, ...], *, is_resumed: bool = False
) -> StartRun:
    """What is asked of a head to start a run."""
    return StartRun(
        run=run,
        tasks=tuple(msgspec.msgpack.encode(task) for task in tasks),
        settings=config.search,
        is_resumed=is_resumed,
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


async def conduct_at(url: str, request: StartRun, watch: Watch) -> Progress:
    """Do a run on the head at an address."""
    post = Post(RunId(request.run))
    async with open_links() as links:
        route_to_head(post, links, url)
        return await _conduct(post, request, watch)


async def _conduct(post: Post, request: StartRun, watch: Watch) -> Progress:
    head = post.ref(HEAD, sender=_CLIENT)
    answer = await _ask_head(post, request)
    if not isinstance(answer, RunStarted):
        raise RunNotStartedError(f"the run was not started: {getattr(answer, 'reason', answer)}")
    try:
        return await _watch(post, request.run, watch)
    finally:
        with (
            trio.CancelScope(shield=True),
            contextlib.suppress(AskTimeoutError, ActorCrashedError),
        ):
            await head.ask(StopRun(run=request.run), timeout_s=_STOP_S)


async def _ask_head(post: Post, request: StartRun) -> object:
    head = post.ref(HEAD, sender=_CLIENT)
    try:
        await head.ask(Resolve(prefix=HEAD), timeout_s=_HELLO_S)
        return await head.ask(request, timeout_s=_START_S)
    except (AskTimeoutError, ActorCrashedError) as error:
        raise HeadLostError(f"no head answers: {error}; is `envs-node start` running?") from error


async def _watch(post: Post, run: str, watch: Watch) -> Progress:
    scheduler = post.ref(ActorName("scheduler"), sender=_CLIENT)
    heard_s = trio.current_time()
    while True:
        try:
            progress = await scheduler.ask(ProgressWanted(), timeout_s=_POLL_TIMEOUT_S)
        except (AskTimeoutError, ActorCrashedError) as error:
            if trio.current_time() - heard_s > _SILENCE_S:
                raise RunLostError(run, str(error)) from error
        else:
            heard_s = trio.current_time()
            if isinstance(progress, Progress):
                if progress.run != run:
                    raise RunLostError(run, f"the run {progress.run} is on there now")
                watch(progress)
                if progress.is_over:
                    return progress
        await trio.sleep(_POLL_S)
