"""Addresses of nodes, and the nng sockets that listen on them or dial them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from urllib.parse import urlsplit

import pynng

from envs_node.messages.base import WIRE_BYTES_MAX, EnvsError

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_RESEND_MS = 24 * 3600 * 1000
"""nng would send a slow request again; ours are repeated by id, by those who ask."""


class PlainSocketError(EnvsError):
    """An address that others could reach, without encryption."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"{url} is reachable from other machines and would not be encrypted: use "
            "tcp://127.0.0.1:PORT or ipc://PATH, or tunnel to it"
        )
        self.url = url


class AddressError(EnvsError):
    """An address that cannot be listened on or dialled."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"cannot use the address {url}: {reason}")
        self.url = url


def check_address(url: str, *, allow_plain: bool = False) -> None:
    """Refuse addresses that are not ours to open.

    Raises:
        AddressError: neither `tcp://HOST:PORT` nor `ipc://PATH`.
        PlainSocketError: plain TCP beyond this machine, and `allow_plain` is not set.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressError(url, str(error)) from error
    if parts.scheme == "ipc":
        return
    if parts.scheme != "tcp" or not host or port is None:
        raise AddressError(url, "write tcp://HOST:PORT or ipc://PATH")
    if host not in _LOOPBACK and not allow_plain:
        raise PlainSocketError(url)


def dial(url: str) -> pynng.Req0:
    """A socket for requests to the node at this address, which need not be there yet.

    Raises:
        AddressError: nng takes it for no address.
    """
    socket = pynng.Req0(
        resend_time=_RESEND_MS,
        recv_max_size=WIRE_BYTES_MAX,
        reconnect_time_min=50,
        reconnect_time_max=2000,
    )
    try:
        socket.dial(url, block=False)
    except pynng.NNGException as error:
        socket.close()
        raise AddressError(url, str(error)) from error
    return socket


@contextlib.contextmanager
def listening(url: str) -> Iterator[tuple[pynng.Rep0, str]]:
    """A socket that takes requests, and the address with its real port.

    Raises:
        AddressError: it is taken, or no address.
    """
    socket = pynng.Rep0(recv_max_size=WIRE_BYTES_MAX)
    try:
        try:
            listener = socket.listen(url)
        except pynng.NNGException as error:
            raise AddressError(url, str(error)) from error
        real_url = f"tcp://{listener.local_address}" if url.startswith("tcp:") else url
        yield socket, real_url
    finally:
        socket.close()
