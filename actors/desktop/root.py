"""The file tree of a desktop: the host's programs, our settings, and nothing of anybody's home.

Runs in the first process of a new desktop, as root, inside its fresh namespaces. Stdlib only.
Everything lies on one tmpfs that is mounted after the mount namespace became private, so the
host's mount table never shows it, and it is gone with the last process.
"""

from __future__ import annotations

import os
import stat
from typing import TypeAlias

from envs_node.actors.desktop import kernel

USER_ID = 1000
_STAGE = "/tmp"  # any folder that every host has; it is covered in this mount namespace only
_KEPT = frozenset({"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var"})
_EMPTY = ("dev", "home", "opt", "proc", "root", "run", "sys", "tmp", "var/tmp", "var/log",
          "var/spool", "var/mail", "var/backups", "var/www", "etc/ssl/private")  # fmt: skip
_DEVICES = (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9))

_TERMINALS_MAX = 128
"""Pseudo-terminals of a desktop; the host has 4096 for all."""

Entry: TypeAlias = "tuple[str, int, bytes | None]"


def build_root(layers: dict[str, str], disk_bytes: int, frame_bytes: int = 0) -> int:
    """Replace the root of this mount namespace by a desktop's own. Afterwards cwd is `/`.

    Args:
        layers: folders laid over the host's files, each with the place it goes to; below
            `home/user` all is the user's.
        disk_bytes: what the desktop may write at most, in all its places together.
        frame_bytes: of its screen, which lies there besides.

    Returns:
        A descriptor of the folder that holds the writable layer, `upper`.
    """
    kernel.make_private()
    host_names = os.listdir("/")
    entries = [entry for folder, place in layers.items() for entry in _read_layer(folder, place)]
    kernel.mount("tmpfs", _STAGE, "tmpfs", 0, f"mode=755,{_size(disk_bytes // 2)}")
    for name in ("upper", "work", "root", "layer"):
        os.mkdir(f"{_STAGE}/{name}", 0o755)
    _write_layer(f"{_STAGE}/layer", entries, host_names)
    # A copy of a running desktop (CRIU) keeps watches on files by handle; that takes these two.
    options = f"index=on,nfs_export=on,lowerdir={_STAGE}/layer:/"
    options += f",upperdir={_STAGE}/upper,workdir={_STAGE}/work"
    kernel.mount("overlay", f"{_STAGE}/root", "overlay", 0, options)
    stage = os.open(_STAGE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    os.chdir(f"{_STAGE}/root")
    _mount_devices(disk_bytes // 8)
    _mount_runtime(disk_bytes // 4, disk_bytes // 8 + frame_bytes)
    kernel.change_root(f"{_STAGE}/root")
    return stage


def _read_layer(settings: str, place: str) -> list[Entry]:
    """Path, mode and content of each entry; read before the stage covers where they may lie."""
    entries: list[Entry] = []
    for folder, names, files in os.walk(settings):
        names[:] = sorted(name for name in names if name != "__pycache__")
        inner = os.path.join(place, os.path.relpath(folder, settings))
        entries += [(os.path.normpath(f"{inner}/{name}"), 0o755, None) for name in names]
        for name in files:
            with open(f"{folder}/{name}", "rb") as source:
                mode = 0o755 if inner.endswith("bin") else 0o644
                entries.append((os.path.normpath(f"{inner}/{name}"), mode, source.read()))
    return entries


def _write_layer(layer: str, entries: list[Entry], host_names: list[str]) -> None:
    """Lay down the settings, and hide from the host's root what is not a program or its data."""
    for name in host_names:
        if name not in _KEPT and name not in _EMPTY:
            os.mknod(f"{layer}/{name}", stat.S_IFCHR, 0)  # a whiteout: not there at all
    for name in _EMPTY:
        os.makedirs(f"{layer}/{name}", exist_ok=True)
        os.setxattr(f"{layer}/{name}", "trusted.overlay.opaque", b"y")
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
    for folder, _, files in os.walk(f"{layer}/home/user"):
        for path in (folder, *(f"{folder}/{name}" for name in files)):
            os.chown(path, USER_ID, USER_ID)


def _size(size_bytes: int) -> str:
    """Options of a tmpfs: its size, and as many files as would fill it with a page each."""
    return f"size={size_bytes},nr_inodes={size_bytes >> 12}"


def _mount_devices(shared_bytes: int) -> None:
    kernel.mount("proc", "proc", "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC)
    kernel.mount("tmpfs", "dev", "tmpfs", kernel.NOSUID, "size=64k,mode=755")
    for name, minor in _DEVICES:
        os.mknod(f"dev/{name}", stat.S_IFCHR, os.makedev(1, minor))
        os.chmod(f"dev/{name}", 0o666)
    os.mknod("dev/tty", stat.S_IFCHR, os.makedev(5, 0))
    os.chmod("dev/tty", 0o666)
    for name in ("pts", "shm"):
        os.mkdir(f"dev/{name}")
    options = f"newinstance,ptmxmode=0666,mode=620,max={_TERMINALS_MAX}"
    kernel.mount("devpts", "dev/pts", "devpts", kernel.NOSUID | kernel.NOEXEC, options)
    os.symlink("pts/ptmx", "dev/ptmx")
    os.symlink("/proc/self/fd", "dev/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"dev/{name}")
    flags = kernel.NOSUID | kernel.NODEV
    kernel.mount("tmpfs", "dev/shm", "tmpfs", flags, f"mode=1777,{_size(shared_bytes)}")


def _mount_runtime(temporary_bytes: int, runtime_bytes: int) -> None:
    flags = kernel.NOSUID | kernel.NODEV
    kernel.mount("tmpfs", "tmp", "tmpfs", flags, f"mode=1777,{_size(temporary_bytes)}")
    kernel.mount("tmpfs", "run", "tmpfs", flags, f"mode=755,{_size(runtime_bytes)}")
    os.mkdir("tmp/.X11-unix")
    os.chmod("tmp/.X11-unix", 0o1777)
    for name in ("user", "user/1000", "share", "share/fb", "share/log"):
        os.mkdir(f"run/{name}", 0o700 if name == "user/1000" else 0o755)
    for name in ("user/1000", "share", "share/fb", "share/log"):
        os.chown(f"run/{name}", USER_ID, USER_ID)
