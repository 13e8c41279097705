"""Conducts a run from the outside: starts it on a head, watches it, stops it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError
from envs_node.actors.nng import open_links
from envs_node.actors.post import Post
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.config import Config
from envs_node.deploy.node import HEAD, open_head, route_to_head
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
_MISSES_MAX = 20

Watch = Callable[[Progress], None]


class RunNotStartedError(EnvsError):
    """The head refused the run, and why."""


class HeadLostError(EnvsError):
    """The head no longer answers."""


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
        return await _watch(post, watch)
    finally:
        with trio.move_on_after(_STOP_S, shield=True):
            await head.ask(StopRun(run=request.run), timeout_s=_STOP_S)


async def _ask_head(post: Post, request: StartRun) -> object:
    head = post.ref(HEAD, sender=_CLIENT)
    try:
        await head.ask(Resolve(prefix=HEAD), timeout_s=_HELLO_S)
        return await head.ask(request, timeout_s=_START_S)
    except (AskTimeoutError, ActorCrashedError) as error:
        raise HeadLostError(f"no head answers: {error}; is `envs-node start` running?") from error


async def _watch(post: Post, watch: Watch) -> Progress:
    scheduler = post.ref(ActorName("scheduler"), sender=_CLIENT)
    misses = 0
    while True:
        try:
            progress = await scheduler.ask(ProgressWanted(), timeout_s=30)
        except (AskTimeoutError, ActorCrashedError) as error:
            misses += 1
            if misses > _MISSES_MAX:
                raise HeadLostError(f"the head no longer answers: {error}") from error
        else:
            misses = 0
            if isinstance(progress, Progress):
                watch(progress)
                if progress.is_over:
                    return progress
        await trio.sleep(_POLL_S)
