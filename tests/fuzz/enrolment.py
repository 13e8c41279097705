"""Any name, token and signing request: refused with a reason, or signed for who asked.

And what a node reads before it believes anybody: the certificate of an authority, a join token.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path

import structlog
import trio
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate, load_pem_x509_csr

from envs_node.actors.tls import AUTHORITY, STRANGER
from envs_node.deploy.authority import Authority
from envs_node.deploy.certificates import (
    CertificateError,
    digest_of,
    read_certificate,
    read_request,
)
from envs_node.deploy.enrolment import EnrolmentActor
from envs_node.deploy.signing import make_authority, make_key, make_request
from envs_node.deploy.tokens import JoinToken, TokenError, read_token
from envs_node.messages import codec
from envs_node.messages.base import Envelope, Message
from envs_node.messages.enrol import Authority as AuthorityIs
from envs_node.messages.enrol import Enrol, EnrolFailed, Enrolled, FetchAuthority
from tests.fuzz.marks import Check, shape
from tests.fuzz.memory_folder import memory_folder
from tests.fuzz.seeds import addressed

_ASKS, _CERTIFICATE, _TOKEN, _WHOLE = range(4)
_RENEWS, _IS_OURS, _IS_PEM = 0x10, 0x20, 0x40
_NOW_S = 1_790_000_000.0
_NODE = "gpu-0"


def seeds() -> list[bytes]:
    """Good requests of a stranger and of a node, a certificate, a token, whole messages."""
    key = make_key()
    pem, own = make_request(key, _NODE), make_authority(key, "envs-node authority box", _NOW_S)
    der = load_pem_x509_csr(pem).public_bytes(Encoding.DER)
    own_der = load_pem_x509_certificate(own).public_bytes(Encoding.DER)
    token = JoinToken("ab" * 32, "0123456789ab", "x" * 32)
    asked = _led(_NODE.encode()) + _led(token.grant.encode())
    enrol = Enrol(node=_NODE, request=pem, token=token.grant)
    whole = [
        addressed(message, sender=STRANGER, to=AUTHORITY) for message in (FetchAuthority(), enrol)
    ]
    return [
        bytes([_ASKS | _IS_OURS]) + asked + der,
        bytes([_ASKS]) + asked + der,
        bytes([_ASKS | _RENEWS]) + asked + der,
        bytes([_ASKS | _IS_OURS | _IS_PEM]) + asked + pem,
        bytes([_CERTIFICATE]) + own_der,
        bytes([_CERTIFICATE | _IS_PEM]) + own,
        bytes([_TOKEN]) + token.text.encode(),
        *(bytes([_WHOLE]) + data for data in whole),
    ]


@contextlib.contextmanager
def opened() -> Iterator[Check]:
    """The check of one input, with an authority that has let one node in."""
    with memory_folder() as root:
        yield _Checks(root).check


class _Checks:
    """An authority and what may be asked of it."""

    def __init__(self, root: Path) -> None:
        self._authority = Authority.open(root, _NOW_S)
        self._token = self._authority.create_token(uses=3, hours=1e6, now_s=_NOW_S)
        self._file = root / "token"

    def check(self, data: bytes) -> Iterator[str]:
        """Do with one input what its first byte says."""
        kind, rest = (data[0], data[1:]) if data else (_TOKEN, b"")
        match kind & 0x03:
            case 0:  # _ASKS
                yield self._ask(kind, rest)
            case 1:  # _CERTIFICATE
                pem = rest if kind & _IS_PEM else _pem("CERTIFICATE", rest)
                yield from _read_both(pem)
            case 2:  # _TOKEN
                self._file.write_bytes(rest)
                with contextlib.suppress(TokenError):
                    assert read_token(self._file)
                    yield "a token"
            case _:
                yield self._take(rest)

    def _ask(self, kind: int, rest: bytes) -> str:
        name, rest = _split(rest)
        grant, rest = _split(rest)
        node = name.decode("utf-8", "replace")
        token = self._token.grant if kind & _IS_OURS else grant.decode("utf-8", "replace")
        request = rest if kind & _IS_PEM else _pem("CERTIFICATE REQUEST", rest)
        sender = f"node/{node}" if kind & _RENEWS else STRANGER
        asked = Enrol(node=node, request=request, token=token)
        answer = self._hear(codec.decode(addressed(asked, sender=sender, to=AUTHORITY)))
        if isinstance(answer, Enrolled):
            wanted, signed = read_request(request), read_certificate(answer.certificate)
            assert (signed.node, signed.key_digest) == (node, wanted.key_digest), "signed another"
            assert kind & _RENEWS or token == self._token.grant, "let in without a token"
            return f"enrolled {kind & _RENEWS}"
        assert isinstance(answer, EnrolFailed), f"answered {answer}"
        assert self._token.secret not in answer.reason, "a reason tells the secret"
        return shape(answer.reason)

    def _take(self, data: bytes) -> str:
        try:
            envelope = codec.decode(data)
        except codec.CodecError as error:
            return shape(error)
        if isinstance(envelope.message, FetchAuthority | Enrol):
            answer = self._hear(envelope)
            assert isinstance(answer, AuthorityIs | Enrolled | EnrolFailed), f"answered {answer}"
        return f"whole {type(envelope.message).__name__}"

    def _hear(self, envelope: Envelope[codec.AnyMessage]) -> Message | None:
        actor = EnrolmentActor(self._authority, lambda _: False)
        actor.envelope = envelope  # type: ignore[assignment]  # a message of ours is a message
        with structlog.testing.capture_logs():
            return trio.run(actor.hear, envelope.message)


def _read_both(pem: bytes) -> Iterator[str]:
    for read in (digest_of, read_certificate):
        try:
            read(pem)
            yield f"{read.__name__} done"
        except CertificateError as error:
            yield f"{read.__name__} {shape(error)}"


def _pem(label: str, der: bytes) -> bytes:
    body = base64.encodebytes(der).decode("ascii")
    return f"-----BEGIN {label}-----\n{body}-----END {label}-----\n".encode("ascii")


def _led(data: bytes) -> bytes:
    """With its length before it."""
    return bytes([len(data)]) + data


def _split(data: bytes) -> tuple[bytes, bytes]:
    """What has its length before it, and the rest."""
    length = data[0] if data else 0
    return data[1 : 1 + length], data[1 + length :]
