"""Knows what the checker's files were when it was installed, to tell when they are others."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

_PACKAGE = "desktop_env"


class InstalledFiles:
    """Digests of the checker's modules: as pip wrote them down, else as they are found first."""

    def __init__(self, python: Path, overlay: Mapping[str, str]) -> None:
        """Read what pip wrote down.

        Args:
            python: the interpreter of the checker's environment.
            overlay: metrics of one's own by name, and the file each is defined in.
        """
        self._digests: dict[str, str] = {}
        for site in sorted(python.parents[1].glob("lib/python3*/site-packages")):
            for record in sorted(site.glob(f"{_PACKAGE}-*.dist-info/RECORD")):
                self._digests |= _read_record(record)
        for name, path in overlay.items():
            if Path(path).is_file():
                digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
                self._digests[f"overlay_{name}"] = digest

    def altered(self, found: Mapping[str, str]) -> tuple[str, ...]:
        """The modules that are not what they were; one not seen before is remembered."""
        return tuple(
            sorted(
                module
                for module, digest in found.items()
                if self._digests.setdefault(module, digest) != digest
            )
        )


def _read_record(record: Path) -> dict[str, str]:
    """Digest by module of what pip wrote down."""
    found: dict[str, str] = {}
    for row in _rows(record.read_text("utf-8").splitlines()):
        path, digest = Path(row[0]), row[1]
        if path.suffix != ".py" or path.parts[0] != _PACKAGE or not digest.startswith("sha256="):
            continue
        parts = [part for part in path.with_suffix("").parts if part != "__init__"]
        raw = base64.urlsafe_b64decode(digest.removeprefix("sha256=") + "==")
        found[".".join(parts)] = raw.hex()
    return found


def _rows(lines: Iterable[str]) -> list[list[str]]:
    return [row for row in csv.reader(lines) if len(row) == 3]
