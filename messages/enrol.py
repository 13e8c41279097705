"""How a node that holds only a join token gets a certificate of its own."""

from __future__ import annotations

from envs_node.messages.base import Message


class FetchAuthority(Message, frozen=True, kw_only=True):
    """Who signs here? The one question a stranger may ask. Answered by `Authority`."""


class Authority(Message, frozen=True, kw_only=True):
    """Answers `FetchAuthority`. To be believed only when its digest is that of the join token."""

    certificate: bytes
    """PEM."""


class Enrol(Message, frozen=True, kw_only=True):
    """Sign a key for this node. Asked twice for one key, it is answered alike.

    Answered by `Enrolled` or `EnrolFailed`.
    """

    node: str
    request: bytes
    """PEM of a certificate signing request; its common name is the node's."""
    token: str
    """Id and secret of the join token: the way there is encrypted and its end has proved itself.
    Empty for a node that renews its certificate, which it proves to be by the present one."""


class Enrolled(Message, frozen=True, kw_only=True):
    """Answers `Enrol`."""

    certificate: bytes
    """PEM, for client and server use."""


class EnrolFailed(Message, frozen=True, kw_only=True):
    """Refuses `Enrol`: a wrong, spent or lapsed token, or a name that is another's."""

    reason: str
