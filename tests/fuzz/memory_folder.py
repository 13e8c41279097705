"""A folder for what a check writes, in memory where the host has a disk of that kind.

Unless TMPDIR says where: libFuzzer ends its process without any clean-up, so whoever starts one
names a folder that is removed with all that is in it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SHARED = Path("/dev/shm")


@contextlib.contextmanager
def memory_folder() -> Iterator[Path]:
    """A new folder, gone afterwards."""
    where = _SHARED if _SHARED.is_dir() and "TMPDIR" not in os.environ else None
    with tempfile.TemporaryDirectory(prefix="envs-node-fuzz-", dir=where) as name:
        yield Path(name)
