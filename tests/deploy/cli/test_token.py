"""`envs-node token`: a token is shown once, listed without its secret, and revoked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envs_node.deploy.cli.main import main


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["token", *arguments])
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def test_a_token_is_made_listed_and_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--folder", str(tmp_path / "runs"))
    code, text, story = _run(capsys, "create", *where, "--uses", "200", "--hours", "2")
    version, digest, token_id, secret = text.strip().split(".")
    _, listed, _ = _run(capsys, "ls", *where, "--json")
    revoked, _, _ = _run(capsys, "revoke", token_id, *where)
    _, empty, _ = _run(capsys, "ls", *where)

    assert (code, revoked, version, len(digest)) == (0, 0, "1", 64)
    assert "never as an argument" in story
    assert secret not in story + listed
    row = json.loads(listed)[0]
    assert (row["id"], row["uses"], row["uses_max"], row["nodes"]) == (token_id, 0, 200, [])
    assert empty == "there are no join tokens\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("create", "--uses", "0"), "--uses is 0; it must be between 1 and 10000"),
        (("create", "--hours", "0"), "--hours is 0; it must be between 0.01 and 8760"),
        (("create", "--hours", "inf"), "--hours is inf; it must be between"),
        (("create", "--hours", "nan"), "--hours is nan; it must be between"),
        (("ls",), "name the head's folder"),
        (("revoke", "x"), "name the head's folder"),
    ],
)
def test_a_token_that_makes_no_sense_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    reason: str,
) -> None:
    code, text, story = _run(capsys, *arguments, "--folder", str(tmp_path / "runs"))

    assert (code, text) == (2, "")
    assert reason in story
