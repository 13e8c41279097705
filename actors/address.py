"""Addresses of nodes: which there are, and which are ours to open."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from envs_node.messages.base import EnvsError

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SECURE = "tls+tcp"
_FORMS = "write tls+tcp://[NODE@]HOST:PORT, tcp://HOST:PORT or ipc://PATH"


class PlainSocketError(EnvsError):
    """An address that others could reach, without encryption."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"{url} is reachable from other machines and would not be encrypted: use "
            f"{_SECURE}{url.removeprefix('tcp')} with a join token, made by `envs-node token "
            "create` at the head, or stay on this machine with tcp://127.0.0.1:PORT or ipc://PATH"
        )
        self.url = url


class AddressError(EnvsError):
    """An address that cannot be listened on or dialled."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"cannot use the address {url}: {reason}")
        self.url = url


class UntrustedError(AddressError):
    """Who is at the address does not prove to be who we want."""

    def __init__(self, url: str, server: str) -> None:
        if url.startswith(f"{_SECURE}:"):
            reason = (
                f"who is there does not prove to be {server} of our authority, or does not encrypt;"
                " was this node's tls folder made by the join token of another head?"
            )
        else:
            reason = f"who is there does not speak plainly: if it encrypts, write {_SECURE}://"
        super().__init__(url, reason)


class Address(NamedTuple):
    """An address in its parts."""

    scheme: str
    node: str
    """Who must be there, and prove it; empty for the head, and where nothing is proved."""
    host: str
    port: int
    bare: str
    """As nng takes it: without the node."""

    @property
    def is_secure(self) -> bool:
        """Whether what is said there is encrypted, and both ends prove who they are."""
        return self.scheme == _SECURE


def check_address(url: str, *, allow_plain: bool = False) -> None:
    """Refuse addresses that are not ours to open.

    Raises:
        AddressError: none of `tls+tcp://[NODE@]HOST:PORT`, `tcp://HOST:PORT`, `ipc://PATH`.
        PlainSocketError: plain TCP beyond this machine, and `allow_plain` is not set.
    """
    address = parse_address(url)
    if address.scheme == "tcp" and address.host not in _LOOPBACK and not allow_plain:
        raise PlainSocketError(url)


def public_address(url: str, *, node: str, host: str) -> str:
    """What others dial for a node that listens at this address.

    Args:
        url: where it listens; an unspecified host is replaced.
        node: its name, which it proves to whoever dials.
        host: what others call its host.
    """
    address = parse_address(url)
    if address.scheme == "ipc":
        return url
    name = host if address.host in ("0.0.0.0", "::") else address.host
    shown = f"[{name}]" if ":" in name else name
    owner = f"{node}@" if address.is_secure else ""
    return f"{address.scheme}://{owner}{shown}:{address.port}"


def parse_address(url: str) -> Address:
    """Take an address apart.

    Raises:
        AddressError: none of `tls+tcp://[NODE@]HOST:PORT`, `tcp://HOST:PORT`, `ipc://PATH`.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise AddressError(url, str(error)) from error
    if parts.scheme == "ipc":
        return Address("ipc", "", "", 0, url)
    if parts.scheme not in ("tcp", _SECURE) or not host or port is None:
        raise AddressError(url, _FORMS)
    node = parts.username or ""
    return Address(parts.scheme, node, host, port, url.replace(f"{node}@", "", 1) if node else url)
