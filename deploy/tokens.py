"""Join tokens: what lets a node in that has no certificate yet, so often and until then."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

import msgspec

from envs_node.deploy.run_folder import write_json
from envs_node.messages.base import EnvsError

ENVIRONMENT = "ENVS_NODE_TOKEN"
_VERSION = "1"
_FORM = re.compile(r"1\.([0-9a-f]{64})\.([0-9a-f]{12})\.([A-Za-z0-9_-]{32})")
_GRANT = re.compile(r"([0-9a-f]{12})\.([A-Za-z0-9_-]{32})")
_TOKEN_BYTES_MAX = 4096


class TokenError(EnvsError):
    """A join token that is none, or that does not let anybody in."""


class JoinToken(msgspec.Struct, frozen=True):
    """A token as it is handed to nodes. Its text is a secret."""

    authority: str
    """SHA-256 of the authority's certificate: the node believes no other."""
    id: str
    secret: str

    def __repr__(self) -> str:
        return f"JoinToken(id={self.id!r})"

    @property
    def text(self) -> str:
        """As it is kept in the environment or in a file."""
        return f"{_VERSION}.{self.authority}.{self.id}.{self.secret}"

    @property
    def grant(self) -> str:
        """What is shown to the authority once it has proved itself."""
        return f"{self.id}.{self.secret}"


class TokenUse(msgspec.Struct, frozen=True, kw_only=True):
    """A node that was let in."""

    node: str
    key_digest: str
    time_s: float


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a token: not its secret."""

    id: str
    secret_sha256: str
    uses_max: int
    created_s: float
    expires_s: float
    """Seconds since 1970."""
    used: tuple[TokenUse, ...] = ()

    def use_of(self, key_digest: str) -> TokenUse | None:
        """The use that this key has made of it."""
        return next((use for use in self.used if use.key_digest == key_digest), None)

    def reason_against(self, now_s: float) -> str:
        """Why it lets nobody else in; empty when it does."""
        if now_s >= self.expires_s:
            return f"the join token {self.id} has lapsed"
        if len(self.used) >= self.uses_max:
            return f"the join token {self.id} is spent: it was good for {self.uses_max} nodes"
        return ""


class TokenStore:
    """The tokens of an authority, a file each. Whoever writes holds the authority's lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, authority: str, *, uses: int, hours: float, now_s: float) -> JoinToken:
        """Make a token. Its secret is returned this once."""
        token = JoinToken(authority, secrets.token_hex(6), secrets.token_urlsafe(24))
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self.keep(
            TokenRecord(
                id=token.id,
                secret_sha256=_digest(token.secret),
                uses_max=uses,
                created_s=now_s,
                expires_s=now_s + hours * 3600,
            )
        )
        return token

    def records(self) -> list[TokenRecord]:
        """All tokens, the oldest first.

        Raises:
            TokenError: one is damaged.
        """
        found = [self._read(path) for path in self._folder.glob("*.json")]
        return sorted(found, key=lambda record: record.created_s)

    def revoke(self, token_id: str) -> None:
        """Let nobody else in by it. Who was let in stays in.

        Raises:
            TokenError: there is none of this id.
        """
        path = self._path(token_id)
        if path is None or not path.exists():
            raise TokenError(f"no join token {token_id[:80]!r}; see `envs-node token ls`")
        path.unlink()

    def find(self, grant: str) -> TokenRecord:
        """The token of this id and secret, spent or lapsed or not.

        Raises:
            TokenError: there is none; whether the id or the secret was wrong is not told.
        """
        match = _GRANT.fullmatch(grant)
        path = self._path(match[1]) if match else None
        if match is None or path is None or not path.exists():
            raise TokenError("no such join token")
        record = self._read(path)
        if not hmac.compare_digest(record.secret_sha256, _digest(match[2])):
            raise TokenError("no such join token")
        return record

    def keep(self, record: TokenRecord) -> None:
        """Write a record, whole or not at all."""
        write_json(self._folder / f"{record.id}.json", record)

    def _path(self, token_id: str) -> Path | None:
        is_id = re.fullmatch(r"[0-9a-f]{12}", token_id) is not None
        return self._folder / f"{token_id}.json" if is_id else None

    def _read(self, path: Path) -> TokenRecord:
        try:
            return msgspec.json.decode(path.read_bytes(), type=TokenRecord)
        except (OSError, msgspec.DecodeError) as error:
            raise TokenError(f"the join token {path.stem} is damaged: revoke it") from error


def read_token(file: Path | None) -> JoinToken | None:
    """The token that this process was given, in a file or in its environment; None without one.

    It is taken out of the environment: what this process starts does not inherit it.

    Raises:
        TokenError: it is none, or its file cannot be read. The text is not repeated.
    """
    given = os.environ.pop(ENVIRONMENT, "")
    if file is not None:
        try:
            with file.open("rb") as opened:
                text = opened.read(_TOKEN_BYTES_MAX).decode("ascii", "replace")
        except OSError as error:
            raise TokenError(f"cannot read the join token in {file}: {error.strerror}") from error
        source = str(file)
    else:
        text, source = given, ENVIRONMENT
        if not text.strip():
            return None
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise TokenError(
            f"what is in {source} is no join token: it is one line that `envs-node token create` "
            "printed"
        )
    return JoinToken(*match.groups())


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
