"""Keeps transformers from drawing bars and telling stories while we save, load and train."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR

from transformers.utils import logging


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars, errors only; as it was before when this ends."""
    verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(ERROR)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it has no types
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # as above
