"""A first question to an address, to learn who is there before anything is believed or told."""

from __future__ import annotations

import pynng
import trio

from envs_node.actors.address import UntrustedError, parse_address
from envs_node.actors.context import RequestContext
from envs_node.actors.sockets import count_events, dial
from envs_node.actors.tls import HEAD_NAME, Security

_KNOCK_S = 10.0
_LOOK_S = (0.1, 1.0)
"""After how long we first look at what nng counted, and at most: it counts all that there is."""
_DISTRUSTED_MAX = 3
"""So often in turn a handshake fails before we believe that it must: a peer may just go away."""
_SIGNS = {
    "tls+tcp": ("auth", "proto", "reject"),
    "tcp": ("other", "proto", "reject"),
    "ipc": ("proto", "reject"),
}
"""What nng counts when somebody is there and cannot be talked to. At a secure address `other` may
be a host that has no address yet."""


async def knock(url: str, security: Security | None, request: bytes) -> bytes | None:
    """Ask once, to learn who is there: the answer, or None when nobody gives one.

    Raises:
        UntrustedError: they do not prove to be who they should be, or one of us encrypts and the
            other does not.
        AddressError, SecurityError: see `dial`.
    """
    address = parse_address(url)
    answers: list[bytes] = []
    is_distrusted = False
    socket = dial(url, security)
    context = RequestContext(socket)
    try:
        with trio.move_on_after(_KNOCK_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_call, context, request, answers, nursery.cancel_scope)
                is_distrusted = await _is_refused(socket.dialers[0], _SIGNS[address.scheme])
                nursery.cancel_scope.cancel()
    finally:
        context.close()
        socket.close()
    if is_distrusted and not answers:
        raise UntrustedError(url, address.node or HEAD_NAME)
    return answers[0] if answers else None


async def _call(
    context: RequestContext, request: bytes, answers: list[bytes], scope: trio.CancelScope
) -> None:
    answers.append(await context.call(request, lambda data, _pipe: bytes(data)))
    scope.cancel()


async def _is_refused(dialer: pynng.Dialer, signs: tuple[str, ...]) -> bool:
    """Wait until nobody is there, or somebody whom we cannot believe; True for the latter."""
    wait_s, most_s = _LOOK_S
    while True:
        await trio.sleep(wait_s)
        wait_s = min(2 * wait_s, most_s)
        counted = count_events(dialer)
        failed = sum(counted[sign] for sign in signs)
        if failed >= _DISTRUSTED_MAX or counted["refused"]:
            return failed >= _DISTRUSTED_MAX
