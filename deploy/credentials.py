"""A node's own key and certificate on disk: made once, readable by their owner alone."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from envs_node.actors.tls import Security
from envs_node.deploy.certificates import Certificate, read_certificate
from envs_node.deploy.signing import make_key


def files_of(node: str, tls: Path) -> Security:
    """The files of a node in its tls folder."""
    return Security(
        node=node,
        authority=tls / "authority.pem",
        certificate=tls / "node.pem",
        key=tls / "key.pem",
    )


def own_key(tls: Path) -> bytes:
    """The node's private key, made when it is first wanted; of two who make it, one does."""
    path = tls / "key.pem"
    if not path.exists():
        write_private(path, make_key(), is_new=True)
    return path.read_bytes()


def read_present(tls: Path) -> Certificate | None:
    """The node's certificate; None when it has none yet.

    Raises:
        CertificateError: it is damaged.
    """
    data = read_or_nothing(tls / "node.pem")
    return read_certificate(data) if data else None


def read_or_nothing(path: Path) -> bytes:
    """A file's bytes; none of it when it is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def write_private(path: Path, data: bytes, *, is_new: bool = False) -> None:
    """Write a file that its owner alone reads, whole or not at all.

    Args:
        is_new: leave the file that is there alone, if somebody was faster.
    """
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if is_new:
            with contextlib.suppress(FileExistsError):
                os.link(partial, path)
        else:
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
