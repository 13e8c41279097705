"""Installs OSWorld's own checker into an environment of its own, away from ours."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from envs_node.messages.base import EnvsError

INSTALL_TIMEOUT_S = 1800
_REQUIREMENTS = Path(__file__).resolve().parent / "checker-requirements.txt"
_STAMP = "envs-node.installed"
_FREE_BYTES_MIN = 2 * 1024**3
"""The environment takes 750 MB and pip's unpacking about as much again."""


class CheckerInstallError(EnvsError):
    """The checker could not be installed; the message says what to do about it."""


class CheckerInstalled(msgspec.Struct, frozen=True, kw_only=True):
    """What `install_checker` did."""

    folder: Path
    is_new: bool
    """False when the environment was already there and up to date."""
    wall_s: float


def checker_folder() -> Path:
    """Where the checker's environment lies unless the configuration says otherwise."""
    return Path(sys.prefix) / "envs-node-checker"


def is_checker_installed(folder: Path) -> bool:
    """Tell whether this environment is complete and of the pinned versions."""
    stamp = folder / _STAMP
    return (
        stamp.is_file()
        and stamp.read_text(encoding="ascii").strip() == _requirements_digest()
        and os.access(folder / "bin" / "python", os.X_OK)
    )


def install_checker(folder: Path, tell: Callable[[str], None]) -> CheckerInstalled:
    """Install the checker, unless that was done; a broken earlier attempt is completed.

    Args:
        folder: where the environment goes.
        tell: called with a line of progress now and then.

    Raises:
        CheckerInstallError: no space, no venv module, or pip refused.
    """
    began = time.monotonic()
    if is_checker_installed(folder):
        return CheckerInstalled(folder=folder, is_new=False, wall_s=time.monotonic() - began)
    _check_space(folder)
    tell(f"creating the checker's environment in {folder}")
    _run(
        [sys.executable, "-m", "venv", str(folder)], "install python3-venv (apt), or give a folder"
    )
    tell("installing OSWorld's checker, desktop-env 1.0.2 (about 750 MB)")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--no-deps"]
    pip += ["--disable-pip-version-check", "--progress-bar", "off", "-r", str(_REQUIREMENTS)]
    for name in _lines(pip, "check the network or pip's index settings, then run it again"):
        tell(f"checker: {name}")
    (folder / _STAMP).write_text(_requirements_digest() + "\n", encoding="ascii")
    return CheckerInstalled(folder=folder, is_new=True, wall_s=time.monotonic() - began)


def _requirements_digest() -> str:
    python = f"python {sys.version_info.major}.{sys.version_info.minor}\n".encode()
    return hashlib.sha256(python + _REQUIREMENTS.read_bytes()).hexdigest()


def _check_space(folder: Path) -> None:
    parent = next(p for p in (folder, *folder.parents) if p.exists())
    if not os.access(parent, os.W_OK):
        raise CheckerInstallError(f"cannot write to {parent}: run as its owner, or give a folder")
    free_bytes = shutil.disk_usage(parent).free
    if free_bytes < _FREE_BYTES_MIN:
        raise CheckerInstallError(
            f"{parent} has {free_bytes // 2**20} MB free and the checker needs "
            f"{_FREE_BYTES_MIN // 2**20} MB: free some, or give a folder on another disk"
        )


def _run(command: list[str], way_out: str) -> None:
    for _ in _lines(command, way_out):
        pass


def _lines(command: list[str], way_out: str) -> Iterator[str]:
    """Run a command, yield its `Collecting …` names, and raise with its last words if it fails."""
    tail: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None, "stdout was asked for as a pipe"
        for line in process.stdout:
            tail = [*tail[-7:], line.strip()]
            if line.startswith("Collecting "):
                yield line.split()[1]
        code = process.wait(timeout=INSTALL_TIMEOUT_S)
    if code != 0:
        said = " / ".join(line for line in tail if "error" in line.lower()) or " / ".join(tail[-2:])
        raise CheckerInstallError(f"{' '.join(command[:4])} failed ({code}): {said}: {way_out}")
