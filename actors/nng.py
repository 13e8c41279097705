"""The transport between processes: nng request and reply, one context a call."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import NoReturn

import trio

from envs_node.actors.address import check_address, parse_address
from envs_node.actors.client import NngClient
from envs_node.actors.frames import ANSWERED_MAX
from envs_node.actors.refusals import Refusals
from envs_node.actors.server import Server
from envs_node.actors.sockets import Listening, failed_handshakes, listening, relisten
from envs_node.actors.tls import Peers, Security
from envs_node.actors.transport import Deliver

_RENEWAL_S = 60.0
"""How often we look whether our certificate was renewed."""
_LOOK_S = 1.0
"""How often we look for peers that could not even connect."""


class NngLinks:
    """The clients of a process, one a node, opened when first wanted."""

    def __init__(
        self, nursery: trio.Nursery, *, allow_plain: bool, security: Security | None = None
    ) -> None:
        self._nursery = nursery
        self._allow_plain = allow_plain
        self._security = security
        self._clients: dict[str, NngClient] = {}

    def to(self, url: str) -> NngClient:
        """The client of the node at this address; it need not be there yet.

        Raises:
            AddressError, PlainSocketError: see `check_address`.
            SecurityError: our certificate cannot be used.
        """
        client = self._clients.get(url)
        if client is None:
            check_address(url, allow_plain=self._allow_plain)
            client = self._clients[url] = NngClient(url, self._nursery, self._security)
        return client

    def drop(self, url: str) -> None:
        """Close the way to a node that has gone: whoever waits there gets `ActorCrashedError`."""
        client = self._clients.pop(url, None)
        if client is not None:
            client.close()

    async def keep_renewed(self, security: Security) -> NoReturn:
        """Connect anew whenever our certificate was renewed."""
        stamp = security.stamp()
        while True:
            await trio.sleep(_RENEWAL_S)
            if security.stamp() != stamp:
                stamp = security.stamp()
                for client in self._clients.values():
                    if parse_address(client.url).is_secure:
                        client.renew()

    def close(self) -> None:
        """Close every client."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()


@contextlib.asynccontextmanager
async def open_links(
    *, allow_plain: bool = False, security: Security | None = None
) -> AsyncIterator[NngLinks]:
    """Hold the clients of a process open; with `security` they prove who we are."""
    links: NngLinks | None = None
    try:
        async with trio.open_nursery() as nursery:
            links = NngLinks(nursery, allow_plain=allow_plain, security=security)
            if security is not None:
                nursery.start_soon(links.keep_renewed, security)
            yield links
            nursery.cancel_scope.cancel()
    finally:
        if links is not None:
            links.close()


async def serve(
    deliver: Deliver,
    url: str,
    *,
    calls_max: int = ANSWERED_MAX,
    allow_plain: bool = False,
    security: Security | None = None,
    peers: Peers | None = None,
    refusals: Refusals | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Take requests from other processes until cancelled.

    Args:
        deliver: `Post.deliver` of this process.
        url: `tcp://127.0.0.1:0` picks a free port.
        calls_max: requests under way at once. More are left with those who send them; and one
            actor gets half of these at most, so that a stuck one leaves room for the others.
        security: what we prove ourselves with at a `tls+tcp` address.
        peers: says who may say what there; unless given, strangers are refused.
        refusals: counts what is refused.
        task_status: is given the address with the real port.

    Raises:
        AddressError: it is taken, or no address.
        PlainSocketError: see `check_address`.
        SecurityError: the certificate cannot be used.
    """
    check_address(url, allow_plain=allow_plain)
    refusals = refusals or Refusals()
    peers = (peers or Peers()) if parse_address(url).is_secure else None
    with listening(url, security, peers) as opened:
        async with trio.open_nursery() as nursery:
            server = Server(deliver, opened.socket, calls_max // 2, peers, refusals)
            for _ in range(calls_max):
                nursery.start_soon(server.answer_all)
            nursery.start_soon(server.give_up)
            nursery.start_soon(_look_after, opened, security, peers, refusals)
            task_status.started(opened.url)
            await trio.sleep_forever()
    raise AssertionError("it serves until it is cancelled")


async def _look_after(
    opened: Listening, security: Security | None, peers: Peers | None, refusals: Refusals
) -> NoReturn:
    """Tell of peers that could not connect; listen anew with a renewed certificate."""
    stamp = security.stamp() if security is not None else ()
    renewal_s = trio.current_time() + _RENEWAL_S
    known: Counter[str] = Counter()
    while True:
        await trio.sleep(_LOOK_S)
        found = failed_handshakes(opened.socket)
        for reason in (found - known).elements():
            if peers is not None:
                peers.log_refused(opened.url, "", reason)
            else:
                refusals.note("unknown", reason)
        known = found
        if security is not None and trio.current_time() >= renewal_s:
            renewal_s = trio.current_time() + _RENEWAL_S
            if security.stamp() != stamp:
                stamp = security.stamp()
                relisten(opened.socket, opened.url, security, peers)
