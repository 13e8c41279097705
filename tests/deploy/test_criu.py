"""A CRIU that fits the kernel is found, and where there is none the way out is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, cast

import pytest
import trio
from structlog.testing import capture_logs

from envs_node.actors.desktop.launcher import Launcher
from envs_node.deploy import forks
from envs_node.deploy.config import DesktopSettings
from envs_node.deploy.criu import (
    NEEDS_ROOT,
    Criu,
    CriuInstallError,
    criu_folder,
    find_criu,
    install_criu,
)
from envs_node.deploy.forks import NodeForks, try_criu
from tests.stranger import run_as_stranger


def program(folder: Path, version: str, checked: str) -> Path:
    """A program called criu that says this."""
    folder.mkdir(exist_ok=True)
    path = folder / "criu"
    path.write_text(f'#!/bin/sh\n[ "$1" = check ] || exec echo "Version: {version}"\n{checked}\n')
    path.chmod(0o755)
    return path


def test_this_host_has_a_criu_that_fits_and_installing_it_again_changes_nothing() -> None:
    found, why = find_criu()
    assert found is not None, f"{why}: run `make setup`, which fetches one"
    told: list[str] = []

    again, is_new = install_criu(criu_folder(), told.append)

    assert (again, is_new, told) == (found, False, [])
    assert tuple(map(int, found.version.split(".")[:2])) >= (4, 0)


def test_the_hosts_own_is_preferred_if_it_is_new_enough_and_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(tmp_path / "bin", "4.3", "exit 0")
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")

    found, _ = find_criu(tmp_path / "none")

    assert found is not None
    assert (found.version, found.where) == ("4.3", str(path))


@pytest.mark.parametrize(
    ("version", "checked", "said"),
    [
        ("3.17.1", "exit 0", "is 3.17.1, and 4.0 is the least"),
        ("4.1", 'echo "Error (a.c:1): unexpected vDSO" >&2; exit 1', "fit this kernel"),
    ],
)
def test_one_that_does_not_fit_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, checked: str, said: str
) -> None:
    path = program(tmp_path / "bin", version, checked)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")

    found, why = find_criu(tmp_path / "none")

    assert found is None
    assert said in why


def test_a_host_that_is_no_debian_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "release").write_text('ID=fedora\nVERSION_CODENAME=""\n')
    program(tmp_path / "bin", "3.17.1", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    with pytest.raises(CriuInstallError, match=r"install criu 4\.2 or newer"):
        install_criu(tmp_path / "folder", lambda _: None, release=tmp_path / "release")

    assert not (tmp_path / "folder").exists()


def test_whoever_is_not_root_is_told_that_it_takes_root_and_not_that_the_kernel_is_unfit() -> None:
    asked = "import envs_node.deploy.criu as criu; print(criu.find_criu())"

    done = run_as_stranger("-c", asked)

    assert done.stdout.strip() == str((None, NEEDS_ROOT)), done.stderr


@pytest.mark.live
def test_one_that_passes_its_own_check_is_tried_on_a_desktop_before_it_is_taken(
    tmp_path: Path,
) -> None:
    found, why = find_criu()
    assert found is not None, why
    liar = program(tmp_path / "bin", "4.3", "exit 0")

    assert try_criu(found) == ""
    assert "restore" in try_criu(Criu(command=(str(liar),), version="4.3", where="here"))


@pytest.mark.parametrize(("fork", "level"), [("auto", "info"), ("on", "warning")])
async def test_that_only_roots_desktops_are_forked_is_no_warning_unless_forks_were_asked_for(
    fork: Literal["auto", "on"], level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "find_criu", lambda: (None, NEEDS_ROOT))
    node = NodeForks(cast(Launcher, None), DesktopSettings(fork=fork), lambda: 0)

    with capture_logs() as logs, trio.move_on_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(node.run, lambda: True)
            while not logs:  # noqa: ASYNC110 - it is told to nobody else
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()

    assert [(log["event"], log["log_level"]) for log in logs] == [("fork.unoffered", level)]
    assert not node.store.is_offered
