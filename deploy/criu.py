"""Finds a CRIU that works on this host's kernel, and fetches one where there is none.

CRIU must know the kernel it runs on: the one of a stable distribution is often too old. Debian's
newer ones are unpacked beside this installation and run by their own loader; nothing is installed
on the host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from envs_node.actors.desktop.usermap import may_mount
from envs_node.messages.base import EnvsError

SUITES = ("forky", "trixie")
"""Debian's suites whose CRIU is tried, newest first."""
VERSION_MIN = (4, 0)
NEEDS_ROOT = "only root's desktops are forked"
_RELEASE = Path("/etc/os-release")
_INSTALL_TIMEOUT_S = 600.0
_CHECK_TIMEOUT_S = 30.0
_FREE_BYTES_MIN = 200 * 1024**2
_STAMP = "envs-node.installed"
_ARCHIVE_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_BY_HAND = (
    "install criu 4.2 or newer with this host's own package manager or from its sources, so that"
    " `criu` is in PATH; until then desktops replay instead of being forked"
)
_SETTINGS = """
#clear APT::Update;
#clear DPkg;
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Install-Recommends "0";
APT::Sandbox::User "";
Acquire::Languages "none";
"""


class CriuInstallError(EnvsError):
    """CRIU could not be installed; the message says what to do about it."""


class Criu(msgspec.Struct, frozen=True, kw_only=True):
    """A CRIU that knows this host's kernel."""

    command: tuple[str, ...]
    """How it is called."""
    version: str
    where: str


def criu_folder() -> Path:
    """Where a fetched CRIU lies."""
    return Path(sys.prefix) / "envs-node-criu"


def find_criu(folder: Path | None = None) -> tuple[Criu | None, str]:
    """A CRIU that can be used, the host's own first; or none, and why."""
    if not may_mount():
        return None, NEEDS_ROOT
    tried = []
    for command, where in _candidates(folder or criu_folder()):
        version = _version(command)
        if version is None:
            tried.append(f"{where} does not start")
        elif _numbers(version) < VERSION_MIN:
            least = ".".join(map(str, VERSION_MIN))
            tried.append(f"{where} is {version}, and {least} is the least")
        elif said := _complaint(command):
            tried.append(f"{where} ({version}) does not fit this kernel: {said}")
        else:
            return Criu(command=command, version=version, where=where), ""
    return None, "; ".join(tried) or "no criu in PATH, and none was fetched"


def install_criu(
    folder: Path,
    tell: Callable[[str], None],
    is_fit: Callable[[Criu], str] = lambda _: "",
    *,
    release: Path = _RELEASE,
) -> tuple[Criu, bool]:
    """Fetch a CRIU, unless one that works is there.

    Args:
        folder: where it goes.
        tell: called with a line of progress now and then.
        is_fit: tries it on a desktop; says what is wrong with it, nothing if it works.
        release: says what this host is.

    Returns:
        The CRIU, and whether it is new.

    Raises:
        CriuInstallError: this host is no Debian, its mirror has none, none of them works, or the
            caller is not root.
    """
    found, why = find_criu(folder)
    if why == NEEDS_ROOT:
        raise CriuInstallError(f"{why}: there is nothing to install for user {os.geteuid()}")
    if found is not None and not (wrong := is_fit(found)):
        return found, False
    if found is not None:
        why = f"{found.where}: {wrong}"
    tell(f"no CRIU that works here: {why}")
    mirror = _mirror(release)
    if shutil.disk_usage(_existing(folder)).free < _FREE_BYTES_MIN:
        raise CriuInstallError(f"{folder} has no 200 MB free: make room there")
    reasons = []
    for suite in SUITES:
        tell(f"fetching CRIU of Debian {suite} with the libraries it needs (about 10 MB)")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _fetch(folder, mirror, suite)
        except CriuInstallError as error:
            reasons.append(f"{suite}: {error}")
            continue
        (folder / _STAMP).write_text(f"{suite}\n", encoding="ascii")
        command = _own_command(folder)
        found = Criu(command=command, version=_version(command) or "?", where=str(folder))
        wrong = _complaint(command) or is_fit(found)
        if not wrong:
            return found, True
        reasons.append(f"{suite}'s {found.version}: {wrong}")
    raise CriuInstallError(f"no CRIU works here ({'; '.join(reasons)}): {_BY_HAND}")


def _candidates(folder: Path) -> list[tuple[tuple[str, ...], str]]:
    """Commands and where they come from, the preferred one first."""
    own = shutil.which("criu", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    found: list[tuple[tuple[str, ...], str]] = [((own,), own)] if own else []
    if (folder / _STAMP).is_file():
        found.append((_own_command(folder), str(folder)))
    return found


def _own_command(folder: Path) -> tuple[str, ...]:
    """How a fetched CRIU is called: with its own loader and libraries, whatever the host's are."""
    loaders = sorted(folder.glob("usr/lib*/**/ld-linux*.so.*"))
    programs = sorted(folder.glob("usr/*bin/criu"))
    if not loaders or not programs:
        raise CriuInstallError(f"{folder} lacks CRIU or its loader: remove it and try again")
    libraries = sorted({str(path.parent) for path in folder.glob("usr/lib/**/libc.so.*")})
    return (str(loaders[0]), "--library-path", ":".join(libraries), str(programs[0]))


def _version(command: tuple[str, ...]) -> str | None:
    found = re.search(r"Version: (\S+)", _output([*command, "--version"])[1])
    return found[1] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _complaint(command: tuple[str, ...]) -> str:
    """What `criu check` has against this kernel; empty if nothing."""
    status, said = _output([*command, "check"])
    errors = [line.split(":", 2)[-1].strip() for line in said.splitlines() if "Error" in line]
    return "" if status == 0 else "; ".join(errors[:2]) or f"`criu check` ended with {status}"


def _output(command: list[str], timeout_s: float = _CHECK_TIMEOUT_S) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, f"Error: {error}"
    return done.returncode, done.stdout + done.stderr


def _mirror(release: Path) -> str:
    """The address that this host takes its own packages from."""
    words = dict(line.split("=", 1) for line in _read(release).splitlines() if "=" in line)
    system, name = words.get("ID", "?").strip('"'), words.get("VERSION_CODENAME", "").strip('"')
    if system != "debian" or not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise CriuInstallError(
            f"this host runs {system}, and CRIU is fetched on Debian: {_BY_HAND}"
        )
    fields = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(CREATED_BY)"
    targets = _output(["apt-get", "indextargets", "--format", fields])[1].splitlines()
    for target in targets:
        address, suite, component, made_by = (target.split("|") + [""] * 4)[:4]
        if (component, made_by) == ("main", "Packages") and suite in (name, "stable", *SUITES):
            return address
    raise CriuInstallError(f"apt knows no mirror of Debian {name}'s main packages: {_BY_HAND}")


def _fetch(folder: Path, mirror: str, suite: str) -> None:
    """Download and unpack CRIU and all it stands on, with a configuration of apt of our own."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".criu-") as name:
        place = Path(name)
        for inner in ("state/lists/partial", "cache/archives/partial"):
            (place / inner).mkdir(parents=True)
        (place / "status").touch()
        signed = f"[signed-by={_ARCHIVE_KEYS}] " if _ARCHIVE_KEYS.exists() else ""
        (place / "sources.list").write_text(f"deb {signed}{mirror} {suite} main\n")
        (place / "apt.conf").write_text(_SETTINGS.format(folder=place))
        apt = ["apt-get", "-q", "-y", "-c", str(place / "apt.conf")]
        _run([*apt, "--error-on=any", "update"])
        _run([*apt, "--download-only", "install", "criu"])
        unpacked = place / "unpacked"
        for package in sorted((place / "cache/archives").glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(package), str(unpacked)])
        shutil.rmtree(unpacked / "usr/share", ignore_errors=True)
        unpacked.rename(folder)


def _run(command: list[str]) -> None:
    status, said = _output(command, _INSTALL_TIMEOUT_S)
    if status:
        errors = [line for line in said.splitlines() if line.startswith(("E:", "Error"))]
        last = " / ".join(errors[:3]) or said.strip()[-200:]
        raise CriuInstallError(f"{command[0]} failed ({status}): {last}")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
