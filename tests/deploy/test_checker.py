"""The checker's environment: there once, quick the second time, and clear when it cannot be."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from envs_node.deploy import checker
from envs_node.deploy.checker import (
    CheckerInstallError,
    checker_folder,
    install_checker,
    is_checker_installed,
)

REQUIREMENTS = Path(checker.__file__).with_name("checker-requirements.txt")


def test_the_checker_is_installed_and_the_second_time_is_quick():
    assert is_checker_installed(checker_folder()), "run `make test`, which installs it"
    told: list[str] = []

    began = time.monotonic()
    done = install_checker(checker_folder(), told.append)

    assert not done.is_new
    assert told == []
    assert time.monotonic() - began < 0.5


def test_every_requirement_is_pinned():
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if not line.startswith("#")]

    assert "desktop_env==1.0.2" in wanted
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", line) for line in wanted)
    assert not {"torch", "easyocr", "playwright", "pydrive"} & {w.split("==")[0] for w in wanted}


def test_a_folder_that_cannot_be_made_is_named_with_the_way_out(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(CheckerInstallError) as caught:
        install_checker(tmp_path / "file" / "checker", lambda _: None)

    assert "file" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_environment_of_other_pins_is_not_taken_for_installed(tmp_path: Path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/bin/true")
    (tmp_path / "envs-node.installed").write_text("0" * 64, encoding="ascii")

    assert not is_checker_installed(tmp_path)
