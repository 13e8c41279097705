"""The doctor names the setting that forbids desktops without root, and nothing that does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envs_node.deploy.privileges import explain_refusal
from tests.stranger import run_as_stranger

REFUSED = "create: OSError: unshare: Operation not permitted"


@pytest.mark.parametrize(
    ("name", "value", "mend"),
    [
        ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_the_setting_that_forbids_user_namespaces_is_named_with_its_mend(
    tmp_path: Path, name: str, value: str, mend: str
) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(f"{value}\n")

    cause, way_out = explain_refusal(REFUSED, tmp_path)

    assert cause.startswith(f"{name.replace('/', '.')} is {value}")
    assert way_out == mend


@pytest.mark.parametrize(
    ("step", "meaning"),
    [
        ("unshare", "seccomp"),
        ("mount proc on proc", "partly covered"),
        ("mount overlay on /tmp/root/usr", "Linux 5.11"),
    ],
)
def test_a_step_that_is_refused_although_the_settings_allow_it_is_explained(
    tmp_path: Path, step: str, meaning: str
) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "max_user_namespaces").write_text("15000\n")

    cause, way_out = explain_refusal(f"create: OSError: {step}: Operation not permitted", tmp_path)

    assert meaning in cause
    assert "root" in way_out


@pytest.mark.live
def test_a_user_whom_the_system_does_not_know_is_told_that_desktops_are_possible() -> None:
    code = "from envs_node.deploy.cli import main; main()"

    done = run_as_stranger("-c", code, "doctor", "--json")

    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["privilege"]["ok"], checks["privilege"]
    assert checks["privilege"]["detail"].endswith("rootless: possible")
    assert not checks["lent ids"]["is_needed"]


@pytest.mark.live
def test_a_process_with_few_addresses_is_told_so() -> None:
    code = (
        "import resource; from envs_node.deploy.doctor import *\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({4 << 30}, resource.RLIM_INFINITY))\n"
        "print(as_text(check_host(is_quick=True)))"
    )

    done = run_as_stranger("-c", code)

    assert "NO  address space" in done.stdout, done.stderr
    assert "limit 4096 MiB a process" in done.stdout
