"""Logs go to standard error and the run's folder, bound, as JSON, and without secrets."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import structlog

from envs_node.deploy.logs import keep_logs


def _lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_says_which_run_and_which_node(capsys):
    with keep_logs(node="head", run_id="r-1"):
        structlog.get_logger().info("desktop.reset", reset_ms=210)

    out, err = capsys.readouterr()
    (line,) = _lines(err)
    assert out == ""
    assert line.pop("timestamp")
    assert line == {
        "event": "desktop.reset",
        "level": "info",
        "node": "head",
        "run_id": "r-1",
        "reset_ms": 210,
    }


def test_the_file_gets_the_same_lines_and_is_added_to(tmp_path: Path, capsys):
    for _ in range(2):
        with keep_logs(node="desktop/1", folder=tmp_path / "logs"):
            structlog.get_logger().warning("branch.lost", branch_id="b-1", reason="größer")

    text = (tmp_path / "logs" / "desktop-1.jsonl").read_text(encoding="utf-8")
    assert _lines(text) == _lines(capsys.readouterr().err)
    assert len(_lines(text)) == 2


def test_lines_below_the_level_are_dropped(capsys):
    with keep_logs(node="head", level="warning"):
        structlog.get_logger().info("desktop.reset")

    assert capsys.readouterr().err == ""


def test_a_crash_carries_its_traceback_on_one_line(tmp_path: Path, capsys):
    with keep_logs(node="head", folder=tmp_path):
        try:
            raise KeyError("gone")
        except KeyError:
            structlog.get_logger().exception("actor.crashed")

    for text in (capsys.readouterr().err, (tmp_path / "head.jsonl").read_text("utf-8")):
        (line,) = _lines(text)
        assert "KeyError: 'gone'" in str(line["exception"])


def test_secrets_are_blotted_out_everywhere(tmp_path: Path, capsys):
    with keep_logs(node="head", folder=tmp_path):
        structlog.get_logger().info("node.joined", join_token="Zx9-secret", password="Zx9-secret")

    assert "Zx9" not in capsys.readouterr().err
    assert "Zx9" not in (tmp_path / "head.jsonl").read_text("utf-8")


def test_the_root_logger_is_left_alone(tmp_path: Path):
    before = (logging.root.level, list(logging.root.handlers))
    with keep_logs(node="head", folder=tmp_path):
        assert (logging.root.level, list(logging.root.handlers)) == before


def test_a_full_disk_silences_the_file_and_stops_nothing(tmp_path: Path, capsys):
    (tmp_path / "head.jsonl").symlink_to("/dev/full")
    with keep_logs(node="head", folder=tmp_path):
        for _ in range(2):
            structlog.get_logger().info("desktop.reset")

    err = capsys.readouterr().err
    assert err.count("no more log lines") == 1
    assert err.count("desktop.reset") == 2


def test_the_file_alone_can_be_written(tmp_path: Path, capsys):
    with keep_logs(node="head", folder=tmp_path, to_stderr=False):
        structlog.get_logger().error("actor.crashed")

    assert capsys.readouterr().err == ""
    assert _lines((tmp_path / "head.jsonl").read_text("utf-8"))[0]["event"] == "actor.crashed"
