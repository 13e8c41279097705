"""How nodes get their certificates: the head's side of it, and the node's."""

from __future__ import annotations

import functools
import hmac
import time
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

import structlog
import trio

from envs_node.actors import tls
from envs_node.actors.base import Actor
from envs_node.actors.frames import BUSY, NO_ANSWER, REFUSED
from envs_node.actors.knock import knock
from envs_node.actors.post import Post
from envs_node.actors.tls import Security
from envs_node.deploy import authority
from envs_node.deploy.certificates import digest_of, read_certificate
from envs_node.deploy.credentials import files_of, own_key, read_present, write_private
from envs_node.deploy.signing import make_request
from envs_node.deploy.tokens import JoinToken
from envs_node.messages import codec
from envs_node.messages.base import ActorName, EnvsError, Message, RunId
from envs_node.messages.enrol import Authority, Enrol, EnrolFailed, Enrolled, FetchAuthority
from envs_node.messages.lifecycle import ActorFailed

_ASK_S = 15.0
_RETRY_S = 0.5
_RENEWAL_S = 600.0

_log = structlog.get_logger(__name__)


class EnrolError(EnvsError):
    """The head did not let this node in, or did not prove to be the one that made the token."""


class EnrolmentActor(Actor[FetchAuthority | Enrol]):
    """Says who the authority is, and signs for nodes with a token or a certificate to renew.

    Args:
        is_alive: whether a node of this name is here.
    """

    def __init__(self, signer: authority.Authority, is_alive: Callable[[str], bool]) -> None:
        self._signer = signer
        self._is_alive = is_alive
        self._refused: set[tuple[str, str]] = set()

    async def hear(self, message: FetchAuthority | Enrol) -> Message | None:
        """Dispatch one message."""
        match message:
            case FetchAuthority():
                return Authority(certificate=self._signer.certificate)
            case Enrol():
                return await self._enrol(message)
        assert_never(message)

    async def _enrol(self, asked: Enrol) -> Enrolled | EnrolFailed:
        sender = self.envelope.sender
        try:
            signed = await trio.to_thread.run_sync(self._sign, asked, sender, time.time())
        except (EnvsError, OSError) as error:
            self._refuse(asked.node[:80], str(error))
            return EnrolFailed(reason=str(error))
        found = read_certificate(signed)
        _log.info("node.enrolled", peer=found.node, until_s=int(found.until_s))
        return Enrolled(certificate=signed)

    def _sign(self, asked: Enrol, sender: ActorName, now_s: float) -> bytes:
        if sender == f"node/{asked.node}":  # which only a peer with that certificate may be
            return self._signer.renew(asked.node, asked.request, now_s)
        return self._signer.enrol(
            asked.node, asked.request, asked.token, is_alive=self._is_alive, now_s=now_s
        )

    def _refuse(self, node: str, reason: str) -> None:
        if (node, reason) not in self._refused and len(self._refused) < 200:
            self._refused.add((node, reason))
            _log.warning("peer.refused", peer=node, reason=reason)


async def enrol(url: str, *, node: str, tls_folder: Path, token: JoinToken) -> Security:
    """Get a certificate by a join token: a key is made here, and never leaves.

    Before the token is shown, the other end must prove to be the authority that made it.

    Raises:
        EnrolError: it is not that authority, or it refuses.
        UntrustedError: who is there does not speak TLS. While nobody is there, it waits.
    """
    answer = await _ask(url, Security(node=node), FetchAuthority(), tls.STRANGER)
    if not isinstance(answer, Authority):
        raise EnrolError(f"{url} does not say who its authority is: is it a head?")
    if not hmac.compare_digest(digest_of(answer.certificate), token.authority):
        raise EnrolError(
            f"the authority at {url} is not the one that made the join token {token.id}: nothing "
            "was sent to it; is the address right, or was the head's folder made anew?"
        )
    own = functools.partial(_keep_key, tls_folder, node, answer.certificate)
    request = await trio.to_thread.run_sync(own)
    proved = Security(node=node, authority=tls_folder / "authority.pem")
    asked = Enrol(node=node, request=request, token=token.grant)
    return await _keep(await _ask(url, proved, asked, tls.STRANGER), node, tls_folder)


async def greet_head(url: str, security: Security | None, node: str) -> None:
    """Wait for a head at this address that proves to be ours, and takes us for who we are.

    Raises:
        EnrolError: it does not believe our certificate.
        UntrustedError: it does not prove to be ours, or only one of us encrypts.
    """
    sender = ActorName(f"node/{node}")
    answer = await _ask(url, security, FetchAuthority(), sender)
    if isinstance(answer, ActorFailed) and answer.reason.startswith(tls.REFUSED):
        raise EnrolError(
            f"the head at {url} does not let {node} in: {answer.reason}; remove its tls folder, "
            "and give it a join token made by `envs-node token create`"
        )


async def expect_plain(url: str) -> None:
    """Knock once at a plain address: a head that encrypts would never answer, nor say why.

    Raises:
        UntrustedError: it does.
    """
    await knock(url, None, _addressed(FetchAuthority(), tls.STRANGER))


async def keep_certified(post: Post, node: str, tls_folder: Path) -> None:
    """Renew this node's certificate before it lapses, as long as the node runs."""
    head = post.ref(tls.AUTHORITY, sender=ActorName(f"node/{node}"))
    while True:
        try:
            present = await trio.to_thread.run_sync(read_present, tls_folder)
            if present is not None and not present.is_fresh(time.time()):
                request = await trio.to_thread.run_sync(_request, tls_folder, node)
                asked = Enrol(node=node, request=request, token="")
                await _keep(await head.ask(asked, timeout_s=_ASK_S), node, tls_folder)
                _log.info("certificate.renewed")
        except (EnvsError, OSError) as error:
            _log.warning("certificate.unrenewed", error=str(error))
        await trio.sleep(_RENEWAL_S)


async def _ask(url: str, security: Security | None, message: Message, sender: ActorName) -> Message:
    """Ask the authority at this address, again and again until somebody is there."""
    request = _addressed(message, sender)
    is_told = False
    while True:
        answer = await knock(url, security, request)
        if answer is not None and answer not in (NO_ANSWER, BUSY):
            if answer.startswith(REFUSED):
                raise EnrolError(f"{url} does not take {type(message).__name__} for a message")
            return codec.decode(answer).message
        if not is_told:
            is_told = True
            _log.warning("head.missed", error=f"no head that we know answers at {url}; waiting")
        await trio.sleep(_RETRY_S)


def _addressed(message: Message, sender: ActorName) -> bytes:
    post = Post(RunId("knock"))
    return codec.encode(post.envelope(message, sender=sender, to=tls.AUTHORITY))


def _keep_key(tls_folder: Path, node: str, authority_pem: bytes) -> bytes:
    write_private(tls_folder / "authority.pem", authority_pem)
    return _request(tls_folder, node)


def _request(tls_folder: Path, node: str) -> bytes:
    return make_request(own_key(tls_folder), node)


async def _keep(answer: Message, node: str, tls_folder: Path) -> Security:
    if not isinstance(answer, Enrolled):
        raise EnrolError(f"the head does not let {node} in: {getattr(answer, 'reason', answer)}")
    read_certificate(answer.certificate)
    keep = functools.partial(write_private, tls_folder / "node.pem", answer.certificate)
    await trio.to_thread.run_sync(keep)
    return files_of(node, tls_folder)
