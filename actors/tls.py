"""Mutual TLS: what a node proves itself with, who is at the other end, and what each may say."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pynng
import structlog
from pynng import TLSConfig

from envs_node.actors.refusals import Refusals
from envs_node.messages.base import ActorName, Envelope, EnvsError, Message, MessageId
from envs_node.messages.enrol import Enrol, FetchAuthority
from envs_node.messages.ledger import Admit, TaskOutcome
from envs_node.messages.lifecycle import ActorFailed, Join, JoinFailed, Leave
from envs_node.messages.search import Tick, WorkerFreed, WorkWanted

AUTHORITY = ActorName("authority")
"""The actor that strangers may ask for a certificate, and the only one."""
STRANGER = ActorName("stranger")
"""What a peer without a certificate calls itself."""
HEAD_NAME = "head"
"""Stands in a head's certificate beside its node's name: an address without a name means it."""
REFUSED = "refused:"
"""So begins the reason of the answer to what a peer may not say."""
_HEADS_OWN = frozenset({"head", "scheduler", "ledger", "clock", "authority"})
_HEADS_WORDS = (Admit, TaskOutcome, WorkerFreed, Tick)
"""What the actors of a head say to each other: a success comes into the ledger by a search."""
_OF_SLOTS = frozenset({"desktop", "verifier", "replay", "work"})
_STRANGER_BYTES_MAX = 32 * 1024
_REFUSALS_MAX = 8
"""So often a pipe is told why it is refused; then it is closed."""
_LOGGED_MAX = 200
_PEERS_MAX = 10_000
_ALIVE_S = 15.0


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """The files a node proves itself with, and those it believes. They may be renewed in place."""

    node: str
    authority: Path | None = None
    """Certificate of the authority. None believes anybody: only to ask who the authority is."""
    certificate: Path | None = None
    """The node's own, signed by the authority. None makes it a stranger."""
    key: Path | None = None

    def client_config(self, server: str) -> TLSConfig:
        """To dial the node of this name.

        Raises:
            SecurityError: a file is missing or damaged.
        """
        config = self._config(TLSConfig.MODE_CLIENT)
        if self.authority is None:
            config.set_auth_mode(TLSConfig.AUTH_MODE_NONE)
        else:
            config.set_server_name(server)
        return config

    def server_config(self, *, is_open: bool) -> TLSConfig:
        """To listen; with `is_open` also to peers that have no certificate yet.

        Raises:
            SecurityError: a file is missing or damaged.
        """
        optional, required = TLSConfig.AUTH_MODE_OPTIONAL, TLSConfig.AUTH_MODE_REQUIRED
        config = self._config(TLSConfig.MODE_SERVER)
        config.set_auth_mode(optional if is_open else required)
        return config

    def stamp(self) -> tuple[int, ...]:
        """Changes when a file does: what was opened with the old ones is then opened anew."""
        return tuple(
            path.stat().st_mtime_ns if path is not None and path.exists() else 0
            for path in (self.authority, self.certificate, self.key)
        )

    def _config(self, mode: int) -> TLSConfig:
        config = TLSConfig(mode)
        try:
            if self.authority is not None:
                config.set_ca_chain(self.authority.read_text(encoding="ascii"))
            if self.certificate is not None and self.key is not None:
                config.set_own_cert(
                    self.certificate.read_text(encoding="ascii"),
                    self.key.read_text(encoding="ascii"),
                )
        except (OSError, UnicodeDecodeError, pynng.NNGException) as error:
            raise SecurityError(self.node, str(error)) from error
        return config


class SecurityError(EnvsError):
    """A node's certificate, key or authority cannot be used."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(
            f"the certificate of {node} cannot be used: {reason}; remove its tls folder and give "
            "a join token, made by `envs-node token create` at the head"
        )
        self.node = node


def sender_belongs(sender: str, node: str) -> bool:
    """Whether a node may speak under this actor's name.

    `KIND/NODE` and the slots' `KIND/NODE-0` belong to the node; a name without a node is a role's,
    which every node may play but the head's own.
    """
    kind, slash, owner = sender.partition("/")
    if not slash:
        return kind not in _HEADS_OWN
    if kind in _OF_SLOTS:
        return re.fullmatch(re.escape(node) + r"-[0-9]+", owner) is not None
    return kind != "search" and owner == node


class _Peer(msgspec.Struct):
    """Who is at the end of a pipe."""

    address: str
    node: str
    """Empty for a stranger."""
    lack: str = ""
    """Why it is a stranger."""
    refusals: int = 0


class Peers:
    """Knows who is at the end of each pipe of a listener, and what they may not say.

    Args:
        is_open: strangers may ask for a certificate here.
        refusals: counts what is refused.
        clock_s: seconds, for `is_alive`.
    """

    def __init__(
        self,
        *,
        is_open: bool = False,
        refusals: Refusals | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_open = is_open
        self._refusals = refusals or Refusals()
        self._clock_s = clock_s
        self._peers: dict[int, _Peer] = {}
        self._heard_s: dict[str, float] = {}
        self._logged: set[tuple[str, ...]] = set()

    def greet(self, pipe: pynng.Pipe) -> None:
        """Look at a pipe before anything is received from it. Called on a thread of nng."""
        node, is_verified = _proved_name(pipe)
        lack = "it has no certificate" if not node else "its certificate is not one of ours"
        peer = _Peer(
            address=str(pipe.remote_address).rpartition(":")[0],
            node=node if is_verified else "",
            lack="" if is_verified and node else lack,
        )
        if len(self._peers) >= _PEERS_MAX or not (peer.node or self.is_open):
            pipe.close()
        else:
            self._peers[pipe.id] = peer

    def part(self, pipe: pynng.Pipe) -> None:
        """Forget a pipe that is gone. Called on a thread of nng."""
        self._peers.pop(pipe.id, None)

    def is_alive(self, node: str) -> bool:
        """Whether this node was heard lately."""
        return self._clock_s() - self._heard_s.get(node, -_ALIVE_S) < _ALIVE_S

    def is_here(self, pipe_id: int) -> bool:
        """Whether the pipe is open. What came by one that is gone was sent again by another."""
        return pipe_id in self._peers

    def is_too_long(self, pipe: pynng.Pipe, size_bytes: int) -> bool:
        """Whether this is more than a stranger may send."""
        peer = self._peers.get(pipe.id)
        if peer is None or peer.node or size_bytes <= _STRANGER_BYTES_MAX:
            return False
        self._refuse(pipe, peer, f"{peer.lack}, and it sent {size_bytes} bytes")
        return True

    def reject_garbage(self, pipe: pynng.Pipe) -> bool:
        """Refuse what a stranger sent and is no message for us; False when it is no stranger."""
        peer = self._peers.get(pipe.id)
        if peer is None or peer.node:
            return False
        self._refuse(pipe, peer, f"{peer.lack}, and what it sent is no message")
        return True

    def refusal(self, pipe: pynng.Pipe, envelope: Envelope[Message]) -> Envelope[Message] | None:
        """The answer to what this peer may not say; None when it may."""
        peer = self._peers.get(pipe.id)
        if peer is None:
            return None
        reason = _reason_against(peer, envelope)
        if not reason:
            if peer.node:
                self._heard_s[peer.node] = self._clock_s()
            return None
        self._refuse(pipe, peer, reason)
        return _refuse(envelope, reason)

    def log_refused(self, address: str, peer: str, reason: str) -> None:
        """Log a refusal, each once."""
        self._refusals.count()
        if (key := (address, peer, reason)) not in self._logged and len(self._logged) < _LOGGED_MAX:
            self._logged.add(key)
            structlog.get_logger().warning(
                "peer.refused", address=address, peer=peer, reason=reason
            )

    def statistics(self) -> dict[str, int]:
        """Pipes open."""
        return {"pipes": len(self._peers)}

    def _refuse(self, pipe: pynng.Pipe, peer: _Peer, reason: str) -> None:
        self.log_refused(peer.address, peer.node, reason)
        peer.refusals += 1
        if peer.refusals > _REFUSALS_MAX and not peer.node:
            pipe.close()


def _reason_against(peer: _Peer, envelope: Envelope[Message]) -> str:
    message = envelope.message
    if not peer.node:
        is_asking = isinstance(message, FetchAuthority | Enrol)
        if is_asking and envelope.to == AUTHORITY and envelope.sender == STRANGER:
            return ""
        return f"{peer.lack}: it must enrol with a join token first"
    theirs = f"its certificate is that of {peer.node}: it may not"
    if not sender_belongs(envelope.sender, peer.node):
        return f"{theirs} speak as {envelope.sender[:80]}"
    if isinstance(message, Join | Leave) and message.node != peer.node:
        return f"{theirs} come or go as {message.node[:80]}"
    if isinstance(message, WorkWanted) and not sender_belongs(message.worker, peer.node):
        return f"{theirs} work as {message.worker[:80]}"
    if isinstance(message, _HEADS_WORDS):
        return f"{theirs} say {type(message).__name__}"
    return ""


def _refuse(envelope: Envelope[Message], reason: str) -> Envelope[Message]:
    said = f"{REFUSED} {reason}"
    is_join = isinstance(envelope.message, Join)
    return Envelope(
        id=MessageId(f"{envelope.id}-refused"),
        sender=envelope.to,
        to=envelope.sender,
        run=envelope.run,
        sequence=0,
        time_ns=time.time_ns(),
        message=JoinFailed(reason=said) if is_join else ActorFailed(to=envelope.to, reason=said),
        cause=envelope.id,
    )


def _proved_name(pipe: pynng.Pipe) -> tuple[str, bool]:
    """The common name in the certificate of the other end, and whether our authority signed it."""
    ffi, lib = pynng.ffi, pynng.lib
    name, verified = ffi.new("char **"), ffi.new("bool *")
    lib.nng_pipe_get_bool(pipe.pipe, b"tls-verified", verified)
    if lib.nng_pipe_get_string(pipe.pipe, b"tls-peer-cn", name) or name[0] == ffi.NULL:
        return "", bool(verified[0])
    try:
        return ffi.string(name[0]).decode("ascii", "replace"), bool(verified[0])
    finally:
        lib.nng_strfree(name[0])
