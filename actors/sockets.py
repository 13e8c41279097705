"""The nng sockets that listen at an address or dial it, plain or with certificates."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pynng

from envs_node.actors.address import Address, AddressError, UntrustedError, parse_address
from envs_node.actors.tls import HEAD_NAME, Peers, Security
from envs_node.messages.base import WIRE_BYTES_MAX

_RESEND_MS = 24 * 3600 * 1000
"""nng would send a slow request again; ours are repeated by id, by those who ask."""

_HANDSHAKES = {
    "auth": "it does not encrypt, cannot prove who it is, or does not believe us",
    "proto": "it does not speak nng's request protocol",
    "reject": "it does not speak nng's request protocol",
    "timeout": "it said nothing",
}
"""What nng counts of peers that could not connect to a listener, and what it means."""
_KNOCK_MS = 10_000
_DISTRUST = frozenset(
    getattr(pynng.lib, f"NNG_E{name}") for name in ("CRYPTO", "PEERAUTH", "CONNSHUT", "PROTO")
)
"""How dialling ends when somebody is there, and is not whom we want."""


class Listening(NamedTuple):
    """A socket that takes requests."""

    socket: pynng.Rep0
    url: str
    """With its real port."""


def dial(url: str, security: Security | None = None) -> pynng.Req0:
    """A socket for requests to the node at this address, which need not be there yet.

    Raises:
        AddressError: nng takes it for no address, or it needs a certificate and there is none.
        SecurityError: the certificate cannot be used.
    """
    socket = pynng.Req0(
        resend_time=_RESEND_MS,
        recv_max_size=WIRE_BYTES_MAX,
        reconnect_time_min=50,
        reconnect_time_max=2000,
    )
    try:
        redial(socket, url, security)
    except BaseException:
        socket.close()
        raise
    return socket


def redial(socket: pynng.Req0, url: str, security: Security | None = None) -> None:
    """Dial with the certificate as it is now; what was asked and not answered is sent again.

    Raises:
        AddressError, SecurityError: see `dial`.
    """
    address = _prepare(socket, url, security)
    try:
        socket.dial(address.bare, block=False)
    except pynng.NNGException as error:
        raise AddressError(url, str(error)) from error


def knock(url: str, security: Security | None, request: bytes) -> bytes | None:
    """Ask once, to learn who is there: the answer, or None when nobody gives one. Blocks.

    Raises:
        UntrustedError: they do not prove to be who they should be, or one of us encrypts and the
            other does not.
        AddressError, SecurityError: see `dial`.
    """
    with pynng.Req0(
        recv_max_size=WIRE_BYTES_MAX, recv_timeout=_KNOCK_MS, send_timeout=_KNOCK_MS
    ) as socket:
        address = _prepare(socket, url, security)
        try:
            socket.dial(address.bare, block=True)
            socket.send(request)
            answer: bytes = socket.recv()
        except pynng.NNGException as error:
            if error.errno in _DISTRUST:
                raise UntrustedError(url, address.node or HEAD_NAME) from error
            return None
        return answer


def _prepare(socket: pynng.Req0, url: str, security: Security | None) -> Address:
    address = parse_address(url)
    for dialer in socket.dialers:
        dialer.close()
    if address.is_secure:
        config = _need(security, url).client_config(address.node or HEAD_NAME)
        socket.tls_config = config
    return address


@contextlib.contextmanager
def listening(
    url: str, security: Security | None = None, peers: Peers | None = None
) -> Iterator[Listening]:
    """A socket that takes requests, and the address with its real port.

    Args:
        url: where; with a secure one, `security` and `peers` are needed.
        security: what it proves itself with.
        peers: is told who connects.

    Raises:
        AddressError: it is taken, or no address, or it needs a certificate and there is none.
        SecurityError: the certificate cannot be used.
    """
    socket = pynng.Rep0(recv_max_size=WIRE_BYTES_MAX)
    if peers is not None and parse_address(url).is_secure:
        socket.add_pre_pipe_connect_cb(peers.greet)
        socket.add_post_pipe_remove_cb(peers.part)
    try:
        yield Listening(socket, relisten(socket, url, security, peers))
    finally:
        socket.close()


def relisten(
    socket: pynng.Rep0, url: str, security: Security | None = None, peers: Peers | None = None
) -> str:
    """Listen with the certificate as it is now. Returns the address with its real port.

    Raises:
        AddressError, SecurityError: see `listening`.
    """
    address = parse_address(url)
    for listener in socket.listeners:
        listener.close()
    if address.is_secure:
        is_open = peers is not None and peers.is_open
        socket.tls_config = _need(security, url).server_config(is_open=is_open)
    try:
        listener = socket.listen(address.bare)
    except pynng.NNGException as error:
        raise AddressError(url, str(error)) from error
    if address.scheme == "ipc":
        return url
    return f"{address.scheme}://{listener.local_address}"


def _need(security: Security | None, url: str) -> Security:
    if security is None:
        raise AddressError(url, "this node has no certificate: give it a join token")
    return security


def failed_handshakes(socket: pynng.Rep0) -> Counter[str]:
    """Why peers could not connect to the listeners of this socket, and how often, so far."""
    ffi, lib = pynng.ffi, pynng.lib
    snapshot = ffi.new("nng_stat **")
    if lib.nng_stats_get(snapshot):
        return Counter()
    try:
        found: Counter[str] = Counter()
        for listener in socket.listeners:
            stat = lib.nng_stat_child(lib.nng_stat_find_listener(snapshot[0], listener.listener))
            while stat != ffi.NULL:
                reason = _HANDSHAKES.get(ffi.string(lib.nng_stat_name(stat)).decode())
                if reason is not None:
                    found[reason] += lib.nng_stat_value(stat)
                stat = lib.nng_stat_next(stat)
        return found
    finally:
        lib.nng_stats_free(snapshot[0])
