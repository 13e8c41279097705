"""Names of a task's own files, wherever its JSON says that they come from."""

from __future__ import annotations

import re
import uuid
from typing import Literal

BUNDLE_SCHEME = "bundle://"
"""Where a task's own files are named: `bundle://files/notes.txt`, `bundle://gold/notes.txt`."""
_ODD = re.compile(r"[^A-Za-z0-9._()+,=@-]")
_BASE_MAX = 80


def stored_name(source: str, part: Literal["files", "gold"]) -> str:
    """Name under which a task keeps what its JSON wants from an address.

    Args:
        source: `bundle://gold/notes.txt`, which keeps its name, or any address.
        part: `files` for what a desktop may see, `gold` for what only the checker may.
    """
    if source.startswith(BUNDLE_SCHEME):
        return source.removeprefix(BUNDLE_SCHEME)
    base = _ODD.sub("_", source.split("?")[0].rstrip("/").rsplit("/", 1)[-1])[-_BASE_MAX:]
    return f"{part}/{uuid.uuid5(uuid.NAMESPACE_URL, source)}_{base}"
