"""The settings layer: what our own files put over the programs that a desktop stands on.

Read once by the launcher's process, written by the first process of each desktop. Standard library
alone.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.util import MAGIC_NUMBER, source_hash
from typing import TypeAlias

from envs_node.actors.desktop.lower import Lower
from envs_node.actors.desktop.usermap import USER_ID

_MAY_WRITE = 0o222
_UNCHECKED = 1
"""In the flags of a compiled module (PEP 552): it is taken without a look at its source."""

Entry: TypeAlias = "tuple[str, int, bytes | None]"


def read_layers(layers: Mapping[str, str]) -> tuple[Entry, ...]:
    """Path, mode and content of all that these folders hold; None for a folder's content.

    Args:
        layers: folders, each with the place in the desktop that it goes to.
    """
    return tuple(entry for folder, place in layers.items() for entry in _read_layer(folder, place))


@lru_cache
def _read_layer(settings: str, place: str) -> tuple[Entry, ...]:
    """What one folder holds; read once, so that every desktop of this process gets the same."""
    entries: list[Entry] = []
    for folder, names, files in os.walk(settings):
        names[:] = sorted(name for name in names if name != "__pycache__")
        inner = os.path.join(place, os.path.relpath(folder, settings))
        entries += [(os.path.normpath(f"{inner}/{name}"), 0o755, None) for name in names]
        compiled = []
        for name in files:
            with open(f"{folder}/{name}", "rb") as source:
                mode = 0o755 if inner.endswith("bin") else 0o644
                entry = os.path.normpath(f"{inner}/{name}"), mode, source.read()
            entries.append(entry)
            if name.endswith(".py"):
                compiled.append(_compile(*entry))
        if compiled:
            entries += [(os.path.dirname(compiled[0][0]), 0o755, None), *compiled]
    return tuple(entries)


def _compile(path: str, mode: int, source: bytes) -> Entry:
    """A module as Python keeps it, so that no desktop compiles it anew.

    A Python of another version takes the source: the name and the first bytes say whose this is.
    """
    code = compile(source, f"/{path}", "exec", dont_inherit=True)
    head = MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + source_hash(source)
    folder, name = os.path.split(path)
    tag = sys.implementation.cache_tag
    compiled = f"{folder}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc"
    return compiled, mode, head + marshal.dumps(code)


def write_layer(layer: str, entries: Iterable[Entry], lower: Lower) -> None:
    """Lay down the settings, and a folder for each that a desktop is to see empty.

    What lies below `home/user` is the user's.
    """
    for place in lower.hidden:
        os.makedirs(f"{layer}/{place}", exist_ok=True)
    os.makedirs(f"{layer}/home/user", exist_ok=True)
    for path, mode, content in entries:
        target = f"{layer}/{path}"
        if content is None:
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb") as sink:
                sink.write(content)
        os.chmod(target, mode)
    for folder, _, files in os.walk(layer):
        is_users = f"{folder}/".startswith(f"{layer}/home/user/")
        for path in (folder, *(f"{folder}/{name}" for name in files)):
            if is_users:
                os.chown(path, USER_ID, USER_ID)
            elif os.geteuid() != 0:
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~_MAY_WRITE)
