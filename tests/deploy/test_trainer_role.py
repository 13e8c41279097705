"""A trainer of its own: killed amid a fit, restarted, and the fit ends as if nothing had been."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import msgspec
import pytest

from tests.deploy.lessons import write_ledger, write_tiny_policy
from tests.deploy.nodes import Node, wait_until

pytestmark = pytest.mark.slow
UP_S = 180.0
FIT = (
    "--policy.folder", "tiny", "--fit.epochs", "8", "--fit.checkpoint-steps", "10", "--json",
)  # fmt: skip


def _trainer(folder: Path, head: str, name: str) -> Node:
    where = ("--listen", "tcp://127.0.0.1:0", "--head", head, "--link.node", "t-0")
    return Node(folder, name, "start", "--role", "trainer", "--folder", "nodes", *where)


def _roll(folder: Path, url: str) -> dict[str, bool]:
    """The nodes that the head knows, and whether they live."""
    with Node(folder, "status", "status", "--head", url, "--json") as status:
        status.process.wait(timeout=UP_S)
        found = msgspec.json.decode(status.output())
    return {node["node"]: node["is_alive"] for node in found["nodes"]}


def test_a_fit_whose_trainer_is_killed_ends_in_the_weights_of_one_that_was_not(
    tmp_path: Path,
) -> None:
    write_ledger(tmp_path / "ledger.sqlite", trajectories=20)
    write_tiny_policy(tmp_path / "tiny")
    with contextlib.ExitStack() as nodes:
        at = ("--listen", "tcp://127.0.0.1:0", "--folder", "heads")
        head = nodes.enter_context(Node(tmp_path, "head", "start", "--role", "head", *at))
        url = head.wait_for(r"head listens at (\S+)", UP_S)
        first = nodes.enter_context(_trainer(tmp_path, url, "first"))
        first.wait_for(r"(trainer listens at)", UP_S)
        there = ("--head", url, "--out", "there")
        client = nodes.enter_context(Node(tmp_path, "client", "fit", "ledger.sqlite", *there, *FIT))

        sealed = (tmp_path / "there" / "checkpoints").glob
        wait_until(lambda: list(sealed("*/whole.json")), UP_S, "a checkpoint")
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait(timeout=10)
        assert client.process.poll() is None, "the fit was over before its trainer was killed"
        nodes.enter_context(_trainer(tmp_path, url, "second"))

        assert client.process.wait(timeout=UP_S) == 0, client.story()
        assert _roll(tmp_path, url)["t-0"]

    with Node(tmp_path, "here", "fit", "ledger.sqlite", "--out", "here", *FIT) as here:
        assert here.process.wait(timeout=UP_S) == 0, here.story()
    resumed = msgspec.json.decode(client.output())["fit"]
    whole = msgspec.json.decode(here.output())["fit"]
    weights = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("there", "here")]
    assert weights[0] == weights[1]
    assert (resumed.pop("resumed"), whole.pop("resumed")) == (True, False)
    assert {**resumed, "wall_s": 0} == {**whole, "wall_s": 0}
