"""The doctor finds what a host lacks, and each finding names its mend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envs_node.deploy.doctor import (
    APPLICATIONS,
    PROGRAMS,
    Check,
    Needs,
    as_data,
    as_text,
    check_host,
)


@pytest.fixture(scope="module")
def greedy_checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """What the doctor says of this host when far too much is wanted of it."""
    needs = Needs(
        programs={"sh": "dash", "no-such-program": "some-package", "nor-this": "another"},
        memory_bytes=2**60,
        disk_bytes=2**60,
        shared_memory_bytes=2**60,
        files=2**30,
    )
    return {
        check.name: check
        for check in check_host(tmp_path_factory.mktemp("runs"), needs, is_quick=True)
    }


def test_a_missing_program_is_mended_by_its_package(greedy_checks: dict[str, Check]):
    assert greedy_checks["sh"].ok
    assert greedy_checks["no-such-program"] == Check(
        name="no-such-program",
        ok=False,
        detail="not found",
        mend="apt-get install some-package",
    )


@pytest.mark.parametrize("name", ["memory", "disk", "shared memory", "open files"])
def test_too_little_of_anything_is_found(greedy_checks: dict[str, Check], name: str):
    assert not greedy_checks[name].ok
    assert "wanted" in greedy_checks[name].detail


def test_every_failure_names_its_mend(greedy_checks: dict[str, Check]):
    assert all(check.mend for check in greedy_checks.values() if not check.ok)


@pytest.mark.live
def test_this_host_can_make_desktops(greedy_checks: dict[str, Check]):
    names = ("Linux", "Python", "privilege", "address space")

    assert [name for name in names if not greedy_checks[name].ok] == []


def test_the_text_gathers_all_packages_into_one_command(greedy_checks: dict[str, Check]):
    text = as_text(tuple(greedy_checks.values()))

    assert "all packages at once: apt-get install some-package another" in text
    assert text.endswith("to mend")


def test_a_good_host_is_said_to_be_good():
    checks = (Check(name="Linux", ok=True, detail="6.1"),)

    assert as_text(checks).splitlines() == ["ok  Linux  6.1", "this host can run desktops"]
    assert json.loads(json.dumps(as_data(checks)))["ok"] is True


def test_what_desktops_can_do_without_is_told_and_does_not_count(greedy_checks: dict[str, Check]):
    wanted = Check(name="control groups", ok=False, detail="no pids", mend="x", is_needed=False)
    good = Check(name="Linux", ok=True, detail="6.1")

    assert as_text((good, wanted)).splitlines()[1:3] == [
        "-   control groups  no pids",
        "                    mend: x",
    ]
    assert as_text((good, wanted)).endswith("this host can run desktops")
    assert as_data((good, wanted))["ok"] is True
    found = greedy_checks["control groups"]
    assert all(name in found.detail for name in ("memory", "pids", "cpu", "freezer")), found


def test_a_quick_look_at_a_folder_that_is_yet_to_be_made(tmp_path: Path):
    checks = check_host(tmp_path / "runs" / "demo", is_quick=True)

    assert "torch" not in [check.name for check in checks]
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_torch_is_really_imported():
    (torch,) = [check for check in check_host() if check.name == "torch"]

    assert torch.ok
    assert torch.detail.startswith("2.")


def test_every_program_that_is_looked_for_is_installed_by_the_set_up():
    lines = (Path(__file__).parents[2] / "deploy" / "apt-packages.txt").read_text().splitlines()
    packages = {word for line in lines for word in line.partition("#")[0].split()}

    assert {*PROGRAMS.values()} - packages <= {"mount", "util-linux", "libreoffice-common"}


def test_what_the_bundled_tasks_do_without_is_installed_for_the_tests():
    lines = (Path(__file__).parents[2] / "deploy" / "apt-packages-test.txt").read_text()
    packages = {word for line in lines.splitlines() for word in line.partition("#")[0].split()}

    assert set(APPLICATIONS.values()) <= packages


def test_missing_applications_are_named_in_one_line_and_refuse_no_host(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("PATH", "/nonexistent")

    checks = {check.name: check for check in check_host(is_quick=True)}

    further = checks["further applications"]
    assert further.ok
    assert "tasks that want these are left out: apt-get install galculator eog gimp" in (
        further.detail
    )
