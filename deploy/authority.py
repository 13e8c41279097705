"""The authority of a head: signs the certificates of its nodes, and remembers whom it let in."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from envs_node.actors.tls import HEAD_NAME, Security
from envs_node.deploy.certificates import (
    Certificate,
    CertificateError,
    Request,
    check_node_name,
    digest_of,
    read_certificate,
    read_request,
)
from envs_node.deploy.credentials import (
    files_of,
    own_key,
    read_or_nothing,
    read_present,
    write_private,
)
from envs_node.deploy.signing import make_authority, make_key, make_request, sign
from envs_node.deploy.tokens import JoinToken, TokenError, TokenRecord, TokenStore, TokenUse
from envs_node.messages.base import EnvsError

_RESERVED = (HEAD_NAME, "authority", "stranger")


class AuthorityError(EnvsError):
    """An authority that cannot be made or read, or that does not sign this."""


class Authority:
    """The folder `authority` beside a head's runs: its key, its tokens, the nodes it let in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tokens = TokenStore(path / "tokens")
        try:
            self.certificate = (path / "authority.pem").read_bytes()
            self.digest = digest_of(self.certificate)
        except OSError as error:
            raise AuthorityError(
                f"no authority in {path}: {error.strerror}; name the head's folder, where "
                "`envs-node token create` makes one"
            ) from error
        except CertificateError as error:
            raise AuthorityError(
                f"the authority in {path} is damaged: {error}; put its authority.pem back, or "
                "remove the folder and let every node in anew"
            ) from error

    @classmethod
    def open(cls, root: Path, now_s: float) -> Authority:
        """The authority of this folder of runs; when there is none, one is made, by one of us.

        Raises:
            AuthorityError: it can be neither read nor made.
        """
        path = root / "authority"
        if not path.exists():
            try:
                _make(path, now_s)
            except OSError as error:
                reason = f"cannot make the authority in {path}: {error.strerror}"
                raise AuthorityError(reason) from error
        return cls(path)

    @classmethod
    def find(cls, root: Path) -> Authority | None:
        """The authority of this folder of runs if there is one and we may use its key."""
        path = root / "authority"
        return cls(path) if os.access(path / "key.pem", os.R_OK) else None

    def create_token(self, *, uses: int, hours: float, now_s: float) -> JoinToken:
        """Make a join token for so many nodes."""
        with self._lock():
            return self.tokens.create(self.digest, uses=uses, hours=hours, now_s=now_s)

    def revoke_token(self, token_id: str) -> None:
        """Let nobody else in by a token. Raises `TokenError` when there is none of this id."""
        with self._lock():
            self.tokens.revoke(token_id)

    def enrol(
        self,
        node: str,
        request: bytes,
        grant: str,
        *,
        is_alive: Callable[[str], bool],
        now_s: float,
    ) -> bytes:
        """Let a node in by a token: its certificate. Asked again for the same key, the same one.

        Raises:
            EnvsError: why not. A refusal spends nothing.
        """
        with self._lock():
            record = self.tokens.find(grant)
            wanted = self._read(node, request)
            current = self._certificate_of(node)
            is_other = current is not None and current.key_digest != wanted.key_digest
            if current is not None and is_other and is_alive(current.node):
                raise AuthorityError(
                    f"a node named {current.node} is here already, with another key: stop it, or "
                    "start this one under another name: `envs-node start --link.node NAME`"
                )
            use = record.use_of(wanted.key_digest)
            if use is None:
                return self._admit(record, wanted, now_s)
            if use.node != node:
                raise AuthorityError(f"this key is that of {use.node}: one key, one name")
            is_same = current is not None and current.key_digest == wanted.key_digest
            if current is not None and is_same and current.until_s - now_s > 0:
                return self._file_of(node).read_bytes()
            if now_s >= record.expires_s:
                raise TokenError(record.reason_against(now_s))
            return self._sign(wanted, (node,), now_s)

    def renew(self, node: str, request: bytes, now_s: float) -> bytes:
        """Another certificate for a node that has proved by its present one who it is.

        Raises:
            EnvsError: the key is not that of the node.
        """
        with self._lock():
            wanted = self._read(node, request)
            current = self._certificate_of(node)
            if current is None or current.key_digest != wanted.key_digest:
                raise AuthorityError(f"this is not the key of {node}: enrol it with a join token")
            return self._sign(wanted, (node,), now_s)

    def equip(self, node: str, tls: Path, *, now_s: float, is_head: bool = False) -> Security:
        """Give a node of this host its files, or renew them: only a holder of the key can.

        Raises:
            EnvsError: a file cannot be read or written, or the name is no node's.
        """
        check_node_name(node)
        security = files_of(node, tls)
        with self._lock():
            key = own_key(tls)
            wanted = read_request(make_request(key, node))
            present = read_present(tls)
            is_ours = read_or_nothing(tls / "authority.pem") == self.certificate
            is_same = present is not None and present.key_digest == wanted.key_digest
            if not (present and is_same and is_ours and present.is_fresh(now_s)):
                names = (node, HEAD_NAME) if is_head else (node,)
                signed = self._sign(wanted, names, now_s)
                write_private(tls / "authority.pem", self.certificate)
                write_private(tls / "node.pem", signed)
        return security

    def _admit(self, record: TokenRecord, wanted: Request, now_s: float) -> bytes:
        if reason := record.reason_against(now_s):
            raise TokenError(reason)
        use = TokenUse(node=wanted.node, key_digest=wanted.key_digest, time_s=now_s)
        self.tokens.keep(msgspec.structs.replace(record, used=(*record.used, use)))
        return self._sign(wanted, (wanted.node,), now_s)

    def _read(self, node: str, request: bytes) -> Request:
        wanted = read_request(request)
        if wanted.node != node:
            raise AuthorityError(f"the signing request is that of {wanted.node}, not of {node}")
        if node.lower() in _RESERVED:
            raise AuthorityError(
                f"no node may be named {node}: choose another, `envs-node start --link.node NAME`"
            )
        return wanted

    def _sign(self, wanted: Request, names: tuple[str, ...], now_s: float) -> bytes:
        key = (self.path / "key.pem").read_bytes()
        signed = sign(wanted, names=names, certificate=self.certificate, key=key, now_s=now_s)
        write_private(self._file_of(wanted.node), signed)
        return signed

    def _certificate_of(self, node: str) -> Certificate | None:
        data = read_or_nothing(self._file_of(node))
        return read_certificate(data) if data else None

    def _file_of(self, node: str) -> Path:
        return self.path / "nodes" / f"{node.lower()}.pem"  # names that differ by case are one

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with (self.path / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _make(path: Path, now_s: float) -> None:
    """Make it aside and put it in place in one move: who comes second finds the first one's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"authority.{secrets.token_hex(4)}.partial")
    try:
        key = make_key()
        name = f"envs-node authority {socket.gethostname().split('.')[0]}"[:64]
        write_private(aside / "key.pem", key)
        write_private(aside / "authority.pem", make_authority(key, name, now_s))
        try:
            os.rename(aside, path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
