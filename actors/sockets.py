"""The nng sockets that listen at an address or dial it, plain or with certificates."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pynng

from envs_node.actors.address import Address, AddressError, parse_address
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
    found: Counter[str] = Counter()
    for listener in socket.listeners:
        for name, count in count_events(listener).items():
            if name in _HANDSHAKES:
                found[_HANDSHAKES[name]] += count
    return found


def count_events(end: pynng.Listener | pynng.Dialer) -> Counter[str]:
    """What nng has counted at a listener or dialler: `connect`, `refused`, `auth`, `other` …"""
    ffi, lib = pynng.ffi, pynng.lib
    snapshot = ffi.new("nng_stat **")
    if lib.nng_stats_get(snapshot):
        return Counter()
    try:
        if isinstance(end, pynng.Dialer):
            found = lib.nng_stat_find_dialer(snapshot[0], end.dialer)
        else:
            found = lib.nng_stat_find_listener(snapshot[0], end.listener)
        counted: Counter[str] = Counter()
        stat = lib.nng_stat_child(found) if found != ffi.NULL else ffi.NULL
        while stat != ffi.NULL:
            if lib.nng_stat_type(stat) == lib.NNG_STAT_COUNTER:
                counted[ffi.string(lib.nng_stat_name(stat)).decode()] = lib.nng_stat_value(stat)
            stat = lib.nng_stat_next(stat)
        return counted
    finally:
        lib.nng_stats_free(snapshot[0])
