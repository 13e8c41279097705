"""Which checker judges: a release of OSWorld's package, or a checkout that the user names."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import tyro

from envs_node.actors.verifier.vocabulary import CheckerOrigin
from envs_node.messages.base import EnvsError

RELEASE = "1.0.2"
"""The release of `desktop-env` that a checker is unless told otherwise."""
_RELEASE = re.compile(r"[0-9]+(\.[0-9]+){0,3}([a-z]+[0-9]+)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PACKAGE = "desktop_env"
CHECKOUT_INFO = f"{_PACKAGE}-checkout.dist-info"
"""Lies beside a package that is a checkout's."""
_LEFT_OUT = ("__pycache__", "*.pyc", ".git")
_GIT_TIMEOUT_S = 60


class CheckerOriginError(EnvsError):
    """No such release, no such checkout, or no name for it; the message says what to give."""


class CheckerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who judges."""

    name: Annotated[str, tyro.conf.arg(aliases=("--checker",))] = ""
    """A checker of `envs-node checker ls`; the release that ships with us unless given."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What to install, and where from."""

    told: CheckerOrigin
    """What is written down of it."""
    checkout: Path | None = None

    def copy(self, site: Path) -> None:
        """Put a checkout's package into an environment's packages, instead of what was there."""
        assert self.checkout is not None, "a release is not copied, but installed"
        record = site / CHECKOUT_INFO / "RECORD"
        record.parent.mkdir(exist_ok=True)  # first: it says what lies here, whole or not
        shutil.rmtree(site / _PACKAGE, ignore_errors=True)
        ignored = shutil.ignore_patterns(*_LEFT_OUT)
        shutil.copytree(self.checkout / _PACKAGE, site / _PACKAGE, ignore=ignored)
        record.write_text("".join(_record(site)), encoding="utf-8")


def find_origin(release: str, checkout: Path | None, name: str) -> Origin:
    """Look at what is to be installed.

    Args:
        release: of the package; ours if empty.
        checkout: an OSWorld tree, which has the folder `desktop_env`.
        name: what the user will call it; made up if empty, but for our own release.

    Raises:
        CheckerOriginError: there is no such thing.
    """
    if release and checkout is not None:
        raise CheckerOriginError("--version and --checkout are two checkers: give one of them")
    if name and not _NAME.fullmatch(name):
        problem = "use letters, digits, '.', '_' and '-'"
        raise CheckerOriginError(f"{name!r} is no name of a checker: {problem}")
    if checkout is None:
        release = release or RELEASE
        if not _RELEASE.fullmatch(release):
            raise CheckerOriginError(f"{release!r} is no release, such as {RELEASE}")
        name = name or ("" if release == RELEASE else release)
        return Origin(told=CheckerOrigin(name=name, release=release))
    if not (checkout / _PACKAGE / "evaluators").is_dir():
        wanted = f"{_PACKAGE}/evaluators"
        raise CheckerOriginError(f"{checkout} is no OSWorld tree: it has no folder {wanted}")
    sha256 = digest_sources(checkout / _PACKAGE)
    commit = _git(checkout, "rev-parse", "HEAD")
    changes = _git(checkout, "status", "--porcelain", "--", _PACKAGE) if commit else ""
    told = CheckerOrigin(
        name=name or f"checkout-{(commit or sha256)[:12]}",
        commit=commit,
        is_changed=bool(changes),
        sha256=sha256,
    )
    return Origin(told=told, checkout=checkout)


def digest_sources(package: Path) -> str:
    """Digest of the names and contents of all Python files of a package."""
    digest = hashlib.sha256()
    for path in _sources(package):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(package)}\0{content}\n".encode())
    return digest.hexdigest()


def _sources(package: Path) -> Iterator[Path]:
    yield from sorted(path for path in package.rglob("*.py") if path.is_file())


def _record(site: Path) -> Iterator[str]:
    """Lines as pip writes them of a package: when a file is altered later, verdicts are void."""
    for path in _sources(site / _PACKAGE):
        data = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        yield f"{path.relative_to(site)},sha256={digest},{len(data)}\n"


def _git(folder: Path, *arguments: str) -> str:
    """What git says of a folder; nothing where there is no git or the folder is not under it."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
