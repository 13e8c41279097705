"""A link that hands on what comes back in small pieces."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial

import trio


class SlowLink:
    """Listens at an address of its own and connects to another."""

    def __init__(self, url: str, piece_bytes: int, pause_s: float) -> None:
        self.url = ""
        self.connections = 0
        self.pieces = 0
        self._port = int(url.rpartition(":")[2])
        self._piece_bytes = piece_bytes
        self._pause_s = pause_s

    async def serve(self, near: trio.SocketStream) -> None:
        """Hand on both ways until one end is closed."""
        self.connections += 1
        far = await trio.open_tcp_stream("127.0.0.1", self._port)
        async with near, far, trio.open_nursery() as nursery:
            nursery.start_soon(self._hand_on, near, far)
            await self._hand_back(far, near)
            nursery.cancel_scope.cancel()

    async def _hand_on(self, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            async for data in source:
                await sink.send_all(data)

    async def _hand_back(self, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            async for data in source:
                for start in range(0, len(data), self._piece_bytes):
                    self.pieces += 1
                    await sink.send_all(data[start : start + self._piece_bytes])
                    await trio.sleep(self._pause_s)


@contextlib.asynccontextmanager
async def slow_link(url: str, piece_bytes: int, pause_s: float) -> AsyncIterator[SlowLink]:
    """A link to the node at this address."""
    link = SlowLink(url, piece_bytes, pause_s)
    async with trio.open_nursery() as nursery:
        listen = partial(trio.serve_tcp, link.serve, 0, host="127.0.0.1")
        (listener,) = await nursery.start(listen)
        link.url = f"tcp://127.0.0.1:{listener.socket.getsockname()[1]}"
        yield link
        nursery.cancel_scope.cancel()
