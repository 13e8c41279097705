"""System calls that no program of a desktop needs, and that reach beyond it: refused by the kernel.

A desktop's user has no privileges, so most of these would be refused anyway; the filter keeps
the kernel's code behind them out of a hostile program's reach. Each answers EPERM, as to an
unprivileged program. Sockets but unix, internet and netlink ones do not exist: others, as those to
a hypervisor, know no network namespace. Stdlib only.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_SET_SECCOMP, _MODE_FILTER = 22, 2
_KILL_PROCESS, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF words
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # in struct seccomp_data
_X32_BIT = 0x40000000
_NAMESPACES = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
_NEW_TIME = 0x80
"""To `unshare` alone: in the flags of `clone` these bits are a signal."""
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

# name: (x86_64, aarch64); None where there is no such call
_DENIED: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280),
    "chroot": (161, 51), "clock_adjtime": (305, 266), "clock_settime": (227, 112),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "init_module": (175, 105), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None),
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "lookup_dcookie": (212, 18), "modify_ldt": (154, None), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241), "pivot_root": (155, 41), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "reboot": (169, 142), "request_key": (249, 218),
    "setdomainname": (171, 162), "sethostname": (170, 161), "setns": (308, 268),
    "settimeofday": (164, 170), "swapoff": (168, 225), "swapon": (167, 224),
    "syslog": (103, 116), "umount2": (166, 39), "userfaultfd": (323, 282), "vhangup": (153, 58),
}  # fmt: skip
_CLONE, _UNSHARE, _SOCKET, _CLONE3 = (56, 220), (272, 97), (41, 198), 435
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column above, and the kernel's word for the machine."""


class _Step(NamedTuple):
    """A step of the filter: where to go on if it holds; the next step where nothing is said."""

    code: int
    value: int
    then: str = ""
    otherwise: str = ""
    label: str = ""


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def is_known(machine: str = "") -> bool:
    """Whether there is a filter for this kind of machine."""
    return (machine or platform.machine()) in _MACHINES


def build_filter(machine: str = "") -> bytes:
    """The filter as the kernel takes it.

    Raises:
        ValueError: for this kind of machine there is none.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise ValueError(f"no filter of system calls for {machine}")
    column, arch = _MACHINES[machine]
    denied = sorted(pair[column] or -1 for pair in _DENIED.values() if pair[column] is not None)
    steps = [
        _Step(_LOAD, _ARCH),
        _Step(_EQUAL, arch, otherwise="kill"),
        _Step(_LOAD, _NUMBER),
        # The calls of x32, a second set on x86_64; numbers of aarch64 are never so high.
        _Step(_AT_LEAST, _X32_BIT, then="no such call"),
        *(_Step(_EQUAL, number, then="refuse") for number in denied),
        # Its flags lie in memory, where no filter can look: C libraries then take `clone`.
        _Step(_EQUAL, _CLONE3, then="no such call"),
        _Step(_EQUAL, _CLONE[column], then="clone"),
        _Step(_EQUAL, _UNSHARE[column], then="unshare"),
        _Step(_EQUAL, _SOCKET[column], then="socket"),
        _Step(_RETURN, _ALLOW),
        _Step(_LOAD, _FIRST_ARGUMENT, label="clone"),
        _Step(_HAS_BITS, _NAMESPACES, then="refuse", otherwise="allow"),
        _Step(_LOAD, _FIRST_ARGUMENT, label="unshare"),
        _Step(_HAS_BITS, _NAMESPACES | _NEW_TIME, then="refuse", otherwise="allow"),
        _Step(_LOAD, _FIRST_ARGUMENT, label="socket"),
        *(_Step(_EQUAL, family, then="allow") for family in _FAMILIES),
        _Step(_RETURN, _ERRNO | errno.EAFNOSUPPORT),
        _Step(_RETURN, _ALLOW, label="allow"),
        _Step(_RETURN, _ERRNO | errno.EPERM, label="refuse"),
        _Step(_RETURN, _ERRNO | errno.ENOSYS, label="no such call"),
        _Step(_RETURN, _KILL_PROCESS, label="kill"),
    ]
    return _assemble(steps)


def install_filter(program: bytes) -> None:
    """Put this process, and all that it will start, under a filter. Needs no_new_privs.

    Raises:
        OSError: the kernel has no filters, or refuses this one.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    wrapped = _Program(len(program) // 8, program)
    if libc.prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.byref(wrapped), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the filter of system calls was refused")


def _assemble(steps: Sequence[_Step]) -> bytes:
    places = {step.label: number for number, step in enumerate(steps) if step.label}

    def distance(number: int, label: str) -> int:
        return places[label] - number - 1 if label else 0

    return b"".join(
        struct.pack(
            "=HBBI", step.code, distance(n, step.then), distance(n, step.otherwise), step.value
        )
        for n, step in enumerate(steps)
    )
