"""Screenshots as files named by their content: `<folder>/ab/cdef….png`."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from envs_node.actors.ledger.errors import BlobMismatchError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_KIND = re.compile(r"[a-z0-9]{1,8}")


class BlobFolder:
    """Keeps bytes under their SHA-256. A file is whole or not there, also after a crash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha256: str, kind: str) -> Path:
        """Where the bytes with this digest lie, whether or not they are there.

        Raises:
            ValueError: the digest or the kind is malformed, and would name another file.
        """
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"not a sha256 in lower case hex: {sha256!r}")
        if not _KIND.fullmatch(kind):
            raise ValueError(f"not a kind of blob: {kind!r}")
        return self.folder / sha256[:2] / f"{sha256[2:]}.{kind}"

    def holds(self, sha256: str, kind: str, size_bytes: int) -> bool:
        """Whether a file of this digest and size is here; its bytes are not looked at."""
        try:
            return self.path(sha256, kind).stat().st_size == size_bytes
        except FileNotFoundError:
            return False

    def check(self, data: bytes, sha256: str, kind: str) -> Path:
        """Where these bytes belong.

        Raises:
            BlobMismatchError: the digest is not that of the bytes.
            ValueError: the digest or the kind is malformed.
        """
        path = self.path(sha256, kind)
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            raise BlobMismatchError(self.folder, sha256, found)
        return path

    def keep(self, data: bytes, sha256: str, kind: str) -> bool:
        """Write the bytes durably. Returns False when they were there already.

        Raises:
            BlobMismatchError: the digest is not that of the bytes.
            OSError: the disk is full or may not be written.
        """
        path = self.check(data, sha256, kind)
        if self.holds(sha256, kind, len(data)):
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_durably(path, data)
        _sync_folder(path.parent)
        _sync_folder(self.folder)
        return True

    def read(self, sha256: str, kind: str) -> bytes:
        """The bytes with this digest.

        Raises:
            FileNotFoundError: they are not here.
            BlobMismatchError: the file was changed since.
        """
        data = self.path(sha256, kind).read_bytes()
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            raise BlobMismatchError(self.folder, sha256, found)
        return data


def _write_durably(path: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
