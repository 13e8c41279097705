"""How a node stays known to its head, and knows where the policies are."""

from __future__ import annotations

import structlog
import trio

from envs_node import __version__
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError
from envs_node.actors.nng import NngLinks
from envs_node.actors.post import Post
from envs_node.deploy.parts import PROPOSER
from envs_node.messages.base import ActorName, EnvsError
from envs_node.messages.lifecycle import Join, Joined, JoinFailed, Resolve, Resolved, Role

HEAD = ActorName("head")
_JOIN_S = 2.0

_log = structlog.get_logger(__name__)


class JoinRefusedError(EnvsError):
    """The head does not let this node in."""


async def keep_joined(
    post: Post,
    name: str,
    role: Role,
    url: str,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Join the head, and again every two seconds: that is how it knows the node lives.

    Raises:
        JoinRefusedError: the head refused.
    """
    head = post.ref(HEAD, sender=ActorName(f"node/{name}"))
    is_joined = False
    while True:
        join = Join(node=name, role=role, url=url, actors=post.names(), version=__version__)
        try:
            answer = await head.ask(join, timeout_s=_JOIN_S * 2)
        except (AskTimeoutError, ActorCrashedError) as error:
            _log.warning("head.missed", error=str(error))
        else:
            if isinstance(answer, JoinFailed):
                raise JoinRefusedError(answer.reason)
            if isinstance(answer, Joined) and not is_joined:
                is_joined = True
                _log.info("node.admitted", head=answer.head)
                task_status.started()
        await trio.sleep(_JOIN_S)


async def keep_proposer(post: Post, links: NngLinks, name: str) -> None:
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
            if isinstance(answer, Resolved) and answer.places:
                places = sorted(answer.places, key=lambda place: place.url)
                gone, url = url, places[sum(name.encode()) % len(places)].url
                post.add_route(PROPOSER, links.to(url))
                if gone and all(place.url != gone for place in places):
                    _log.warning("proposer.moved", gone=gone, url=url)
                    links.drop(gone)
        await trio.sleep(_JOIN_S)
