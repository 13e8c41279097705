"""Where a machine is: `http://HOST:PORT`, and nothing behind it."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")


class Address(NamedTuple):
    """Of one machine's server."""

    host: str
    port: int

    def __str__(self) -> str:
        """As it is configured."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read an address.

    Raises:
        ValueError: it is none; says what one looks like.
    """
    wrong = ValueError(
        f"{text!r:.100} is no machine; write http://HOST:PORT, OSWorld's port is 5000"
    )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise wrong from error
    host = parts.netloc.rpartition(":")[0]
    if parts.scheme != "http" or not port or not _HOST.fullmatch(host):
        raise wrong
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise wrong
    return Address(host.strip("[]"), port)
