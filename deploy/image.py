"""Builds a file tree for desktops to stand on, so that they are the same on every host.

The tree is made by mmdebstrap out of Debian's packages, and put into a file that every desktop
mounts read-only. What is in it is written beside it: packages with their versions, and a digest
of the tree that comes out the same wherever and whenever these versions are put together.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from envs_node.messages.base import EnvsError

PACKAGES = Path(__file__).resolve().parent / "image-packages.txt"
ImageFormat = Literal["squashfs", "erofs", "folder"]
_EPOCH_S = "1735689600"
"""2025-01-01: the time of every file that is younger."""
_TIMEOUT_S = 3600.0
_CLEAN = (
    'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/cache/ldconfig/*'
    ' "$1"/var/log/* "$1"/var/lib/dbus/machine-id "$1"/var/cache/debconf/*-old'
    ' "$1"/var/lib/dpkg/*-old "$1"/etc/hostname "$1"/etc/resolv.conf;'
    ' : > "$1"/etc/machine-id'
)
_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "sqfstar": "squashfs-tools",
    "mkfs.erofs": "erofs-utils",
    "tar": "tar",
}


class ImageError(EnvsError):
    """An image that cannot be built. The message says what to do about it."""


class ImagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What an image is to be."""

    path: Path
    format: ImageFormat = "squashfs"
    suite: str = "bookworm"
    mirror: str = ""
    """Where packages come from; what this host's own apt says unless given."""
    packages: tuple[str, ...] = ()
    """Names, or names with a version as `xterm=379-1`."""
    lock: tuple[str, ...] = ()
    """All that must come out, each as `name=version`; empty for whatever is current."""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image, as the file beside it describes it."""

    path: str
    """Where it is; the description itself holds where it was built."""
    format: ImageFormat
    suite: str
    tree_sha256: str
    """Of the whole tree, packed in a fixed order: equal for equal packages, whatever the format."""
    size_bytes: int
    wall_s: float
    packages: tuple[str, ...]
    """All that is in it, each as `name=version`."""


def read_packages(path: Path) -> tuple[str, ...]:
    """The names in a list, one a line; `#` begins a remark.

    Raises:
        ImageError: there is no such list, or it is empty.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ImageError(f"{path} cannot be read ({error}): name a list of packages") from error
    names = tuple(name for line in lines if (name := line.partition("#")[0].strip()))
    if not names:
        raise ImageError(f"{path} names no package")
    return names


def _description_path(image: Path) -> Path:
    """The file beside an image that says what is in it."""
    return image.with_name(f"{image.name}.json")


def read_image(path: Path) -> Image:
    """What the file beside an image says.

    Raises:
        ImageError: there is none.
    """
    described = _description_path(path)
    try:
        image = msgspec.json.decode(described.read_bytes(), type=Image)
    except (OSError, msgspec.DecodeError) as error:
        raise ImageError(f"{described}: {error}; build the image with `image build`") from error
    return msgspec.structs.replace(image, path=str(path))


def build_image(plan: ImagePlan, tell: Callable[[str], None]) -> Image:
    """Build an image. What was at its path stays until the new one is whole.

    Args:
        tell: called with a line of progress now and then.

    Raises:
        ImageError: this is not root, a tool is missing, packages cannot be had, or other versions
            came than the lock names.
    """
    _check(plan)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=".image-", dir=plan.path.parent) as name:
        folder = Path(name)
        tree = folder / "tree.tar"
        tell(f"putting {len(plan.packages)} packages and what they need together (minutes)")
        _bootstrap(plan, tree, tell)
        packages = _installed(tree)
        _check_lock(plan.lock, packages)
        digest = _digest(tree)
        tell(f"packing {len(packages)} packages as {plan.format}")
        made = folder / "made"
        _pack(plan.format, tree, made)
        image = Image(
            path=str(plan.path),
            format=plan.format,
            suite=plan.suite,
            tree_sha256=digest,
            size_bytes=tree.stat().st_size if made.is_dir() else made.stat().st_size,
            wall_s=round(time.monotonic() - began, 1),
            packages=packages,
        )
        described = folder / "described"
        described.write_bytes(msgspec.json.format(msgspec.json.encode(image)) + b"\n")
        os.replace(made, plan.path)
        os.replace(described, _description_path(plan.path))
    return image


def _check(plan: ImagePlan) -> None:
    if os.geteuid() != 0:
        raise ImageError("only root may put a file tree together: run it as root")
    if not plan.path.parent.is_dir():
        raise ImageError(f"no such folder: {plan.path.parent}; make it, or name another")
    if plan.path.is_dir():
        raise ImageError(f"{plan.path} is a folder already: remove it, or name another")
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            raise ImageError(f"{tool} is missing: apt-get install {package}")
    bad = [name for name in plan.packages if not name[:1].isalnum() or any(map(str.isspace, name))]
    if bad:
        raise ImageError(f"{bad[0]!r} is no package")


def _bootstrap(plan: ImagePlan, tree: Path, tell: Callable[[str], None]) -> None:
    command = ["mmdebstrap", "--variant=minbase", "--format=tar", "--dpkgopt=force-unsafe-io"]
    command += ["--include", ",".join(_pinned(plan))]
    command += [f"--customize-hook={_CLEAN}"]
    command += [plan.suite, str(tree), plan.mirror or _own_mirror()]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": _EPOCH_S, "LC_ALL": "C.UTF-8"}
    tail: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
    ) as process:
        assert process.stderr is not None, "stderr was asked for as a pipe"
        for line in process.stderr:
            tail = [*tail[-5:], line.strip()]
            if line.startswith("I: ") and "..." in line:
                tell(line[3:].strip())
    if process.returncode:
        said = next((line for line in reversed(tail) if line.startswith("E:")), " / ".join(tail))
        raise ImageError(f"mmdebstrap failed: {said}: look at the mirror and the names of packages")


def _pinned(plan: ImagePlan) -> Sequence[str]:
    versions = dict(entry.split("=", 1) for entry in plan.lock)
    return [f"{name}={versions[name]}" if name in versions else name for name in plan.packages]


def _own_mirror() -> str:
    """The first mirror of Debian's packages that this host's apt is set up with."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        origin, label, uri = [*line.split(), "", "", ""][:3]
        if (origin, label) == ("Debian", "Debian"):
            return uri
    raise ImageError("this host's apt names no mirror of Debian: give one with --mirror")


def _installed(tree: Path) -> tuple[str, ...]:
    """What dpkg says is installed in a packed tree, each as `name=version`."""
    with tarfile.open(tree) as packed:
        status = packed.extractfile("./var/lib/dpkg/status")
        assert status is not None, "every tree of Debian's packages has dpkg's status"
        blocks = status.read().decode().split("\n\n")
    fields = [
        dict(re.findall(r"^(Package|Version): (.+)$", block, re.MULTILINE)) for block in blocks
    ]
    return tuple(sorted(f"{each['Package']}={each['Version']}" for each in fields if each))


def _check_lock(lock: Sequence[str], packages: Sequence[str]) -> None:
    if not lock:
        return
    differing = sorted(set(lock) ^ set(packages))
    if differing:
        shown = ", ".join(differing[:6]) + (" …" if len(differing) > 6 else "")
        raise ImageError(
            f"{len(differing)} packages are not as locked: {shown}; build without the lock, or "
            "name a mirror that keeps old versions"
        )


def _digest(tree: Path) -> str:
    with tree.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _pack(form: ImageFormat, tree: Path, made: Path) -> None:
    if form == "squashfs":
        with tree.open("rb") as source:
            # lz4: a third larger than zstd, and read several times as fast by every desktop
            command = ["sqfstar", "-quiet", "-no-progress", "-comp", "lz4", str(made)]
            _run(command, stdin=source.fileno())
        return
    unpacked = made if form == "folder" else made.with_name("unpacked")
    unpacked.mkdir()
    _run(["tar", "-x", "--numeric-owner", "--xattrs", "-f", str(tree), "-C", str(unpacked)])
    if form == "erofs":
        options = ["-zlz4", f"-T{_EPOCH_S}", "-U00000000-0000-0000-0000-000000000000"]
        _run(["mkfs.erofs", *options, str(made), str(unpacked)])


def _run(command: list[str], stdin: int = subprocess.DEVNULL) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": _EPOCH_S}
    done = subprocess.run(
        command,
        stdin=stdin,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ImageError(f"{command[0]} failed: {' '.join(said)}")
