"""The only place that prints: results, errors, progress, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
import trio
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from envs_node.deploy.conduct import Watch
from envs_node.messages import search

ResultT = TypeVar("ResultT")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LEFT_S = 20.0
"""How long the process waits, when all else is done, for what ignores being cancelled."""
_STORY = Console(stderr=True)


class Interrupted(KeyboardInterrupt):
    """The user pressed Ctrl-C, everything was stopped, and this is how to go on."""


def show(result: Any, text: str, *, as_json: bool) -> None:
    """Print a result on standard output."""
    if as_json:
        plain = _printable(msgspec.to_builtins(result, enc_hook=str))
        print(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
    else:
        print(_printable(text))


def _printable(value: Any) -> Any:
    """The same with what is no Unicode, as in names of files, written as escapes."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    return value


def complain(line: str) -> None:
    """Print an error on standard error, in one line."""
    print(f"envs-node: {' '.join(line.split())}", file=sys.stderr)


def tell(line: str) -> None:
    """Print a line of the story on standard error."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def ending_alike() -> Iterator[None]:
    """Let SIGTERM end what goes on as Ctrl-C does, with its clean-up."""

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell script
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is interrupt:  # else who was stopped is deaf by now
            signal.signal(signal.SIGTERM, before)


def run_until_interrupted(
    main: Callable[[], Awaitable[ResultT]],
    hint: str,
    *,
    left_s: float = _LEFT_S,
    closing: str = "desktops and policies are being closed",
) -> ResultT:
    """Run under trio. Ctrl-C and SIGTERM cancel it, wait for the clean-up, and raise.

    Once stopping has begun, further signals change nothing until the process ends: they would
    only leave things behind. If something that was started cannot be stopped at all, the process
    ends nevertheless after `left_s`, with status 1.

    Args:
        hint: how to go on, for who interrupted it.
        left_s: how long it may take to stop.
        closing: what goes on meanwhile; empty to say nothing.

    Raises:
        Interrupted: saying `hint`.
    """
    stopping: list[int] = []
    before = {number: signal.signal(number, lambda *_: stopping.append(1)) for number in _SIGNALS}
    leaving = threading.Timer(left_s, _leave)
    leaving.daemon = True

    async def guarded() -> ResultT | None:
        try:
            return await _guard(main, stopping, closing)
        finally:
            leaving.start()  # the tasks that were abandoned may hold the loop for ever

    try:
        outcome = trio.run(guarded)
    finally:
        leaving.cancel()
        for number, handler in before.items():  # deaf to the very end: Python's own end, too
            signal.signal(number, signal.SIG_IGN if stopping else handler)
    if outcome is None:
        raise Interrupted(f"stopped by a signal; {hint}")
    return outcome


async def _guard(
    main: Callable[[], Awaitable[ResultT]], stopping: list[int], closing: str
) -> ResultT | None:
    """The result, or None when a signal came before there was one."""
    result: ResultT | None = None
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:

            async def wait_signal() -> None:
                async for number in signals:
                    if closing and not stopping:
                        tell(f"stopping: {closing}")
                    stopping.append(number)
                    nursery.cancel_scope.cancel()

            nursery.start_soon(wait_signal)
            if stopping:  # before there was a receiver
                nursery.cancel_scope.cancel()
            result = await main()
            nursery.cancel_scope.cancel()
    return result


def _leave() -> None:
    """End the process. Its desktops die with it; the rest is swept at the next start."""
    complain(
        "something that was started does not end, and was left behind; what was found is kept: "
        "`envs-node sweep` removes what is left"
    )
    os._exit(1)


@contextmanager
def watching(title: str) -> Iterator[Watch]:
    """Show how far a run is while the block runs: a bar on a terminal, else a line now and then."""
    if not _STORY.is_terminal:
        yield _Lines(title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total} tasks  {task.fields[story]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=_STORY) as bars:
        bar = bars.add_task(title, total=None, story="starting")

        def watch(progress: search.Progress) -> None:
            done, story = _story(progress)
            bars.update(bar, total=len(progress.tasks), completed=done, story=story)

        yield watch


class _Lines:
    """Progress for a log file."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._told_s = 0.0
        self._done = -1
        self._reason = ""

    def __call__(self, progress: search.Progress) -> None:
        """Tell, if something was done or half a minute has gone by."""
        done, story = _story(progress)
        now_s = time.monotonic()
        gap_s = 10.0 if done != self._done else 30.0
        is_news = bool(progress.reason) != bool(self._reason)
        if is_news or now_s - self._told_s >= gap_s or progress.is_over:
            tell(f"{self._title}: {done}/{len(progress.tasks)} tasks, {story}")
            self._told_s, self._done, self._reason = now_s, done, progress.reason


def _story(progress: search.Progress) -> tuple[int, str]:
    """Tasks that are done, and the rest in words."""
    tasks = progress.tasks
    done = sum(1 for task in tasks if task.state not in ("waiting", "running"))
    counts = {
        "branches": sum(task.branches for task in tasks),
        "judged": sum(task.leaves for task in tasks),
        "distinct successes": sum(task.distinct for task in tasks),
    }
    if any(task.rollouts for task in tasks):
        del counts["distinct successes"]
    story = ", ".join(f"{count} {what}" for what, count in counts.items())
    if progress.reason:
        return done, f"{story}; {progress.reason}"
    return done, f"{story}; {progress.desktops} desktops at work"
