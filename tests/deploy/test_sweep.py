"""What a dead node left is removed, and nothing else: rows D16 and D24, with real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from envs_node.actors.desktop.kernel import mount
from envs_node.deploy.cli.sweep import Sweep
from envs_node.deploy.estate import (
    OWNER_VARIABLE,
    PREFIX,
    EstateError,
    Owner,
    estate,
    owner_label,
    state_folder,
)
from envs_node.deploy.process import Process
from envs_node.deploy.sweep import Swept, owning, sweep

ROOT = Path(__file__).parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts and makes groups")


class Owning:
    """A process that owns an estate, as a node does."""

    def __init__(self, state: Path, node: str, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.deploy.owning_process", str(state), node, *command],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(state.parent)},
        )
        assert self.process.stdout is not None
        self.id, child, scratch = self.process.stdout.readline().split()
        self.child = Process.of(int(child))
        self.scratch = Path(scratch)
        self.folder = state / self.id

    def die(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self.process.communicate(timeout=10)


@contextmanager
def owning_process(state: Path, node: str, *command: str) -> Iterator[Owning]:
    owner = Owning(state, node, *command)
    try:
        yield owner
    finally:
        owner.close()
        owner.child.kill(5)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


def test_an_owner_that_ends_in_order_leaves_nothing(state: Path) -> None:
    with owning_process(state, "a") as a:
        assert list(a.scratch.iterdir())

    assert not a.scratch.exists()
    assert list(state.iterdir()) == []
    assert sweep(state) == ()


def test_what_a_dead_owner_left_goes_and_two_who_live_keep_all(state: Path) -> None:
    with (
        owning_process(state, "alive-1") as first,
        owning_process(state, "alive-2") as second,
        owning_process(state, "dead") as dead,
    ):
        left = socket.socket(socket.AF_UNIX)
        left.bind(str(state / "dead.sock"))
        left.close()
        dead.die()
        assert dead.child.is_alive(), "what it started outlived it"

        (swept,) = sweep(state)

        assert (swept.owner, swept.node) == (dead.id, "dead")
        assert swept.processes == (f"{dead.child.pid} sleep",)
        assert swept.sockets == (str(state / "dead.sock"),)
        assert swept.folders == (str(dead.scratch), str(dead.folder))
        assert not swept.left
        assert not dead.child.is_alive()
        assert not (state / "dead.sock").exists()
        for alive in (first, second):
            assert alive.child.is_alive()
            assert list(alive.scratch.iterdir())
            assert alive.folder.is_dir()
        assert sweep(state) == ()


def test_strangers_with_a_like_name_or_environment_survive(state: Path, tmp_path: Path) -> None:
    """Row D24."""
    with owning_process(state, "dead") as dead:
        likes = (
            {OWNER_VARIABLE: f"{dead.id}0"},
            {f"NOT_{OWNER_VARIABLE}": dead.id},
            {OWNER_VARIABLE: "1-0123456789ab"},
            {"NAME": f"{OWNER_VARIABLE}={dead.id}"},
        )
        strangers = [subprocess.Popen(["sleep", "600"], env={**os.environ, **x}) for x in likes]
        like_folder = tmp_path / f"{PREFIX}{dead.id}0"
        like_folder.mkdir()
        try:
            dead.die()
            sweep(state)

            assert all(stranger.poll() is None for stranger in strangers)
            assert like_folder.is_dir()
        finally:
            for stranger in strangers:
                stranger.kill()
                stranger.wait()


def test_a_dry_run_says_the_same_and_removes_nothing(state: Path) -> None:
    with owning_process(state, "dead") as dead:
        dead.die()

        (would,) = sweep(state, is_dry=True)
        assert dead.child.is_alive()
        assert dead.scratch.is_dir()

        assert sweep(state) == (would,)


def test_an_owner_that_is_stopped_is_not_dead(state: Path) -> None:
    with owning_process(state, "frozen") as frozen:
        frozen.process.send_signal(signal.SIGSTOP)
        try:
            assert sweep(state) == ()
            (frozen.folder / "lock").unlink()
            assert sweep(state) == (), "nor when its lock was lost"
        finally:
            frozen.process.send_signal(signal.SIGCONT)
        assert frozen.child.is_alive()


def test_a_node_that_was_started_by_what_a_dead_one_had_started_lives(state: Path) -> None:
    inner = [sys.executable, "-m", "tests.deploy.owning_process", str(state), "inner"]
    hold = state.parent / "hold"
    os.mkfifo(hold)
    held = os.open(hold, os.O_RDWR)  # its standard input does not end
    shell = f"exec {' '.join(inner)} <{hold} >/dev/null"
    with owning_process(state, "outer", "sh", "-c", shell) as outer:
        deadline = time.monotonic() + 10
        while len([path for path in state.iterdir() if path.name[0] != "."]) < 2:
            assert time.monotonic() < deadline, "the inner one did not start"
            time.sleep(0.02)
        outer.die()

        (swept,) = sweep(state)

        assert (swept.owner, swept.processes) == (outer.id, ())
        assert outer.child.is_alive()
    os.close(held)


def test_several_sweeps_at_once_remove_a_thing_once(state: Path) -> None:
    with owning_process(state, "dead") as dead:
        dead.die()
        found: list[tuple[Swept, ...]] = []
        threads = [threading.Thread(target=lambda: found.append(sweep(state))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [swept.owner for swept_all in found for swept in swept_all] == [dead.id]
        assert not any(swept.left for swept_all in found for swept in swept_all)
        assert not dead.child.is_alive()


def test_the_number_of_a_dead_process_is_not_taken_for_it() -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    mine = Process.of(sleeper.pid)
    earlier = msgspec.structs.replace(mine, start_ticks=mine.start_ticks - 1)
    other_boot = msgspec.structs.replace(mine, boot="another")
    try:
        assert mine.is_alive()
        assert not earlier.is_alive()
        assert not other_boot.is_alive()
        assert earlier.kill(1)
        assert sleeper.poll() is None, "it was not the one meant"
        assert mine.kill(5)
        assert not mine.is_alive(), "one that only waits to be reaped has ended"
    finally:
        sleeper.kill()
        sleeper.wait()
    assert mine.kill(1)


def test_a_record_that_is_broken_or_lies_removes_its_own_folder_alone(
    state: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    with owning_process(state, "dead") as dead:
        dead.die()
        dead.child.kill(5)
    record = msgspec.json.decode((dead.folder / "owner.json").read_bytes())
    record["scratch"] = str(precious)
    (dead.folder / "owner.json").write_bytes(msgspec.json.encode(record))
    broken = state / "1-abc"
    broken.mkdir()
    (broken / "owner.json").write_text("{")

    swept = sweep(state)

    assert sorted(s.owner for s in swept) == sorted([dead.id, "1-abc"])
    assert precious.is_dir()
    assert list(state.iterdir()) == []


@needs_root
def test_mounts_and_control_groups_go_with_their_owner(state: Path) -> None:
    groups = next(
        (path for path in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if path.is_dir()),
        Path("/sys/fs/cgroup"),
    )
    with owning_process(state, "dead") as dead:
        group = groups / (PREFIX + dead.id)
        inner = dead.scratch / "a b"
        inner.mkdir()
        mount("tmpfs", str(inner), "tmpfs", 0, "size=64k")
        (inner / "deep").mkdir()
        mount("tmpfs", str(inner / "deep"), "tmpfs", 0, "size=64k")
        is_grouped = True
        try:
            (group / "sub").mkdir(parents=True)
        except OSError:  # a host that lends no control groups
            is_grouped = False
        dead.die()

        (swept,) = sweep(state)

        assert swept.mounts == (str(inner / "deep"), str(inner))
        assert not dead.scratch.exists()
        if is_grouped:
            assert str(group / "sub") in swept.cgroups
            assert not group.exists()
        assert not swept.left


@needs_root
def test_what_cannot_be_removed_is_named_and_tried_again(state: Path) -> None:
    """A working folder inside a mount does not hold it; a control group with a member does."""
    groups = Path("/sys/fs/cgroup/pids")
    if not os.access(groups, os.W_OK):
        pytest.skip("no control groups of the first version here")
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    (mine,) = (line.split(":")[2] for line in lines if line.split(":")[1] == "pids")
    with owning_process(state, "dead") as dead:
        group = groups / (PREFIX + dead.id)
        group.mkdir()
        (group / "cgroup.procs").write_text(str(os.getpid()))  # this very process is spared
        try:
            dead.die()
            (swept,) = sweep(state)
            assert any(str(group) in line for line in swept.left)
            assert dead.folder.is_dir()
        finally:
            (groups / mine.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))
        (again,) = sweep(state)
        assert not again.left
        assert not group.exists()


def test_a_socket_that_another_node_has_taken_over_stays(state: Path) -> None:
    with owning_process(state, "dead") as dead, socket.socket(socket.AF_UNIX) as other:
        dead.die()
        other.bind(str(state / "dead.sock"))
        other.listen()

        (swept,) = sweep(state)

        assert swept.sockets == ()
        assert (state / "dead.sock").exists()


def test_a_node_marks_what_it_starts_and_where_its_files_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    before = tempfile.gettempdir()
    with owning("n", "ipc:///run/x", "tcp://127.0.0.1:0"):
        assert owner_label()[OWNER_VARIABLE] == os.environ[OWNER_VARIABLE]
        assert tempfile.gettempdir().endswith(os.environ[OWNER_VARIABLE])
        assert os.stat(tempfile.gettempdir()).st_mode & 0o777 == 0o711
    assert owner_label() == {}
    assert tempfile.gettempdir() == before
    assert list((tmp_path / "envs-node").iterdir()) == []


def test_a_state_folder_that_is_not_ours_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    state_folder().chmod(0o777)
    with pytest.raises(EstateError, match="not a folder of yours alone"), owning("n"):
        pass

    state_folder_of_link = tmp_path / "linked"
    state_folder_of_link.mkdir()
    (state_folder_of_link / "envs-node").symlink_to(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(state_folder_of_link))
    with pytest.raises(EstateError, match=r"cannot be made|not a folder of yours"), owning("n"):
        pass


def test_an_estate_without_room_is_refused_and_leaves_no_half(tmp_path: Path) -> None:
    with (
        pytest.raises(EstateError, match="make room there"),
        estate("n", state=tmp_path / "missing"),
    ):
        pass


def test_the_verb_says_what_was_left_and_what_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with owning_process(state_folder(), "desk-1") as dead:
        assert Sweep().run() == 0
        assert capsys.readouterr().out == "no dead node has left anything\n"
        dead.die()

        assert Sweep(dry_run=True).run() == 0
        assert f"process  {dead.child.pid} sleep" in capsys.readouterr().out
        assert Sweep(json=True).run() == 0

    (told,) = msgspec.json.decode(capsys.readouterr().out, type=list[Swept])
    assert (told.owner, told.node) == (dead.id, "desk-1")


def test_what_is_no_record_delays_no_start(state: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (state / "1-link").symlink_to(elsewhere)
    for name in ("1-pipe", "1-huge", "1-nul"):
        (state / name).mkdir()
    os.mkfifo(state / "1-pipe" / "owner.json")
    with (state / "1-huge" / "owner.json").open("wb") as huge:
        huge.truncate(1 << 40)
    nobody = Process(pid=0, start_ticks=0, boot="")
    record = Owner(id="1-nul", process=nobody, node="", uid=os.geteuid(), scratch="a\0b", since="")
    (state / "1-nul" / "owner.json").write_bytes(msgspec.json.encode(record))

    swept = sweep(state)

    assert sorted(found.owner for found in swept) == ["1-huge", "1-nul", "1-pipe"]
    assert not any(found.left for found in swept)
    assert list(state.iterdir()) == [state / "1-link"]
    assert list(elsewhere.iterdir()) == []
