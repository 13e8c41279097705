"""Says which files of the checker some functions rest on, and what their digests are.

Loaded by file in the checker's own Python; knows nothing of envs_node.
"""

from __future__ import annotations

import hashlib
import os
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

_PACKAGE = "desktop_env."

_known: dict[str, tuple[tuple[int, ...], str]] = {}
"""What was read of each file, and its digest: one that stands as it stood is not read again."""


def of(functions: Iterable[Any], always: Iterable[str]) -> dict[str, str]:
    """Digest by module: what defines the functions, and all of the checker that it imports.

    Follows from the functions alone, whatever other tasks had imported before.

    Args:
        functions: metrics and getters.
        always: modules that count in any case.

    Raises:
        OSError: a file is gone.
    """
    waiting = [*always, *(function.__module__ for function in functions)]
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        path = getattr(module, "__file__", None)
        if name in found or not isinstance(module, types.ModuleType) or path is None:
            continue
        found[name] = _digest(path)
        waiting += _imported(module)
    return found


def _imported(module: types.ModuleType) -> Iterator[str]:
    """Modules of the checker that this one has names from."""
    for value in list(vars(module).values()):
        is_module = isinstance(value, types.ModuleType)
        name = value.__name__ if is_module else getattr(value, "__module__", None)
        if isinstance(name, str) and name.startswith(_PACKAGE):
            yield name


def _digest(path: str) -> str:
    stat = os.stat(path)
    stands = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    if path not in _known or _known[path][0] != stands:
        with open(path, "rb") as file:
            _known[path] = (stands, hashlib.sha256(file.read()).hexdigest())
    return _known[path][1]
