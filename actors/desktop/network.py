"""The way out: an HTTP proxy for one desktop, to hosts that the operator listed and nobody else.

A desktop has no network but its own loopback. Where a task asks for more and the node's settings
allow it, a relay inside (`guest/relay.py`) carries connections to a unix socket, and this module
answers there, on the host: CONNECT to a listed name and port, or plain HTTP. A name is resolved
once, what it resolves to must be public, and that very address is connected to. Off by default.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import structlog

from envs_node.actors.desktop.guest.ready import wait_ready
from envs_node.actors.desktop.guest.relay import PORT
from envs_node.messages.tasks import Task

RELAY = ("/usr/bin/python3", "-E", "-m", "envs_node.actors.desktop.guest.relay")
_PROXY = f"http://127.0.0.1:{PORT}"
_LOCAL = "localhost,127.0.0.1,::1"
ENVIRONMENT = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _PROXY),
    "no_proxy": _LOCAL, "NO_PROXY": _LOCAL, "ENVS_PROXY": f"127.0.0.1:{PORT}",
}  # fmt: skip
"""For the programs of a desktop; `/etc/chromium.d/envs` reads the last one."""
_USUAL_PORTS = (80, 443)
_CONNECTIONS_MAX = 64
_HEAD_BYTES_MAX, _CHUNK_BYTES = 64 << 10, 64 << 10
_HEAD_S, _CONNECT_S, _IDLE_S = 30.0, 15.0, 120.0
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|[0-9a-f:]+")
_DROPPED = ("connection", "host", "keep-alive", "proxy-authorization", "proxy-connection")
_EMBEDDING = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("2002::/16"))
"""IPv6 ranges whose addresses stand for one of IPv4, which may be private."""

Resolve = Callable[[str, int], Sequence[str]]
Connect = Callable[[str, int], socket.socket]

_log = structlog.get_logger(__name__)


class _Target(NamedTuple):
    host: str
    port: int


class _RefusedError(Exception):
    """The connection is not made; the status says why to the program inside."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def grant(task: Task, listed: Sequence[str]) -> tuple[str, ...]:
    """The hosts that a task may reach: what it asks for, of what the node's settings list.

    OSWorld's `proxy: true` asks for all of them; our own `allowed_hosts` names some.
    """
    try:
        whole = json.loads(task.json)
        asked = whole.get("allowed_hosts") or []
        wants_all = whole.get("proxy") is True and not asked
        return tuple(host for host in listed if wants_all or host in asked)
    except (ValueError, AttributeError, TypeError):
        return ()


def permits(listed: Sequence[str], host: str, port: int) -> bool:
    """Whether a host may be reached at a port: `example.org`, `*.example.org`, `example.org:8080`.

    Without a port those of HTTP and HTTPS are meant. The second form is for what lies below.
    """
    for entry in listed:
        name, _, number = entry.lower().partition(":")
        ports = (int(number),) if number.isdigit() else _USUAL_PORTS
        is_it = host.endswith(name[1:]) if name.startswith("*.") else host == name
        if is_it and port in ports:
            return True
    return False


class Bridge:
    """Serves the proxy of one desktop at a unix socket in it, in threads of its own; close it."""

    def __init__(
        self,
        path: Path,
        listed: Sequence[str],
        *,
        desktop: int,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
    ) -> None:
        """Listen.

        Args:
            path: the socket, as this host sees it; its folder is nobody's yet but ours.
            listed: see `permits`.
            desktop: its first process, for the log.
            resolve: gives the addresses of a name; the host's own resolver unless given.
            connect: connects to an address; by TCP unless given.
        """
        self._listed = tuple(listed)
        self._desktop = desktop
        self._resolve = resolve or _resolve
        self._connect = connect or _connect
        self._room = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        self._listener = _listen(path)
        threading.Thread(target=self._accept, daemon=True, name="network").start()

    def close(self) -> None:
        """Cut every connection, and let nobody in any more."""
        with self._lock:
            self._is_closed = True
            handles = [self._listener, *self._open]
        for handle in handles:
            with suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            self._room.acquire()
            try:
                inner, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(inner,), daemon=True).start()

    def _serve(self, inner: socket.socket) -> None:
        try:
            with inner:
                if self._keep(inner):
                    self._answer(inner)
        except OSError:  # the other end, or the whole desktop, is gone
            pass
        finally:
            self._drop(inner)
            self._room.release()

    def _answer(self, inner: socket.socket) -> None:
        target = _Target("", 0)
        try:
            head, rest = _read_head(inner)
            target, forwarded = _parse(head)
            outer, address = self._reach(target)
        except _RefusedError as refusal:
            reason = str(refusal)
            _log.warning("network.refused", desktop=self._desktop, host=target.host[:255],
                         port=target.port, reason=reason)  # fmt: skip
            body = f"{reason}\n".encode()
            inner.sendall(
                b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n"
                b"Connection: close\r\n\r\n%s" % (refusal.status.encode(), len(body), body)
            )
            return
        began_s = time.monotonic()
        counts = [len(rest), 0]
        try:
            with outer:
                if self._keep(outer):
                    if forwarded:
                        outer.sendall(forwarded + rest)
                    else:
                        inner.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        outer.sendall(rest)
                    _carry(inner, outer, counts)
        finally:
            self._drop(outer)
            _log.info("network.used", desktop=self._desktop, host=target.host, port=target.port,
                      address=address, sent_bytes=counts[0], received_bytes=counts[1],
                      open_ms=round((time.monotonic() - began_s) * 1000))  # fmt: skip

    def _reach(self, target: _Target) -> tuple[socket.socket, str]:
        if not permits(self._listed, *target):
            raise _RefusedError("403 Forbidden", "this host and port are not on the list")
        try:
            addresses = self._resolve(*target)
        except (OSError, UnicodeError) as error:  # no name has a part of 64 letters, or of none
            raise _RefusedError("502 Bad Gateway", f"its name is not known: {error}") from error
        if not addresses or not all(map(_is_public, addresses)):
            raise _RefusedError("403 Forbidden", "it resolves to an address that is not public")
        problem: OSError = OSError("no address")
        for address in addresses[:4]:
            try:
                return self._connect(address, target.port), address
            except OSError as error:
                problem = error
        raise _RefusedError("502 Bad Gateway", f"it does not answer: {problem}") from problem

    def _keep(self, handle: socket.socket) -> bool:
        with self._lock:
            self._open.add(handle)
            return not self._is_closed

    def _drop(self, handle: socket.socket) -> None:
        with self._lock:
            self._open.discard(handle)


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):  # of the desktop that this one is a copy of
            os.unlink(path)
        listener.bind(str(path))
        handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o666)
        finally:
            os.close(handle)
        listener.listen(_CONNECTIONS_MAX)
    except BaseException:
        listener.close()
        raise
    return listener


def _read_head(inner: socket.socket) -> tuple[bytes, bytes]:
    deadline, data = time.monotonic() + _HEAD_S, b""
    while b"\r\n\r\n" not in data:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or len(data) > _HEAD_BYTES_MAX:
            raise _RefusedError("400 Bad Request", "the request is too long, or too slow")
        inner.settimeout(left_s)
        chunk = inner.recv(_CHUNK_BYTES)
        if not chunk:
            raise ConnectionResetError("no request")
        data += chunk
    inner.settimeout(_IDLE_S)
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _parse(head: bytes) -> tuple[_Target, bytes]:
    """Where a request goes, and what is sent on there; nothing of it for a tunnel."""
    try:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, where, _ = first.split(" ")
        parts = urlsplit(f"//{where}" if method == "CONNECT" else where)
        host, port = (parts.hostname or "").rstrip("."), parts.port or 80
        is_whole = method == "CONNECT" or parts.scheme == "http"
    except ValueError as error:
        raise _RefusedError("400 Bad Request", "this is no request to a proxy") from error
    if not (is_whole and _NAME.fullmatch(host)) or parts.username is not None:
        raise _RefusedError("400 Bad Request", "this is no request to a proxy")
    target = _Target(host, port)
    if method == "CONNECT":
        return target, b""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = [line for line in lines if line.partition(":")[0].strip().lower() not in _DROPPED]
    named = f"[{host}]" if ":" in host else host
    host_line = f"Host: {named}" if port == 80 else f"Host: {named}:{port}"
    sent = [f"{method} {path} HTTP/1.1", host_line, *kept, "Connection: close", "", ""]
    return target, "\r\n".join(sent).encode("latin-1")


def _carry(inner: socket.socket, outer: socket.socket, counts: list[int]) -> None:
    """Carry bytes both ways until both ends have said all, or nobody says anything."""
    ways = {inner: (outer, 0), outer: (inner, 1)}
    outer.settimeout(_IDLE_S)
    while ways:
        ready, _ = wait_ready(list(ways), timeout_s=_IDLE_S)
        if not ready:
            return
        for source in ready:
            sink, way = ways[source]
            data = source.recv(_CHUNK_BYTES)
            if not data:
                del ways[source]
                with suppress(OSError):
                    sink.shutdown(socket.SHUT_WR)
                continue
            sink.sendall(data)
            counts[way] += len(data)


def _is_public(address: str) -> bool:
    """Whether an address belongs to the public internet, as what it stands for does."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if any(found in network for network in _EMBEDDING):
            return False
        found = found.ipv4_mapped or found
    return found.is_global and not found.is_multicast


def _resolve(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def _connect(address: str, port: int) -> socket.socket:
    return socket.create_connection((address, port), timeout=_CONNECT_S)
