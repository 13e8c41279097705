"""The programs that a desktop is started with, from its own first process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher, Program
from envs_node.actors.desktop.layer import read_layers
from tests.actors.desktop.looking import wait_until

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
SOCKET = "/tmp/late"
LISTEN = f"import socket; s = socket.socket(1); s.bind('{SOCKET}'); s.listen(); s.accept()"


@pytest.mark.live
def test_a_program_begins_when_somebody_listens_where_it_connects_to() -> None:
    late = Program("late", ("sh", "-c", "echo begun; id -u; ls /proc/self/fd"), after=(SOCKET,))
    with Launcher() as launcher:
        pid, numbers = launcher.start(DesktopKind(), (late,), ENVIRONMENT)
        log = Path(f"/proc/{pid}/root/run/share/log/late.log")
        assert wait_until(log.exists)
        assert log.read_text() == ""

        launcher.spawn(pid, ["/usr/bin/python3", "-c", LISTEN], ENVIRONMENT, "listening")

        assert wait_until(lambda: log.read_text().split() == ["begun", "1000", "0", "1", "2", "3"])
        assert len(numbers) == 1


@pytest.mark.live
def test_a_program_that_is_not_there_says_so_in_its_log_and_the_desktop_stands() -> None:
    with Launcher() as launcher:
        absent = Program("absent", ("no-such-program",))
        pid, (number,) = launcher.start(DesktopKind(), (absent,), ENVIRONMENT)
        log = Path(f"/proc/{pid}/root/run/share/log/absent.log")

        assert wait_until(lambda: log.exists() and "no-such-program" in log.read_text())
        assert wait_until(lambda: not os.path.exists(f"/proc/{pid}/root/proc/{number}"))


def test_modules_of_a_layer_come_with_what_python_makes_of_them(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("ANSWER = 42\n")

    paths = {path: content for path, _, content in read_layers({str(tmp_path): "usr/lib/x"})}

    compiled = [path for path in paths if path.endswith(".pyc")]
    assert "usr/lib/x/part.py" in paths
    assert [os.path.dirname(path) for path in compiled] == ["usr/lib/x/__pycache__"]
    assert paths["usr/lib/x/__pycache__"] is None
