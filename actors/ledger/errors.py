"""What can go wrong with a ledger; a class for each thing a caller could do differently."""

from __future__ import annotations

from pathlib import Path

from envs_node.messages.base import EnvsError


class LedgerError(EnvsError):
    """Root of the ledger's errors; the message names the file."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


class LedgerMissingError(LedgerError):
    """There is no ledger to read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "no such ledger; name the ledger file of a run that has one")


class NotALedgerError(LedgerError):
    """The file is something else, or so damaged that it cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, f"not a ledger ({reason}); name another file, or move it away")


class LedgerSchemaError(LedgerError):
    """The ledger was written by a newer version of this package."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            path, f"ledger schema {found}, but at most {known} is known here; upgrade envs-node"
        )
        self.found = found


class LedgerFullError(LedgerError):
    """No room on the disk. Nothing was kept in part; free some space and ask again."""

    def __init__(self, folder: Path, free_bytes: int) -> None:
        super().__init__(folder, f"only {free_bytes} bytes are free; make room and ask again")
        self.free_bytes = free_bytes


class LedgerReadOnlyError(LedgerError):
    """The ledger may be read, but not written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "may not be written; check who owns it and how it is mounted")


class LedgerBusyError(LedgerError):
    """Another process kept the ledger locked for too long."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__(path, f"locked by another process for {timeout_s:g} s; ask again")


class BlobMismatchError(LedgerError):
    """The bytes are not those that the digest names."""

    def __init__(self, folder: Path, expected: str, found: str) -> None:
        super().__init__(folder, f"blob refused: its sha256 is {found}, not {expected}")
