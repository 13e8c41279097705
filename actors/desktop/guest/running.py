"""Runs a program and waits, or ends it and all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any, NamedTuple

_OUTPUT_BYTES_MAX = 32 << 20


class Done(NamedTuple):
    """How a program ended."""

    output: str
    error: str
    status: int


def run(
    command: Any,
    *,
    timeout_s: float,
    is_shell: bool = False,
    source: str | None = None,
    folder: str | None = None,
    merge: bool = False,
) -> Done:
    """Run a command to its end.

    Programs that it left in the background may hold its output open: they are waited for, as
    OSWorld's server waits, but no longer than the timeout, and they end with it.

    Args:
        source: what it reads; nothing unless given.
        merge: its two outputs come as one.

    Raises:
        OSError: it did not start.
        subprocess.TimeoutExpired: it was ended.
    """
    process = subprocess.Popen(
        command,
        shell=is_shell,
        stdin=subprocess.DEVNULL if source is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge else subprocess.PIPE,
        cwd=folder or os.path.expanduser("~"),
        start_new_session=True,
    )
    try:
        sent = None if source is None else source.encode()
        output, error = process.communicate(sent, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        end(process)
        raise
    return Done(_text(output), _text(error), process.returncode)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program with its session, and take it in."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _text(data: bytes | None) -> str:
    return (data or b"")[:_OUTPUT_BYTES_MAX].decode(errors="replace")
