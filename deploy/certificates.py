"""Certificates and signing requests as they are read; `signing.py` makes them."""

from __future__ import annotations

import hashlib
import re

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from envs_node.messages.base import EnvsError

LIFETIME_S = 30 * 86_400
"""Of a node's certificate. A node renews its own when a third of it is left."""
_REQUEST_BYTES_MAX = 8192
_UNREADABLE = (ValueError, UnsupportedAlgorithm, InvalidSignature, x509.InvalidVersion)
"""What reading foreign bytes raises."""
_NODE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class CertificateError(EnvsError):
    """Bytes that are no certificate, key or request of ours, or a name that no node may have."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate says."""

    node: str
    key_digest: str
    """Of the public key it was made for."""
    until_s: float
    """Seconds since 1970."""

    def is_fresh(self, now_s: float) -> bool:
        """Whether more than a third of its life is left."""
        return self.until_s - now_s > LIFETIME_S / 3


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a signing request asks for, its signature checked."""

    node: str
    key_digest: str
    pem: bytes


def check_node_name(node: str) -> None:
    """Refuse names that cannot stand in a certificate.

    Raises:
        CertificateError: naming it and what is allowed.
    """
    if not _NODE.fullmatch(node):
        raise CertificateError(
            f"{node[:80]!r} is no name of a node: 1 to 63 letters, digits, `.`, `_` and `-`, the "
            "first and the last a letter or digit; choose one with --link.node"
        )


def read_request(pem: bytes) -> Request:
    """Read what a stranger sent.

    Raises:
        CertificateError: it is no request, its signature is not that of its key, the key is not on
            P-256, or it names no node.
    """
    if len(pem) > _REQUEST_BYTES_MAX:
        raise CertificateError(f"a signing request of {len(pem)} bytes")
    try:
        request = x509.load_pem_x509_csr(pem)
        public = request.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey) or public.curve.name != "secp256r1":
            raise CertificateError("the key of the signing request is not on P-256")
        if not request.is_signature_valid:
            raise CertificateError("the signing request is not signed by its own key")
        node = _common_name(request.subject)
    except _UNREADABLE as error:
        raise CertificateError(f"no signing request: {error}") from error
    check_node_name(node)
    return Request(node=node, key_digest=_key_digest(public), pem=pem)


def read_certificate(pem: bytes) -> Certificate:
    """Read a certificate of ours.

    Raises:
        CertificateError: it is none.
    """
    try:
        found = x509.load_pem_x509_certificate(pem)
        public = found.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise CertificateError("the key of the certificate is not on P-256")
        node, until = _common_name(found.subject), found.not_valid_after_utc
    except _UNREADABLE as error:
        raise CertificateError(f"no certificate: {error}") from error
    return Certificate(node=node, key_digest=_key_digest(public), until_s=until.timestamp())


def digest_of(pem: bytes) -> str:
    """SHA-256 of a certificate, in hex: what a join token pins.

    Raises:
        CertificateError: it is none.
    """
    try:
        return x509.load_pem_x509_certificate(pem).fingerprint(hashes.SHA256()).hex()
    except _UNREADABLE as error:
        raise CertificateError(f"no certificate: {error}") from error


def _common_name(subject: x509.Name) -> str:
    found = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(found) != 1:
        raise CertificateError(f"{len(found)} common names; a node has one")
    value = found[0].value
    return value if isinstance(value, str) else ""


def _key_digest(public: ec.EllipticCurvePublicKey) -> str:
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(public.public_bytes(serialization.Encoding.DER, spki)).hexdigest()
