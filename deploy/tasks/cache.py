"""Keeps what tasks download, by address: fetched once, then read without a network.

A folder with two parts: `blobs/<sha256>` holds bytes, `addresses/<sha256 of the address>` says
which of them an address stands for. Everything is written under another name and renamed, so that
several processes may use one folder, and one that dies leaves nothing half written behind.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from envs_node.messages.base import EnvsError

_CHUNK_BYTES = 1 << 20
_NEW, _UNFINISHED_S = ".new-", 86400.0
"""How a file is called while it is written, and when its writer must have died."""


class DamagedFileError(EnvsError):
    """A file of the cache does not hold the bytes that were put there."""

    def __init__(self, url: str, path: Path, found: str) -> None:
        super().__init__(
            f"the cached file of {url} is damaged ({found}): "
            f"`envs-node tasks fetch` gets it again; it lies at {path}"
        )
        self.url = url
        self.path = path


class CacheError(EnvsError):
    """The cache's folder cannot be used."""

    def __init__(self, root: Path, error: OSError) -> None:
        super().__init__(
            f"the cache of task files {root} cannot be used ({error.strerror or error}): "
            "mend that, or set XDG_CACHE_HOME or --cache to a folder of yours with room"
        )


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Which bytes an address stands for."""

    url: str
    sha256: str
    size_bytes: int


def cache_folder() -> Path:
    """Where task files are kept unless another folder is given, as XDG says."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return home / "envs-node" / "task-files"


class FileCache:
    """Files by address. Safe to use from several threads and processes."""

    def __init__(self, root: Path | None = None) -> None:
        """Use a folder, which is made with the first file; the user's cache unless given."""
        self.root = root or cache_folder()

    def put(self, url: str, data: bytes) -> Entry:
        """Keep bytes under an address; what it stood for before is replaced.

        Raises:
            CacheError: the folder cannot be written.
        """
        with self.writing(url) as (sink, _):
            sink.write(data)
        entry = self.find(url)
        assert entry is not None, "it was written just now"
        return entry

    def put_file(self, url: str, path: Path) -> Entry:
        """Keep a copy of a file under an address.

        Raises:
            CacheError: the folder cannot be written.
            OSError: the file cannot be read.
        """
        with path.open("rb") as source, self.writing(url) as (sink, _):
            shutil.copyfileobj(source, sink, _CHUNK_BYTES)
        entry = self.find(url)
        assert entry is not None, "it was written just now"
        return entry

    @contextmanager
    def writing(self, url: str) -> Iterator[tuple[_Sink, Path]]:
        """A new file and its name; what was written to it is kept once the block ends well.

        Raises:
            CacheError: the folder cannot be written.
        """
        try:
            blobs = self.root / "blobs"
            blobs.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=_NEW, dir=blobs)
        except OSError as error:
            raise CacheError(self.root, error) from error
        path = Path(name)
        try:
            with os.fdopen(handle, "w+b", buffering=0) as file:
                sink = _Sink(self.root, cast(BinaryIO, file))
                yield sink, path
                sink.finish()
            try:
                self._keep(url, path)
            except OSError as error:
                raise CacheError(self.root, error) from error
        finally:
            path.unlink(missing_ok=True)

    def find(self, url: str) -> Entry | None:
        """What an address stands for; None when it was never kept, or its bytes are gone."""
        try:
            entry = msgspec.json.decode(self._address(url).read_bytes(), type=Entry)
            is_whole = self.blob(entry).stat().st_size == entry.size_bytes
        except (OSError, msgspec.DecodeError):
            return None
        return entry if is_whole and entry.url == url else None

    def get(self, url: str) -> bytes | None:
        """The bytes of an address, or None.

        Raises:
            DamagedFileError: they are others than were put there.
        """
        entry = self.find(url)
        if entry is None:
            return None
        path = self.blob(entry)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DamagedFileError(url, path, str(error.strerror)) from error
        found = hashlib.sha256(data).hexdigest()
        if found != entry.sha256:
            raise DamagedFileError(url, path, f"its SHA-256 is {found}")
        return data

    def is_damaged(self, url: str) -> bool:
        """Whether an address is known and its bytes are not what they were."""
        try:
            data = self.get(url)
        except DamagedFileError:
            return True
        return data is None and self._address(url).exists()

    def sweep(self) -> int:
        """Remove what writers that died have left unfinished; how many files that were."""
        old = [path for path in self.root.glob(f"*/{_NEW}*") if _age_s(path) > _UNFINISHED_S]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old)

    def blob(self, entry: Entry) -> Path:
        """The file that holds an entry's bytes."""
        return self.root / "blobs" / entry.sha256

    def _keep(self, url: str, path: Path) -> None:
        with path.open("rb") as source:
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()
        entry = Entry(url=url, sha256=sha256, size_bytes=path.stat().st_size)
        path.chmod(0o644)
        path.replace(self.blob(entry))
        address = self._address(url)
        address.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=_NEW, dir=address.parent)
        try:
            with os.fdopen(handle, "wb") as sink:
                sink.write(msgspec.json.encode(entry))
                sink.flush()
                os.fsync(sink.fileno())
            Path(name).replace(address)
        finally:
            Path(name).unlink(missing_ok=True)

    def _address(self, url: str) -> Path:
        return self.root / "addresses" / hashlib.sha256(url.encode()).hexdigest()


class _Sink:
    """A file of the cache while it is written: where that fails, the cache says so."""

    def __init__(self, root: Path, file: BinaryIO) -> None:
        self._root = root
        self._file = file

    def write(self, data: bytes) -> None:
        """Write all of it.

        Raises:
            CacheError: the disk is full, say.
        """
        try:
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise CacheError(self._root, error) from error

    def finish(self) -> None:
        """Have it on the disk. Raises `CacheError`."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CacheError(self._root, error) from error


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
