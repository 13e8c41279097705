"""Makes keys, signing requests and certificates."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from envs_node.deploy.certificates import LIFETIME_S, CertificateError, Request

_AUTHORITY_S = 10 * 365 * 86_400
_CLOCK_SKEW_S = 3600
"""Certificates begin so long before they are made: the clocks of hosts differ."""
_PEM = serialization.Encoding.PEM


def make_key() -> bytes:
    """A new private key on P-256, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    plain = serialization.NoEncryption()
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain)


def make_request(key: bytes, node: str) -> bytes:
    """Ask for this key to be signed for this node, as PEM."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(node))
    return builder.sign(_private(key), hashes.SHA256()).public_bytes(_PEM)


def make_authority(key: bytes, name: str, now_s: float) -> bytes:
    """The certificate of an authority, signed by itself, as PEM."""
    private = _private(key)
    builder = _builder(_name(name), _name(name), private.public_key(), now_s, _AUTHORITY_S)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.sign(private, hashes.SHA256()).public_bytes(_PEM)


def sign(
    request: Request, *, names: tuple[str, ...], certificate: bytes, key: bytes, now_s: float
) -> bytes:
    """Sign a request for client and server use, as PEM.

    Args:
        names: what the node proves to be to those who dial it; nothing is taken from the request.
        certificate: the authority's.
        key: the authority's.
    """
    authority = x509.load_pem_x509_certificate(certificate)
    public = x509.load_pem_x509_csr(request.pem).public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey), "a request is read before it is signed"
    usage = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    builder = (
        _builder(_name(request.node), authority.subject, public, now_s, LIFETIME_S)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False
        )
    )
    return builder.sign(_private(key), hashes.SHA256()).public_bytes(_PEM)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now_s: float,
    lifetime_s: float,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_moment(now_s - _CLOCK_SKEW_S))
        .not_valid_after(_moment(now_s + lifetime_s))
    )


def _moment(time_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(time_s, tz=datetime.UTC)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"no private key: {type(error).__name__}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the private key is not on P-256")
    return key
