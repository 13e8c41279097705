"""What every process does before it talks to a head: prove who it is, where the address asks it."""

from __future__ import annotations

import re
import resource
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from envs_node.actors import tls
from envs_node.actors.address import AddressError, check_address, parse_address
from envs_node.actors.loop import run_actor
from envs_node.actors.nng import NngLinks, open_links
from envs_node.actors.post import Post
from envs_node.actors.refusals import Refusals
from envs_node.actors.tls import Peers, Security
from envs_node.deploy.authority import Authority
from envs_node.deploy.certificates import Certificate, check_node_name, digest_of
from envs_node.deploy.config import ConfigError, LinkSettings
from envs_node.deploy.credentials import files_of, read_or_nothing, read_present
from envs_node.deploy.enrolment import (
    EnrolmentActor,
    enrol,
    expect_plain,
    greet_head,
    keep_certified,
)
from envs_node.deploy.slot import tell_crash
from envs_node.deploy.tokens import ENVIRONMENT, JoinToken, read_token
from envs_node.messages.base import RunId
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor

_RENEWAL_S = 600.0
_PATIENCE_S = 15.0
_FOLDER = Path("runs")
_FILES_MAX = 1 << 18


async def secure_node(
    link: LinkSettings, node: str, *, folder: Path, listens: bool = False
) -> Security | None:
    """What a node proves itself with to its head, and to whoever dials it; None on plain sockets.

    It has a certificate already, or gets one by a join token, or makes one when it may read the
    head's authority in `folder`.

    Args:
        folder: where nodes keep their files, each in a folder of its name.
        listens: the node listens, too.

    Raises:
        EnvsError: it cannot prove itself, or the head cannot.
    """
    check_address(link.head)
    head = parse_address(link.head)
    token = read_token(Path(link.token_file) if link.token_file else None)
    if listens:
        _check_listening(link)
    if not head.is_secure:
        await expect_plain(link.head)
        return None
    check_node_name(node)
    own = folder / node / "tls"
    present = await trio.to_thread.run_sync(_usable, own, token)
    if present is not None:
        security = files_of(node, own)
        await greet_head(link.head, security, node)
        return security
    if token is not None:
        return await enrol(link.head, node=node, tls_folder=own, token=token)
    authority = Authority.find(folder)
    if authority is None:
        raise ConfigError(
            f"{link.head} asks for a certificate, {node} has none in {own}, and no authority is in "
            f"{folder} to sign one: put a join token, by `envs-node token create` at the head, "
            f"into {ENVIRONMENT}, or for `start` name a file that has it with --link.token-file"
        )
    security = authority.equip(node, own, now_s=time.time())
    await greet_head(link.head, security, node)
    return security


@asynccontextmanager
async def open_links_to(url: str, *, folder: Path = _FOLDER) -> AsyncIterator[NngLinks]:
    """Links of a client to the head at this address.

    Args:
        folder: where this client keeps its certificate, and where it looks for the authority.

    Raises:
        EnvsError: see `secure_node`; or nobody is there.
    """
    node = client_name()
    security = None
    with trio.move_on_after(_PATIENCE_S) as scope:
        security = await secure_node(LinkSettings(head=url), node, folder=folder)
    if scope.cancelled_caught:
        raise AddressError(url, "no head answers there; is `envs-node start --role head` running?")
    async with open_links(security=security) as links:
        if security is None:
            yield links
            return
        post = Post(RunId(node))
        post.add_route(tls.AUTHORITY, links.to(url))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_certified, post, node, folder / node / "tls")
            yield links
            nursery.cancel_scope.cancel()


def client_name() -> str:
    """The name in the certificate of whoever commands a head from this host."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname().split(".")[0]).strip("-")
    return f"client-{host or 'host'}"[:63].rstrip("-")


class HeadSecurity:
    """A head's authority, and who is at the other ends of its pipes."""

    def __init__(self, root: Path, node: str, refusals: Refusals) -> None:
        self.peers = Peers(is_open=True, refusals=refusals)
        self._node = node
        self._tls = root / node / "tls"
        self._authority = Authority.open(root, time.time())
        self.security = self._equip()

    async def run(
        self, post: Post, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Sign for nodes, and renew the head's own certificate, until cancelled."""

        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            actor = EnrolmentActor(self._authority, self._is_alive)
            await run_actor(actor, tls.AUTHORITY, post, task_status=task_status)

        children = [
            ChildSpec(name="authority", start=start),
            ChildSpec(name="certificate", start=self._keep_certified),
        ]
        await Supervisor("security", children, publish=tell_crash).run(task_status=task_status)

    async def _keep_certified(self, *, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        while True:
            await trio.sleep(_RENEWAL_S)
            await trio.to_thread.run_sync(self._equip)

    def _equip(self) -> Security:
        return self._authority.equip(self._node, self._tls, now_s=time.time(), is_head=True)

    def _is_alive(self, node: str) -> bool:
        return node.lower() == self._node.lower() or self.peers.is_alive(node)


def secure_head(
    link: LinkSettings, node: str, *, root: Path, refusals: Refusals
) -> HeadSecurity | None:
    """What a head proves itself with, and lets others in by; None when it listens plainly.

    Raises:
        EnvsError: the authority can be neither read nor made.
    """
    check_address(link.listen)
    if not parse_address(link.listen).is_secure:
        return None
    _allow_files()
    return HeadSecurity(root, node, refusals)


def _allow_files() -> None:
    """Whoever reaches the address may connect and say nothing: each holds an open file of ours.

    The usual 1024 are soon taken, and then neither nodes are heard nor journals opened.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _check_listening(link: LinkSettings) -> None:
    check_address(link.listen)
    head, own = parse_address(link.head), parse_address(link.listen)
    if own.is_secure and not head.is_secure:
        raise ConfigError(
            f"{link.listen} needs a certificate, which a head at {link.head} cannot give: let the "
            "head listen at tls+tcp://HOST:PORT"
        )
    is_far = head.is_secure and head.host not in ("127.0.0.1", "localhost", "::1")
    if is_far and not own.is_secure:
        raise ConfigError(
            f"other machines cannot reach {link.listen}: give --listen tls+tcp://0.0.0.0:PORT"
        )


def _usable(own: Path, token: JoinToken | None) -> Certificate | None:
    """The certificate that is there, if it lives, and is of the authority that the token names."""
    present = read_present(own)
    if present is None or present.until_s <= time.time():
        return None
    authority = read_or_nothing(own / "authority.pem")
    if not authority or (token is not None and digest_of(authority) != token.authority):
        return None
    return present
