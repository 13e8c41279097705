"""A host without some application searches the bundled tasks that it can run, and says the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs_node.actors.verifier.vocabulary import read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.deploy.cli.task_source import TasksError, find_tasks


def test_bundled_tasks_whose_applications_are_missing_are_left_out_with_the_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("xterm", "thunar"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    tasks = find_tasks("train", 1, 0, read_checker(checker_folder()))

    assert {app for task in tasks for app in task.apps} == {"xterm", "thunar"}
    told = capsys.readouterr().err
    assert "left out, for their applications are not installed: " in told
    assert "apt-get install mousepad" in told
    assert "apt-get install libreoffice-calc" in told


def test_without_any_application_the_bundled_tasks_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(TasksError, match="no application of the train tasks is installed: apt-get"):
        find_tasks("train", 1, 0, read_checker(checker_folder()))
