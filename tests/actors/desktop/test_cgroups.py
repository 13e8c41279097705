"""Control groups of both versions: this host's own, and plain files that stand for others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envs_node.actors.desktop.cgroups import CONTROLLERS, Group, Usage, find_place, make_room
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.deploy.estate import OWNER_VARIABLE, estate
from envs_node.deploy.sweep import sweep
from tests.actors.desktop.looking import wait_until

LIMITS = {"memory_bytes": 1 << 30, "processes_max": 500, "cpus": 1.5}
UNIFIED = Path("/sys/fs/cgroup/unified")


def plain_v1(folder: Path) -> str:
    """What mountinfo says of one folder a controller."""
    lines = []
    for name in CONTROLLERS:
        (folder / name / "own").mkdir(parents=True)
        lines.append(f"30 1 0:3 / {folder / name} rw - cgroup cgroup rw,{name}")
    return "\n".join(lines)


def plain_v2(folder: Path, *, offered: str = "cpu memory pids") -> str:
    """What it says of one folder for all, with our own group two below."""
    for path in (folder, folder / "slice", folder / "slice/own"):
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.controllers").write_text(offered)
        (path / "cgroup.subtree_control").write_text("")
    return f"30 1 0:3 / {folder} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"


def plain_group(folder: Path, files: dict[str, str]) -> Path:
    """The folder of a group with its files, as the kernel would make them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


V2_FILES = {
    "memory.max": "max", "memory.swap.max": "max", "pids.max": "max", "cpu.max": "max 100000",
    "memory.current": "4096\n", "memory.peak": "8192\n", "pids.current": "7\n",
    "memory.events": "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n",
    "cgroup.procs": "", "cgroup.kill": "", "cgroup.freeze": "0", "cgroup.events": "frozen 0\n",
}  # fmt: skip
V1_FILES = {
    "memory.limit_in_bytes": "9223372036854771712", "memory.memsw.limit_in_bytes": "1",
    "pids.max": "max", "cpu.cfs_quota_us": "-1", "memory.usage_in_bytes": "4096\n",
    "memory.max_usage_in_bytes": "8192\n", "pids.current": "7\n",
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", "cgroup.procs": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "files", "written"),
    [
        (1, V1_FILES, {"memory.limit_in_bytes": str(1 << 30), "pids.max": "500",
                       "memory.memsw.limit_in_bytes": str(1 << 30), "cpu.cfs_quota_us": "150000"}),
        (2, V2_FILES, {"memory.max": str(1 << 30), "memory.swap.max": "0", "pids.max": "500",
                       "cpu.max": "150000 100000"}),
    ],
)  # fmt: skip
def test_both_versions_are_told_the_same_limits_and_tell_the_same_usage(
    tmp_path: Path, version: int, files: dict[str, str], written: dict[str, str]
):
    folder = plain_group(tmp_path / "g", {name: "" if name in written else text
                                          for name, text in files.items()})  # fmt: skip
    group = Group({name: (version, str(folder)) for name in CONTROLLERS})

    group.limit(LIMITS)
    group.enter()

    assert {name: (folder / name).read_text() for name in written} == written
    assert group.usage() == Usage(4096, 8192, 2, 7)
    assert group.memory_loss().endswith("it took 0 MiB at most, and may take 1024 MiB")
    assert (folder / "cgroup.procs").read_text() == "0"


def test_a_place_is_found_on_version_1_below_the_own_group(tmp_path: Path):
    own = "".join(f"{n}:{name}:/own\n" for n, name in enumerate(CONTROLLERS))

    place = find_place("7-x", mounts=plain_v1(tmp_path), own=own)

    assert not place.missing
    for name in CONTROLLERS:
        plain_group(tmp_path / name / f"own/envs-node-7-x/desktop-{os.getpid()}-1", V1_FILES)
    group = place.make(LIMITS)
    assert set(group.folders) == {*CONTROLLERS}
    assert all(version == 1 and "/own/envs-node-7-x/" in f for version, f in group.folders.values())


def test_on_version_2_controllers_are_handed_down_to_the_groups(tmp_path: Path):
    mounts = plain_v2(tmp_path)
    mine = tmp_path / "slice/own/envs-node-7-x"
    plain_group(mine / f"desktop-{os.getpid()}-1", V2_FILES)
    plain_group(mine, {"cgroup.subtree_control": ""})

    place = find_place("7-x", mounts=mounts, own="0::/slice/own\n")
    group = place.make(LIMITS)

    assert not place.missing
    assert set(group.folders) == {*CONTROLLERS}
    assert len({folder for _, folder in group.folders.values()}) == 1
    assert (tmp_path / "slice/own/cgroup.subtree_control").read_text().startswith("+")
    assert (mine / "cgroup.subtree_control").read_text().startswith("+")


def test_a_host_without_controllers_is_told_of_by_name(tmp_path: Path):
    """A container that mounts the tree for reading, or a user without delegation."""
    mounts = plain_v2(tmp_path, offered="")

    place = find_place("7-x", mounts=mounts, own="0::/slice/own\n")

    assert set(place.missing) == {"memory", "pids", "cpu"}
    assert "not handed down" in place.missing["memory"]
    assert find_place("7-x", mounts="", own="").missing.keys() == {*CONTROLLERS}


def test_a_controller_that_refuses_is_missing_from_then_on(tmp_path: Path):
    own = "".join(f"{n}:{name}:/own\n" for n, name in enumerate(CONTROLLERS))
    place = find_place("7-x", mounts=plain_v1(tmp_path), own=own)

    group = place.make(LIMITS)  # plain folders have no file to write a limit to

    assert "memory" in place.missing
    assert "memory" not in group.folders
    assert "No such file" in place.missing["memory"]


@pytest.mark.live
def test_version_2_of_this_host_freezes_thaws_and_kills():
    if not (UNIFIED / "cgroup.procs").exists() or not os.access(UNIFIED, os.W_OK):
        pytest.skip("no tree of version 2 at the usual place of a mixed host")
    line = f"30 1 0:3 / {UNIFIED} rw - cgroup2 cgroup2 rw"
    place = find_place("0-none", mounts=line, own="0::/\n")
    group = place.make(LIMITS)
    try:
        with busy_in(group) as child:
            assert group.freeze()
            assert not is_working(child.pid)
            assert group.thaw()
            assert wait_until(lambda: is_working(child.pid))
            group.kill()
            assert child.wait(10) == -signal.SIGKILL
    finally:
        group.remove()
        place.close()
    assert not any("0-none" in name for name in os.listdir(UNIFIED))


@pytest.mark.live
def test_the_outermost_group_of_a_container_is_emptied_into_one_below():
    outermost = UNIFIED / f"test-{os.getpid()}"
    if not (UNIFIED / "cgroup.procs").exists() or not os.access(UNIFIED, os.W_OK):
        pytest.skip("no tree of version 2 at the usual place of a mixed host")
    group = Group({"freezer": (2, str(outermost))})
    outermost.mkdir()
    leaf = outermost / "envs-node-others"
    try:
        with busy_in(group) as child:
            make_room(str(outermost))

            assert (outermost / "cgroup.procs").read_text() == ""
            assert (leaf / "cgroup.procs").read_text().split() == [str(child.pid)]
    finally:
        for folder in (leaf, outermost):
            Group({"freezer": (2, str(folder))}).remove()
    assert not outermost.exists()


@pytest.mark.live
def test_a_frozen_desktop_is_destroyed_and_its_groups_with_it():
    with Launcher() as launcher:
        pid = launcher.create(DesktopKind())
        group = launcher.group(pid)
        assert group.usage().processes in (0, 1), "0 where the host counts none"
        if not group.freeze():
            pytest.skip("this host freezes nothing")

        launcher.destroy(pid)

        assert not Path(f"/proc/{pid}").exists()
        assert not [folder for _, folder in group.folders.values() if Path(folder).exists()]


@pytest.mark.live
def test_the_groups_of_a_killed_launcher_are_swept_though_what_is_in_them_is_frozen(
    tmp_path: Path,
):
    with estate("dead", state=tmp_path) as owner:
        pass
    (tmp_path / owner.id).mkdir()  # its record is lost, and its lock free
    label = {OWNER_VARIABLE: owner.id}
    launcher = Launcher(label=label)
    group = launcher.group(launcher.create(DesktopKind()))
    folders = [Path(folder) for _, folder in group.folders.values()]
    if not group.freeze():
        launcher.close()
        pytest.skip("this host freezes nothing")
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.close()
    assert all(folder.exists() for folder in folders)

    swept = [found for found in sweep(tmp_path) if found.owner == owner.id]

    assert not any(found.left for found in swept), swept
    assert not any(folder.exists() or folder.parent.exists() for folder in folders)


def test_without_groups_the_process_itself_is_bounded():
    script = (
        "import resource as r, sys\n"
        "from envs_node.actors.desktop.cgroups import limit_process\n"
        "limits = {'memory_bytes': 1 << 28, 'processes_max': 77}\n"
        "limit_process(limits, {'memory': '', 'pids': ''})\n"
        "print(r.getrlimit(r.RLIMIT_DATA)[0], r.getrlimit(r.RLIMIT_NPROC)[0])\n"
        "try: bytearray(1 << 29)\n"
        "except MemoryError: print('refused')\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stdout.split() == [str(1 << 28), "77", "refused"], done.stderr


@contextmanager
def busy_in(group: Group) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group that does nothing but take time."""
    code = "while True: pass"
    child = subprocess.Popen([sys.executable, "-c", code], preexec_fn=group.enter)
    try:
        yield child
    finally:
        group.thaw()
        child.kill()
        child.wait(10)


def is_working(pid: int) -> bool:
    """Whether its processor time grows within a tenth of a second."""

    def ticks() -> int:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])

    before = ticks()
    return wait_until(lambda: ticks() > before, timeout_s=0.3)
