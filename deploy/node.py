"""Config to supervision tree: what runs in a process of each role."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from envs_node import __version__
from envs_node.actors.head.actor import HeadActor
from envs_node.actors.loop import run_actor
from envs_node.actors.nng import NngLinks, open_links, serve
from envs_node.actors.post import Post
from envs_node.actors.proposer.actor import ProposerActor
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.deploy.config import Config
from envs_node.deploy.head import HeadRuns
from envs_node.deploy.journals import open_recorder
from envs_node.deploy.membership import HEAD, keep_joined, keep_proposer
from envs_node.deploy.parts import PROPOSER
from envs_node.deploy.slot import tell_crash
from envs_node.deploy.slots import Desktops
from envs_node.messages.base import RunId
from envs_node.messages.journal import JournalWriter
from envs_node.policy.backend import Policy
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor

_HEAD_NAMES = ("head", "scheduler", "ledger", "search/")


def node_name(config: Config, role: str) -> str:
    """The node's name: as configured, or host and role."""
    return config.link.node or f"{socket.gethostname().split('.')[0]}-{role}"


@asynccontextmanager
async def open_head(
    config: Config, *, root: Path, checker: CheckerSource, policy: Policy | None = None
) -> AsyncIterator[Post]:
    """Hold a head open. With a policy it is of role `all`: its runs bring their own desktops."""
    name = node_name(config, "head" if policy is None else "all")
    post = Post(RunId(name))

    def own_children() -> list[ChildSpec]:
        if policy is None:
            return []
        desktops = Desktops(post, config.desktop, checker, node=name)
        return [_proposer(post, policy), desktops.child()]

    tree = Supervisor("node", [], publish=tell_crash)
    runs = HeadRuns(
        post,
        tree,
        root=root,
        config=config,
        policy="" if policy is None else policy.name,
        checker=checker.version,
        extra=own_children,
    )
    async with _running(tree):
        await tree.start_child(_head(post, runs, name))
        yield post


async def run_head(
    config: Config,
    *,
    root: Path,
    checker: CheckerSource,
    policy: Policy | None,
    tell: Callable[[str], None],
) -> None:
    """Be the head, or all roles at once, until cancelled. `tell` hears the address it opens."""
    head = open_head(config, root=root, checker=checker, policy=policy)
    async with head as post, trio.open_nursery() as nursery:
        tell(await nursery.start(serve, post.deliver, config.link.listen))
        await trio.sleep_forever()


async def run_desktops(config: Config, *, folder: Path, checker: CheckerSource) -> None:
    """Offer desktops to a head until cancelled. The journal of their branches lies in `folder`."""
    name = node_name(config, "desktop")
    with JournalWriter(folder / "journal") as writer:
        post = Post(RunId(name), recorder=open_recorder(writer))
        desktops = Desktops(post, config.desktop, checker, node=name)
        async with open_links() as links, trio.open_nursery() as nursery:
            route_to_head(post, links, config.link.head)
            await nursery.start(keep_joined, post, name, "desktop", "")
            nursery.start_soon(keep_proposer, post, links, name)
            tree = Supervisor("node", [desktops.child()], publish=tell_crash)
            await tree.run()


async def run_policy(config: Config, *, policy: Policy, tell: Callable[[str], None]) -> None:
    """Propose for other nodes until cancelled."""
    name = node_name(config, "policy")
    post = Post(RunId(name))
    async with open_links() as links, trio.open_nursery() as nursery:
        route_to_head(post, links, config.link.head)
        url = await nursery.start(serve, post.deliver, config.link.listen)
        await nursery.start(keep_joined, post, name, "policy", url)
        tell(url)
        tree = Supervisor("node", [_proposer(post, policy)], publish=tell_crash)
        await tree.run()


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


def _head(post: Post, runs: HeadRuns, name: str) -> ChildSpec:
    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        actor = HeadActor(runs, node=name, version=__version__)
        await run_actor(actor, HEAD, post, task_status=task_status)

    return ChildSpec(name="head", start=start)


def _proposer(post: Post, policy: Policy) -> ChildSpec:
    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        await run_actor(ProposerActor(lambda: policy), PROPOSER, post, task_status=task_status)

    return ChildSpec(name="proposer", start=start)
