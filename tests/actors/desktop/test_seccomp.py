"""The filter of system calls, run step by step as the kernel would, for machines we are not on."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.actors.desktop.seccomp import build_filter, is_known

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386 = 0x40000003
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x50000
EPERM, ENOSYS = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS
REFUSED = {
    "x86_64": {"mount": 165, "bpf": 321, "keyctl": 250, "reboot": 169, "io_uring_setup": 425},
    "aarch64": {"mount": 40, "bpf": 280, "keyctl": 219, "reboot": 142, "io_uring_setup": 425},
}
ALLOWED = {
    "x86_64": {"read": 0, "mmap": 9, "execve": 59, "ptrace": 101, "openat": 257, "seccomp": 317,
               "sched_yield": 24, "prctl": 157, "inotify_init1": 294, "memfd_create": 319},
    "aarch64": {"read": 63, "mmap": 222, "execve": 221, "ptrace": 117, "openat": 56,
                "seccomp": 277, "sched_yield": 124, "prctl": 167, "memfd_create": 279},
}  # fmt: skip
CLONE, UNSHARE, SOCKET = (
    {"x86_64": 56, "aarch64": 220},
    {"x86_64": 272, "aarch64": 97},
    {"x86_64": 41, "aarch64": 198},
)


def verdict(machine: str, number: int, first: int = 0, arch: int = 0) -> int:
    """What the filter of a machine says of a call."""
    data = struct.pack("<IIQQ", number, arch or ARCH[machine], 0, first)
    program = list(struct.iter_unpack("=HBBI", build_filter(machine)))
    place = word = 0
    for _ in range(len(program)):
        code, then, otherwise, value = program[place]
        match code:
            case 0x20:
                word, step = int.from_bytes(data[value : value + 4], "little"), 0
            case 0x15:
                step = then if word == value else otherwise
            case 0x35:
                step = then if word >= value else otherwise
            case 0x45:
                step = then if word & value else otherwise
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"an unknown step {code:#x}")
        place += step + 1
    raise AssertionError("it never ends")


@pytest.mark.parametrize("machine", ARCH)
def test_what_reaches_beyond_is_refused_and_what_programs_need_is_not(machine: str):
    refused = {name: verdict(machine, number) for name, number in REFUSED[machine].items()}
    allowed = {name: verdict(machine, number) for name, number in ALLOWED[machine].items()}

    assert set(refused.values()) == {EPERM}, refused
    assert set(allowed.values()) == {ALLOW}, allowed


@pytest.mark.parametrize("machine", ARCH)
def test_namespaces_are_refused_and_threads_and_forks_are_not(machine: str):
    thread, fork, signal = 0x3D0F00, 0x01200011, 0x80
    for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000):
        assert verdict(machine, CLONE[machine], flag | 17) == EPERM
        assert verdict(machine, UNSHARE[machine], flag) == EPERM
    assert verdict(machine, UNSHARE[machine], 0x80) == EPERM
    assert {verdict(machine, CLONE[machine], f) for f in (thread, fork, signal, 17)} == {ALLOW}
    assert verdict(machine, UNSHARE[machine], 0x400) == ALLOW
    assert verdict(machine, 435) == ENOSYS, "clone3 hides its flags from filters"


@pytest.mark.parametrize("machine", ARCH)
def test_sockets_that_know_no_network_namespace_do_not_exist(machine: str):
    families = {
        family for family in range(50) if verdict(machine, SOCKET[machine], family) == ALLOW
    }

    assert families == {1, 2, 10, 16}
    assert verdict(machine, SOCKET[machine], 40) == ERRNO | errno.EAFNOSUPPORT


@pytest.mark.parametrize("machine", ARCH)
@given(number=st.integers(0, 2**32 - 1))
def test_calls_of_another_kind_of_machine_kill(machine: str, number: int):
    others = {I386, *ARCH.values()} - {ARCH[machine]}

    assert {verdict(machine, number, arch=arch) for arch in others} == {KILL}


def test_the_second_set_of_calls_of_x86_64_does_not_exist():
    assert verdict("x86_64", 0x40000000 | 165) == ENOSYS


def test_a_machine_without_a_filter_is_named():
    assert not is_known("riscv64")
    with pytest.raises(ValueError, match="riscv64"):
        build_filter("riscv64")
