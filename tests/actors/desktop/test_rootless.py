"""Desktops of a user who is not root: one the system does not know, without any privilege."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.stranger import UID, run_as_stranger

pytestmark = pytest.mark.live
LENT = {
    "/etc/passwd": f"root:x:0:0::/root:/bin/sh\nstranger:x:{UID}:{UID}::/home/stranger:/bin/sh\n",
    "/etc/subuid": "stranger:700000:65536\n",
    "/etc/subgid": "stranger:700000:65536\n",
}


def look(accounts: dict[str, str] | None = None) -> dict[str, Any]:
    """What the script of this test saw."""
    done = run_as_stranger("-m", "tests.actors.desktop.rootless_desktop", accounts=accounts)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


@pytest.mark.parametrize("accounts", [None, LENT], ids=["alone", "with lent ids"])
def test_a_user_without_root_has_a_desktop_that_leaves_nothing(
    accounts: dict[str, str] | None,
) -> None:
    if accounts and not shutil.which("newuidmap"):
        pytest.skip("the package uidmap is not installed")

    seen = look(accounts)

    assert seen["uid"] != 0
    assert seen["text"].startswith("typed: ä€")
    assert seen["elements"] > 3
    assert seen["is_drawn"]
    assert seen["files"], "saving a file changes the signature"
    assert seen["whoami"] == ["1000", "user", "desktop"]
    assert seen["groups"] == ["1000"]
    assert int(seen["capabilities"], 16) == 0
    assert seen["owner_of_etc"] == ("root" if accounts else "user")
    assert seen["writable"] == ""
    assert "mounted" not in seen["mount"]
    assert "No such file" in seen["home"]
    assert seen["verdicts"] == {
        "compare_text_file": "success",
        "who": "success",
        "lent": "success" if accounts else "failure",
        "folder is empty": ["zygote.log"],
    }
    assert seen["before"] > 6
    assert seen["left by a close"] == []
    assert seen["dies with its launcher"]
    assert seen["left"] == []
    assert seen["mounts"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "files",
    [
        ("tests/actors/desktop/test_sandbox.py",),
        ("tests/actors/desktop/test_sessions.py",),
        ("tests/actors/verifier/test_checker.py", "tests/deploy/test_killed_node.py"),
    ],
    ids=["sandbox", "sessions", "checker"],
)
def test_all_of_roots_tests_pass_without_root(files: tuple[str, ...]) -> None:
    done = run_as_stranger("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, timeout_s=900)

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-500:]
