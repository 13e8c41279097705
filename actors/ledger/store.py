"""The ledger's store: SQLite for what was found, a folder of blobs for what was seen. Blocking."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from envs_node.actors.ledger.blobs import BlobFolder
from envs_node.actors.ledger.engine import open_engine, translated
from envs_node.actors.ledger.errors import LedgerFullError, LedgerReadOnlyError, NotALedgerError
from envs_node.actors.ledger.records import (
    path_digest,
    step_rows,
    trajectory_of,
    trajectory_row,
)
from envs_node.actors.ledger.tables import BLOBS, STEPS, TASKS, TRAJECTORIES
from envs_node.messages.base import TaskId
from envs_node.messages.ledger import LedgerStats, TaskOutcome, Trajectory

FREE_BYTES_MIN = 64 * 1024 * 1024
"""Below this much free disk nothing new is taken, so that what was begun can still be ended."""


class LedgerStore:
    """Keeps trajectories, outcomes and screenshots. Every write is durable when it returns.

    Calls block, and are serialised by a lock: use it from a thread. Several processes may have
    the same ledger open.
    """

    def __init__(
        self, path: Path, *, is_read_only: bool = False, free_bytes_min: int = FREE_BYTES_MIN
    ) -> None:
        """Open the ledger at `path`; blobs lie beside it in `blobs/`.

        Raises:
            LedgerMissingError: read-only, and there is none.
            NotALedgerError: the file is something else.
            LedgerSchemaError: a newer version wrote it.
            LedgerReadOnlyError: it may not be written, and was not opened read-only.
        """
        self.path = path
        self.blobs = BlobFolder(path.parent / "blobs")
        self._is_read_only = is_read_only
        self._free_bytes_min = free_bytes_min
        self._lock = threading.Lock()
        self._engine = open_engine(path, is_read_only=is_read_only)

    def __enter__(self) -> LedgerStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; more than once does no harm."""
        with self._lock:
            self._engine.dispose()

    def admit(self, trajectory: Trajectory) -> bool:
        """Keep a success. Returns False when its canonical path of this task is known.

        A certified trajectory takes the place of an uncertified one of the same path; that too
        counts as known. Nothing else ever changes an admitted trajectory.

        Raises:
            LedgerFullError: no room; nothing was kept.
            ValueError: its id is that of another path.
        """
        self._check_writable()
        with self._lock, translated(self.path), self._engine.begin() as connection:
            known = self._known(connection, trajectory)
            if known is None:
                connection.execute(
                    TRAJECTORIES.insert(), trajectory_row(trajectory, time.time_ns())
                )
            elif known.is_certified or not trajectory.is_certified:
                return False
            else:
                trajectory = msgspec.structs.replace(trajectory, id=known.id)
                connection.execute(STEPS.delete().where(STEPS.c.trajectory == known.id))
                connection.execute(
                    TRAJECTORIES.update().where(TRAJECTORIES.c.id == known.id),
                    trajectory_row(trajectory, known.admitted_ns),
                )
            if rows := step_rows(trajectory):
                connection.execute(STEPS.insert(), rows)
        return known is None

    def lacking(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of these names under which no whole file is kept, in order, each once."""
        with self._lock, translated(self.path):
            rows = self._blob_rows(names)
            kept = {row.name for row in rows if self.blobs.holds(row.sha256, row.kind, row.size)}
        return tuple(name for name in dict.fromkeys(names) if name not in kept)

    def store_blob(self, name: str, sha256: str, kind: str, data: bytes) -> str:
        """Keep bytes under a name. Returns the digest kept: the first for a name stays.

        What is kept already costs no write.

        Raises:
            BlobMismatchError: the digest is not that of the bytes.
            LedgerFullError: no room; nothing was kept.
            ValueError: the digest or the kind is malformed.
        """
        self._check_writable()
        with self._lock, translated(self.path):
            for known in self._blob_rows([name]):
                if self.blobs.holds(known.sha256, known.kind, known.size):
                    self.blobs.check(data, sha256, kind)
                    return str(known.sha256)
            self.blobs.keep(data, sha256, kind)
            row = {"name": name, "sha256": sha256, "kind": kind, "size_bytes": len(data)}
            statement = insert(BLOBS).values(row)
            with self._engine.begin() as connection:
                connection.execute(
                    statement.on_conflict_do_update(index_elements=["name"], set_=row)
                )
        return sha256

    def read_blob(self, name: str) -> bytes | None:
        """The bytes kept under a name; None for a name that was never kept."""
        row = self._blob_row(name)
        return None if row is None else self.blobs.read(row.sha256, row.kind)

    def blob_path(self, name: str) -> Path | None:
        """The file of the bytes kept under a name; None when there are none."""
        row = self._blob_row(name)
        return None if row is None else self.blobs.path(row.sha256, row.kind)

    def keep_outcome(self, outcome: TaskOutcome) -> None:
        """Keep a task's tally in place of the last one."""
        self._check_writable()
        row = msgspec.structs.asdict(outcome)
        statement = insert(TASKS).values(row)
        with self._lock, translated(self.path), self._engine.begin() as connection:
            connection.execute(
                statement.on_conflict_do_update(index_elements=["task_id"], set_=row)
            )

    def outcomes(self) -> tuple[TaskOutcome, ...]:
        """The latest tally of every task, by task id."""
        query = sa.select(TASKS).order_by(TASKS.c.task_id)
        with self._lock, translated(self.path), self._engine.begin() as connection:
            rows = connection.execute(query).mappings().all()
        return tuple(TaskOutcome(**row) for row in rows)

    def trajectories(
        self, *, certified_only: bool, task_ids: Iterable[TaskId] | None = None
    ) -> tuple[Trajectory, ...]:
        """Trajectories in the order of admission, with the latest success rate of their task."""
        query = sa.select(TRAJECTORIES, TASKS.c.leaves, TASKS.c.successes).join(
            TASKS, TASKS.c.task_id == TRAJECTORIES.c.task_id, isouter=True
        )
        if certified_only:
            query = query.where(TRAJECTORIES.c.is_certified)
        if task_ids is not None:
            query = query.where(TRAJECTORIES.c.task_id.in_(list(task_ids)))
        found = []
        with self._lock, translated(self.path), self._engine.begin() as connection:
            for row in connection.execute(query.order_by(TRAJECTORIES.c.number)).all():
                steps = connection.scalars(
                    sa.select(STEPS.c.data)
                    .where(STEPS.c.trajectory == row.id)
                    .order_by(STEPS.c.position)
                ).all()
                rate = row.successes / row.leaves if row.leaves else None
                try:
                    found.append(trajectory_of(row.head, steps, rate))
                except msgspec.DecodeError as error:
                    raise NotALedgerError(self.path, f"trajectory {row.id}: {error}") from error
        return tuple(found)

    def stats(self) -> LedgerStats:
        """Counts over the whole ledger."""
        count, trajectories = sa.func.count, TRAJECTORIES.c
        query = sa.select(
            count(trajectories.id).label("trajectories"),
            count().filter(trajectories.is_certified).label("certified"),
            count(sa.distinct(trajectories.task_id)).label("tasks"),
            count(sa.distinct(trajectories.template)).label("templates"),
        )
        with self._lock, translated(self.path), self._engine.begin() as connection:
            row = connection.execute(query).mappings().one()
            steps = connection.execute(
                sa.select(
                    count().label("steps"), count(sa.distinct(STEPS.c.shared_key))
                ).select_from(STEPS)
            ).one()
            blobs = connection.scalar(sa.select(count()).select_from(BLOBS))
        return LedgerStats(**row, steps=steps[0], distinct_steps=steps[1], blobs=blobs or 0)

    def _blob_row(self, name: str) -> sa.Row[*tuple[Any, ...]] | None:
        with self._lock, translated(self.path):
            return next(iter(self._blob_rows([name])), None)

    def _blob_rows(self, names: Sequence[str]) -> Sequence[sa.Row[*tuple[Any, ...]]]:
        """Name, digest, kind and size of what is kept under these names, found by the index."""
        columns = BLOBS.c
        query = sa.select(
            columns.name, columns.sha256, columns.kind, columns.size_bytes.label("size")
        ).where(columns.name.in_(names))
        with self._engine.begin() as connection:
            return connection.execute(query).all()

    def _known(
        self, connection: sa.Connection, trajectory: Trajectory
    ) -> sa.Row[*tuple[Any, ...]] | None:
        digest = path_digest(trajectory.path)
        columns = TRAJECTORIES.c
        is_same_path = (columns.task_sha256 == trajectory.task_sha256) & (
            columns.path_sha256 == digest
        )
        query = sa.select(TRAJECTORIES).where(is_same_path | (columns.id == trajectory.id))
        known = connection.execute(query).all()
        for row in known:
            if (row.task_sha256, row.path_sha256) != (trajectory.task_sha256, digest):
                raise ValueError(f"trajectory id {trajectory.id} names another path already")
        return known[0] if known else None

    def _check_writable(self) -> None:
        if self._is_read_only:
            raise LedgerReadOnlyError(self.path)
        free_bytes = shutil.disk_usage(self.path.parent).free
        if free_bytes < self._free_bytes_min:
            raise LedgerFullError(self.path.parent, free_bytes)
