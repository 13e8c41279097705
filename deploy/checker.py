"""Installs checkers of OSWorld's, each into an environment of its own, away from ours."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from envs_node.actors.verifier.vocabulary import (
    ORIGIN_FILE,
    CheckerMissingError,
    CheckerUnreadableError,
    read_checker,
)
from envs_node.deploy.checker_origin import CHECKOUT_INFO, Origin, find_origin
from envs_node.messages.base import EnvsError

INSTALL_TIMEOUT_S = 1800
_REQUIREMENTS = Path(__file__).resolve().parent / "checker-requirements.txt"
_STAMP, _LOCK = "envs-node.installed", "envs-node.lock"
_DISTRIBUTION = "desktop_env"
_UNFINISHED = ".new-"
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


class CheckerListed(msgspec.Struct, frozen=True, kw_only=True):
    """A checker that is installed."""

    name: str
    """What `--checker` calls it; empty for the one that is used unless told otherwise."""
    version: str
    folder: Path


def checker_folder(name: str = "") -> Path:
    """Where the environment of a checker lies: the one that ships with us, or one of this name."""
    if not name:
        return Path(sys.prefix) / "envs-node-checker"
    return Path(sys.prefix) / "envs-node-checkers" / name


def list_checkers() -> tuple[CheckerListed, ...]:
    """All checkers that can be used, ours first."""
    folders = [(checker_folder(), "")]
    folders += [(path, path.name) for path in sorted(checker_folder("any").parent.glob("*"))]
    found = []
    for folder, name in folders:
        try:
            version = read_checker(folder).version
        except (CheckerMissingError, CheckerUnreadableError):
            continue
        found.append(CheckerListed(name=name, version=version, folder=folder))
    return tuple(found)


def is_checker_installed(folder: Path, origin: Origin | None = None) -> bool:
    """Tell whether this environment is complete, of the pinned versions and of this origin."""
    stamp = folder / _STAMP
    return (
        stamp.is_file()
        and stamp.read_text(encoding="ascii").strip() == _digest(origin or _ours())
        and os.access(folder / "bin" / "python", os.X_OK)
    )


def install_checker(
    folder: Path, tell: Callable[[str], None], *, origin: Origin | None = None
) -> CheckerInstalled:
    """Install a checker, unless that was done; a broken earlier attempt is completed.

    Args:
        folder: where the environment goes.
        tell: called with a line of progress now and then.
        origin: which one; the release that ships with us unless given.

    Raises:
        CheckerInstallError: no space, no venv module, pip refused, or it cannot be read.
    """
    began = time.monotonic()
    origin = origin or _ours()
    if is_checker_installed(folder, origin):
        return CheckerInstalled(folder=folder, is_new=False, wall_s=time.monotonic() - began)
    _check_space(folder)
    with _alone_in(folder, tell):
        is_new = not is_checker_installed(folder, origin)
        if is_new:
            _install(folder, origin, tell)
    return CheckerInstalled(folder=folder, is_new=is_new, wall_s=time.monotonic() - began)


def _install(folder: Path, origin: Origin, tell: Callable[[str], None]) -> None:
    tell(f"creating the checker's environment in {folder}")
    is_shared = folder != checker_folder() and is_checker_installed(checker_folder())
    venv = [sys.executable, "-m", "venv", *(["--without-pip"] if is_shared else []), str(folder)]
    _run(venv, "install python3-venv (apt), or give a folder")
    (folder / _STAMP).unlink(missing_ok=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    if is_shared:
        tell("taking what metrics need from the checker that is installed")
        _share(checker_folder(), site)
    tell(f"installing {origin.told.label()}{'' if is_shared else ' (about 750 MB)'}")
    if origin.checkout is not None or (site / CHECKOUT_INFO).exists():
        for earlier in sorted(site.glob(f"{_DISTRIBUTION}*")):  # pip might take it for a release
            shutil.rmtree(earlier)
    wanted = _wanted(origin, is_shared=is_shared)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--no-deps"]
    pip += ["--disable-pip-version-check", "--progress-bar", "off", *wanted]
    if wanted:
        for name in _lines(pip, "check the network or pip's index settings, then run it again"):
            tell(f"checker: {name}")
    if origin.checkout is not None:
        try:
            origin.copy(site)
        except OSError as error:
            raise CheckerInstallError(
                f"{origin.checkout} cannot be copied: {_first(error)}; mend or remove what it names"
            ) from error
    (folder / ORIGIN_FILE).write_bytes(msgspec.json.encode(origin.told))
    try:
        read_checker(folder)
    except (CheckerMissingError, CheckerUnreadableError) as error:
        raise CheckerInstallError(f"{origin.told.label()} is no checker: {error}") from error
    (folder / _STAMP).write_text(_digest(origin) + "\n", encoding="ascii")


@contextmanager
def _alone_in(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Let no other process install into this environment meanwhile; wait for one that does."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("ab")
    except OSError as error:
        raise CheckerInstallError(
            f"{folder} cannot be made: {error.strerror}; give another folder"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"another process installs into {folder}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ours() -> Origin:
    return find_origin("", None, "")


def _digest(origin: Origin) -> str:
    """Of what an environment was made of; the one of our own release is as it always was."""
    python = f"python {sys.version_info.major}.{sys.version_info.minor}\n".encode()
    told = b"" if origin == _ours() else msgspec.json.encode(origin.told)
    return hashlib.sha256(python + _REQUIREMENTS.read_bytes() + told).hexdigest()


def _wanted(origin: Origin, *, is_shared: bool) -> list[str]:
    """What pip is asked for: all that metrics need, and the release if it is one."""
    lines = _REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    packages = [line for line in lines if line and not line.startswith(("#", _DISTRIBUTION))]
    release = origin.told.release
    wanted = [] if is_shared else packages
    return [*wanted, *([f"{_DISTRIBUTION}=={release}"] if release else [])]


def _share(source: Path, site: Path) -> None:
    """Give an environment another one's packages, as links to the same files where it can be."""
    (shared,) = source.glob("lib/python3*/site-packages")
    for path in sorted(shared.iterdir()):
        target = site / path.name
        if target.exists() or path.name.startswith(("__pycache__", "desktop_env", "mm_agents")):
            continue
        half = site / f"{_UNFINISHED}{path.name}"  # whoever is killed here leaves no half package
        if path.is_dir():
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(path, half, copy_function=_link)
        else:
            half.unlink(missing_ok=True)
            _link(str(path), str(half))
        half.rename(target)


def _first(error: OSError) -> str:
    """The first of the problems of a copied folder, which shutil lists with their files."""
    problems = error.args[0] if isinstance(error, shutil.Error) else [str(error)]
    return str(problems[0][-1] if isinstance(problems[0], tuple) else problems[0])[:300]


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


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
        try:
            for line in process.stdout:
                tail = [*tail[-7:], line.strip()]
                if line.startswith("Collecting "):
                    yield line.split()[1]
            code = process.wait(timeout=INSTALL_TIMEOUT_S)
        except KeyboardInterrupt:
            process.terminate()
            raise
    if code != 0:
        said = " / ".join(line for line in tail if "error" in line.lower()) or " / ".join(tail[-2:])
        raise CheckerInstallError(f"{' '.join(command[:4])} failed ({code}): {said}: {way_out}")
