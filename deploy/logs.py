"""Logs for people: set up once, on standard error and in the run's folder."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import structlog

Level = Literal["debug", "info", "warning", "error"]
_LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_SECRET = re.compile(r"(^|_)(password|passwd|token|secret|api_key)$")
_Fields = structlog.typing.EventDict


@contextmanager
def keep_logs(
    *,
    node: str,
    run_id: str = "",
    folder: Path | None = None,
    level: Level = "info",
    to_stderr: bool = True,
) -> Iterator[None]:
    """Send what this process logs to standard error and, if a folder is given, to a file in it.

    Standard error gets lines for people when it is a terminal, else JSON; the file is
    `<folder>/<node>.jsonl` and is added to. The root logger is left alone. Fields whose names say
    that they hold a secret are blotted out in both. With `to_stderr=False` only the file is
    written, for work that shows its progress there instead.

    Raises:
        OSError: the file cannot be opened.
    """
    with _opened(folder, node) as file:
        sink = [_FileSink(file)] if file is not None else []
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                _Bound(node=node, run_id=run_id),
                _blot_secrets,
                *sink,
                _render if to_stderr else _drop,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
            logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
            cache_logger_on_first_use=False,
        )
        try:
            yield
        finally:
            structlog.reset_defaults()


class _Bound:
    """Adds the fields that every line of this process carries."""

    def __init__(self, **fields: str) -> None:
        self._fields = {name: value for name, value in fields.items() if value}

    def __call__(self, _logger: object, _method: str, fields: _Fields) -> _Fields:
        return {**self._fields, **fields}


class _FileSink:
    """Writes each line to the file too. A full disk silences it; it never stops the work."""

    def __init__(self, file: BinaryIO) -> None:
        self._file: BinaryIO | None = file
        self._lock = threading.Lock()

    def __call__(self, _logger: object, _method: str, fields: _Fields) -> _Fields:
        line = _as_json(structlog.processors.format_exc_info(_logger, _method, dict(fields)))
        with self._lock:
            if self._file is not None:
                try:
                    self._file.write(f"{line}\n".encode())
                except OSError as error:
                    self._file = None
                    sys.stderr.write(f"no more log lines go to the run's folder: {error}\n")
        return fields


@contextmanager
def _opened(folder: Path | None, node: str) -> Iterator[BinaryIO | None]:
    if folder is None:
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]", "-", node)
    with (folder / f"{name}.jsonl").open("ab", buffering=0) as file:
        yield cast(BinaryIO, file)


def _blot_secrets(_logger: object, _method: str, fields: _Fields) -> _Fields:
    return {name: "***" if _SECRET.search(name) else value for name, value in fields.items()}


def _render(logger: Any, method: str, fields: _Fields) -> str | bytes:
    if sys.stderr.isatty():
        return structlog.dev.ConsoleRenderer()(logger, method, fields)
    return _as_json(structlog.processors.format_exc_info(logger, method, fields))


def _drop(_logger: object, _method: str, _fields: _Fields) -> str:
    raise structlog.DropEvent


def _as_json(fields: Any) -> str:
    return json.dumps(fields, default=str, ensure_ascii=False)
