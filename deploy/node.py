"""Config to supervision tree: what runs in a process of each role."""

from __future__ import annotations

import functools
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from envs_node import __version__
from envs_node.actors.address import public_address
from envs_node.actors.base import Actor
from envs_node.actors.head.actor import HeadActor
from envs_node.actors.loop import run_actor
from envs_node.actors.nng import NngLinks, open_links, serve
from envs_node.actors.post import Post
from envs_node.actors.proposer.actor import ProposerActor
from envs_node.actors.refusals import Refusals
from envs_node.actors.tls import Peers
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.config import Config
from envs_node.deploy.door import keep_door
from envs_node.deploy.enrolment import keep_certified
from envs_node.deploy.head import HeadRuns
from envs_node.deploy.health import Health, host_troubles
from envs_node.deploy.links import secure_head, secure_node
from envs_node.deploy.machines import make_desktops
from envs_node.deploy.membership import HEAD, keep_joined, keep_proposer
from envs_node.deploy.parts import PROPOSER
from envs_node.deploy.run_journal import open_journal
from envs_node.deploy.slot import tell_crash
from envs_node.deploy.trainer import Trainer
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.lifecycle import Crashed, Join, Role
from envs_node.policy.backend import Policy
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor

_HEAD_NAMES = ("head", "scheduler", "ledger", "search/")


def node_name(config: Config, role: str) -> str:
    """The node's name: as configured, or host and role."""
    return config.link.node or f"{socket.gethostname().split('.')[0]}-{role}"


@asynccontextmanager
async def open_head(
    config: Config,
    *,
    root: Path,
    checker: CheckerSource,
    policy: Policy | None = None,
    refusals: Refusals | None = None,
    is_resuming: bool = False,
) -> AsyncIterator[Post]:
    """Hold a head open. With a policy it is of role `all`: its runs bring their own desktops.

    Args:
        refusals: counts what is refused where it is served; told of in its status.
        is_resuming: goes on with the run that was on when the last head of this folder died.
    """
    role: Role = "head" if policy is None else "all"
    name = node_name(config, role)
    post = Post(RunId(name))
    health = _board(post, root, refusals)

    def own_children() -> list[ChildSpec]:
        if policy is None:
            return []
        desktops = make_desktops(
            post, config.desktop, checker, node=name, health=health, find_folder=runs.path
        )
        return [_proposer(post, policy), desktops.child()]

    tree = Supervisor("node", [], publish=_publishing(health))
    runs = HeadRuns(
        post,
        tree,
        root=root,
        config=config,
        policy="" if policy is None else policy.name,
        checker=checker.version,
        extra=own_children,
        publish=_publishing(health),
    )

    def make_head() -> HeadActor:
        return HeadActor(
            runs,
            node=name,
            version=__version__,
            role=role,
            names=post.names,
            report=health.report,
        )

    async with _running(tree):
        await tree.start_child(_child(post, HEAD, make_head))
        door = functools.partial(keep_door, post, runs.path)
        await tree.start_child(ChildSpec(name="door", start=door))
        if is_resuming:
            await runs.resume_last()
        yield post


async def run_head(
    config: Config,
    *,
    root: Path,
    checker: CheckerSource,
    policy: Policy | None,
    tell: Callable[[str], None],
    is_resuming: bool = False,
) -> None:
    """Be the head, or all roles at once, until cancelled. `tell` hears the address it opens."""
    refusals = Refusals()
    name = node_name(config, "head" if policy is None else "all")
    secured = secure_head(config.link, name, root=root, refusals=refusals)
    head = open_head(
        config,
        root=root,
        checker=checker,
        policy=policy,
        refusals=refusals,
        is_resuming=is_resuming,
    )
    async with head as post, trio.open_nursery() as nursery:
        serving = functools.partial(serve, refusals=refusals)
        if secured is not None:
            await nursery.start(secured.run, post)
            serving = functools.partial(serving, security=secured.security, peers=secured.peers)
        tell(await nursery.start(serving, post.deliver, config.link.listen))
        await trio.sleep_forever()


async def run_desktops(config: Config, *, folder: Path, checker: CheckerSource) -> None:
    """Offer desktops to a head until cancelled. The journal of their branches lies in `folder`."""
    name = node_name(config, "desktop")
    security = await secure_node(config.link, name, folder=folder.parent)
    async with open_journal(folder / "journal", config.journal.free_bytes_min) as journal:
        post = Post(RunId(name), recorder=journal.recorder)
        health = _board(post, folder)
        desktops = make_desktops(
            post, config.desktop, checker, node=name, health=health, find_folder=lambda: folder
        )
        async with open_links(security=security) as links, trio.open_nursery() as nursery:
            route_to_head(post, links, config.link.head)
            if security is not None:
                nursery.start_soon(keep_certified, post, name, folder / "tls")
            introduce = _introducing(post, name, "desktop", "", health)
            await nursery.start(keep_joined, post, introduce, health)
            nursery.start_soon(keep_proposer, post, links, name, health)
            archive = ChildSpec(name="archive", start=journal.keep_compact)
            tree = Supervisor("node", [archive, desktops.child()], publish=_publishing(health))
            await tree.run()


async def run_policy(
    config: Config, *, folder: Path, policy: Policy, tell: Callable[[str], None]
) -> None:
    """Propose for other nodes until cancelled. Its certificate, if it needs one, is in `folder`."""
    name = node_name(config, "policy")
    post = Post(RunId(name))
    await _run_server(config, "policy", post, _proposer(post, policy), folder, tell)


async def run_trainer(config: Config, *, folder: Path, tell: Callable[[str], None]) -> None:
    """Fit for others until cancelled. Its certificate, if it needs one, is in `folder`.

    What it is asked to read and write are paths of its own machine.
    """
    name = node_name(config, "trainer")
    post = Post(RunId(name))
    trainer = Trainer(post)
    await _run_server(config, "trainer", post, trainer.child(), folder, tell, trainer.doing)


async def _run_server(
    config: Config,
    role: Role,
    post: Post,
    child: ChildSpec,
    folder: Path,
    tell: Callable[[str], None],
    doing: Callable[[], str] = str,
) -> None:
    """Listen, join the head, and keep one child alive."""
    name = node_name(config, role)
    security = await secure_node(config.link, name, folder=folder.parent, listens=True)
    refusals = Refusals()
    health = _board(post, folder, refusals, doing)
    async with open_links(security=security) as links, trio.open_nursery() as nursery:
        route_to_head(post, links, config.link.head)
        if security is not None:
            nursery.start_soon(keep_certified, post, name, folder / "tls")
        serving = functools.partial(
            serve, refusals=refusals, security=security, peers=Peers(refusals=refusals)
        )
        listened = await nursery.start(serving, post.deliver, config.link.listen)
        tree = Supervisor("node", [child], publish=_publishing(health))
        await nursery.start(tree.run)
        host = config.link.host or socket.gethostname()
        url = public_address(listened, node=name, host=host)
        introduce = _introducing(post, name, role, url, health)
        await nursery.start(keep_joined, post, introduce, health)
        tell(url)
        await trio.sleep_forever()


def route_to_head(post: Post, links: NngLinks, url: str) -> None:
    """Send what is for the head, its ledger, scheduler and searches to this address."""
    for prefix in _HEAD_NAMES:
        post.add_route(prefix, links.to(url))


@asynccontextmanager
async def _running(tree: Supervisor) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        try:
            yield
        finally:
            tree.stop()


def _proposer(post: Post, policy: Policy) -> ChildSpec:
    return _child(post, PROPOSER, lambda: ProposerActor(lambda: policy))


def _child(post: Post, name: ActorName, make: Callable[[], Actor[Any]]) -> ChildSpec:
    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        await run_actor(make(), name, post, task_status=task_status)

    return ChildSpec(name=name, start=start, destroy=functools.partial(post.evict, name))


def _board(
    post: Post,
    folder: Path,
    refusals: Refusals | None = None,
    doing: Callable[[], str] = str,
) -> Health:
    """What a node says of itself. `folder` is where it writes."""
    counts = refusals or Refusals()
    return Health(
        troubles=host_troubles(folder),
        queues=post.waiting,
        refusals=lambda: counts.statistics()["refused"],
        doing=doing,
    )


def _publishing(health: Health) -> Callable[[Crashed], None]:
    """Log what a supervisor publishes, and note it on the board."""

    def publish(crashed: Crashed) -> None:
        tell_crash(crashed)
        health.crashed(crashed)

    return publish


def _introducing(post: Post, name: str, role: Role, url: str, health: Health) -> Callable[[], Join]:
    """What a node says to its head; the instance is of this very process."""
    instance = secrets.token_hex(8)

    def introduce() -> Join:
        return Join(
            node=name,
            role=role,
            url=url,
            actors=post.names(),
            version=__version__,
            report=health.report(),
            instance=instance,
        )

    return introduce
