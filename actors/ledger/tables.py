"""The ledger's tables."""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA = 1
"""Raised when older code could no longer read the tables."""

TABLES = sa.MetaData()

META = sa.Table(
    "meta",
    TABLES,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
TRAJECTORIES = sa.Table(
    "trajectories",
    TABLES,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("task_id", sa.Text, nullable=False, index=True),
    sa.Column("task_sha256", sa.Text, nullable=False),
    sa.Column("path_sha256", sa.Text, nullable=False),
    sa.Column("template", sa.Text, nullable=False),
    sa.Column("split", sa.Text, nullable=False),
    sa.Column("is_certified", sa.Boolean, nullable=False),
    sa.Column("admitted_ns", sa.BigInteger, nullable=False),
    sa.Column("step_count", sa.Integer, nullable=False),
    sa.Column("head", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("task_sha256", "path_sha256"),
)
"""`head` is the msgpack of the trajectory without its steps."""
STEPS = sa.Table(
    "steps",
    TABLES,
    sa.Column("trajectory", sa.Text, sa.ForeignKey("trajectories.id"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("shared_key", sa.Text, nullable=False, index=True),
    sa.Column("frame", sa.Text, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
"""`shared_key` is equal for steps that the fit counts once; `frame` names the screenshot."""
TASKS = sa.Table(
    "tasks",
    TABLES,
    sa.Column("task_id", sa.Text, primary_key=True),
    sa.Column("template", sa.Text, nullable=False),
    sa.Column("split", sa.Text, nullable=False),
    sa.Column("leaves", sa.Integer, nullable=False),
    sa.Column("successes", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
)
BLOBS = sa.Table(
    "blobs",
    TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
)
