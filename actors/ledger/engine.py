"""Opens the ledger's database, and says in our words what SQLite says in its own."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from envs_node.actors.ledger.errors import (
    LedgerBusyError,
    LedgerError,
    LedgerFullError,
    LedgerMissingError,
    LedgerReadOnlyError,
    LedgerSchemaError,
    NotALedgerError,
)
from envs_node.actors.ledger.tables import META, SCHEMA, TABLES

BUSY_TIMEOUT_S = 30.0
_ROOM_BYTES = 1024 * 1024
"""Less than this free makes a vague error a full disk: SQLite reports some of them so."""


def open_engine(path: Path, *, is_read_only: bool) -> sa.Engine:
    """Open the database, made new where there is none and it may be written.

    One connection, usable from any one thread at a time. Writers take the lock when they begin,
    so two processes never deadlock; each commit is on disk when it returns.

    Raises:
        LedgerError: of the class that fits.
    """
    if is_read_only and not path.is_file():
        raise LedgerMissingError(path)
    with translated(path):
        if not is_read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
        engine = sa.create_engine(
            "sqlite+pysqlite://",
            creator=lambda: _connect(path, is_read_only=is_read_only),
            poolclass=sa.StaticPool,
        )
        begin = "BEGIN" if is_read_only else "BEGIN IMMEDIATE"
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        try:
            _check_schema(engine, path, is_read_only=is_read_only)
        except BaseException:
            engine.dispose()
            raise
    return engine


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into the ledger's own."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise _translate(path, error.orig) from error
        raise
    except sqlite3.Error as error:
        raise _translate(path, error) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LedgerFullError(path.parent, _free_bytes(path)) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise LedgerReadOnlyError(path) from error
        raise


def _connect(path: Path, *, is_read_only: bool) -> sqlite3.Connection:
    query = "?mode=rwc"
    if is_read_only:
        query = "?mode=ro"
        if not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
            query += "&immutable=1"  # a reader of WAL else wants to make a file beside it
    connection = sqlite3.connect(
        path.resolve().as_uri() + query,
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA foreign_keys=ON")
        if not is_read_only:
            _set_wal(connection)
            connection.execute("PRAGMA synchronous=FULL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _set_wal(connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # Two that create the file at once: SQLite answers here without waiting its time-out.
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _check_schema(engine: sa.Engine, path: Path, *, is_read_only: bool) -> None:
    with engine.begin() as connection:
        names = sa.inspect(connection).get_table_names()
        if not names and not is_read_only:
            TABLES.create_all(connection)
            connection.execute(META.insert().values(key="schema", value=str(SCHEMA)))
            return
        if META.name not in names:
            raise NotALedgerError(path, "no ledger's tables in it" if names else "it is empty")
        value = connection.scalar(sa.select(META.c.value).where(META.c.key == "schema"))
    if value is None or not value.isdecimal():
        raise NotALedgerError(path, f"schema number {value!r}")
    if int(value) > SCHEMA:
        raise LedgerSchemaError(path, int(value), SCHEMA)


def _translate(path: Path, error: sqlite3.Error) -> LedgerError:
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return LedgerFullError(path.parent, _free_bytes(path))
    is_vague = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    if is_vague and _free_bytes(path) < _ROOM_BYTES:
        return LedgerFullError(path.parent, _free_bytes(path))
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return LedgerReadOnlyError(path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerBusyError(path, BUSY_TIMEOUT_S)
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return NotALedgerError(path, str(error))
    return LedgerError(path, f"SQLite says: {error}")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _free_bytes(path: Path) -> int:
    try:
        return shutil.disk_usage(path.parent).free
    except OSError:
        return 0
