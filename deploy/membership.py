"""How a node stays known to its head, and knows where the policies are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NoReturn

import structlog
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.nng import NngLinks
from envs_node.actors.post import Post
from envs_node.deploy.health import Health
from envs_node.deploy.parts import PROPOSER
from envs_node.messages.base import ActorName, EnvsError
from envs_node.messages.lifecycle import Join, Joined, JoinFailed, Leave, Resolve, Resolved

HEAD = ActorName("head")
_JOIN_S = 2.0
_TAKEN_S = 15.0
"""How long we ask again while another node has our name: it may be dead, and just not cold yet."""
_LEAVE_S = 1.0
_TOLD_S = 30.0
"""How long a trouble that is over is still told of: while it lasted, the head could not hear."""

_log = structlog.get_logger(__name__)


class JoinRefusedError(EnvsError):
    """The head does not let this node in."""


async def keep_joined(
    post: Post,
    introduce: Callable[[], Join],
    health: Health,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Join the head, and again every two seconds: that is how it knows the node lives.

    When it is cancelled the node takes its leave, so that it is not taken for dead.

    Args:
        introduce: what the node says of itself at this moment.
        health: is told of how long the head was not heard.

    Raises:
        JoinRefusedError: the head refused.
    """
    node = introduce().node
    head = post.ref(HEAD, sender=ActorName(f"node/{node}"))
    heard_s = asked_s = trio.current_time()
    is_joined = False
    try:
        while True:
            try:
                answer = await head.ask(introduce(), timeout_s=_JOIN_S * 2)
            except (AskTimeoutError, ActorCrashedError) as error:
                _log.warning("head.missed", error=str(error))
            else:
                now_s = trio.current_time()
                if isinstance(answer, JoinFailed):
                    if not answer.is_taken or now_s - asked_s > _TAKEN_S:
                        raise JoinRefusedError(answer.reason)
                    _log.warning("head.refused", reason=answer.reason)
                elif isinstance(answer, Joined):
                    _note_silence(health, now_s - heard_s)
                    heard_s = asked_s = now_s
                    if not is_joined:
                        is_joined = True
                        _log.info("node.admitted", head=answer.head)
                        task_status.started()
            await trio.sleep(_JOIN_S)
    finally:
        if is_joined:
            await _leave(head, introduce())


async def keep_proposer(post: Post, links: NngLinks, name: str, health: Health) -> NoReturn:
    """Know where a proposer lives; nodes spread over those there are by their names.

    Whoever still waits for one that came back elsewhere is told at once: it would wait in vain.
    """
    head = post.ref(HEAD, sender=ActorName(f"node/{name}"))
    url = ""
    while True:
        try:
            answer = await head.ask(Resolve(prefix=PROPOSER), timeout_s=_JOIN_S * 2)
        except (AskTimeoutError, ActorCrashedError) as error:
            _log.warning("head.missed", error=str(error))
        else:
            places = answer.places if isinstance(answer, Resolved) else ()
            if not places:
                lack = f"the policy at {url} is gone" if url else "there is no policy"
                health.mark(
                    "proposer",
                    f"{lack}, and the head knows of no other: start one with "
                    "`envs-node start --role policy --head URL`",
                )
            else:
                health.clear("proposer")
                urls = sorted(place.url for place in places)
                gone, url = url, urls[sum(name.encode()) % len(urls)]
                post.add_route(PROPOSER, links.to(url))
                if gone and gone not in urls:
                    _log.warning("proposer.moved", gone=gone, url=url)
                    health.mark(
                        "moved", f"the policy at {gone} is gone; asking {url}", for_s=_TOLD_S
                    )
                    links.drop(gone)
        await trio.sleep(_JOIN_S)


def _note_silence(health: Health, silent_s: float) -> None:
    if silent_s > _JOIN_S * 4:
        reason = f"the head was not heard for {silent_s:.0f} s; it is back"
        health.mark("head", reason, for_s=_TOLD_S)


async def _leave(head: Ref, join: Join) -> None:
    leave = Leave(node=join.node, instance=join.instance)
    with (
        trio.CancelScope(shield=True),
        contextlib.suppress(AskTimeoutError, ActorCrashedError),
    ):
        await head.ask(leave, timeout_s=_LEAVE_S)
