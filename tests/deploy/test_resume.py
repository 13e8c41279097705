"""A run goes on as it began, or says what is otherwise."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from envs_node.deploy.config import Config, ConfigError, DesktopSettings, LinkSettings
from envs_node.deploy.resume import settings_to_go_on
from envs_node.deploy.run_folder import RunChangedError, RunFolder, find_unfinished
from envs_node.messages.journal import JournalWriter
from envs_node.messages.lifecycle import SearchSettings
from tests.fakes import fake_task

BEGAN = Config(search=SearchSettings(samples=4, lease_ms=5000), desktop=DesktopSettings(count=8))
NONE = Config()


def _create(path: Path) -> RunFolder:
    return RunFolder.create(
        path, config=BEGAN, tasks=(fake_task(),), policy="p@1", checker="c 1", kind="search"
    )


def test_what_was_not_given_stays_as_it_began() -> None:
    assert settings_to_go_on(BEGAN, NONE, NONE) == BEGAN


def test_what_decides_nothing_may_change() -> None:
    given = Config(desktop=DesktopSettings(count=2, width=1280), link=LinkSettings(node="n"))
    given = msgspec.structs.replace(given, desktop=DesktopSettings(count=3))

    settings = settings_to_go_on(BEGAN, given, NONE)

    assert settings.desktop.count == 3
    assert settings.link.node == "n"
    assert settings.search == BEGAN.search


def test_the_same_given_again_is_no_change() -> None:
    assert settings_to_go_on(BEGAN, Config(search=SearchSettings(samples=4)), NONE) == BEGAN


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        (Config(search=SearchSettings(samples=16)), "--search.samples is 16, .* began with 4"),
        (Config(search=SearchSettings(lease_ms=9000)), "--search.lease-ms is 9000"),
        (Config(desktop=DesktopSettings(width=800)), "--desktop.width is 800.*began with 1280"),
    ],
)
def test_another_setting_is_refused_by_its_flag_unless_forced(given: Config, flag: str) -> None:
    with pytest.raises(ConfigError, match=f"{flag}.*--force"):
        settings_to_go_on(BEGAN, given, NONE)

    forced = settings_to_go_on(BEGAN, given, NONE, is_forced=True)
    assert forced != BEGAN
    assert forced.desktop.count == 8


def test_another_policy_checker_or_tasks_are_refused_by_name(tmp_path: Path) -> None:
    folder = _create(tmp_path / "r-1")
    folder.require_same(policy="p@1", checker="c 1")

    with pytest.raises(RunChangedError, match=r"policy 'p@1', and now it is 'p@2': .*--force"):
        folder.require_same(policy="p@2", checker="c 1")
    with pytest.raises(RunChangedError, match="checker 'c 1', and now it is 'c 2'"):
        folder.require_same(policy="p@1", checker="c 2")
    packed = tmp_path / "r-1" / "tasks.msgpack"
    packed.write_bytes(packed.read_bytes().replace(b"save it", b"lose it"))
    with pytest.raises(RunChangedError, match="tasks of digest"):
        folder.require_same(policy="p@1", checker="c 1")


def test_the_run_that_was_on_is_the_one_without_a_mark_of_its_end(tmp_path: Path) -> None:
    assert find_unfinished(tmp_path / "none", has_policy=True) is None
    for name in ("r-1", "r-2", "r-3"):
        _create(tmp_path / name)
    (tmp_path / "no-run").mkdir()
    RunFolder(tmp_path / "r-1").end(is_over=True, why="all is done")
    RunFolder(tmp_path / "r-3").end(is_over=False, why="it was stopped")

    left = find_unfinished(tmp_path, has_policy=True)

    assert left is not None
    assert left.run == "r-2"
    assert find_unfinished(tmp_path, has_policy=False) is None, "it is no run of desktops elsewhere"
    with JournalWriter(left.journal):
        assert find_unfinished(tmp_path, has_policy=True) is None, "somebody is doing it"
    left.end(is_over=True, why="all is done")
    assert find_unfinished(tmp_path, has_policy=True) is None
    RunFolder(tmp_path / "r-3").reopen()
    again = find_unfinished(tmp_path, has_policy=True)
    assert again is not None
    assert again.run == "r-3"
