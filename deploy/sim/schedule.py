"""Makes trio's scheduling repeat: the same seed, the same order of tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import structlog
from trio._core import _run


@contextmanager
def same_order(seed: int) -> Iterator[None]:
    """Let trio order the tasks that are ready by this seed alone.

    Trio shuffles them on purpose, so that nobody relies on their order. With the switch that it
    keeps for Hypothesis it sorts them by age first; the shuffle is then as good as its source of
    chance, which is ours for as long. So each seed still tries another order, and always the same.
    """
    allowed, chance = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]  # Final, but for tests
    _run._r = Random(seed)
    try:
        yield
    finally:
        _run._ALLOW_DETERMINISTIC_SCHEDULING = allowed  # type: ignore[misc]  # as above
        _run._r = chance


@contextmanager
def no_logs() -> Iterator[None]:
    """Silence what simulated nodes log: there are thousands of them, and each dies many times."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.reset_defaults()
